"""Answering a submission: check, measure, then decide and enter it in one transaction.

The answer leaves after its entry is on disk. What repeats another submission costs nothing:
the same bytes; where test inputs are public, the same predictions in other files; and, where the
sender says so, the same name.
"""

from __future__ import annotations

import hmac
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TypeVar, cast

from easeml_meter.checks import check_name
from easeml_meter.core.history import MeterState, signal_of
from easeml_meter.core.idempotency import KeyedRequest
from easeml_meter.core.lifecycle import Phase
from easeml_meter.core.model import Entry, Event, TestSet, ValidationSet
from easeml_meter.core.submissions import check_note
from easeml_meter.core.views import Signal
from easeml_meter.errors import Denied, MeterError, to_keep
from easeml_meter.service.actor import Actor, Permission, needs
from easeml_meter.service.journal import catch_up, histories_of, reconcile
from easeml_meter.service.place import Workspace
from easeml_meter.service.submissions.deciding import (
    Decisions,
    Draft,
    Known,
    digests_of,
    validation_in_force,
)
from easeml_meter.service.submissions.keeping import (
    Keeping,
    Kept,
    room_of_curve,
    with_curve,
)
from easeml_meter.service.submissions.keyed import Keyed, Keys
from easeml_meter.service.submissions.kinds import (
    Submitted,
    accepted_predictions,
    kept_predictions,
)
from easeml_meter.service.submissions.measuring import (
    USUAL,
    Attempt,
    Conditions,
    Losses,
    Measured,
)
from easeml_meter.service.submissions.waiting import (
    KnownLabels,
    check_free,
    compared_on_demand,
    open_order,
    orders_of,
    read_pending,
    unanswered,
)
from easeml_meter.service.testsets.inputs import inputs_told
from easeml_meter.service.testsets.requests import retire
from easeml_meter.spec import MeterSpec
from easeml_meter.storage.books import Books
from easeml_meter.tables.source import Held
from easeml_meter.vault.keys import fingerprint_key

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
    token: str = ""
    """Id of the token it came with, if that has a pace."""
    pace: int | None = None
    """How many answers the token gets in 24 hours; None: as many as there are."""
    sees_inputs: bool = False
    """Whether its sender may see the test inputs even if they are not public."""
    reports_scores: bool = False
    """Whether its sender may say how good a model is, where the loss is made of scores."""
    once: bool = False
    """Whether the answer to an earlier model of the same name is good enough."""
    note: str = ""
    """What its sender notes on it: no part of what it is, so a repetition keeps the first."""
    link: str = ""
    keyed: Keyed[Signal] | None = None
    """The key that it came with, if any."""

    def __post_init__(self) -> None:
        check_name("model", self.model)
        check_note(self.note, self.link)


def submission_of(
    actor: Actor,
    submitted: Submitted,
    model: str,
    *,
    once: bool = False,
    note: str = "",
    link: str = "",
) -> Submission:
    """Return what an actor, whose permission to submit was checked, submits for its tenant."""
    return Submission(
        submitted,
        model,
        actor.acting_for,
        actor.user,
        actor.token,
        actor.pace,
        sees_inputs=actor.may(Permission.SEE_TEST_INPUTS),
        reports_scores=actor.may(Permission.REPORT_SCORES),
        once=once,
        note=note,
        link=link,
    )


@needs(Permission.SUBMIT)
def answer(
    actor: Actor,
    space: Workspace,
    submitted: Submitted,
    model: str,
    conditions: Conditions = USUAL,
    *,
    once: bool = False,
    note: str = "",
    link: str = "",
) -> Signal:
    """Answer what the actor submits under a model's name, for the actor's tenant.

    Everything that can be wrong with it is found before a label is touched, and costs nothing. An
    identical submission gets the answer it got before, free of charge; `once`: one of the same
    name, too, and its files are not looked at. `note` and `link` are shown with the answer.

    Raises:
        Denied: the loss is made of scores, and the actor may not report any.
        InvalidInput: something is wrong with the files, the name, the note, or the tenant.
        Spent: the test set has no answer left.
        TooSoon: the actor's token has had its answers of a day.
        WrongPhase: there is no test set or no validation set yet.
    """
    submission = submission_of(actor, submitted, model, once=once, note=note, link=link)
    (outcome,) = answer_all(actor, space, [submission], conditions)
    if isinstance(outcome, Exception):
        raise outcome
    return cast(Signal, outcome)  # it came without a key


@needs(Permission.SUBMIT)
def answered_already(actor: Actor, space: Workspace, submission: Submission) -> Signal | None:
    """Return the answer to an earlier model of the same name, if that is good enough.

    Also to the same bytes, once the test set is spent: nothing is queued for it any more, and who
    missed the answer may still hear it. It is in the books, so nothing new is disclosed, and no
    lock is needed.

    Raises:
        Denied: the submission is of a tenant that the actor does not act for.
        InvalidInput: there is no such tenant.
        WrongPhase: there is no test set or no validation set yet.
    """
    with space.reading() as books:
        state = space.state(books)
        if not submission.once and state.current.phase is not Phase.SPENT:
            return None
        test_set, validation = in_use(state, USUAL)
        draft = _drafted(actor, state, submission, test_set, validation)
        draft = _known_by(space, state.spec, draft, _same_bytes(submission))
        known = Known.read(books, test_set, [draft])
        named = known.named(draft)
        entry = named if test_set.phase is Phase.ACTIVE else known.same(draft)
        if entry is None:
            return None
        histories = histories_of(books, state, test_set)
    account, by_name = histories.account(entry.tenant), named is not None
    return signal_of(state, histories.ledger, entry, account, repeated=True, by_name=by_name)


def answered_before(books: Books, space: Workspace, submission: Submission) -> bool:
    """Whether the same bytes were answered before, so that they use no answer."""
    state = space.state(books)
    draft = draft_of(submission, *in_use(state, USUAL))
    draft = _known_by(space, state.spec, draft, _same_bytes(submission))
    return Known.read(books, state.current, [draft]).same(draft) is not None


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

    Each is answered or refused as if it had come just after those before it; its refusal is
    returned, not raised.

    Raises:
        StorageError: the books cannot be used; none of them was answered.
    """
    digests = [_same_bytes(each) for each in submissions]
    with space.asking() as books:
        given = [each.keyed.request for each in submissions if each.keyed is not None]
        # Most are known by this digest; others are asked for again once the meter is known.
        likely = {(each.tenant, d) for each, d in zip(submissions, digests, strict=True) if d}
        books.read_ahead(space.meter or "", state=True, requests=given, submissions=likely)
        keys = Keys.read(books, (each.keyed for each in submissions))
        before = [_each(keys.before, each.keyed) for each in submissions]
        state = space.state(books)
        sets = books.validation.all(state.meter.id) if conditions.reached else []
        try:
            test_set, validation = in_use(state, conditions, sets)
        except MeterError as error:
            return [found or error for found in before]
        drafted = [
            _each(_drafted, actor, state, each, test_set, validation) for each in submissions
        ]
        made = [
            _known_by(space, state.spec, each, digest) if isinstance(each, Draft) else each
            for each, digest in zip(drafted, digests, strict=True)
        ]
        begun = [found or draft for found, draft in zip(before, made, strict=True)]
        known = Known.read(books, test_set, [each for each in begun if isinstance(each, Draft)])
    if state.spec.on_demand and settle(space):
        return answer_all(actor, space, submissions, conditions)
    if len(submissions) > 1 and (test_set.rows or 0) > MANY:
        return _side_by_side(actor, space, submissions, conditions)
    catch_up(space, state, test_set)
    with Measured(space, state.spec, test_set, validation, conditions) as measured:
        # What was answered before is not even opened: rules for files may have changed since then.
        opened = [
            _each(_open, each, submission, measured)
            if isinstance(each, Draft) and known.same(each) is None
            else each
            for submission, each in zip(submissions, begun, strict=True)
        ]
        fresh = [each.draft for each in opened if isinstance(each, Opened)]
        # Budgets before answers: what used up a budget is then among the answers that are known.
        with space.asking() as books:
            books.read_ahead(
                test_set.meter, generation=test_set.number, submissions=digests_of(fresh)
            )
            decisions = Decisions.read(books, state, test_set, fresh, space.clock)
        outcomes = [
            _each(_measure, decisions, each, measured) if isinstance(each, Opened) else each
            for each in opened
        ]
    drafts = [each for each in outcomes if isinstance(each, Draft)]
    keyed = [
        submission.keyed
        for submission, each in zip(submissions, outcomes, strict=True)
        if isinstance(each, Draft)
    ]
    # Older books may hold a test set that is still active though a hand-over has spent it.
    over = test_set.phase is Phase.ACTIVE and decisions.histories.all_spent
    told = iter(_tell(space, test_set, drafts, keyed) if drafts or over else ())
    return [next(told) if isinstance(each, Draft) else each for each in outcomes]


Outcome = Signal | KeyedRequest | Exception
"""An answer, what a key brings back, or a refusal."""

Made = TypeVar("Made")


def _each(make: Callable[..., Made], *arguments: object) -> Made | Exception:
    """Return what is made, or what went wrong: its own sender is told, and the rest go on."""
    try:
        return make(*arguments)
    except MeterError as error:
        return to_keep(error)
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
    if test_set.rows is None:
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
    """A submission that can be read, and its draft without losses."""

    attempt: Attempt
    draft: Draft


def _same_bytes(submission: Submission) -> str | None:
    try:
        return submission.submitted.same_bytes()
    except MeterError:  # files that cannot be read are refused when they are opened
        return None


def open_submission(
    actor: Actor, state: MeterState, submission: Submission, measured: Measured
) -> Opened:
    """Open a submission, which finds everything that is wrong with its files."""
    sets = (measured.generation, measured.validation)
    digest = _same_bytes(submission)
    draft = _drafted(actor, state, submission, *sets)
    return _open(_known_by(measured.space, state.spec, draft, digest), submission, measured)


def _known_by(space: Workspace, spec: MeterSpec, draft: Draft, digest: str | None) -> Draft:
    """Return a draft with the digest of its bytes, if they can be read."""
    if digest is None:
        return draft
    name = _name(space, spec, digest)
    return replace(draft, entry=replace(draft.entry, submission=name), same_bytes=name)


def _drafted(
    actor: Actor,
    state: MeterState,
    submission: Submission,
    test_set: TestSet,
    validation: ValidationSet,
) -> Draft:
    """Return a draft if it is of a team that the actor acts for."""
    draft = draft_of(submission, test_set, validation)
    tenant = state.tenant(draft.entry.tenant)
    if not actor.acts_for(tenant):
        raise Denied(f"team {tenant}: not yours")
    return draft


def draft_of(submission: Submission, test_set: TestSet, validation: ValidationSet) -> Draft:
    """Return the draft of a submission, which nothing is known by until it is read or opened."""
    entry = Entry(
        meter=test_set.meter,
        generation=test_set.number,
        tenant=submission.tenant,
        step=0,
        answer="",
        after_reset=False,
        model=submission.model,
        submission="",
        validation_number=validation.number,
        validation_set=validation.digest,
        validation_loss="",
        blob="",
        told_at="",
        user=submission.user,
        token=submission.token,
        note=submission.note,
        link=submission.link,
    )
    return Draft(entry, once=submission.once, pace=submission.pace)


def _open(draft: Draft, submission: Submission, measured: Measured) -> Opened:
    # Nobody can check a score against a label: a developer could make one up.
    if measured.spec.takes_scores and not submission.reports_scores:
        raise Denied(f"developers may not {Permission.REPORT_SCORES}: a runner submits them")
    sees_inputs = inputs_told(measured.spec, by_role=submission.sees_inputs)
    attempt = submission.submitted.open(measured, sees_inputs=sees_inputs)
    name = _name(measured.space, measured.spec, attempt.identity)
    return Opened(attempt, replace(draft, entry=replace(draft.entry, submission=name)))


def _name(space: Workspace, spec: MeterSpec, digest: str) -> str:
    """Return what a submission of this digest is called in the books and the audit chain.

    Scores are made of labels, and developers read the chain: of a few hundred scores, mostly right,
    the plain digest would give away which are wrong to whoever tries the likely ones.
    """
    if not spec.takes_scores:
        return digest
    key = fingerprint_key(space.identity)
    return hmac.new(key, b"scores " + digest.encode(), "sha256").hexdigest()


def _measure(decisions: Decisions, opened: Opened, measured: Measured) -> Draft:
    """Measure a submission, unless it was answered before or would be refused."""
    attempt, draft = opened.attempt, opened.draft
    if decisions.known.same(draft) is not None:
        return draft
    reached = measured.conditions.reached is not None
    if not reached:
        decisions.state.active()
    decisions.check_budget(draft.entry, reached=reached)
    decisions.check_pace(draft)
    on_demand = measured.spec.on_demand
    if on_demand:
        check_free(measured.space, measured.generation, draft)
    content = attempt.content()
    if content and not reached:  # once hidden rows were touched, nothing is refused any more
        measured.space.check_room(len(content) + room_of_curve(measured.spec, measured.validation))
    entry = draft.entry
    old = decisions.olds.get(entry.tenant)
    kept = Kept.of(entry, attempt.suffix, content) if content else None
    if on_demand and old is not None:
        return _on_demand(replace(draft, kept=kept, old=old.step), attempt, measured, old)
    losses = _losses(attempt, measured, old)
    loss = "" if losses.validation is None else str(losses.validation)
    entry = replace(entry, validation_loss=loss)
    # Drawn now, because the test set is open now; it leaves with the answer, once that is entered.
    first_edge = measured.first_edge(entry)
    return replace(
        draft,
        entry=entry,
        losses=losses,
        first_edge=first_edge,
        kept=kept and with_curve(kept, losses.visible),
        old=0 if old is None else old.step,
    )


def _losses(attempt: Attempt, measured: Measured, old: Entry | None) -> Losses:
    """Measure a submission, beside the old model if the question compares the two.

    The first one, which others will be compared with, is not measured on the hidden rows.
    """
    if not measured.spec.compares:
        return attempt.measure(measured)
    if old is None:
        return Losses(attempt.validation_loss(measured), None)
    before = accepted_predictions(measured, old)
    losses = attempt.measure(measured)
    against = attempt.compare(measured, before)
    return replace(losses, against=against, test=None if against is None else losses.test)


def _on_demand(draft: Draft, attempt: Attempt, measured: Measured, old: Entry) -> Draft:
    """Measure a submission where each step asks for labels, if it need not wait for any.

    Raises:
        Waiting: it has to.
    """
    loss = attempt.validation_loss(measured)
    draft = replace(draft, entry=replace(draft.entry, validation_loss=str(loss)))
    new, before = attempt.predictions["test"], accepted_predictions(measured, old)
    against = compared_on_demand(measured, draft, new, before)
    return replace(draft, losses=Losses(loss, None, against=against))


def settle(space: Workspace) -> bool:
    """Answer a submission that has waited for labels, if they are here; return whether one was.

    It is answered when they arrive. Should the machine stop just then, it is answered before
    anything else is.
    """
    with space.reading() as books:
        state = space.state(books)
        if state.current.phase is not Phase.ACTIVE:
            return False
        test_set = state.current
        orders = orders_of(books, test_set)
        if not orders or open_order(orders) is not None:
            return False
        # The oldest first: each was compared with models that were answered before it.
        waited = [read_pending(space, each).draft for each in orders]
        draft = unanswered(books, test_set, waited)
        if draft is None or draft.kept is None:
            return False
        entry, kept = draft.entry, draft.kept
        given = books.validation.all(state.meter.id)
        old = books.entries.at(test_set.meter, test_set.number, entry.tenant, draft.old)
    if old is None:
        raise AssertionError("the old model was answered before a submission waited")
    validation = next(each for each in given if each.number == entry.validation_number)
    with Measured(space, state.spec, test_set, validation) as measured:
        new = kept_predictions(Held(f"submission{kept.suffix}", kept.content), measured)
        against = KnownLabels.read(space, orders).compared(new, accepted_predictions(measured, old))
    losses = Losses(Fraction(entry.validation_loss), None, against=against)
    (outcome,) = _tell(space, test_set, [replace(draft, losses=losses)], [None])
    if isinstance(outcome, Exception):
        raise outcome
    return True


def _tell(
    space: Workspace,
    test_set: TestSet,
    drafts: Sequence[Draft],
    keyed: Sequence[Keyed[Signal] | None],
) -> list[Outcome]:
    """Enter the answers, commit, add them to the journal, and only then let them leave.

    The lock is held from the first read to the commit, so nothing that is checked here can change.
    `keyed` has the key that each draft came with, if any.
    """
    outcomes: list[Outcome] = []
    fresh: list[Entry] = []
    together = [draft.kept for draft in drafts if draft.kept is not None]
    with Keeping(space, together) as keeping, space.writing() as books:
        names = iter(keeping.names)
        blobs = [next(names) if draft.kept else "" for draft in drafts]
        books.read_ahead(
            test_set.meter,
            state=True,
            requests=[each.request for each in keyed if each is not None],
            generation=test_set.number,
            submissions=digests_of(drafts),
            chain=True,
        )
        state = space.state(books)
        test_set = state.numbered(test_set.number)
        histories, unjournaled = reconcile(space, books, state, test_set)
        decisions = Decisions.read(books, state, test_set, drafts, space.clock, histories=histories)
        keys = Keys.read(books, keyed)
        for draft, key, blob in zip(drafts, keyed, blobs, strict=True):
            try:
                outcome: Outcome | None = keys.before(key)
                if outcome is None:
                    outcome = _decided(decisions, draft, blob, space.now(), fresh)
                    keys.add(key, outcome)
            except MeterError as error:  # nothing is entered for it
                outcome = error
            outcomes.append(outcome)
        with books.entering():
            if fresh:
                _enter(books, decisions, fresh)
            keys.enter(books)
        if test_set.phase is Phase.ACTIVE and decisions.histories.all_spent:
            retire(space, books, state, test_set)
        keeping.wait()
    # The answers are committed and count as given, so a crash from here on loses nothing: the next
    # answer adds their lines to the journal, and the same submission gets the same answer for free.
    # A crash before the commit has charged nothing.
    space.journal(test_set).append([*unjournaled, *fresh], decisions.histories.journaled)
    return outcomes


def _decided(decisions: Decisions, draft: Draft, blob: str, now: str, fresh: list[Entry]) -> Signal:
    """Return the answer to a draft; add its entry to `fresh`, unless it repeats another."""
    by_name = decisions.known.named(draft) is not None
    same = decisions.known.same(draft)
    entry = same or decisions.decide(draft, blob, now)
    if same is None:
        decisions.add(entry)
        fresh.append(entry)
    histories, repeated = decisions.histories, same is not None
    return signal_of(
        decisions.state,
        histories.ledger,
        entry,
        histories.account(entry.tenant),
        repeated=repeated,
        by_name=by_name,
    )


def _enter(books: Books, decisions: Decisions, fresh: Sequence[Entry]) -> None:
    """Write answers, their audit links and the accounts they lead to in one transaction."""
    test_set, histories = decisions.test_set, decisions.histories
    links = [(entry.told_at, Event.TOLD, _disclosed(entry)) for entry in fresh]
    # First: where the chain ends was read ahead, which counts until something is written.
    books.audit.append_all(test_set.meter, links)
    books.entries.add(fresh)
    changed = {entry.tenant: histories.folded[entry.tenant] for entry in fresh}
    books.accounts.put(test_set.meter, test_set.number, changed.values())


def _disclosed(entry: Entry) -> dict[str, object]:
    details: dict[str, object] = {
        "generation": entry.generation,
        "tenant": entry.tenant,
        "step": entry.step,
        "answer": entry.answer,
        "model": entry.model,
        "submission": entry.submission,
    }
    if entry.first_edge:
        details["first_edge"] = entry.first_edge
    if entry.old:
        details["old"] = entry.old
    return details | {"user": entry.user} if entry.user else details
