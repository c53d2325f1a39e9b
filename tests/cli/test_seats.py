"""`meter seat` and `meter user`, at a server."""

from __future__ import annotations

import io

import pytest
from tests.cli.office import PASSWORD, Office


def test_seats_and_users(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    name = office.name
    office.make()
    monkeypatch.setattr("sys.stdin", io.StringIO(PASSWORD + "\n"))
    assert office.ok("user", "add", f"eve of {name}").startswith(f"account eve of {name} opened")
    assert f"eve of {name}, id " in office.ok("user", "list")
    assert "admin (admin), id " in office.ok("user", "list")
    office.ok("seat", "give", f"eve of {name}", "runner")
    assert f"eve of {name}: runner of team 1" in office.ok("seat", "list")
    taken = office.json("seat", "take", f"eve of {name}", "runner")
    assert (taken["name"], taken["role"], taken["tenant"]) == (f"eve of {name}", "runner", 1)
    assert f"eve of {name}" not in office.ok("seat", "list")
    assert "no account" in office.refused(2, "seat", "give", "nobody", "labeler")
    assert "only an admin" in office.acting("developer").refused(5, "user", "list")
    assert office.ok("meters").startswith(f"{name} (developer), id ")
