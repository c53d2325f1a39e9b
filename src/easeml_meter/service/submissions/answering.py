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
from easeml_meter.core.history import Histories, MeterState, signal_of
from easeml_meter.core.ledger import Account, Ledger
from easeml_meter.core.lifecycle import Phase
from easeml_meter.core.model import Entry, Event, TestSet, ValidationSet
from easeml_meter.core.signals import NO_READING, name_of
from easeml_meter.core.views import Signal
from easeml_meter.errors import Denied, MeterError, Spent, WrongPhase
from easeml_meter.service.actor import Actor, Permission, needs
from easeml_meter.service.journal import histories_of, reconcile
from easeml_meter.service.place import Workspace
from easeml_meter.service.submissions.keeping import Keeping, Kept
from easeml_meter.service.submissions.kinds import Submitted
from easeml_meter.service.submissions.measuring import USUAL, Attempt, Conditions, Losses, Measured
from easeml_meter.service.testsets.requests import retire
from easeml_meter.storage.books import Books

MANY = 1 << 17
"""Rows of a test set from which on measuring takes longer than all else."""


@dataclass(frozen=True)
class Submission:
    """What somebody submits under a model's name, for a tenant."""

    submitted: Submitted
    model: str
    tenant: int = 1
    user: str = ""
    """Id of whoever submitted it, where people have accounts."""

    def __post_init__(self) -> None:
        check_name("model", self.model)


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
    submission = Submission(submitted, model, actor.tenant or 1, actor.user)
    (outcome,) = answer_all(actor, space, [submission], conditions)
    if isinstance(outcome, Exception):
        raise outcome
    return outcome


# Before the lock everything is advice, inside it is law. Measuring may take minutes, so it is done
# on books that others go on writing: what is read then only spares work that would be refused
# anyway. Under the lock, in `_tell`, all of it is read and checked again.
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
    try:
        test_set, validation = _in_use(state)
    except MeterError as error:
        return [error for _ in submissions]
    if len(submissions) > 1 and (test_set.rows or 0) > MANY:
        return _side_by_side(actor, space, submissions, conditions)
    with Measured(space, state.spec, test_set, validation, conditions) as measured:
        opened = [_each(_open, actor, state, each, measured) for each in submissions]
        entries = [each.entry for each in opened if isinstance(each, _Opened)]
        with space.reading() as books:
            session = _Session.read(books, state, test_set, entries)
        outcomes = [
            _each(_measure, session, each, measured) if isinstance(each, _Opened) else each
            for each in opened
        ]
    drafts = [each for each in outcomes if isinstance(each, _Draft)]
    told = iter(_tell(space, test_set, drafts) if drafts else ())
    return [next(told) if isinstance(each, _Draft) else each for each in outcomes]


Outcome = Signal | Exception

Made = TypeVar("Made")


def _each(make: Callable[..., Made], *arguments: object) -> Made | Exception:
    """Return what is made, or what went wrong: that goes to its own sender, and the rest go on."""
    try:
        return make(*arguments)
    except Exception as error:
        return error


def _in_use(state: MeterState) -> tuple[TestSet, ValidationSet]:
    """Return the test set and the validation set that submissions are measured on."""
    # A spent set still repeats old answers, for clients that crashed before reading them. So the
    # phase is not looked at before it is known whether a submission was answered before.
    test_set = state.current
    if test_set.phase is Phase.REQUESTED:
        state.active()
    return test_set, _validation_of(state)


def _side_by_side(
    actor: Actor, space: Workspace, submissions: Sequence[Submission], conditions: Conditions
) -> list[Outcome]:
    """Answer each by itself, several at a time: where measuring takes long, that is what counts."""

    def answered(submission: Submission) -> Outcome:
        # Also what is raised is its own: the others may have been answered, and must hear it.
        return _each(lambda: answer_all(actor, space, [submission], conditions)[0])

    with ThreadPoolExecutor(min(len(submissions), os.cpu_count() or 1)) as pool:
        return list(pool.map(answered, submissions))


@dataclass
class _Session:
    """The books as one transaction sees them, and what is answered on top of them."""

    state: MeterState
    test_set: TestSet
    histories: Histories
    answered: dict[_Identity, Entry]
    """The entries of submissions that were answered before."""
    resets_due: set[int]
    """Tenants whose next answer follows a reset of the running maximum."""

    @classmethod
    def read(
        cls,
        books: Books,
        state: MeterState,
        test_set: TestSet,
        entries: Sequence[Entry],
        histories: Histories | None = None,
    ) -> _Session:
        """Read what the books say of these entries, which have no answer yet."""
        tenants = {entry.tenant for entry in entries}
        digests = {entry.submission for entry in entries}
        known = books.entries.of_submissions(test_set.meter, test_set.number, tenants, digests)
        return cls(
            state,
            test_set,
            histories or histories_of(books, state, test_set),
            {_identity(entry): entry for entry in known},
            {tenant for tenant in tenants if _reset_due(books, state, test_set, tenant)},
        )

    def add(self, entry: Entry) -> None:
        """Take an answer that follows those before."""
        self.histories = self.histories.after(entry)
        self.answered[_identity(entry)] = entry
        self.resets_due.discard(entry.tenant)

    def same(self, draft: Entry) -> Entry | None:
        """Find the entry of an identical submission: the same bytes, the same validation set."""
        return self.answered.get(_identity(draft))

    def account(self, tenant: int) -> Account:
        """Return what a tenant was told so far, after a reset that is due.

        A reset makes answers dearer, so it comes before asking what is affordable.
        """
        account = self.histories.account(tenant)
        return self.histories.ledger.reset(account) if tenant in self.resets_due else account


_Identity = tuple[int, str, str]


def _identity(entry: Entry) -> _Identity:
    return entry.tenant, entry.submission, entry.validation_set


def _reset_due(books: Books, state: MeterState, test_set: TestSet, tenant: int) -> bool:
    """Whether the validation set came with a reset, and no answer of the tenant has followed yet.

    A later test set starts afresh anyway. Validation sets only ever replace older ones, so the
    last answer says whether any was measured on the newest.
    """
    newest = state.validation
    if newest is None or not newest.settings.get("reset", False):
        return False
    if newest.settings.get("generation") != state.current.number:
        return False
    last = books.entries.last(test_set.meter, test_set.number, tenant)
    return last is None or last.validation_number != newest.number


@dataclass(frozen=True)
class _Opened:
    """A submission that can be read, and its entry but for the loss and the answer."""

    attempt: Attempt
    entry: Entry


@dataclass(frozen=True)
class _Draft:
    """An entry but for its answer, and what that follows from."""

    entry: Entry
    losses: Losses | None = None
    """None: it was answered before."""
    kept: Kept | None = None


def _open(actor: Actor, state: MeterState, submission: Submission, measured: Measured) -> _Opened:
    """Find everything that is wrong with a submission itself."""
    tenant = state.tenant(submission.tenant)
    if not actor.acts_for(tenant):
        raise Denied(f"tenant {tenant}: not yours")
    attempt = submission.submitted.open(measured)
    entry = Entry(
        meter=measured.generation.meter,
        generation=measured.generation.number,
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
    return _Opened(attempt, entry)


def _measure(session: _Session, opened: _Opened, measured: Measured) -> _Draft:
    """Measure a submission, unless it was answered before or would be refused."""
    attempt, entry = opened.attempt, opened.entry
    if session.same(entry) is not None:
        return _Draft(entry)
    session.state.active()
    if not session.histories.ledger.may_submit(session.account(entry.tenant)):
        raise _spent(session)
    losses = attempt.measure(measured)
    content = attempt.content()
    kept = Kept(attempt.identity, attempt.suffix, content) if content else None
    return _Draft(replace(entry, validation_loss=str(losses.validation)), losses, kept)


def _validation_of(state: MeterState) -> ValidationSet:
    if state.validation is None:
        raise WrongPhase("no validation set yet: give one with meter validation set")
    return state.validation


def _tell(space: Workspace, test_set: TestSet, drafts: Sequence[_Draft]) -> list[Outcome]:
    """Enter the answers and commit; only then give them out.

    Between reading and writing the books nobody else writes them, so what is checked here holds.
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
        session = _Session.read(books, state, test_set, entries, histories)
        for draft in drafts:
            try:
                entry = session.same(draft.entry) or _decide(session, draft, space.now())
            except MeterError as error:  # nothing is entered for it
                outcomes.append(error)
                continue
            repeated = session.same(entry) is not None
            if not repeated:
                session.add(entry)
                fresh.append(entry)
            account = session.histories.account(entry.tenant)
            ledger = session.histories.ledger
            outcomes.append(signal_of(state, ledger, entry, account, repeated=repeated))
        if fresh:
            _enter(space, books, session, fresh)
        keeping.wait()
    # Committed: from here on the answers are told, whatever happens. A crash before the commit has
    # charged nothing. After it, an identical submission gets the answer from the books for free;
    # lines that are missing from the journal are added with the next answer.
    space.journal(test_set).append([*unjournaled, *fresh], session.histories.answers)
    return outcomes


def _enter(space: Workspace, books: Books, session: _Session, fresh: Sequence[Entry]) -> None:
    """Write answers, their audit links and the accounts they lead to in one transaction."""
    test_set, histories = session.test_set, session.histories
    books.entries.add(fresh)
    changed = {entry.tenant: histories.folded[entry.tenant] for entry in fresh}
    books.accounts.put(test_set.meter, test_set.number, changed.values())
    links = [(entry.told_at, Event.TOLD, _disclosed(entry)) for entry in fresh]
    books.audit.append_all(test_set.meter, links)
    if histories.all_spent:
        retire(space, books, session.state, test_set)


def _decide(session: _Session, draft: _Draft, now: str) -> Entry:
    """Find the answer to a submission, after all that was told before it."""
    histories, entry = session.histories, draft.entry
    if draft.losses is None or session.test_set.phase is not Phase.ACTIVE:
        raise _spent(session)
    if _validation_of(session.state).number != entry.validation_number:
        raise MeterError("the validation set was replaced meanwhile: submit again")
    account = session.account(entry.tenant)
    if not histories.ledger.may_submit(account):
        raise _spent(session)
    return replace(
        entry,
        step=histories.folded[entry.tenant].step + 1,
        answer=name_of(_answer(histories.ledger, account, draft.losses)),
        after_reset=entry.tenant in session.resets_due,
        told_at=now,
    )


def _answer(ledger: Ledger, account: Account, losses: Losses) -> int:
    """Apply the rules to the losses, after the history that the lock holds still."""
    if losses.test is None:
        return NO_READING
    return ledger.rules.answer(account.state, losses.validation, losses.test)


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


def _spent(session: _Session) -> Spent:
    labels = session.state.plan.labels
    return Spent(
        f"test set {session.test_set.number} has no answer left for this tenant: a fresh one of "
        f"{labels:,} labels is needed"
    )
