"""Answering a submission: check, measure, then decide and enter it in one transaction.

The answer leaves after its entry is on disk. An identical submission costs nothing.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from easeml_meter.checks import check_name
from easeml_meter.core.history import MeterState, ledger_of, replay, signal_of
from easeml_meter.core.ledger import Account, Ledger
from easeml_meter.core.lifecycle import Phase
from easeml_meter.core.model import Entry, Event, HandOver, TestSet, ValidationSet
from easeml_meter.core.signals import NO_READING, name_of
from easeml_meter.core.views import Signal
from easeml_meter.errors import MeterError, Spent, WrongPhase
from easeml_meter.service.journal import reconcile
from easeml_meter.service.place import Workspace
from easeml_meter.service.submissions.keeping import Keeping, Kept
from easeml_meter.service.submissions.kinds import Submitted
from easeml_meter.service.submissions.measuring import USUAL, Conditions, Losses, Measured
from easeml_meter.service.testsets.requests import retire
from easeml_meter.storage.books import Books
from easeml_meter.storage.books.audit import Noted

MANY = 1 << 17
"""Rows of a test set from which on measuring takes longer than all else."""


@dataclass(frozen=True)
class Submission:
    """What a developer hands in, under a name."""

    submitted: Submitted
    model: str
    tenant: int = 1
    user: str = ""
    """Id of whoever handed it in, where people have one."""

    def __post_init__(self) -> None:
        check_name("model", self.model)


def submit(space: Workspace, submission: Submission, conditions: Conditions = USUAL) -> Signal:
    """Answer a submission.

    Everything that can be wrong with it is found before a label is touched, and costs nothing. An
    identical submission gets the answer it got before, free of charge.
    """
    (outcome,) = submit_all(space, [submission], conditions)
    if isinstance(outcome, Exception):
        raise outcome
    return outcome


def submit_all(
    space: Workspace, submissions: Sequence[Submission], conditions: Conditions = USUAL
) -> list[Outcome]:
    """Answer submissions to one meter, one after the other, in one transaction.

    Each is answered or refused as if it had come just after those before it. Only what keeps the
    books from being used is raised: then none of them was answered.
    """
    with space.reading() as books:
        situation = space.state(books)
        # A spent set still repeats what it told, for whom a crash kept from hearing it.
        generation = situation.current
        try:
            if generation.phase is Phase.REQUESTED:
                situation.active()
            validation = _validation_of(situation)
        except MeterError as error:
            return [error for _ in submissions]
        entries = books.entries.all(generation.meter, generation.number)
        handovers = _handovers(situation, books, generation)
    if len(submissions) > 1 and (generation.rows or 0) > MANY:
        return _side_by_side(space, submissions, conditions)
    session = _Session(situation, generation, entries, handovers)
    outcomes: list[_Draft | Outcome] = []
    with Measured(space, situation.spec, generation, validation, conditions) as measured:
        for submission in submissions:
            try:
                outcomes.append(_measure(session, submission, measured))
            except Exception as error:  # is told to whom it concerns
                outcomes.append(error)
    drafts = [each for each in outcomes if isinstance(each, _Draft)]
    told = iter(_tell(space, generation, drafts, entries) if drafts else ())
    return [next(told) if isinstance(each, _Draft) else each for each in outcomes]


Outcome = Signal | Exception


def _side_by_side(
    space: Workspace, submissions: Sequence[Submission], conditions: Conditions
) -> list[Outcome]:
    """Answer each by itself, several at a time: where measuring takes long, that is what counts."""

    def answered(submission: Submission) -> Outcome:
        try:
            return submit(space, submission, conditions)
        except Exception as error:  # is told to whom it concerns
            return error

    with ThreadPoolExecutor(min(len(submissions), os.cpu_count() or 1)) as pool:
        return list(pool.map(answered, submissions))


class _Session:
    """What the books say, and what is added to them.

    Looking through a long history takes time, so that is done once, not for each submission.
    """

    def __init__(
        self,
        situation: MeterState,
        generation: TestSet,
        entries: Sequence[Entry],
        handovers: Sequence[HandOver],
    ) -> None:
        self.situation = situation
        self.generation = generation
        self.entries = list(entries)
        self.handovers = handovers
        self._submitted = {entry.submission for entry in entries}
        self._steps: dict[int, int] = {}
        self._accounts: dict[int, Account] = {}

    def add(self, entry: Entry, account: Account) -> None:
        """Take an entry that follows those before, and what its tenant was told with it."""
        self.entries.append(entry)
        self._submitted.add(entry.submission)
        self._steps[entry.tenant] = entry.step
        if self.handovers:  # the accounts of others may have changed, too
            self._accounts.clear()
        else:
            self._accounts[entry.tenant] = account

    def same(self, draft: Entry) -> Entry | None:
        """Find the entry of an identical submission: the same bytes, the same validation set."""
        if draft.submission not in self._submitted:
            return None
        wanted = (draft.submission, draft.tenant, draft.validation_set)
        for entry in self.entries:
            if (entry.submission, entry.tenant, entry.validation_set) == wanted:
                return entry
        return None

    def next_step(self, tenant: int) -> int:
        """Give the number of a tenant's next step."""
        if tenant not in self._steps:
            own = (entry.step for entry in self.entries if entry.tenant == tenant)
            self._steps[tenant] = max(own, default=0)
        return 1 + self._steps[tenant]

    @property
    def ledger(self) -> Ledger:
        """The budget of the test set."""
        return ledger_of(self.situation.spec, self.generation)

    def account(self, tenant: int) -> Account:
        """Give what a tenant was told so far."""
        if tenant not in self._accounts:
            folded = replay(self.ledger, self.entries, tenant, self.handovers)
            self._accounts[tenant] = folded
        return self._accounts[tenant]


@dataclass(frozen=True)
class _Draft:
    """An entry but for its answer, and what that follows from."""

    entry: Entry
    losses: Losses | None = None
    """None: it was answered before."""
    kept: Kept | None = None


def _measure(session: _Session, submission: Submission, measured: Measured) -> _Draft:
    situation, generation = session.situation, session.generation
    tenant = situation.tenant(submission.tenant)
    attempt = submission.submitted.open(measured)
    entry = Entry(
        meter=generation.meter,
        generation=generation.number,
        tenant=tenant,
        step=0,
        answer="",
        after_reset=False,
        model=submission.model,
        submission=attempt.identity,
        validation_number=measured.validation.number,
        validation_set=measured.validation.digest,
        validation_loss="",
        blob="",
        told_at="",
        user=submission.user,
    )
    if session.same(entry) is not None:
        return _Draft(entry)
    situation.active()
    account, _ = _ready(session, tenant)
    if not session.ledger.may_submit(account):
        raise _spent(situation, generation)
    losses = attempt.measure(measured)
    entry = replace(entry, validation_loss=str(losses.validation))
    content = attempt.content()
    kept = Kept(attempt.identity, attempt.suffix, content) if content else None
    return _Draft(entry, losses, kept)


def _validation_of(situation: MeterState) -> ValidationSet:
    if situation.validation is None:
        raise WrongPhase("no validation set yet: give one with meter validation set")
    return situation.validation


def _handovers(situation: MeterState, books: Books, generation: TestSet) -> list[HandOver]:
    """Give the hand-overs; where there is only one tenant there are none."""
    if situation.tenants == 1:
        return []
    return books.handovers.all(generation.meter, generation.number)


def _tell(
    space: Workspace, generation: TestSet, drafts: Sequence[_Draft], seen: list[Entry]
) -> list[Outcome]:
    """Enter the answers and commit; only then give them out. `seen` are the entries read before.

    Between reading and writing the books nobody else writes them, so what is checked here holds.
    """
    outcomes: list[Outcome] = []
    fresh: list[Entry] = []
    disclosed: list[Noted] = []
    together = [draft.kept for draft in drafts if draft.kept is not None]
    with Keeping(space, together) as keeping, space.writing() as books:
        names = iter(keeping.names)
        drafts = [
            replace(draft, entry=replace(draft.entry, blob=next(names))) if draft.kept else draft
            for draft in drafts
        ]
        situation = space.state(books)
        generation = _generation(situation, generation.number)
        entries, unjournaled = reconcile(space, books, generation, seen)
        handovers = _handovers(situation, books, generation)
        session = _Session(situation, generation, entries, handovers)
        for draft in drafts:
            try:
                entry, account = _decide(session, draft, space.now())
            except MeterError as error:  # nothing is entered for it
                outcomes.append(error)
                continue
            repeated = session.same(entry) is not None
            outcomes.append(signal_of(situation, session.ledger, entry, account, repeated=repeated))
            if not repeated:
                session.add(entry, account)
                fresh.append(entry)
                disclosed.append((entry.told_at, Event.TOLD, _disclosed(entry)))
        if fresh:
            books.entries.add(fresh)
            books.audit.append_all(generation.meter, disclosed)
            if _all_spent(session):
                retire(space, books, situation, generation)
        keeping.wait()
    space.journal(generation).append([*unjournaled, *fresh])
    return outcomes


def _decide(session: _Session, draft: _Draft, now: str) -> tuple[Entry, Account]:
    """Find the answer to a submission, after all that was told before it: a new entry, or its own.

    With it comes what its tenant was told then.
    """
    situation, generation, ledger = session.situation, session.generation, session.ledger
    known = session.same(draft.entry)
    if known is not None:
        return known, session.account(known.tenant)
    if draft.losses is None or generation.phase is not Phase.ACTIVE:
        raise _spent(situation, generation)
    if _validation_of(situation).number != draft.entry.validation_number:
        raise MeterError("the validation set was replaced meanwhile: submit again")
    account, reset = _ready(session, draft.entry.tenant)
    if not ledger.may_submit(account):
        raise _spent(situation, generation)
    answer = _answer(ledger, account, draft.losses)
    entry = replace(
        draft.entry,
        step=session.next_step(draft.entry.tenant),
        answer=name_of(answer),
        after_reset=reset,
        told_at=now,
    )
    return entry, ledger.record(account, answer)


def _answer(ledger: Ledger, account: Account, losses: Losses) -> int:
    """Apply the rules to the losses, after the history that the lock holds still."""
    if losses.test is None:
        return NO_READING
    return ledger.rules.answer(account.state, losses.validation, losses.test)


def _ready(session: _Session, tenant: int) -> tuple[Account, bool]:
    """Carry out a reset that is due, before asking what is affordable: it makes answers dearer.

    It is due if the validation set came with one and no answer has followed yet; a later test set
    starts afresh anyway.
    """
    account, validation = session.account(tenant), session.situation.validation
    due = (
        validation is not None
        and validation.settings.get("reset", False)
        and validation.settings.get("generation") == session.situation.current.number
    )
    if due and validation is not None:
        due = not any(
            (entry.tenant, entry.validation_number) == (account.tenant, validation.number)
            for entry in session.entries
        )
    return (session.ledger.reset(account), True) if due else (account, False)


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


def _generation(situation: MeterState, number: int) -> TestSet:
    return next(row for row in situation.generations if row.number == number)


def _all_spent(session: _Session) -> bool:
    tenants = range(1, session.situation.tenants + 1)
    return not any(session.ledger.may_submit(session.account(tenant)) for tenant in tenants)


def _spent(situation: MeterState, generation: TestSet) -> Spent:
    labels = situation.plan.labels
    return Spent(
        f"test set {generation.number} has no answer left for this tenant: a fresh one of "
        f"{labels:,} labels is needed"
    )
