"""The whole loop on the command line: init, seal, submit, spent, release, and the next test set."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from easeml_meter.vault.keys import Identity
from easeml_meter.vault.sealing import SealedTestSet

from .desk import Desk, animals, rows, wrong

VALIDATION = animals(20, seed=99)


def ready(desk: Desk, **options: object) -> list[str]:
    """Make a meter with a test set and a validation set; give the hidden labels."""
    labels = animals(desk.init(**options))
    desk.validate(VALIDATION)
    desk.deliver(labels)
    return labels


def hand_in(desk: Desk, labels: list[str]) -> None:
    """Seal a test set to two labelers as well, each of whom can open it, and add it."""
    public = [desk.run("key", "new", f"{who}.key").out.strip() for who in ("alice", "bob")]
    source = desk.write("test", rows(labels, seed=0))
    recipients = ["--recipient", public[0], "--recipient", public[1]]
    seal = ["seal", source, "--label", "label", "--id", "id", "--out", "set.sealed"]
    manifest = desk.json(*seal, *recipients)
    assert (manifest["rows"], manifest["generation"]) == (len(labels), 1)
    for who in ("alice", "bob"):
        key = Identity.read(desk.folder / f"{who}.key")
        with SealedTestSet.open(
            desk.folder / "set.sealed", key, meter=manifest["meter"], generation=1
        ) as opened:
            assert opened.rows == len(labels)
    added = desk.json("testset", "add", "set.sealed")
    assert added == {"generation": 1, "rows": len(labels), "steps_left": 4}


def develop(desk: Desk, labels: list[str]) -> None:
    """Use up the four steps: two, a new validation set, two more."""
    n = len(labels)
    assert f"{n} rows" in desk.ok("testset", "inputs", "--out", "inputs.parquet")
    assert pq.read_schema(desk.folder / "inputs.parquet").names == ["id", "x", "y"]
    assert "20 rows, in force from the next submission" in desk.validate(VALIDATION)
    first = desk.ok("submit", *desk.predictions(wrong(labels, 1), VALIDATION, name="a"))
    assert first.startswith("Step 1: band 1 of 3, model a-on-test\n")
    assert "75 %, 3 steps promised, 3 expected" in first
    second = desk.submit(wrong(labels, n // 5), VALIDATION, name="b")
    assert (second["answer"], second["band"], second["steps_left"]) == ("2", 2, 2)
    assert (second["gap"], second["true_gap"]) == ([0.1, 0.3], [0.0, 0.55])
    again = desk.submit(wrong(labels, n // 5), VALIDATION, name="b")
    assert (again["repeated"], again["step"], again["steps_left"]) == (True, 2, 2)
    assert "test set 1: active" in desk.ok("status")
    assert desk.json("status")["signals"][1]["model"] == "b"
    history = desk.ok("history")
    assert "band 1" in history
    assert "band 2" in history

    desk.validate(wrong(VALIDATION, 20), verb="replace", seed=1001)
    third = desk.submit(labels, VALIDATION, name="c")
    assert (third["band"], third["steps_left"]) == (3, 1)
    assert desk.submit(labels, wrong(VALIDATION, 20), name="d")["steps_left"] == 0


@pytest.mark.parametrize("kind", ["csv", "parquet", "arrow", "jsonl"])
def test_the_whole_loop(tmp_path: Path, kind: str) -> None:
    desk = Desk(tmp_path, kind)
    n = desk.init()
    labels = animals(n)
    hand_in(desk, labels)
    develop(desk, labels)

    drawn = {"--html": "r.html", "--svg": "r.svg", "--badge": "b.svg"}
    said = desk.ok("report", *(word for pair in drawn.items() for word in pair))
    assert said == "wrote r.html\nwrote r.svg\nwrote b.svg\n"
    assert (tmp_path / "r.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert "<svg" in (tmp_path / "r.svg").read_text(encoding="utf-8")
    assert "band 1" in (tmp_path / "b.svg").read_text(encoding="utf-8")

    # Spent: a request for exactly n labels, and only then the truth.
    files = desk.predictions(labels, VALIDATION, name="e")
    asked = f"meter: test set 1 is spent: the labelers are asked for {n} fresh labels (test set 2)"
    assert desk.refused(3, "submit", *files) == asked + "\n"
    released = desk.json("release")
    assert released["files"] == ["report.html", "retrospective.json", "testset.parquet"]
    table = pq.read_table(tmp_path / released["folder"] / "testset.parquet")
    assert table["label"].to_pylist() == labels
    assert [truth["band"] for truth in desk.json("status")["retrospective"]] == [1, 2, 3, 1]
    assert "yes" in desk.ok("history")
    audit = desk.ok("audit")
    assert audit.endswith("the chain is sound\n")
    assert max(map(len, audit.splitlines())) <= 120
    events = [link["event"] for link in desk.json("audit")["links"]]
    told = ["told", "told", "validation replaced", "told", "told"]
    before = ["created", "requested", "test set added", "validation set"]
    assert events == [*before, *told, "spent", "requested", "released"]

    # The next test set.
    fresh = animals(n, seed=2)
    desk.deliver(fresh, seed=2)
    last = desk.submit(fresh, wrong(VALIDATION, 20), name="f")
    assert (last["generation"], last["step"], last["steps_left"]) == (2, 1, 3)
    assert [view["phase"] for view in desk.json("history")] == ["released", "active"]


def test_nothing_told_yet(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.init()
    assert desk.ok("history") == "nothing was told yet: no test set has been delivered\n"
    assert "test set 1: requested" in desk.ok("status")
    assert desk.json("history") == []
    desk.ok("report", "--html", "r.html", "--svg", "r.svg", "--badge", "b.svg")


def test_the_folder_may_come_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Desk(tmp_path).init()
    monkeypatch.setenv("METER_FOLDER", "meter")
    assert "test set 1: requested" in Desk(tmp_path).run("status").out


def test_tenants_have_their_own_books(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    labels = ready(desk, tenants=(3, 1))
    assert desk.submit(labels, VALIDATION, "--tenant", "2")["steps_left"] == 0
    files = desk.predictions(labels, VALIDATION, name="b")
    assert "no answer left for this tenant" in desk.refused(3, "submit", *files, "--tenant", "2")
    assert desk.json("status", "--tenant", "1")["signals"] == []
    assert desk.submit(labels, VALIDATION, name="b")["steps_left"] == 2
    assert "from 1 to 2" in desk.refused(2, "status", "--tenant", "3")


def test_resets_are_counted_when_they_are_asked_for(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    labels = ready(desk, protocol="incremental", resets=1, steps=3)
    half = len(labels) // 2
    assert desk.submit(wrong(labels, half), VALIDATION, name="a")["band"] == 3
    desk.ok("validation", "replace", "validation-1000.csv", "--reset")
    assert desk.submit(labels, VALIDATION, name="b")["band"] == 1
    again = ["validation", "replace", "validation-1000.csv", "--reset"]
    assert "resets (1) are used" in desk.refused(2, *again)
    desk.submit(labels, VALIDATION, name="c")

    # The next test set has its own; the last one is not carried out once more.
    fresh = animals(len(labels), seed=2)
    desk.deliver(fresh, seed=2)
    assert desk.submit(wrong(fresh, half), VALIDATION, name="d")["band"] == 3
    desk.ok(*again)
    assert desk.submit(fresh, VALIDATION, name="e")["band"] == 1


# meter init


def test_init_shows_the_plan_and_both_budgets(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    n = desk.init()
    spec = ["init", "--spec", "spec.toml", "-C", "other"]
    plain = desk.run(*spec).out
    assert f"labels needed          {n} " in plain
    assert "This rests on:" in plain
    assert "elastic = true would take" in plain
    assert "Embedded mode is an honour system" in plain

    text = (tmp_path / "spec.toml").read_text(encoding="utf-8")
    elastic = text.replace("[meter]\n", "[meter]\nelastic = true\n")
    (tmp_path / "spec.toml").write_text(elastic, encoding="utf-8")
    shown = desk.run("init", "--spec", "spec.toml", "-C", "third").out
    assert f"labels, {n} for the plain meter" in shown


def test_init_takes_the_meter_toml_of_the_folder_and_keeps_it(tmp_path: Path) -> None:
    Desk(tmp_path).init()
    folder = tmp_path / "own"
    folder.mkdir()
    text = "# why these bands\n" + (tmp_path / "spec.toml").read_text(encoding="utf-8")
    (folder / "meter.toml").write_text(text, encoding="utf-8")
    assert Desk(folder).run("init").code == 0
    assert (folder / "meter.toml").read_text(encoding="utf-8") == text
    assert Desk(folder).run("status").out.startswith("Meter own, test set 1: requested")


def at_a_terminal(folder: Path, *answers: str) -> tuple[int, str]:
    """Run `meter init -C meter` with a terminal on both sides."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", "from easeml_meter.cli import main; main()", "init", "-C", "meter"],
        cwd=folder,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, "TERM": "dumb", "COLUMNS": "80"},
    )
    os.close(theirs)
    os.write(ours, "".join(f"{answer}\n" for answer in answers).encode())
    shown = b""
    while True:
        try:
            part = os.read(ours, 4096)
        except OSError:  # the other side has closed its terminal
            break
        if not part:
            break
        shown += part
    os.close(ours)
    return process.wait(), shown.decode().replace("\r\n", "\n")


ANSWERS = ("4", "0.1,0.3", "0.25", "0.2", "regular", "0-1", "public")


def test_init_by_questions(tmp_path: Path) -> None:
    code, shown = at_a_terminal(tmp_path, *ANSWERS, "y", "y")
    assert code == 0, shown
    spec = (tmp_path / "meter" / "meter.toml").read_text(encoding="utf-8")
    assert "elastic = true" in spec
    assert 'inputs = "public"' in spec
    plan = Desk(tmp_path).json("status")
    offered = shown.index(f"-> {plan['labels_needed']} labels)")
    promised = shown.index("labels needed")
    asked = shown.index("Make this meter?")
    made = shown.index("meter made in meter")
    assert offered < promised < asked < made


def test_nothing_is_written_without_consent(tmp_path: Path) -> None:
    code, shown = at_a_terminal(tmp_path, *ANSWERS, "n", "n")
    assert code == 1
    assert "This rests on:" in shown
    assert "nothing was made" in shown
    assert list(tmp_path.iterdir()) == []


def test_without_a_terminal_nothing_is_asked(tmp_path: Path) -> None:
    assert "no terminal to ask at" in Desk(tmp_path).refused(2, "init")
    assert list(tmp_path.iterdir()) == []


# Exit codes


def test_exit_code_4_not_the_time_for_it(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    labels = animals(desk.init())
    files = desk.predictions(labels, VALIDATION)
    assert "no test set yet" in desk.refused(4, "submit", *files)
    assert "no test set yet" in desk.refused(4, "testset", "inputs", "--out", "i.parquet")
    assert "only a spent one" in desk.refused(4, "release")
    validation = desk.write("validation", rows(VALIDATION, seed=1))
    assert "no validation set yet" in desk.refused(4, "validation", "replace", validation)
    desk.deliver(labels)
    assert "no validation set yet" in desk.refused(4, "submit", *files)
    assert "no other one is asked for" in desk.refused(4, "testset", "add", "test-0.sealed")
    desk.validate(VALIDATION)
    given = ["validation", "set", validation, "--label", "label"]
    assert "meter validation replace" in desk.refused(4, *given)


def test_exit_code_4_until_the_classes_are_known(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    labels = animals(desk.init(classes=()))
    name = desk.write("test", rows(labels, seed=0))
    desk.ok("seal", name, "--label", "label", "--out", "set.sealed")
    assert "give the validation set first" in desk.refused(4, "testset", "add", "set.sealed")
    desk.validate(VALIDATION)
    desk.ok("testset", "add", "set.sealed")


def test_exit_code_5_not_allowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    desk = Desk(tmp_path)
    labels = ready(desk, inputs="hidden")
    monkeypatch.setenv("METER_ROLE", "developer")
    assert "developers may not release" in desk.refused(5, "release")
    for verb in (
        ["testset", "add", "test-0.sealed"],
        ["testset", "notices"],
        ["testset", "inputs", "--out", "inputs.parquet"],
        ["seal", "test-0.csv", "--label", "label", "--out", "z.sealed"],
    ):
        desk.refused(5, *verb)
    assert not (tmp_path / "inputs.parquet").exists()
    assert desk.submit(labels, VALIDATION)["step"] == 1
    monkeypatch.setenv("METER_ROLE", "labeler")
    desk.refused(5, "submit", *desk.predictions(labels, VALIDATION, name="b"))
    monkeypatch.setenv("METER_ROLE", "king")
    assert "one of developer, labeler, runner, admin, owner" in desk.refused(2, "status")


def test_audit_exits_with_1_if_something_does_not_fit(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    labels = ready(desk)
    desk.submit(labels, VALIDATION)
    journal = next((tmp_path / "meter" / "testsets").glob("*.journal"))
    line = json.loads(next(filter(None, journal.read_text(encoding="utf-8").splitlines())))
    journal.write_text(json.dumps(line | {"step": 2}) + "\n", encoding="utf-8")
    shown = desk.run("audit", "-C", "meter")
    assert (shown.code, shown.err) == (1, "")
    assert shown.out.endswith("the chain is NOT sound\n")
    assert "an older copy was put back" in shown.out


def test_audit_reads_a_journal_that_somebody_wrote_into(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.submit(ready(desk), VALIDATION)
    journal = next((tmp_path / "meter" / "testsets").glob("*.journal"))
    with journal.open("ab") as file:
        file.write(b'5\n{}\n[1]\n\xff\n{"tenant": 1}\n')
    assert desk.json("audit")["sound"]
    assert desk.left() == 3
