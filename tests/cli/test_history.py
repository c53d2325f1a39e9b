"""`meter status`, `meter history` and `meter report`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.workbench import (
    VALIDATION,
    Workbench,
    ready,
)


def test_a_report_that_cannot_be_written(desk: Workbench) -> None:
    assert "give --html, --svg, --badge or --shields" in desk.refused(2, "report")
    assert "No such file" in desk.refused(2, "report", "--html", "nowhere/r.html")
    assert "from 1 to 1" in desk.refused(2, "report", "--html", "r.html", "--generation", "7")


def test_nothing_told_yet(tmp_path: Path) -> None:
    desk = Workbench(tmp_path)
    desk.init()
    assert desk.ok("history") == "no answers yet: no test set has been delivered\n"
    assert "test set 1: requested" in desk.ok("status")
    assert desk.json("history") == []
    desk.ok(
        "report", "--html", "r.html", "--svg", "r.svg", "--badge", "b.svg", "--shields", "b.json"
    )
    badge = json.loads((tmp_path / "b.json").read_text())
    assert (badge["schemaVersion"], badge["message"]) == (1, "no answers yet")


def test_tenants_have_their_own_books(tmp_path: Path) -> None:
    desk = Workbench(tmp_path)
    labels = ready(desk, tenants=(3, 1))
    assert desk.submit(labels, VALIDATION, "--tenant", "2")["steps_left"] == 0
    files = desk.predictions(labels[::-1], VALIDATION, name="b")
    assert "no answer left for this team" in desk.refused(3, "submit", *files, "--tenant", "2")
    assert desk.json("status", "--tenant", "1")["signals"] == []
    assert desk.submit(labels, VALIDATION, name="b")["steps_left"] == 2
    assert "from 1 to 2" in desk.refused(2, "status", "--tenant", "3")


def test_a_note_is_shown_with_its_answer(tmp_path: Path) -> None:
    desk = Workbench(tmp_path)
    labels = ready(desk)
    desk.submit(labels, VALIDATION, name="first")
    assert "note" not in desk.ok("history")
    link = "https://example.org/c/1"
    desk.submit(labels[::-1], VALIDATION, "--note", " wider ", "--link", link, name="second")
    shown = desk.ok("history")
    assert "note" in shown
    assert "wider" in shown
    (note,) = desk.json("status")["notes"]
    assert (note["step"], note["text"], note["link"]) == (2, "wider", link)
    files = desk.predictions(labels, VALIDATION, name="third")
    assert "at most 200 characters" in desk.refused(2, "submit", *files, "--note", "x" * 201)
    assert "http:// or https://" in desk.refused(2, "submit", *files, "--link", "ftp://example.org")


def test_two_submissions_are_compared_once_the_test_set_is_released(tmp_path: Path) -> None:
    desk = Workbench(tmp_path)
    labels = ready(desk)
    desk.submit(labels, VALIDATION, name="right")
    turned = ["cat" if label == "dog" else "dog" for label in labels[:3]]
    desk.submit([*turned, *labels[3:]], VALIDATION, name="wrong")
    assert "would tell of its labels" in desk.refused(2, "diff")
    desk.ok("testset", "retire", "--yes")
    desk.ok("release")
    shown = desk.ok("diff")
    assert "step 2, wrong: test error" in shown
    assert "3 went from right to wrong, 0 went from wrong to right" in shown
    assert shown.endswith("Next: meter history -C meter\n")
    assert desk.ok("diff", "2", "1").endswith(
        "Next: meter diff 2 1 --generation 1 --better -C meter\n"
    )
    found = desk.json("diff", "2", "1", "--better")
    assert (found["better"], len(found["examples"])) == (3, 3)
    assert "one that predictions were kept of: 1, 2" in desk.refused(2, "diff", "1", "9")


def test_audit_exits_with_1_if_something_does_not_fit(tmp_path: Path) -> None:
    desk = Workbench(tmp_path)
    labels = ready(desk)
    desk.submit(labels, VALIDATION)
    journal = next((tmp_path / "meter" / ".meter" / "testsets").glob("*.journal"))
    line = json.loads(next(filter(None, journal.read_text(encoding="utf-8").splitlines())))
    journal.write_text(json.dumps(line | {"step": 2}) + "\n", encoding="utf-8")
    shown = desk.run("audit", "-C", "meter")
    assert (shown.code, shown.err) == (1, "")
    assert "the chain does not match\nNext: ask who" in shown.out
    assert "an older copy was put back" in shown.out


def test_audit_reads_a_journal_that_somebody_wrote_into(tmp_path: Path) -> None:
    desk = Workbench(tmp_path)
    desk.submit(ready(desk), VALIDATION)
    journal = next((tmp_path / "meter" / ".meter" / "testsets").glob("*.journal"))
    with journal.open("ab") as file:
        file.write(b'5\n{}\n[1]\n\xff\n{"tenant": 1}\n')
    assert desk.json("audit")["sound"]
    assert desk.left() == 3


def test_developers_of_a_folder_read_no_answer_of_another_team(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The audit of a folder showed a developer the answers of every team."""
    desk = Workbench(tmp_path)
    labels = ready(desk, tenants=(2, 2))
    for team in ("1", "2"):
        desk.submit(labels, VALIDATION, "--tenant", team)

    def told() -> list[dict[str, object]]:
        links = desk.json("audit")["links"]
        return [link["details"] for link in links if link["event"] == "told"]

    one, two = told()
    assert (one["tenant"], two["tenant"]) == (1, 2)
    monkeypatch.setenv("METER_ROLE", "developer")
    assert told() == [one, {}]
    # A command says of which team it is, as METER_ROLE says in which role.
    for number in (1, 2):
        (signal,) = desk.json("status", "--tenant", str(number))["signals"]
        assert signal["tenant"] == number
