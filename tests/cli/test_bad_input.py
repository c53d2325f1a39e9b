"""Bad input: one clear line, its exit code, nothing on stdout; it costs nothing, loses nothing."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from easeml_meter.storage.store import Store

from .desk import Desk, animals, rows, write_table, wrong

VALIDATION = animals(20, seed=99)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A meter with a test set, a validation set and one answer; good files of predictions."""
    folder = tmp_path_factory.mktemp("template")
    desk = Desk(folder)
    labels = animals(desk.init())
    desk.validate(VALIDATION)
    desk.deliver(labels)
    desk.submit(labels, VALIDATION, name="first")
    desk.predictions(wrong(labels, 2), VALIDATION, name="good")
    return folder


@pytest.fixture
def desk(template: Path, tmp_path: Path) -> Desk:
    shutil.copytree(template, tmp_path / "desk")
    return Desk(tmp_path / "desk")


def good(desk: Desk) -> dict[str, list[Any]]:
    """Read the good predictions on the test set, as columns."""
    lines = (desk.folder / "good-on-test.csv").read_text(encoding="utf-8").splitlines()
    names, *values = [line.split(",") for line in lines]
    columns = list(zip(*values, strict=True))
    return {name: list(column) for name, column in zip(names, columns, strict=True)}


def changed(**changes: Callable[[list[Any]], list[Any]]) -> Callable[[Desk], str]:
    """Write the good predictions with changes to some columns."""

    def write(desk: Desk) -> str:
        columns = good(desk)
        for name, change in changes.items():
            columns[name] = change(columns[name])
        return desk.write("bad", columns)

    return write


def all_of(change: Callable[[list[Any]], list[Any]]) -> Callable[[Desk], str]:
    return changed(id=change, prediction=change, model=change)


def text(content: str | bytes, ending: str = "csv") -> Callable[[Desk], str]:
    """Write a file as it is."""

    def write(desk: Desk) -> str:
        data = content if isinstance(content, bytes) else content.encode()
        (desk.folder / f"bad.{ending}").write_bytes(data)
        return f"bad.{ending}"

    return write


def folder_in_place_of_a_file(desk: Desk) -> str:
    (desk.folder / "bad.csv").mkdir()
    return "bad.csv"


def nan_in_parquet(desk: Desk) -> str:
    columns = good(desk)
    values = [float("nan"), *[0.0] * (len(columns["id"]) - 1)]
    write_table(desk.folder / "bad.parquet", {"prediction": values})
    return "bad.parquet"


PREDICTIONS: dict[str, tuple[Callable[[Desk], str], str]] = {
    "a row too few": (all_of(lambda column: column[:-1]), "34"),
    "a row too many": (all_of(lambda column: [*column, column[-1]]), "36"),
    "ids in another order": (changed(id=lambda column: column[::-1]), "id"),
    "an unknown class": (changed(prediction=lambda c: ["bird", *c[1:]]), "row 1: 'bird'"),
    "a missing prediction": (changed(prediction=lambda c: [*c[:4], "", *c[5:]]), "row 5"),
    "NaN in text": (changed(prediction=lambda c: ["NaN", *c[1:]]), "row 1"),
    "NaN in Parquet": (nan_in_parquet, "bad.parquet"),
    "an empty file": (text(""), "bad.csv"),
    "an empty Parquet file": (text("", "parquet"), "bad.parquet"),
    "only a header": (text("id,prediction\n"), "bad.csv"),
    "a broken quote": (text('id,prediction\n0,"cat\n1,dog\n2,cat\n'), "bad.csv"),
    "a line with a field too many": (text("id,prediction\n0,cat,dog\n"), "bad.csv"),
    "no such column": (text("id,guess\n0,cat\n"), "guess"),
    "no text": (text(b"id,prediction\n0,\xff\xfe\x00\n"), "bad.csv"),
    "broken JSON": (text('{"prediction": "cat"\n', "jsonl"), "bad.jsonl"),
    "no Parquet": (text("PAR1 and so on PAR1", "parquet"), "bad.parquet"),
    "no Arrow": (text("ARROW1 and so on", "arrow"), "bad.arrow"),
    "an unknown format": (text("cat", "docx"), "bad.docx"),
    "a folder": (folder_in_place_of_a_file, "folder"),
    "no file": (lambda _: "nowhere.csv", "No such file"),
}


@pytest.mark.parametrize("case", PREDICTIONS)
@pytest.mark.parametrize("side", ["test", "validation"])
def test_predictions(desk: Desk, case: str, side: str) -> None:
    write, words = PREDICTIONS[case]
    files = {"test": "good-on-test.csv", "validation": "good-on-validation.csv"}
    files[side] = write(desk)
    options = [word for which, name in files.items() for word in (f"--{which}", name)]
    if case == "ids in another order" and side == "validation":
        return  # the validation set is the developer's own: nobody commits to an order
    shown = desk.refused(2, "submit", *options)
    if side == "test":
        assert words in shown
    assert desk.left() == 3
    ok = ["--test", "good-on-test.csv", "--validation", "good-on-validation.csv"]
    assert desk.json("submit", *ok)["step"] == 2


@pytest.mark.parametrize(
    "options",
    [
        ["--model", "x" * 10_000_000],
        ["--model", ""],
        ["--model", "two\nlines"],
        ["--model", "\x1b[2J"],
        ["--tenant", "2"],
        ["--tenant", "0"],
        ["--tenant", "one"],
        ["--tenant", "9" * 1000],
    ],
    ids=lambda options: " ".join(options)[:20],
)
def test_options_of_a_submission(desk: Desk, options: list[str]) -> None:
    files = ["--test", "good-on-test.csv", "--validation", "good-on-validation.csv"]
    shown = desk.refused(2, "submit", *files, *options)
    assert "\x1b" not in shown
    assert desk.left() == 3


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
def test_validation_sets(desk: Desk, content: str, words: str) -> None:
    name = text(content)(desk)
    assert words in desk.refused(2, "validation", "replace", name)
    assert desk.left() == 3


def test_a_first_validation_set_without_the_label_column(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.init()
    name = text("id,x\n0,1\n")(desk)
    given = ["validation", "set", name, "--label", "label"]
    assert "no column 'label' (there are 'id', 'x')" in desk.refused(2, *given)


@pytest.mark.parametrize("verb", ["status", "history", "audit", "release", "submit"])
def test_a_folder_without_a_meter(tmp_path: Path, verb: str) -> None:
    desk = Desk(tmp_path)
    files = ["--test", "t.csv", "--validation", "v.csv"] if verb == "submit" else []
    assert "holds no meter" in desk.refused(2, verb, *files)
    (tmp_path / "meter").mkdir()
    assert "holds no meter" in desk.refused(2, verb, *files)
    assert list((tmp_path / "meter").iterdir()) == []


def test_a_second_meter_in_the_same_folder(desk: Desk) -> None:
    assert "already holds a meter" in desk.refused(2, "init", "--spec", "spec.toml")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ('loss = "0-2"', "loss"),
        ('loss = "no.such.module:loss"', "cannot be imported"),
        ('protocol = "resampling"', "protocol"),
        ("typo = 1", "typo"),
        ("steps = 0", "steps"),
        ("= broken", "TOML"),
    ],
)
def test_a_meter_toml_that_makes_no_meter(tmp_path: Path, change: str, words: str) -> None:
    desk = Desk(tmp_path)
    desk.init()
    lines = (tmp_path / "spec.toml").read_text(encoding="utf-8").splitlines()
    lines = [line for line in lines if line.split("=")[0] != change.split("=", maxsplit=1)[0]]
    lines.insert(lines.index("[meter]") + 1, change)
    (tmp_path / "bad.toml").write_text("\n".join(lines), encoding="utf-8")
    shown = desk.run("init", "--spec", "bad.toml", "-C", "other")
    assert (shown.code, shown.out, shown.err.count("\n")) == (2, "", 1)
    assert words in shown.err
    assert not (tmp_path / "other").exists()


def test_an_init_that_was_killed_is_simply_done_again(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.init()
    folder = tmp_path / "other"
    folder.mkdir()
    Store.at(folder / "meter.db").close()  # the tables were made, the meter was not
    assert desk.run("init", "--spec", "spec.toml", "-C", "other").code == 0
    assert desk.run("status", "-C", "other").code == 0


def test_a_report_that_cannot_be_written(desk: Desk) -> None:
    assert "give --html, --svg or --badge" in desk.refused(2, "report")
    assert "No such file" in desk.refused(2, "report", "--html", "nowhere/r.html")
    assert "from 1 to 1" in desk.refused(2, "report", "--html", "r.html", "--generation", "7")


def test_a_key_is_never_overwritten(desk: Desk) -> None:
    assert desk.run("key", "new", "a.key").code == 0
    before = (desk.folder / "a.key").read_bytes()
    shown = desk.run("key", "new", "a.key")
    assert (shown.code, shown.out, shown.err.count("\n")) == (2, "", 1)
    assert (desk.folder / "a.key").read_bytes() == before


# Sealed files


@pytest.fixture(scope="module")
def waiting(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    """A meter that waits for its test set, sealed and ready to be handed in."""
    desk = Desk(tmp_path_factory.mktemp("waiting"))
    labels = animals(desk.init())
    name = desk.write("test", rows(labels, seed=0))
    desk.ok("seal", name, "--label", "label", "--id", "id", "--out", "set.sealed")
    return desk


OPAQUE = (
    "meter: the sealed test set cannot be opened: it is damaged, or was sealed for another "
    "meter, generation or key\n"
)


def refuse_sealed(desk: Desk, content: bytes) -> None:
    (desk.folder / "bad.sealed").write_bytes(content)
    assert desk.refused(1, "testset", "add", "bad.sealed") == OPAQUE


def test_a_sealed_file_with_a_flipped_byte(waiting: Desk) -> None:
    sealed = (waiting.folder / "set.sealed").read_bytes()
    places = random.Random(1).sample(range(len(sealed)), 40)  # noqa: S311  no secrets
    for place in [0, 3, 4, len(sealed) // 2, len(sealed) - 1, len(sealed) - 4, *places]:
        flipped = bytearray(sealed)
        flipped[place] ^= 1 << place % 8
        refuse_sealed(waiting, bytes(flipped))


def test_a_sealed_file_cut_short_or_grown(waiting: Desk) -> None:
    sealed = (waiting.folder / "set.sealed").read_bytes()
    for length in [0, 1, 4, 100, len(sealed) // 2, len(sealed) - 4, len(sealed) - 1]:
        refuse_sealed(waiting, sealed[:length])
    refuse_sealed(waiting, sealed + b"\0")
    refuse_sealed(waiting, b"id,x,y,label\n0,1,2,cat\n")


def test_a_file_sealed_for_another_meter(waiting: Desk, tmp_path: Path) -> None:
    other = Desk(tmp_path)
    name = other.write("test", rows(animals(other.init()), seed=0))
    public = waiting.folder / "meter" / "keys" / "meter.key"
    recipient = public.read_text(encoding="utf-8").split("public key: ")[1].split("\n")[0]
    # Even if the meter's own key opens it, it is bound to the other one.
    seal = ["seal", name, "--label", "label", "--out", "set.sealed", "--recipient", recipient]
    other.ok(*seal)
    refuse_sealed(waiting, (tmp_path / "set.sealed").read_bytes())


def test_a_file_sealed_for_another_generation(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    labels = animals(desk.init(steps=1))
    desk.validate(VALIDATION)
    desk.deliver(labels)
    desk.submit(labels, VALIDATION)
    assert desk.refused(1, "testset", "add", "test-0.sealed") == OPAQUE


def test_the_good_one_is_taken_after_all(waiting: Desk) -> None:
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
    desk = Desk(tmp_path)
    desk.init()
    name = text(content)(desk)
    shown = desk.refused(2, "seal", name, "--label", "label", "--id", "id", "--out", "z.sealed")
    assert words in shown
    assert "cat" not in shown
    assert not (tmp_path / "z.sealed").exists()


def test_a_public_key_that_is_none(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    name = desk.write("test", rows(animals(desk.init()), seed=0))
    seal = ["seal", name, "--label", "label", "--out", "z.sealed", "--recipient", "age1nobody"]
    assert "age1nobody" in desk.refused(2, *seal)
    assert not (tmp_path / "z.sealed").exists()


# Folders without permission

AS_NOBODY = """
import contextlib, io, os, sys
from easeml_meter.cli import main

def run(arguments):
    try:
        main(arguments)
    except SystemExit as stopped:
        return stopped.code

allowed, folder, *arguments = sys.argv[1:]
with contextlib.redirect_stdout(io.StringIO()):  # nobody may not be able to read the installation
    assert run([*arguments, "-C", allowed]) == 0
os.setgid(65534)
os.setuid(65534)
sys.exit(run([*arguments, "-C", folder]))
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="becoming another account needs root")
@pytest.mark.parametrize(("mode", "code"), [(0o700, 2), (0o755, 1)])
def test_a_folder_without_permission(desk: Desk, mode: int, code: int) -> None:
    """At 700 nothing can be read; at 755 only the key cannot, and nothing can be written."""
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o755)
        folder = Path(place) / "meter"
        shutil.copytree(desk.folder / "meter", folder)
        folder.chmod(mode)
        for name in ("good-on-test.csv", "good-on-validation.csv"):
            shutil.copy(desk.folder / name, place)
        before = Desk(Path(place)).snapshot()
        files = ["--test", "good-on-test.csv", "--validation", "good-on-validation.csv"]
        done = subprocess.run(
            [sys.executable, "-c", AS_NOBODY, desk.folder / "meter", folder, "submit", *files],
            cwd=place,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == code, done
        assert done.stdout == ""
        assert done.stderr.startswith("meter: ")
        assert done.stderr.count("\n") == 1
        assert Desk(Path(place)).snapshot() == before
        assert Desk(Path(place)).left() == 3
