"""`meter audit`: what does not fit shows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.workbench import (
    VALIDATION,
    Workbench,
    ready,
)


def test_audit_exits_with_1_if_something_does_not_fit(tmp_path: Path) -> None:
    desk = Workbench(tmp_path)
    labels = ready(desk)
    desk.submit(labels, VALIDATION)
    journal = next((tmp_path / "meter" / ".meter" / "testsets").glob("*.journal"))
    line = json.loads(next(filter(None, journal.read_text(encoding="utf-8").splitlines())))
    journal.write_text(json.dumps(line | {"step": 2}) + "\n", encoding="utf-8")
    shown = desk.run("audit", "-C", "meter")
    assert (shown.code, shown.err) == (1, "")
    assert "the chain is NOT sound\nNext: ask who" in shown.out
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
