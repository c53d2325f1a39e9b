"""Submissions answered in one transaction: each hears what it would have heard alone."""

from __future__ import annotations

import io
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.service.helpers import (
    Clock,
    Labels,
    Session,
    make_session,
    rows,
    small_spec,
    with_errors,
)

from easeml_meter.core.lifecycle import Phase
from easeml_meter.core.model import Entry
from easeml_meter.core.questions.planning import required_labels
from easeml_meter.core.views import Signal
from easeml_meter.errors import InvalidInput, MeterError, Spent, StorageError
from easeml_meter.meter import Meter
from easeml_meter.service.actor import SYSTEM
from easeml_meter.service.handovers import hand_over
from easeml_meter.service.place import Workspace
from easeml_meter.service.submissions import answering
from easeml_meter.service.submissions.answering import Outcome, Submission, answer, answer_all
from easeml_meter.service.submissions.keeping import Keeping
from easeml_meter.service.submissions.kinds import PredictionFiles
from easeml_meter.spec import MeterSpec
from easeml_meter.storage.books.audit import AuditLinks
from easeml_meter.storage.books.entries import Entries
from easeml_meter.storage.books.testsets import TestSets
from easeml_meter.storage.files import FolderFiles
from easeml_meter.storage.journal import Journal
from easeml_meter.tables.source import Held

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@cache
def content(labels: tuple[int, ...], salt: str) -> bytes:
    out = io.BytesIO()
    table = pa.table({"id": np.arange(len(labels)), "prediction": labels})
    pq.write_table(table.replace_schema_metadata({"salt": salt}), out)
    return out.getvalue()


def predictions(labels: Labels, errors: int, salt: str) -> Held:
    values = tuple(with_errors(labels, errors).tolist())
    return Held("test.parquet", content(values, salt))


@dataclass(frozen=True)
class Plan:
    """A submission that a test has in mind: how many errors, by whom, and what is wrong with it."""

    errors: int
    salt: str = ""
    tenant: int = 1
    broken: bool = False
    user: str = ""

    def made(self, session: Session) -> Submission:
        """Make it for a session."""
        test = predictions(session.test_labels, self.errors, self.salt)
        if self.broken:
            test = Held("test.parquet", b"no Parquet at all")
        validation = predictions(session.validation_labels, 0, self.salt)
        model = f"model {self.errors}{self.salt}"
        return Submission(PredictionFiles(test, validation), model, self.tenant, self.user)


def together(session: Session, *plans: Plan) -> list[Outcome]:
    return answer_all(SYSTEM, space_of(session), [plan.made(session) for plan in plans])


def signals(outcomes: list[Outcome]) -> list[Signal]:
    """Give the signals of a batch in which nothing was refused."""
    found = [each for each in outcomes if isinstance(each, Signal)]
    assert len(found) == len(outcomes), outcomes
    return found


def space_of(session: Session) -> Workspace:
    return session.meter.workspace


def entries_of(session: Session, generation: int = 1) -> list[Entry]:
    with space_of(session).reading() as books:
        return books.entries.all(books.meters.get().id, generation)


def journal_of(session: Session) -> Journal:
    return space_of(session).journal(session.meter.generations[0])


def check_journal(session: Session) -> None:
    """The journal holds exactly what the books do, each entry on one line."""
    assert journal_of(session).read() == entries_of(session)
    assert journal_of(session).answers() == len(entries_of(session))
    assert session.meter.audit().problems == ()


def events(session: Session) -> Counter[str]:
    return Counter(link.event for link in session.meter.audit().links)


# --- The same books, whether together or one by one ---


def handed_over(session: Session) -> None:
    together(session, Plan(0, "before"))
    hand_over(SYSTEM, space_of(session), 1, 2, confirm=True)


def reset(session: Session) -> None:
    """Replace the validation set by one that resets the meter."""
    worst = Plan(len(session.test_labels) // 5, "before")
    together(session, worst)
    path = session.folder / "other.parquet"
    pq.write_table(rows(session.validation_labels, seed=8), path)
    session.meter.replace_validation(path, reset=True)


def nothing(_session: Session) -> None:
    return


@dataclass(frozen=True)
class Kind:
    """A kind of meter, and what happened before the submissions come."""

    spec: MeterSpec
    before: Callable[[Session], None] = nothing
    extra: int = 0
    """Labels more than planned."""

    def begun(self, folder: Path) -> Session:
        """Make one."""
        folder.mkdir(exist_ok=True)
        size = required_labels(self.spec).labels + self.extra
        session = make_session(folder, self.spec, size=size)
        self.before(session)
        return session


KINDS = {
    "plain": Kind(small_spec()),
    "tenants": Kind(small_spec(steps=5, tenants=(3, 2))),
    "handed over": Kind(small_spec(steps=6, tenants=(3, 3)), handed_over, extra=20),
    "incremental": Kind(small_spec(protocol="incremental")),
    "reset": Kind(small_spec(protocol="incremental", resets=1), reset),
    "last session": Kind(small_spec(steps=3, sessions=2)),
}


class Copies:
    """Makes copies of one meter: the same id, key and test set, and a clock of their own.

    No two of them ever tell an answer at the same moment.
    """

    def __init__(self, session: Session, folder: Path) -> None:
        self._session = session
        self._folder = folder
        self._made = 0
        session.meter.close()

    def __call__(self) -> Session:
        self._made += 1
        folder = self._folder / str(self._made)
        shutil.copytree(self._session.folder / "meter", folder / "meter")
        clock = Clock()
        clock.moment += timedelta(days=self._made)
        return replace(
            self._session, folder=folder, meter=Meter.open(folder / "meter", clock=clock)
        )


def told(outcome: Outcome) -> object:
    """Give what is heard, but for when."""
    if isinstance(outcome, Signal):
        return replace(outcome, told_at=NOW)
    # In how many words a spent set says so depends on whether the next one is asked for already.
    return type(outcome) if isinstance(outcome, Spent) else (type(outcome), str(outcome))


def written(session: Session) -> dict[str, Any]:
    """Give all that the books say, but for when, and where submissions are kept."""
    tenants = range(1, max(1, len(session.meter.spec.tenants)) + 1)
    views = [session.meter.status(generation=1, tenant=tenant) for tenant in tenants]
    return {
        "entries": [replace(each, told_at="", blob="") for each in entries_of(session)],
        "kept": [bool(each.blob) for each in entries_of(session)],
        "audit": [(link.event, link.details) for link in session.meter.audit().links],
        "sets": [replace(row, changed_at="") for row in session.meter.generations],
        "signals": [[told(each) for each in view.signals] for view in views],
        "left": [(view.steps_left, view.battery) for view in views],
    }


@pytest.mark.parametrize("name", KINDS)
def test_the_books_are_those_of_submissions_one_by_one(tmp_path: Path, name: str) -> None:
    kind = KINDS[name]
    copies = Copies(kind.begun(tmp_path / "first"), tmp_path)
    n = required_labels(kind.spec).labels + kind.extra
    tenants = max(1, len(kind.spec.tenants))
    plans = st.builds(
        Plan,
        errors=st.sampled_from([0, n // 5, n // 2]),
        salt=st.sampled_from("abc"),
        # One too many: that tenant is refused.
        tenant=st.sampled_from([*range(1, tenants + 1)] * 4 + [tenants + 1]),
        broken=st.sampled_from([False] * 8 + [True]),
        user=st.sampled_from(["", "anna"]),
    )

    @settings(max_examples=12)
    @given(st.lists(st.lists(plans, min_size=1, max_size=7), min_size=1, max_size=4))
    def check(batches: list[list[Plan]]) -> None:
        one, many = copies(), copies()
        alone = [together(one, plan)[0] for batch in batches for plan in batch]
        gathered = [each for batch in batches for each in together(many, *batch)]
        assert [told(each) for each in gathered] == [told(each) for each in alone]
        assert written(many) == written(one)
        check_journal(many)
        for each in (one, many):
            each.meter.close()
            shutil.rmtree(each.folder)

    check()


# --- One batch ---


@pytest.fixture
def session(tmp_path: Path) -> Session:
    return make_session(tmp_path)


def test_answers_come_in_the_order_of_the_submissions(session: Session) -> None:
    n = len(session.test_labels)
    found = signals(together(session, Plan(n // 2), Plan(0), Plan(n // 5)))
    assert [each.band for each in found] == [3, 1, 2]
    assert [each.step for each in found] == [1, 2, 3]
    assert [each.steps_left for each in found] == [3, 2, 1]
    assert [each.model for each in found] == [f"model {n // 2}", "model 0", f"model {n // 5}"]
    check_journal(session)


def test_a_batch_of_none(session: Session) -> None:
    assert answer_all(SYSTEM, space_of(session), []) == []
    assert entries_of(session) == []


def test_a_bad_one_harms_no_other_and_costs_nothing(session: Session) -> None:
    outcomes = together(session, Plan(0), Plan(1, broken=True), Plan(2, tenant=7), Plan(3))
    refused = [str(each) for each in outcomes if isinstance(each, InvalidInput)]
    assert [type(each) is InvalidInput for each in outcomes] == [False, True, True, False]
    assert refused[0].startswith("test.parquet: no Parquet file")
    assert "tenant" in refused[1]
    first, *_, last = outcomes
    assert isinstance(first, Signal)
    assert isinstance(last, Signal)
    assert (first.step, last.step, last.steps_left) == (1, 2, 2)
    assert [each.model for each in entries_of(session)] == ["model 0", "model 3"]
    check_journal(session)


def test_only_bad_ones_leave_no_trace(session: Session) -> None:
    before = session.meter.audit().links
    outcomes = together(session, Plan(0, broken=True), Plan(1, broken=True))
    assert [type(each) for each in outcomes] == [InvalidInput, InvalidInput]
    assert entries_of(session) == []
    assert session.meter.audit().links == before


def test_an_error_of_the_program_goes_to_whom_it_belongs(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad, good = Plan(1).made(session), Plan(2).made(session)
    real = PredictionFiles.open

    def open_(files: PredictionFiles, on: Any, **options: Any) -> Any:
        if files is bad.submitted:
            raise RuntimeError("a bug")
        return real(files, on, **options)

    monkeypatch.setattr(PredictionFiles, "open", open_)
    outcomes = answer_all(SYSTEM, space_of(session), [bad, good])
    assert isinstance(outcomes[0], RuntimeError)
    assert isinstance(outcomes[1], Signal)
    with pytest.raises(RuntimeError, match="a bug"):
        answer(SYSTEM, space_of(session), bad.submitted, bad.model)
    assert [each.model for each in entries_of(session)] == ["model 2"]


def test_identical_ones_are_charged_once(session: Session) -> None:
    found = signals(together(session, Plan(3, "a"), Plan(3, "a"), Plan(3, "b"), Plan(3, "a")))
    assert [each.repeated for each in found] == [False, True, False, True]
    assert [each.step for each in found] == [1, 1, 2, 1]
    assert [each.steps_left for each in found] == [3, 3, 2, 2]
    assert session.meter.status().steps_left == 2
    assert events(session)["told"] == 2
    check_journal(session)


def test_those_answered_in_another_batch_are_repeated(session: Session) -> None:
    first = signals(together(session, Plan(1), Plan(2)))
    again = signals(together(session, Plan(2), Plan(3), Plan(1)))
    assert [each.repeated for each in again] == [True, False, True]
    assert [each.step for each in again] == [2, 3, 1]
    assert again[0].told_at == first[1].told_at
    check_journal(session)


def test_the_budget_runs_out_in_the_middle(session: Session) -> None:
    outcomes = together(session, *(Plan(errors) for errors in range(7)), Plan(1))
    assert [isinstance(each, Signal) for each in outcomes] == [True] * 4 + [False] * 3 + [True]
    assert all(isinstance(each, Spent) for each in outcomes[4:7])
    repeated = outcomes[7]
    assert isinstance(repeated, Signal)
    assert (repeated.step, repeated.repeated) == (2, True)
    assert [row.phase for row in session.meter.generations] == [Phase.SPENT, Phase.REQUESTED]
    assert (events(session)["spent"], events(session)["requested"]) == (1, 2)
    check_journal(session)
    outcomes = together(session, Plan(9), Plan(3))
    assert isinstance(outcomes[0], Spent)
    assert isinstance(outcomes[1], Signal)
    assert outcomes[1].repeated
    assert (events(session)["spent"], events(session)["requested"]) == (1, 2)


def test_several_tenants(tmp_path: Path) -> None:
    session = make_session(tmp_path, small_spec(tenants=(3, 1)))
    plans = [Plan(0), Plan(0, tenant=2), Plan(1, tenant=2), Plan(0, tenant=2), Plan(1)]
    outcomes = together(session, *plans)
    spent = outcomes.pop(2)
    assert isinstance(spent, Spent)
    found = signals(outcomes)
    assert [(each.tenant, each.step) for each in found] == [
        (1, 1),
        (2, 1),
        (2, 1),
        (1, 2),
    ]
    assert [each.repeated for each in found] == [False, False, True, False]
    assert [row.phase for row in session.meter.generations] == [Phase.ACTIVE]
    check_journal(session)
    together(session, Plan(2))
    assert [row.phase for row in session.meter.generations] == [Phase.SPENT, Phase.REQUESTED]


def test_a_hand_over_in_force(tmp_path: Path) -> None:
    """Both tenants draw on one budget, also within a batch."""
    session = KINDS["handed over"].begun(tmp_path)
    left = session.meter.status(tenant=1).steps_left
    assert left >= 2
    outcomes = together(session, *(Plan(i, tenant=1 + i % 2) for i in range(left + 2)))
    found = signals(outcomes[:left])
    assert [each.steps_left for each in found] == list(range(left - 1, -1, -1))
    assert [type(each) for each in outcomes[left:]] == [Spent, Spent]
    assert [row.phase for row in session.meter.generations] == [Phase.SPENT, Phase.REQUESTED]
    check_journal(session)


def test_a_reset_is_carried_out_once(tmp_path: Path) -> None:
    session = KINDS["reset"].begun(tmp_path)
    n = len(session.test_labels)
    found = signals(together(session, Plan(0), Plan(n // 2), Plan(1)))
    assert [each.band for each in found] == [1, 3, 3]
    assert [each.after_reset for each in entries_of(session)] == [False, True, False, False]
    check_journal(session)


def test_who_handed_it_in_is_in_the_audit(session: Session) -> None:
    together(session, Plan(0, user="anna"), Plan(1), Plan(2, user="bert"))
    disclosed = [link.details for link in session.meter.audit().links if link.event == "told"]
    assert [each.get("user") for each in disclosed] == ["anna", None, "bert"]
    assert [each["step"] for each in disclosed] == [1, 2, 3]


def test_without_a_test_set_all_are_told_so(tmp_path: Path) -> None:
    session = make_session(tmp_path)
    other = replace(session, meter=Meter.create(tmp_path / "other", small_spec()))
    outcomes = together(other, Plan(0), Plan(1))
    assert len(outcomes) == 2
    assert all("no test set yet" in str(each) for each in outcomes)


# --- Failures ---


@pytest.mark.parametrize(
    ("repository", "step"),
    [
        (Entries, "add"),
        (AuditLinks, "append_all"),
        (TestSets, "update"),
        (TestSets, "add"),
        (AuditLinks, "append"),
    ],
)
def test_a_failure_in_the_transaction_tells_nobody_and_charges_nothing(
    session: Session, monkeypatch: pytest.MonkeyPatch, repository: type, step: str
) -> None:
    """Four submissions spend the set, so that every kind of writing is part of it."""
    plans = [Plan(errors) for errors in range(4)]
    links = session.meter.audit().links

    def fail(*_arguments: object) -> NoReturn:
        raise StorageError("the disk is gone")

    with monkeypatch.context() as patched:
        patched.setattr(repository, step, fail)
        with pytest.raises(StorageError, match="the disk is gone"):
            together(session, *plans)
    assert entries_of(session) == []
    assert journal_of(session).read() == []
    assert session.meter.audit().links == links
    assert session.meter.status().steps_left == 4
    assert [row.phase for row in session.meter.generations] == [Phase.ACTIVE]
    found = signals(together(session, *reversed(plans)))
    assert [(each.step, each.repeated) for each in found] == [(n, False) for n in (1, 2, 3, 4)]
    assert [each.steps_left for each in found] == [3, 2, 1, 0]
    check_journal(session)


def test_a_file_that_cannot_be_kept_tells_nobody(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_arguments: object) -> NoReturn:
        raise MeterError("the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(FolderFiles, "put", fail)
        with pytest.raises(MeterError, match="the disk is full"):
            together(session, Plan(0), Plan(1))
    assert entries_of(session) == []
    assert journal_of(session).read() == []


def test_what_a_crash_kept_from_the_journal_comes_with_the_next_batch(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(*_arguments: object) -> NoReturn:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Journal, "append", die)
        with pytest.raises(KeyboardInterrupt):
            together(session, Plan(0), Plan(1))
    assert (len(entries_of(session)), journal_of(session).read()) == (2, [])
    found = signals(together(session, Plan(1), Plan(2)))
    assert [(each.step, each.repeated) for each in found] == [(2, True), (3, False)]
    check_journal(session)


# --- Others, between measuring and telling ---


def meanwhile(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Let somebody act when all is measured and nothing told."""
    calls: list[str] = []

    def wrapped(*arguments: Any) -> Keeping:
        if not calls:
            calls.append("keep")
            act()
        return Keeping(*arguments)

    monkeypatch.setattr(answering, "Keeping", wrapped)


@pytest.fixture
def rival(session: Session) -> Session:
    """The same meter, opened by another process."""
    return replace(session, meter=Meter.open(session.folder / "meter"))


def test_answers_told_meanwhile_count(
    session: Session, rival: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    meanwhile(monkeypatch, lambda: together(rival, Plan(1), Plan(9)))
    outcomes = together(session, Plan(0), Plan(1), Plan(2), Plan(3))
    assert isinstance(outcomes.pop(), Spent)
    found = signals(outcomes)
    assert [(each.step, each.repeated) for each in found] == [(3, False), (1, True), (4, False)]
    assert [each.steps_left for each in found] == [1, 1, 0]
    check_journal(session)


def test_a_set_spent_meanwhile(
    session: Session, rival: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    meanwhile(monkeypatch, lambda: together(rival, *(Plan(errors) for errors in range(4))))
    outcomes = together(session, Plan(7), Plan(2), Plan(8))
    assert [type(each) for each in (outcomes[0], outcomes[2])] == [Spent, Spent]
    assert isinstance(outcomes[1], Signal)
    assert outcomes[1].repeated
    assert len(entries_of(session)) == 4
    assert events(session)["spent"] == 1
    check_journal(session)


def test_a_validation_set_replaced_meanwhile(
    session: Session, rival: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hidden rows were touched, so the answers count, on the set they were measured with."""
    path = session.folder / "other.parquet"
    pq.write_table(rows(session.validation_labels, seed=8), path)
    together(session, Plan(0))
    meanwhile(monkeypatch, lambda: rival.meter.replace_validation(path))
    first, repeated, second = together(session, Plan(1), Plan(0), Plan(2))
    assert isinstance(repeated, Signal)
    assert repeated.repeated
    assert [each.step for each in signals([first, second])] == [2, 3]
    (new,) = signals(together(session, Plan(1)))
    assert (new.step, new.repeated) == (4, False)  # on the new set it is another question
    assert [each.validation_number for each in entries_of(session)] == [1, 1, 1, 2]
    check_journal(session)


def test_a_reset_meanwhile_comes_before_the_first_answer_on_the_new_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An answer on the old set neither uses the reset nor brings it back."""
    session = make_session(tmp_path, small_spec(protocol="incremental", resets=1))
    path = session.folder / "other.parquet"
    pq.write_table(rows(session.validation_labels, seed=8), path)
    meanwhile(monkeypatch, lambda: session.meter.replace_validation(path, reset=True))
    for plan in (Plan(1), Plan(2), Plan(3)):
        together(session, plan)
    found = [(each.validation_number, each.after_reset) for each in entries_of(session)]
    assert found == [(1, False), (2, True), (2, False)]


# --- Large test sets ---


def test_on_a_large_set_each_is_measured_by_itself(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answering, "MANY", 1)
    told = [plan.made(session) for plan in (Plan(0), Plan(1), Plan(2, broken=True), Plan(0))]
    batches: list[int] = []
    usual = answering._tell

    def noted(*given: Any) -> Any:
        batches.append(len(given[2]))
        return usual(*given)

    monkeypatch.setattr(answering, "_tell", noted)
    outcomes = answer_all(SYSTEM, space_of(session), told)
    assert set(batches) == {1}
    assert isinstance(outcomes.pop(2), InvalidInput)
    assert sorted({signal.step for signal in signals(outcomes)}) == [1, 2]
    assert [signal.model for signal in signals(outcomes)] == ["model 0", "model 1", "model 0"]
    assert sorted(signal.repeated for signal in signals(outcomes)) == [False, False, True]
    # Two at the same moment may both enter the one before them: it counts once.
    assert journal_of(session).read() == entries_of(session)
