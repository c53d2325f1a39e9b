"""`meter seal` and `meter testset`: whole and in parts; what is damaged or foreign is refused."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from tests.cli.office import SEEDS, Office
from tests.cli.running import run
from tests.cli.workbench import (
    VALIDATION,
    Workbench,
    animals,
    ready,
    rows,
    text,
)
from tests.service.helpers import condition_spec
from tests.service.testsets.test_windows import Rolled


@pytest.fixture(scope="module")
def waiting(tmp_path_factory: pytest.TempPathFactory) -> Workbench:
    """A meter that waits for its test set, sealed and ready to be handed in."""
    desk = Workbench(tmp_path_factory.mktemp("waiting"))
    labels = animals(desk.init())
    name = desk.write("test", rows(labels, seed=0))
    desk.ok("seal", name, "--label", "label", "--id", "id", "--out", "set.sealed")
    return desk


OPAQUE = (
    "meter: the sealed test set cannot be opened: it is damaged, or was sealed for another "
    "meter, generation or key\n"
)


def refuse_sealed(desk: Workbench, content: bytes) -> None:
    (desk.folder / "bad.sealed").write_bytes(content)
    assert desk.refused(1, "testset", "add", "bad.sealed") == OPAQUE


def test_a_sealed_file_with_a_flipped_byte(waiting: Workbench) -> None:
    sealed = (waiting.folder / "set.sealed").read_bytes()
    places = random.Random(1).sample(range(len(sealed)), 40)  # noqa: S311  no secrets
    for place in [0, 3, 4, len(sealed) // 2, len(sealed) - 1, len(sealed) - 4, *places]:
        flipped = bytearray(sealed)
        flipped[place] ^= 1 << place % 8
        refuse_sealed(waiting, bytes(flipped))


def test_a_sealed_file_cut_short_or_grown(waiting: Workbench) -> None:
    sealed = (waiting.folder / "set.sealed").read_bytes()
    for length in [0, 1, 4, 100, len(sealed) // 2, len(sealed) - 4, len(sealed) - 1]:
        refuse_sealed(waiting, sealed[:length])
    refuse_sealed(waiting, sealed + b"\0")
    refuse_sealed(waiting, b"id,x,y,label\n0,1,2,cat\n")


def test_a_file_sealed_for_another_meter(waiting: Workbench, tmp_path: Path) -> None:
    other = Workbench(tmp_path)
    name = other.write("test", rows(animals(other.init()), seed=0))
    public = waiting.folder / "meter" / ".meter" / "keys" / "meter.key"
    recipient = public.read_text(encoding="utf-8").split("public key: ")[1].split("\n")[0]
    # Even if the meter's own key opens it, it is bound to the other one.
    seal = ["seal", name, "--label", "label", "--out", "set.sealed", "--recipient", recipient]
    other.ok(*seal)
    refuse_sealed(waiting, (tmp_path / "set.sealed").read_bytes())


def test_a_file_sealed_for_another_generation(tmp_path: Path) -> None:
    desk = Workbench(tmp_path)
    labels = animals(desk.init(steps=1))
    desk.validate(VALIDATION)
    desk.deliver(labels)
    desk.submit(labels, VALIDATION)
    shown = desk.refused(2, "testset", "add", "test-0.sealed")
    assert "'test set 1' given, test set 2 is needed: seal it again" in shown


def test_the_good_one_is_taken_after_all(waiting: Workbench) -> None:
    waiting.ok("testset", "add", "set.sealed")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("id,x,y\n0,1,2\n", "'label'"),
        ("id,x,label\n0,1,cat\n1,2,\n", "2"),
        ('id,x,label\n0,1,"cat\n1,2,dog\n', "bad.csv"),
        ("", "bad.csv"),
    ],
    ids=["no label column", "a missing label", "a broken quote", "an empty file"],
)
def test_what_cannot_be_sealed(tmp_path: Path, content: str, words: str) -> None:
    desk = Workbench(tmp_path)
    desk.init()
    name = text(content)(desk)
    shown = desk.refused(2, "seal", name, "--label", "label", "--id", "id", "--out", "z.sealed")
    assert words in shown
    assert "cat" not in shown
    assert not (tmp_path / "z.sealed").exists()


def test_a_public_key_that_is_none(tmp_path: Path) -> None:
    desk = Workbench(tmp_path)
    name = desk.write("test", rows(animals(desk.init()), seed=0))
    seal = ["seal", name, "--label", "label", "--out", "z.sealed", "--recipient", "age1nobody"]
    assert "age1nobody" in desk.refused(2, *seal)
    assert not (tmp_path / "z.sealed").exists()


def test_a_test_set_before_the_classes_are_known(tmp_path: Path) -> None:
    desk = Workbench(tmp_path)
    labels = animals(desk.init(classes=()))
    name = desk.write("test", rows(labels, seed=0))
    desk.ok("seal", name, "--label", "label", "--out", "set.sealed")
    desk.ok("testset", "add", "set.sealed")
    desk.validate(VALIDATION)
    assert desk.submit(labels, VALIDATION)["band"] == 1


def test_seal_says_what_the_meter_would_refuse(tmp_path: Path) -> None:
    desk = Workbench(tmp_path)
    needed = desk.init()
    table = rows(animals(needed - 1), seed=0)
    seal = ["seal", desk.write("few", table), "--label", "label", "--out", "z.sealed"]
    assert f"sealed {needed - 1} rows" in desk.ok(*seal)
    few = desk.refused(2, "testset", "add", "z.sealed")
    assert f"labels: {needed - 1} given, {needed} planned, which weakens the promise: With" in few
    assert "confirm it with --yes" in few
    desk.refused(2, "testset", "add", "z.sealed", "--part", "--yes")
    added = desk.ok("testset", "add", "z.sealed", "--yes")
    assert f"{needed} labels were planned: With probability at least" in added
    assert added.split("planned: ")[1].split(".\n")[0] in few.replace(". If they", ".\n")
    desk = Workbench(tmp_path / "other")
    desk.folder.mkdir()
    needed = desk.init()
    table = rows(["newt", *animals(needed)], seed=0)
    seal = ["seal", desk.write("odd", table), "--label", "label", "--out", "y.sealed"]
    assert "'newt' in 1 row: correct them, or keep them with" in desk.refused(2, *seal)
    desk.ok(*seal, "--keep-unknown-labels", "--drop", "id, x")
    plain = desk.refused(2, "testset", "add", "odd.csv")
    assert "not sealed yet: seal it first: meter seal odd.csv --label COLUMN" in plain


def test_a_column_that_looks_like_an_id_is_named(tmp_path: Path) -> None:
    desk = Workbench(tmp_path)
    name = desk.write("test", rows(animals(desk.init()), seed=0))
    shown = desk.ok("seal", name, "--label", "label", "--out", "z.sealed")
    assert "note: column id looks like an id: --id id\n" in shown
    named = desk.ok("seal", name, "--label", "label", "--id", "id", "--out", "y.sealed")
    assert "note" not in named
    seen = desk.write("seen", rows(VALIDATION, seed=7))
    shown = desk.ok("validation", "set", seen, "--label", "label")
    assert "note: column id looks like an id: --id id\n" in shown


def test_more_inputs_than_planned_cost_more_labels_on_demand(tmp_path: Path) -> None:
    desk = Workbench(tmp_path)
    spec = condition_spec(
        question="n - o > 0 +/- 0.2", disagreement=0.4, on_demand=True, classes=("cat", "dog")
    )
    spec.write(desk.folder / "spec.toml")
    planned = desk.json("init", "--spec", "spec.toml", "--name", "small")["size"]
    name = desk.write("test", rows(animals(planned + 100), seed=0))
    shown = desk.ok("seal", name, "--id", "id", "--out", "z.sealed")
    note = f"note: {planned + 100} inputs given, {planned} planned: each step asks for"
    assert note in shown
    assert note in desk.ok("testset", "add", "z.sealed")


def test_adding_says_what_only_labelers_are_told(tmp_path: Path) -> None:
    desk = Workbench(tmp_path)
    table = rows(animals(desk.init()), seed=0)
    table["x"] = table["y"] = [0.5] * len(table["x"])
    name = desk.write("same", table)
    desk.ok("seal", name, "--label", "label", "--id", "id", "--out", "set.sealed")
    shown = desk.ok("testset", "add", "set.sealed")
    repeated = f"{len(table['x']) - 1} rows of test set 1 have the inputs of another of its rows"
    assert shown.splitlines()[1:-1] == [f"note: {repeated}"]
    assert desk.ok("testset", "notices") == f"{repeated}\n"


def test_a_status_tells_the_labeler_at_a_server_of_shared_rows(office: Office) -> None:
    labels, seed = animals(office.make()), next(SEEDS)
    office.acting("developer").validate(VALIDATION)
    office.acting("labeler").deliver(labels, seed=seed)
    leaked = {name: each[:7] for name, each in rows(labels, seed=seed).items()}
    office.acting("developer").ok("validation", "replace", office.write("leaked", leaked), "--yes")
    assert "note:" not in office.ok("status")
    told = "note: validation set 2 shares 7 rows with test set 1"
    assert told in " ".join(office.acting("labeler").ok("status").split())


def test_labels_in_parts(office: Office) -> None:
    needed = office.make()
    labels = animals(needed, seed=3)
    office.acting("developer").validate(VALIDATION)
    office.acting("labeler")
    table = rows(labels, seed=next(SEEDS))
    for number, part in enumerate((slice(0, 10), slice(10, None)), 1):
        source = office.write(f"part-{number}", {name: each[part] for name, each in table.items()})
        sealed = f"part-{number}.sealed"
        office.ok("seal", source, "--label", "label", "--id", "id", "--out", sealed, "--part")
    shown = office.ok("testset", "add", "--part", "part-1.sealed", "--ids-renumbered")
    assert shown == f"part added: 10 of {needed} labels of test set 1 have arrived\n"
    asked = office.ok("testset", "requests")
    assert asked.startswith(f"test set 1: 10 of {needed} labels have arrived\n  part 1: 10 rows")
    assert f"test set 1 is active: {needed} rows" in office.ok(
        "testset", "add", "part-2.sealed", "--ids-renumbered"
    )
    assert office.ok("testset", "requests") == "no labels are needed\n"
    assert "may not see requests" in office.acting("developer").refused(5, "testset", "requests")


def test_a_test_set_is_retired_once_it_is_confirmed(tmp_path: Path) -> None:
    desk = Workbench(tmp_path)
    desk.deliver(animals(desk.init()))
    desk.validate(VALIDATION)
    assert "Confirm it with --yes" in desk.refused(1, "testset", "retire")
    needed = desk.json("status")["labels_needed"]
    assert desk.ok("testset", "retire", "--yes").splitlines() == [
        "test set 1 is retired: it gives no more answers",
        f"test set 2 is needed: {needed} labels",
    ]
    assert "only an active one is retired" in desk.refused(4, "testset", "retire", "--yes")
    assert "released to" in desk.ok("release")


def test_a_test_set_on_a_server_is_retired(office: Office) -> None:
    office.ready()
    assert "may not retire a test set" in office.refused(5, "testset", "retire", "--yes")
    office.acting("labeler")
    shown = office.json("testset", "retire", "--yes")
    assert (shown["generation"], shown["phase"]) == (1, "spent")
    assert shown["next_labels_needed"] == shown["labels_needed"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("id,x,y\n0,1,2\n", "no column 'label'"),
        ("id,x,y,label\n", "no rows"),
        ("id,x,y,label\n0,1,2,bird\n", "row 1"),
        ("id,x,y,label\n0,1,2,cat\n1,1,2,\n", "row 2"),
        ("", "bad.csv"),
        ('id,x,y,label\n0,1,2,"cat\n', "bad.csv"),
    ],
)
def test_validation_sets(desk: Workbench, content: str, words: str) -> None:
    name = text(content)(desk)
    assert words in desk.refused(2, "validation", "replace", name, "--yes")
    assert desk.left() == 3


def test_a_first_validation_set_without_the_label_column(tmp_path: Path) -> None:
    desk = Workbench(tmp_path)
    desk.init()
    name = text("id,x\n0,1\n")(desk)
    given = ["validation", "set", name, "--label", "label"]
    assert "no column 'label' (there are 'id', 'x')" in desk.refused(2, *given)


def test_predictions_are_joined_by_the_ids_of_a_validation_set(tmp_path: Path) -> None:
    desk = Workbench(tmp_path)
    labels = ready(desk)
    desk.ok("validation", "replace", "validation-1000.csv", "--id", "id", "--yes")
    files = desk.predictions(labels, VALIDATION, name="m")
    lines = (desk.folder / files[3]).read_text().splitlines(keepends=True)
    (desk.folder / files[3]).write_text("".join([lines[0], *reversed(lines[1:])]))
    assert desk.json("submit", *files)["band"] == 1
    (desk.folder / files[3]).write_text("".join(lines[:-2]))
    assert "ids of the validation set without a row" in desk.refused(2, "submit", *files)
    assert desk.json("submit", *files, "--missing", "wrong")["step"] == 2
    assert "no column 'key'" in desk.refused(2, "submit", *files, "--id", "key")


def test_json_says_which_set_is_in_use(desk: Workbench) -> None:
    name = desk.write("fresh", rows(VALIDATION, seed=5))
    said = desk.refused(1, "validation", "replace", name)
    assert "The promise assumes that validation sets are drawn and replaced without" in said
    shown = desk.json("validation", "replace", name, "--yes")
    assert shown == {"validation_set": 2, "rows": len(VALIDATION)}


def test_batches_are_listed_and_fetched_as_they_leave(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rolled = Rolled(tmp_path)
    place = ["-C", str(tmp_path / "meter")]
    code, out, _ = run(capsys, "testset", "batches", *place)
    assert (code, "no batch has left yet" in out) == (0, True)
    rolled.deliver()
    for number in (1, 2):
        rolled.submit()
        assert "window" in run(capsys, "status", *place)[1]
        batch = rolled.sealed(rolled.table(rolled.batch))
        code, out, _ = run(capsys, "testset", "add", str(batch), *place)
        assert code == 0
        assert f"window {number + 1} is active: {3 * rolled.batch} rows, 1 answer\n" in out
        assert f"batch {number} has left it and is released: {rolled.batch} rows" in out
        _, out, _ = run(capsys, "testset", "batches", "--out", str(tmp_path / "freed"), *place)
        assert f"batch {number}: {rolled.batch} rows, released" in out
        assert out.endswith(": 1\n")
    names = sorted(path.name for path in (tmp_path / "freed").iterdir())
    assert names == ["batch-1.parquet", "batch-2.parquet"]
    _, out, _ = run(capsys, "history", *place)
    assert out.count("window 3") == 1, "all windows are in one table"
    assert "■ band 1" in out
