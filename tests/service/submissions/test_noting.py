"""Notes on submissions: the newest is shown, all of them stay in the chain."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.service.helpers import Session, make_session, small_spec

from easeml_meter.core.model import AuditLink, Event
from easeml_meter.core.people import Role
from easeml_meter.core.submissions import LONGEST_LINK, LONGEST_NOTE
from easeml_meter.core.views import view_from_json
from easeml_meter.errors import Denied, InvalidInput, NotFound
from easeml_meter.report.audit import audit_words
from easeml_meter.service.actor import Actor
from easeml_meter.service.audit import verify
from easeml_meter.service.submissions.noting import MOST_NOTES, note, notes_on

LINK = "https://example.org/commit/1?a=b#L3"


@pytest.fixture
def session(tmp_path: Path) -> Session:
    """A meter that has answered two submissions."""
    made = make_session(tmp_path)
    made.submit(1, 0, model="a")
    made.submit(2, 0, model="b")
    return made


def noted(session: Session, **options: Any) -> dict[int, tuple[str, str]]:
    """Return the text and link of the notes that are shown, by step."""
    return {each.step: (each.text, each.link) for each in session.meter.status(**options).notes}


def links(session: Session, actor: Actor | None = None) -> list[AuditLink]:
    found = verify(actor or Actor.embedded(), session.meter.workspace)
    assert not found.problems
    return [link for link in found.links if link.event == Event.NOTED]


def test_the_newest_note_is_shown_and_all_stay_in_the_chain(session: Session) -> None:
    before = session.meter.status()
    assert session.meter.note(1, " a tree ", link=LINK) == 1
    assert session.meter.note("b", "a forest") == 2
    session.meter.note(1, "a better tree")
    session.meter.note(1, "a better tree")  # once is enough
    assert noted(session) == {1: ("a better tree", ""), 2: ("a forest", "")}
    assert [link.details["text"] for link in links(session)] == [
        "a tree",
        "a forest",
        "a better tree",
    ]
    after = session.meter.status()
    assert (after.signals, after.battery) == (before.signals, before.battery)
    told = json.loads(json.dumps(after.to_dict()))
    assert view_from_json(told, after.spec).notes == after.notes
    assert session.meter.history()[0].notes == after.notes


def test_a_note_is_in_words_in_the_audit_trail(session: Session) -> None:
    session.meter.note(1, "a tree", link=LINK)
    session.meter.note(1, link=LINK)
    session.meter.note(1)
    on = "Team 1 noted on step 1 of test set 1"
    assert [audit_words(link, {}) for link in links(session)] == [
        f"{on}: a tree, {LINK}.",
        f"{on}: {LINK}.",
        f"{on}: nothing more.",
    ]
    hidden = links(session, Actor.embedded(Role.ADMIN))
    assert {audit_words(link, {}) for link in hidden} == {"A note was written on a submission."}


def test_an_empty_note_takes_the_note_away(session: Session) -> None:
    session.meter.note(1, "a tree")
    session.meter.note(1, "  ")
    assert noted(session) == {}


@pytest.mark.parametrize(
    "given",
    [
        {"text": "x" * (LONGEST_NOTE + 1)},
        {"text": "two\nlines"},
        {"text": "\u202eturned round"},
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
def test_what_is_no_note_is_refused(session: Session, given: dict[str, str]) -> None:
    with pytest.raises(InvalidInput):
        session.meter.note(1, given.get("text", ""), link=given.get("link", ""))
    assert links(session) == []


def test_the_longest_note_is_taken(session: Session) -> None:
    text, link = "x" * LONGEST_NOTE, "https://a/".ljust(LONGEST_LINK, "b")
    session.meter.note(1, text, link=link)
    assert noted(session) == {1: (text, link)}


@pytest.mark.parametrize("which", [3, "c", 10**9])
def test_there_is_no_note_without_a_submission(session: Session, which: int | str) -> None:
    with pytest.raises(NotFound, match="has answered no submission of this step or name"):
        session.meter.note(which, "x")
    with pytest.raises(NotFound, match="test set 2"):
        session.meter.note(1, "x", generation=2)


def test_a_submission_takes_so_many_notes_and_others_still_take_theirs(session: Session) -> None:
    for number in range(MOST_NOTES):
        session.meter.note(1, f"note {number}")
    with pytest.raises(InvalidInput, match=f"at most {MOST_NOTES} notes"):
        session.meter.note(1, "one more")
    session.meter.note(2, "the first")
    assert noted(session) == {1: (f"note {MOST_NOTES - 1}", ""), 2: ("the first", "")}


@pytest.mark.parametrize("role", [Role.ADMIN, Role.LABELER])
def test_those_who_submit_nothing_note_nothing(session: Session, role: Role) -> None:
    with pytest.raises(Denied):
        note(Actor.embedded(role), session.meter.workspace, 1, text="x")


def test_a_runner_notes_its_own_submissions_and_finds_no_others(session: Session) -> None:
    runner = Actor(((Role.RUNNER, 1),), user="a-runner")
    said = set()
    for which in (1, "a", 3, "c"):
        with pytest.raises(NotFound) as caught:
            note(runner, session.meter.workspace, which, text="x")
        said.add(str(caught.value).replace(repr(str(which)), "it"))
    assert len(said) == 1
    # Nobody has an account here: whoever has none has submitted these.
    assert note(Actor(((Role.RUNNER, 1),)), session.meter.workspace, "a", text="x").step == 1


def test_a_runner_of_one_team_is_no_developer_of_it_by_a_seat_at_another(tmp_path: Path) -> None:
    session = make_session(tmp_path, small_spec(tenants=(2, 2)))
    session.submit(2, 0, model="b", tenant=2)
    both = Actor(((Role.DEVELOPER, 1), (Role.RUNNER, 2)), tenant=2, user="somebody")
    with pytest.raises(NotFound, match="no submission of yours"):
        note(both, session.meter.workspace, 1, text="x")


def test_a_team_reads_no_note_of_another(tmp_path: Path) -> None:
    session = make_session(tmp_path, small_spec(tenants=(2, 2)))
    session.submit(1, 0, model="a", tenant=1)
    session.submit(2, 0, model="b", tenant=2)
    space = session.meter.workspace
    first, second = (Actor(((Role.DEVELOPER, tenant),)) for tenant in (1, 2))
    note(first, space, 1, text="a secret of ours")
    assert noted(session, tenant=2) == {}
    assert "secret" not in str(verify(second, space))
    assert "secret" not in str(verify(Actor(((Role.ADMIN, 0),)), space))
    assert noted(session, tenant=1) == {1: ("a secret of ours", "")}


@pytest.mark.parametrize("change", [{"link": "javascript:x"}, {"text": None}, {"step": "1"}])
def test_what_was_changed_by_hand_is_not_shown(session: Session, change: dict[str, Any]) -> None:
    session.meter.note(1, "a tree", link=LINK)
    (link,) = links(session)
    signals = session.meter.status().signals
    assert notes_on([link], signals, 1)
    link.details.update(change)
    assert notes_on([link], signals, 1) == ()
