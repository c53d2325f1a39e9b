"""Requests for labels: when they come, and why and until when they are to be met."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from unittest import mock

import pytest
from tests.service.helpers import (
    Clock,
    Session,
    make_session,
    older_books,
    retire_cut_short,
    small_spec,
)

from easeml_meter.core.lifecycle import Phase
from easeml_meter.core.model import LabelRequest, TestSet
from easeml_meter.core.people import Role
from easeml_meter.core.views import Signal
from easeml_meter.errors import (
    Denied,
    FilesUnusable,
    InvalidInput,
    NotFound,
    Spent,
    WrongPhase,
)
from easeml_meter.meter import Meter
from easeml_meter.service.actor import Actor
from easeml_meter.service.place import Workspace
from easeml_meter.service.submissions.kinds import PredictionFiles
from easeml_meter.service.submissions.measuring import Conditions
from easeml_meter.service.testsets import requests
from easeml_meter.storage.books.audit import AuditLinks
from easeml_meter.storage.journal import Journal

LABELER = Actor.embedded(Role.LABELER)


def test_a_request_is_described(tmp_path: Path) -> None:
    meter = Meter.create(tmp_path / "meter", small_spec(), clock=Clock())
    space = Workspace.open(tmp_path / "meter")
    described = requests.describe_request(
        LABELER, space, 1, reason="the spring release", deadline="2026-03-31T18:00:00+02:00"
    )
    assert requests.list_requests(LABELER, space) == [described]
    assert described.test_set.reason == "the spring release"
    assert described.test_set.deadline == "2026-03-31T16:00:00.000000+00:00"
    assert described.test_set.labels_needed == meter.plan.labels
    taken_back = requests.describe_request(LABELER, space, 1, reason=None, deadline=None)
    assert (taken_back.test_set.reason, taken_back.test_set.deadline) == (None, None)
    assert meter.audit().problems == ()


@pytest.mark.parametrize(
    ("reason", "deadline"),
    [
        ("x" * 501, None),
        ("two\nlines", None),
        (None, "tomorrow"),
        (None, "2026-03-31T18:00"),
        (None, "2026-02-30T18:00+00:00"),
        (None, "0001-01-01T00:00:00+23:00"),
    ],
)
def test_odd_descriptions_are_refused(
    tmp_path: Path, reason: str | None, deadline: str | None
) -> None:
    Meter.create(tmp_path / "meter", small_spec(), clock=Clock())
    space = Workspace.open(tmp_path / "meter")
    with pytest.raises(InvalidInput):
        requests.describe_request(LABELER, space, 1, reason=reason, deadline=deadline)


def test_only_an_open_request_is_described_and_only_by_some(tmp_path: Path) -> None:
    make_session(tmp_path)
    space = Workspace.open(tmp_path / "meter")
    assert requests.list_requests(LABELER, space) == []
    with pytest.raises(WrongPhase, match="its labels have already arrived"):
        requests.describe_request(LABELER, space, 1, reason="late", deadline=None)
    with pytest.raises(NotFound):
        requests.describe_request(LABELER, space, 2, reason="early", deadline=None)
    for role in (Role.DEVELOPER, Role.RUNNER):
        with pytest.raises(Denied):
            requests.list_requests(Actor.embedded(role), space)


def test_what_is_told_of_a_test_set_is_read_again(tmp_path: Path) -> None:
    """The client rebuilds what the server shows; what only the server may know is not told."""
    session = make_session(tmp_path)
    for told in requests.list_test_sets(LABELER, Workspace.open(tmp_path / "meter")):
        assert not {"fingerprint", "blob", "manifest", "sha256"} & set(told.to_json())
        again = TestSet.from_json(told.meter, told.to_json())
        assert again.to_json() == told.to_json()
        assert (again.fingerprint, again.blob) == (None, None)
    for step in range(4):
        session.submit(step, 0, model=str(step))
    (request,) = requests.list_requests(LABELER, Workspace.open(tmp_path / "meter"))
    assert LabelRequest.from_json(request.test_set.meter, request.to_json()) == request


ADMIN = Actor.embedded(Role.ADMIN)


@pytest.mark.parametrize("role", [Role.LABELER, Role.ADMIN])
def test_a_test_set_is_retired_early_and_the_next_one_requested(tmp_path: Path, role: Role) -> None:
    session = make_session(tmp_path)
    told = session.submit(0, 0, model="a")
    space = session.meter.workspace
    actor = replace(Actor.embedded(role), user="u1")
    assert requests.retire_test_set(actor, space, 1).phase is Phase.SPENT
    assert [row.phase for row in session.meter.generations] == [Phase.SPENT, Phase.REQUESTED]
    (request,) = requests.list_requests(LABELER, space)
    assert request.test_set.labels_needed == session.meter.plan.labels
    shown = session.meter.status(generation=1)
    assert (shown.steps_left, shown.battery) == (0, 0.0)
    assert [signal.answer for signal in shown.signals] == [told.answer]
    assert session.submit(0, 0, model="a").repeated
    with pytest.raises(Spent, match="fresh labels are needed"):
        session.submit(0, 0, model="b")
    audit = session.meter.audit()
    assert [link.event for link in audit.links[-3:]] == ["retired", "spent", "requested"]
    assert audit.links[-3].details == {"generation": 1, "user": "u1"}
    assert audit.problems == ()
    session.meter.release()
    assert len(session.meter.status(generation=1).retrospective) == 1


def test_only_an_active_test_set_is_retired_and_only_by_some(tmp_path: Path) -> None:
    meter = Meter.create(tmp_path / "meter", small_spec(), clock=Clock())
    with pytest.raises(WrongPhase, match="test set 1 is requested: only an active one is retired"):
        meter.retire()
    with pytest.raises(NotFound):
        requests.retire_test_set(ADMIN, meter.workspace, 2)
    for role in (Role.DEVELOPER, Role.RUNNER):
        with pytest.raises(Denied):
            requests.retire_test_set(Actor.embedded(role), meter.workspace)


def submit_while(session: Session, deed: Callable[[], object], errors: int) -> Signal:
    """Submit a model called a; do something else once, while it is measured on hidden rows."""
    deeds = [deed]

    def progress(what: str, _done: float, _total: float) -> None:
        if what == "scoring on the test set" and deeds:
            deeds.pop()()

    given = PredictionFiles(*session.files(errors, 0, salt="a"))
    told = session.meter.submit_any(given, model="a", conditions=Conditions(progress=progress))
    assert not deeds
    return told


def test_what_was_being_measured_is_still_answered_and_charged(tmp_path: Path) -> None:
    """It has touched hidden rows: to refuse it would make that free."""
    session = make_session(tmp_path)
    n = len(session.test_labels)
    told = submit_while(session, session.meter.retire, n // 2)
    assert (told.band, told.step, told.steps_left, told.battery) == (3, 1, 0, 0.0)
    assert [signal.model for signal in session.meter.status(generation=1).signals] == ["a"]
    assert session.submit(n // 2, 0, model="a").repeated
    with pytest.raises(Spent):
        session.submit(0, 0, model="b")
    assert [row.phase for row in session.meter.generations] == [Phase.SPENT, Phase.REQUESTED]
    assert session.meter.audit().problems == ()


@pytest.mark.parametrize("cut", [False, True])
def test_an_older_database_put_back_knows_that_it_was_retired(tmp_path: Path, cut: bool) -> None:
    """Its labels may be released by then, so it must not answer again."""
    session = make_session(tmp_path)
    session.submit(0, 0, model="a")
    session.meter.close()
    with older_books(tmp_path), Meter.open(tmp_path / "meter") as meter:
        if cut:
            retire_cut_short(meter)
        else:
            meter.retire()
        meter.release()
    with Meter.open(tmp_path / "meter") as meter:
        session.meter = meter
        with pytest.raises(Spent):
            session.submit(0, 0, model="b")
        assert [row.phase for row in meter.generations] == [Phase.SPENT, Phase.REQUESTED]


def test_books_that_were_retired_behind_their_journal_say_so_to_newer_ones(tmp_path: Path) -> None:
    """The journal then noted fewer answers than it held, and newer books took it for their own."""
    session = make_session(tmp_path)
    copies, database = [], tmp_path / "meter" / ".meter" / "meter.db"
    for name in "ab":
        session.submit(0, 0, model=name)
        session.meter.close()
        copies.append(database.read_bytes())
        session.meter = Meter.open(tmp_path / "meter")
    session.meter.close()
    older, newer = copies

    def put_back(copy: bytes) -> Meter:
        for name in ("meter.db-wal", "meter.db-shm"):
            database.with_name(name).unlink(missing_ok=True)
        database.write_bytes(copy)
        return Meter.open(tmp_path / "meter")

    with put_back(older) as meter:
        meter.retire()
        meter.release()
    with put_back(newer) as meter:
        session.meter = meter
        with pytest.raises(Spent):
            session.submit(0, 0, model="c")


def test_a_set_that_gave_all_its_answers_repeats_them_without_a_look_at_the_whole_chain(
    tmp_path: Path,
) -> None:
    session = make_session(tmp_path)
    while session.meter.generations[0].phase is Phase.ACTIVE:
        last = session.submit(0, 0, model=f"m{len(session.meter.history()[0].signals)}")
    with mock.patch.object(AuditLinks, "of", side_effect=AssertionError("a scan of the chain")):
        again = session.submit(0, 0, model=last.model)
    assert (again.step, again.repeated) == (last.step, True)


def test_nothing_is_released_while_the_journal_does_not_say_that_it_was_retired(
    tmp_path: Path,
) -> None:
    session = make_session(tmp_path)
    session.submit(0, 0, model="a")
    retire_cut_short(session.meter)
    away = FilesUnusable("the disk is full")
    with mock.patch.object(Journal, "retire", side_effect=away), pytest.raises(FilesUnusable):
        session.meter.release()
    assert session.meter.generations[0].phase is Phase.SPENT
    assert not list((tmp_path / "meter").rglob("testset.parquet"))
    session.meter.release()
    (journal,) = (tmp_path / "meter").rglob("*.journal")
    assert journal.read_text(encoding="utf-8").count('"retired"') == 1
