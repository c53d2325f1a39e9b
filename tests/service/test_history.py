"""Stored accounts at work: they spare reading the history, and never replace it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NoReturn

import pytest

from easeml_meter.core.people import Role
from easeml_meter.core.submissions import LONGEST_LINK, LONGEST_NOTE
from easeml_meter.core.views import SessionView, view_from_json
from easeml_meter.errors import InvalidInput
from easeml_meter.service.actor import Actor
from easeml_meter.service.audit import verify
from easeml_meter.service.history import list_sessions
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
    for errors in (0, 9):
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
    behind = old["folded"] | {"answers": 0}
    change(session, schema.accounts.insert(), old | {"step": 1, "folded": behind})
    assert left(session.meter.status()) == before


def test_the_audit_finds_an_account_changed_by_hand(session: Session) -> None:
    assert session.meter.audit().problems == ()
    with session.meter.workspace.reading() as books:
        (row,) = (row for row in books.copies.rows("accounts") if row["tenant"] == 1)
    changed = json.loads(json.dumps(row["folded"])) | {"answers": 0}
    mine = schema.accounts.c.tenant == 1
    change(session, schema.accounts.update().where(mine), {"folded": changed})
    (problem,) = session.meter.audit().problems
    assert "the stored account of team 1 is not what its entries come to" in problem


LINK = "https://example.org/commit/1?a=b#L3"


def noted(session: Session, **options: Any) -> dict[int, tuple[str, str]]:
    """Return the text and link of the notes that are shown, by step."""
    return {each.step: (each.text, each.link) for each in session.meter.status(**options).notes}


def test_a_note_is_shown_and_a_repetition_keeps_the_first(tmp_path: Path) -> None:
    session = make_session(tmp_path)
    first = session.submit(1, 0, model="a", note="a tree", link=LINK)
    session.submit(2, 0, model="b")
    again = session.submit(1, 0, model="a", note="a forest")
    assert (again.repeated, again.answer) == (True, first.answer)
    assert noted(session) == {1: ("a tree", LINK)}
    view = session.meter.status()
    told = json.loads(json.dumps(view.to_dict()))
    assert view_from_json(told, view.spec).notes == view.notes
    assert session.meter.history()[0].notes == view.notes


def test_a_note_is_no_part_of_a_submission(tmp_path: Path) -> None:
    plain, remarked = (make_session(tmp_path / name) for name in ("plain", "noted"))
    entries = []
    for session, options in ((plain, {}), (remarked, {"note": "a tree", "link": LINK})):
        session.submit(1, 0, model="a", **options)
        space = session.meter.workspace
        with space.reading() as books:
            entries += books.entries.all(space.state(books).meter.id, 1)
    assert entries[0].submission == entries[1].submission
    assert (entries[1].note, entries[1].link) == ("a tree", LINK)


def test_a_note_comes_back_with_the_answer_from_the_journal(tmp_path: Path) -> None:
    session = make_session(tmp_path)
    session.submit(1, 0, model="a", note="a tree", link=LINK)
    change(session, schema.accounts.delete())
    change(session, schema.entries.delete())
    session.submit(2, 0, model="b")
    assert noted(session) == {1: ("a tree", LINK)}


@pytest.mark.parametrize(
    "given",
    [
        {"note": "x" * (LONGEST_NOTE + 1)},
        {"note": "two\nlines"},
        {"note": "\u202eturned round"},
        {"link": "javascript:alert(1)"},
        {"link": "//example.org/x"},
        {"link": "https://"},
        {"link": "https://example.org@evil.example/x"},
        {"link": "https://example.org/ two"},
        {"link": 'https://example.org/"onclick'},
        {"link": "https://example.org/<b>"},
        {"link": "https://example.org/" + "x" * LONGEST_LINK},
    ],
)
def test_what_is_no_note_is_refused_and_costs_nothing(
    tmp_path: Path, given: dict[str, str]
) -> None:
    session = make_session(tmp_path)
    with pytest.raises(InvalidInput):
        session.submit(1, 0, **given)
    assert session.meter.status().signals == ()


def test_the_longest_note_is_taken(tmp_path: Path) -> None:
    session = make_session(tmp_path)
    text, link = "x" * LONGEST_NOTE, "https://a/".ljust(LONGEST_LINK, "b")
    session.submit(1, 0, note=text, link=link)
    assert noted(session) == {1: (text, link)}


def test_a_team_reads_no_note_of_another(tmp_path: Path) -> None:
    session = make_session(tmp_path, small_spec(tenants=(2, 2)))
    session.submit(1, 0, model="a", tenant=1, note="a secret of ours")
    session.submit(2, 0, model="b", tenant=2)
    space = session.meter.workspace
    second = Actor(((Role.DEVELOPER, 2),))
    assert noted(session, tenant=2) == {}
    assert "secret" not in str(list_sessions(second, space))
    assert "secret" not in str(verify(second, space))
    assert "secret" not in str(verify(Actor(((Role.ADMIN, 0),)), space))
    assert noted(session, tenant=1) == {1: ("a secret of ours", "")}


def test_what_was_changed_by_hand_is_not_shown(tmp_path: Path) -> None:
    session = make_session(tmp_path)
    session.submit(1, 0, note="a tree", link=LINK)
    change(session, schema.entries.update().values(link="javascript:x"))
    assert noted(session) == {}
    assert session.meter.audit().problems
