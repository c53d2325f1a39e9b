"""Answering a submission: check, measure, then decide and enter it in one transaction.

The answer leaves after its entry is on disk. An identical submission costs nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TypeVar

from easeml_meter.checks import check_name
from easeml_meter.core.history import MeterState, signal_of
from easeml_meter.core.lifecycle import Phase
from easeml_meter.core.model import Entry, Event, TestSet, ValidationSet
from easeml_meter.core.views import Signal
from easeml_meter.errors import Denied, MeterError
from easeml_meter.service.actor import Actor, Permission, needs
from easeml_meter.service.journal import reconcile
from easeml_meter.service.place import Workspace
from easeml_meter.service.submissions.deciding import Decisions, validation_in_force
from easeml_meter.service.submissions.keeping import Keeping, Kept
from easeml_meter.service.submissions.kinds import Submitted
from easeml_meter.service.submissions.measuring import USUAL, Attempt, Conditions, Losses, Measured
from easeml_meter.service.testsets.requests import retire
from easeml_meter.storage.books import Books

MANY = 1 << 17
"""Rows of a test set from which on measuring takes longer than everything else."""


@dataclass(frozen=True)
class Submission:
    """What somebody submits under a model's name, for a tenant."""

    submitted: Submitted
    model: str
    tenant: int = 1
    user: str = ""
    """Id of whoever submitted it, where people have accounts."""
    sees_inputs: bool = False
    """Whether its sender may see the test inputs even if they are not public."""

    def __post_init__(self) -> None:
        check_name("model", self.model)


def submission_of(actor: Actor, submitted: Submitted, model: str) -> Submission:
    """Return what an actor, whose permission to submit was checked, submits for its tenant."""
    sees_inputs = actor.may(Permission.SEE_TEST_INPUTS)
    return Submission(submitted, model, actor.acting_for, actor.user, sees_inputs)


@needs(Permission.SUBMIT)
def answer(
    actor: Actor,
    space: Workspace,
    submitted: Submitted,
    model: str,
    conditions: Conditions = USUAL,
) -> Signal:
    """Answer what the actor submits under a model's name, for the actor's tenant.

    Everything that can be wrong with it is found before a label is touched, and costs nothing. An
    identical submission gets the answer it got before, free of charge.

    Raises:
        InvalidInput: something is wrong with the files, the name, or the tenant.
        Spent: the test set has no answer left.
        WrongPhase: there is no test set or no validation set yet.
    """
    submission = submission_of(actor, submitted, model)
    (outcome,) = answer_all(actor, space, [submission], conditions)
    if isinstance(outcome, Exception):
        raise outcome
    return outcome


# Before the lock everything is advice, inside it is law. Measuring may take minutes, and others go
# on writing the books meanwhile: what we read first only saves us from measuring what would be
# refused anyway. `_tell` takes the lock, and reads and checks all of it again.
@needs(Permission.SUBMIT)
def answer_all(
    actor: Actor,
    space: Workspace,
    submissions: Sequence[Submission],
    conditions: Conditions = USUAL,
) -> list[Outcome]:
    """Answer submissions to one meter, one after the other, in one transaction.

    Each is answered or refused as if it had come just after those before it. Only what keeps the
    books from being used is raised: then none of them was answered.
    """
    with space.reading() as books:
        state = space.state(books)
        given = books.validation.all(state.meter.id) if conditions.reached else []
    try:
        test_set, validation = in_use(state, conditions, given)
    except MeterError as error:
        return [error for _ in submissions]
    if len(submissions) > 1 and (test_set.rows or 0) > MANY:
        return _side_by_side(actor, space, submissions, conditions)
    with Measured(space, state.spec, test_set, validation, conditions) as measured:
        opened = [_each(open_submission, actor, state, each, measured) for each in submissions]
        entries = [each.entry for each in opened if isinstance(each, Opened)]
        with space.reading() as books:
            decisions = Decisions.read(books, state, test_set, entries)
        outcomes = [
            _each(_measure, decisions, each, measured) if isinstance(each, Opened) else each
            for each in opened
        ]
    drafts = [each for each in outcomes if isinstance(each, _Draft)]
    # Older books may hold a test set that is still active though a hand-over has spent it.
    over = test_set.phase is Phase.ACTIVE and decisions.histories.all_spent
    told = iter(_tell(space, test_set, drafts) if drafts or over else ())
    return [next(told) if isinstance(each, _Draft) else each for each in outcomes]


Outcome = Signal | Exception

Made = TypeVar("Made")


def _each(make: Callable[..., Made], *arguments: object) -> Made | Exception:
    """Return what is made, or what went wrong: its own sender is told, and the rest go on."""
    try:
        return make(*arguments)
    except Exception as error:
        return error


def in_use(
    state: MeterState, conditions: Conditions, given: Sequence[ValidationSet] = ()
) -> tuple[TestSet, ValidationSet]:
    """Return the test set and the validation set that submissions are measured on."""
    if conditions.reached is not None:
        generation, number = conditions.reached
        return state.numbered(generation), next(each for each in given if each.number == number)
    # A spent set still repeats old answers, for clients that crashed before reading them. So its
    # phase matters only once we know that a submission was not answered before.
    test_set = state.current
    if test_set.phase is Phase.REQUESTED:
        state.active()
    return test_set, validation_in_force(state)


def _side_by_side(
    actor: Actor, space: Workspace, submissions: Sequence[Submission], conditions: Conditions
) -> list[Outcome]:
    """Answer each by itself, several at a time: on a large set, measuring is what takes long."""

    def answered(submission: Submission) -> Outcome:
        # An error stays with its own submission: the others may have been answered already.
        return _each(lambda: answer_all(actor, space, [submission], conditions)[0])

    with ThreadPoolExecutor(min(len(submissions), os.cpu_count() or 1)) as pool:
        return list(pool.map(answered, submissions))


@dataclass(frozen=True)
class Opened:
    """A submission that can be read, and its entry without loss and answer."""

    attempt: Attempt
    entry: Entry


@dataclass(frozen=True)
class _Draft:
    """An entry without its answer, and what the answer follows from."""

    entry: Entry
    losses: Losses | None = None
    """None: it was answered before."""
    kept: Kept | None = None


def open_submission(
    actor: Actor, state: MeterState, submission: Submission, measured: Measured
) -> Opened:
    """Open a submission, which finds everything that is wrong with its files."""
    tenant = state.tenant(submission.tenant)
    if not actor.acts_for(tenant):
        raise Denied(f"team {tenant}: not yours")
    sees_inputs = submission.sees_inputs or state.spec.inputs == "public"
    attempt = submission.submitted.open(measured, sees_inputs=sees_inputs)
    entry = draft_of(submission, measured.generation, measured.validation, attempt.identity)
    return Opened(attempt, entry)


def draft_of(
    submission: Submission, test_set: TestSet, validation: ValidationSet, identity: str = ""
) -> Entry:
    """Return the entry of a submission without loss and answer."""
    return Entry(
        meter=test_set.meter,
        generation=test_set.number,
        tenant=submission.tenant,
        step=0,
        answer="",
        after_reset=False,
        model=submission.model,
        submission=identity,
        validation_number=validation.number,
        validation_set=validation.digest,
        validation_loss="",
        blob="",
        told_at="",
        user=submission.user,
    )


def _measure(decisions: Decisions, opened: Opened, measured: Measured) -> _Draft:
    """Measure a submission, unless it was answered before or would be refused."""
    attempt, entry = opened.attempt, opened.entry
    if decisions.same(entry) is not None:
        return _Draft(entry)
    reached = measured.conditions.reached is not None
    if not reached:
        decisions.state.active()
    decisions.check_budget(entry, reached=reached)
    losses = attempt.measure(measured)
    content = attempt.content()
    kept = Kept(attempt.identity, attempt.suffix, content) if content else None
    loss = "" if losses.validation is None else str(losses.validation)
    return _Draft(replace(entry, validation_loss=loss), losses, kept)


def _tell(space: Workspace, test_set: TestSet, drafts: Sequence[_Draft]) -> list[Outcome]:
    """Enter the answers, commit, add them to the journal, and only then let them leave.

    The lock is held from the first read to the commit, so nothing that is checked here can change.
    """
    outcomes: list[Outcome] = []
    fresh: list[Entry] = []
    together = [draft.kept for draft in drafts if draft.kept is not None]
    with Keeping(space, together) as keeping, space.writing() as books:
        names = iter(keeping.names)
        drafts = [
            replace(draft, entry=replace(draft.entry, blob=next(names))) if draft.kept else draft
            for draft in drafts
        ]
        state = space.state(books)
        test_set = state.numbered(test_set.number)
        histories, unjournaled = reconcile(space, books, state, test_set)
        entries = [draft.entry for draft in drafts]
        decisions = Decisions.read(books, state, test_set, entries, histories)
        for draft in drafts:
            try:
                entry = decisions.same(draft.entry) or decisions.decide(
                    draft.entry, draft.losses, space.now()
                )
            except MeterError as error:  # nothing is entered for it
                outcomes.append(error)
                continue
            repeated = decisions.same(entry) is not None
            if not repeated:
                decisions.add(entry)
                fresh.append(entry)
            account = decisions.histories.account(entry.tenant)
            ledger = decisions.histories.ledger
            outcomes.append(signal_of(state, ledger, entry, account, repeated=repeated))
        if fresh:
            _enter(books, decisions, fresh)
        if test_set.phase is Phase.ACTIVE and decisions.histories.all_spent:
            retire(space, books, state, test_set)
        keeping.wait()
    # The answers are committed and count as given, so a crash from here on loses nothing: the next
    # answer adds their lines to the journal, and the same submission gets the same answer for free.
    # A crash before the commit has charged nothing.
    space.journal(test_set).append([*unjournaled, *fresh], decisions.histories.answers)
    return outcomes


def _enter(books: Books, decisions: Decisions, fresh: Sequence[Entry]) -> None:
    """Write answers, their audit links and the accounts they lead to in one transaction."""
    test_set, histories = decisions.test_set, decisions.histories
    books.entries.add(fresh)
    changed = {entry.tenant: histories.folded[entry.tenant] for entry in fresh}
    books.accounts.put(test_set.meter, test_set.number, changed.values())
    links = [(entry.told_at, Event.TOLD, _disclosed(entry)) for entry in fresh]
    books.audit.append_all(test_set.meter, links)


def _disclosed(entry: Entry) -> dict[str, object]:
    details: dict[str, object] = {
        "generation": entry.generation,
        "tenant": entry.tenant,
        "step": entry.step,
        "answer": entry.answer,
        "model": entry.model,
        "submission": entry.submission,
    }
    return details | {"user": entry.user} if entry.user else details
