"""Stored accounts at work: they spare reading the history, and never replace it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NoReturn

import pytest

from easeml_meter.core.views import SessionView
from easeml_meter.storage import schema
from easeml_meter.storage.books.entries import Entries
from easeml_meter.storage.journal import Journal

from .helpers import Session, make_session, small_spec

SPECS: dict[str, dict[str, Any]] = {
    "plain": {},
    "incremental": {"protocol": "incremental"},
    "tenants": {"tenants": (3, 2), "steps": 5},
}


@pytest.fixture(params=SPECS)
def session(request: pytest.FixtureRequest, tmp_path: Path) -> Session:
    made = make_session(tmp_path, small_spec(**SPECS[request.param]))
    for errors in (0, 20):
        made.submit(errors, 0, model=f"before {errors}")
    return made


def change(session: Session, statement: Any, *values: Any) -> None:
    with session.meter.workspace.writing() as books:
        books.connection.execute(statement, *values)


def left(view: SessionView) -> tuple[int, float]:
    return view.steps_left, view.battery


def test_an_answer_reads_no_history(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> NoReturn:
        raise AssertionError("the whole history was read")

    with monkeypatch.context() as patched:
        patched.setattr(Entries, "all", fail)
        patched.setattr(Journal, "read", fail)
        assert session.submit(0, 0, model="before 0").repeated
        assert session.submit(1, 0, model="next").step == 3
    assert session.meter.audit().problems == ()


def test_accounts_that_are_missing_are_folded_again_and_stored(session: Session) -> None:
    before = left(session.meter.status())
    change(session, schema.accounts.delete())
    assert left(session.meter.status()) == before
    assert session.meter.audit().problems == ()
    assert session.submit(0, 0, model="before 0").repeated
    with session.meter.workspace.reading() as books:
        stored = books.accounts.all(books.meters.get().id, 1)
    assert sorted(stored) == [*range(1, max(1, len(session.meter.spec.tenants)) + 1)]
    assert stored[1].step == 2
    assert session.meter.audit().problems == ()


def test_an_account_that_was_left_behind_gives_no_step_back(session: Session) -> None:
    with session.meter.workspace.reading() as books:
        (old,) = (row for row in books.copies.rows("accounts") if row["tenant"] == 1)
    session.submit(5, 0, model="later")
    before = left(session.meter.status())
    change(session, schema.accounts.delete().where(schema.accounts.c.tenant == 1))
    behind = {"steps": 0, "state": old["folded"]["state"]}
    change(session, schema.accounts.insert(), old | {"step": 1, "folded": behind})
    assert left(session.meter.status()) == before


def test_the_audit_finds_an_account_changed_by_hand(session: Session) -> None:
    assert session.meter.audit().problems == ()
    with session.meter.workspace.reading() as books:
        (row,) = (row for row in books.copies.rows("accounts") if row["tenant"] == 1)
    changed = json.loads(json.dumps(row["folded"])) | {"steps": 0}
    mine = schema.accounts.c.tenant == 1
    change(session, schema.accounts.update().where(mine), {"folded": changed})
    (problem,) = session.meter.audit().problems
    assert "the stored account of team 1 is not what its entries come to" in problem
