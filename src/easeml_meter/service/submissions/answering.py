"""Answering a submission: check, measure, then decide and enter it in one transaction.

The answer leaves after its entry is on disk. What repeats another submission costs nothing: the
same model or predictions, as `kinds` knows them; the same name, where the sender says so; and only
that for what a runner makes of hidden rows at a server, which is charged even if it is broken.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TypedDict, Unpack

from easeml_meter.checks import check_name
from easeml_meter.core.history import Histories, MeterState, signal_of
from easeml_meter.core.lifecycle import Phase
from easeml_meter.core.model import Entry, Event, TestSet, ValidationSet
from easeml_meter.core.submissions import check_note
from easeml_meter.core.views import Signal
from easeml_meter.errors import Denied, MeterError, Spent, WrongPhase, invalid, to_keep
from easeml_meter.service.actor import Actor, Permission, needs
from easeml_meter.service.journal import catch_up, histories_of, reconcile
from easeml_meter.service.place import Workspace
from easeml_meter.service.submissions.deciding import (
    Decisions,
    Draft,
    Known,
    validation_in_force,
)
from easeml_meter.service.submissions.kinds import (
    PredictionFiles,
    Submitted,
    accepted_predictions,
    kept_predictions,
    made_of_hidden,
)
from easeml_meter.service.submissions.measuring import (
    USUAL,
    Attempt,
    Conditions,
    Keeping,
    Kept,
    Losses,
    Measured,
    digest_of,
    room_of_curve,
    with_curve,
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
from easeml_meter.service.testsets.requests import retire, settled
from easeml_meter.spec import MeterSpec
from easeml_meter.storage.books import Books
from easeml_meter.vault.keys import fingerprint_key


@dataclass(frozen=True)
class Seen:
    """The sets that a sender takes to be in use; None: whichever are.

    Another test set, or another validation set, makes the same files another submission, which is
    charged. So a submission that is repeated because its answer was lost names those that it was
    first sent for.
    """

    test_set: int | None = None
    validation_set: int | None = None


IN_USE = Seen()


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
    baseline: bool = False
    """Whether its sender says that others are compared with it from now on."""
    note: str = ""
    """What its sender notes on it: no part of what it is, so a repetition keeps the first."""
    link: str = ""
    seen: Seen = IN_USE

    def __post_init__(self) -> None:
        check_name("model", self.model)
        check_note(self.note, self.link)


class Said(TypedDict, total=False):
    """What a sender may say of a submission, as `Submission` has it."""

    once: bool
    baseline: bool
    note: str
    link: str
    seen: Seen


def submission_of(
    actor: Actor, submitted: Submitted, model: str, **said: Unpack[Said]
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
        **said,
    )


# Before the lock everything is advice, inside it is law. Measuring may take minutes, and others go
# on writing the books meanwhile: what we read first only saves us from measuring what would be
# refused anyway. `_tell` takes the lock, and reads and checks all of it again.
@needs(Permission.SUBMIT)
def answer(
    actor: Actor,
    space: Workspace,
    submitted: Submitted,
    model: str,
    conditions: Conditions = USUAL,
    **said: Unpack[Said],
) -> Signal:
    """Answer what the actor submits under a model's name, for the actor's tenant.

    Everything that can be wrong with it is found before a label is touched, and costs nothing; but
    what a runner made of hidden rows is answered, and charged, whatever is wrong with it. An
    identical submission gets the answer it got before, free of charge; `once`: one of the same
    name, too, and its files are not looked at. `baseline`: others are compared with it from now
    on. `note` and `link` are shown with the answer.

    Raises:
        Denied: the loss is made of scores, and the actor may not report any.
        InvalidInput: something is wrong with the files, the name, the note, or the tenant.
        Spent: the test set has no answer left.
        TooSoon: the actor's token has had its answers of a day.
        WrongPhase: there is no test set or no validation set yet, or `seen` are not in use.
    """
    submission = submission_of(actor, submitted, model, **said)
    advice = Advice.read(actor, space, submission, conditions)
    while advice.state.spec.meter.sample.orders_labels and settle(space):
        advice = Advice.read(actor, space, submission, conditions)
    state, test_set, draft = advice.state, advice.test_set, advice.draft
    catch_up(space, state, test_set)
    # What was answered before is not even opened: rules for files may have changed since then.
    if advice.known.same is None:
        with Measured(space, state.spec, test_set, advice.validation, conditions) as measured:
            attempt, draft = _open(draft, submission, measured)
            with space.asking() as books:
                decisions = Decisions.read(books, state, test_set, draft, space.clock)
            if decisions.known.same is None:
                check_in_use(state, test_set, advice.validation, conditions)
                try:
                    draft = _measure(decisions, attempt, draft, measured)
                except Spent:
                    # Older books may hold a test set as active though a hand-over has spent it.
                    if decisions.histories.all_spent:
                        with space.writing() as books:
                            settled(space, books, space.state(books))
                    raise
    return _tell(space, test_set, draft)


@dataclass(frozen=True)
class Advice:
    """What the books say of a submission before the lock is taken."""

    state: MeterState
    test_set: TestSet
    validation: ValidationSet
    draft: Draft
    known: Known

    @classmethod
    def read(
        cls,
        actor: Actor,
        space: Workspace,
        submission: Submission,
        conditions: Conditions = USUAL,
    ) -> Advice:
        """Read it."""
        digest = _same_bytes(submission)  # before the books: files may be large
        with space.asking() as books:
            state = space.state(books)
            on = sets_of(books, state, submission.seen, conditions)
            drafted = _drafted(actor, state, submission, *on)
            draft = _known_by(space, state.spec, submission, drafted, digest)
            return cls(state, *on, draft, Known.read(books, draft))

    def answered(self, space: Workspace) -> Signal | None:
        """Return the answer to a model that need not be queued; None: it must be.

        To one of the same name, if that is good enough; and to the same bytes on sets that answer
        nothing new, for whoever missed the answer. It is in the books, so nothing new is disclosed.
        """
        state, test_set, known = self.state, self.test_set, self.known
        now = in_use(state) == (test_set, self.validation) and test_set.phase is Phase.ACTIVE
        entry = known.by_name if now else known.same
        if entry is None:
            check_in_use(state, test_set, self.validation)
            return None
        with space.reading() as books:
            histories = histories_of(books, state, test_set)
        at, by_name = histories.at(entry.tenant), entry is known.by_name
        return signal_of(state, histories.on, entry, at, repeated=True, by_name=by_name)


def sets_of(
    books: Books, state: MeterState, seen: Seen, conditions: Conditions
) -> tuple[TestSet, ValidationSet]:
    """Return the test set and the validation set that a submission is about."""
    reached = conditions.reached
    if reached is None and seen == IN_USE:
        return in_use(state)
    generation, number = reached or (seen.test_set, seen.validation_set)
    test_sets = {each.number: each for each in state.generations if each.rows is not None}
    given = {each.number: each for each in books.validation.all(state.meter.id)}
    test_set = test_sets.get(generation or state.current.number)
    validation = given.get(number or max(given, default=0))
    if test_set is None or validation is None:
        in_use(state)  # says what is missing
        raise _other_sets(state)
    return test_set, validation


def in_use(state: MeterState) -> tuple[TestSet, ValidationSet]:
    """Return the test set and the validation set that submissions are measured on."""
    # A spent set still repeats old answers, for clients that crashed before reading them. So its
    # phase matters only once we know that a submission was not answered before.
    test_set = state.current
    if test_set.rows is None:
        state.active()
    return test_set, validation_in_force(state)


def check_in_use(
    state: MeterState, test_set: TestSet, validation: ValidationSet, conditions: Conditions = USUAL
) -> None:
    """Refuse what is not measured: it costs nothing."""
    if conditions.reached is not None:  # it was let in before it ran on hidden rows
        return
    current, newest = in_use(state)
    if (test_set.number, validation.number) != (current.number, newest.number):
        raise _other_sets(state)
    state.active()


def _other_sets(state: MeterState) -> WrongPhase:
    test_set, validation = in_use(state)
    return WrongPhase(
        f"test set {test_set.number} and validation set {validation.number} are in use now, not "
        "those that this was sent for: nothing was charged; submit again for an answer on them"
    )


def answered_before(books: Books, space: Workspace, submission: Submission) -> bool:
    """Whether the same bytes were answered before, so that they use no answer."""
    state = space.state(books)
    draft = draft_of(submission, *in_use(state))
    draft = _known_by(space, state.spec, submission, draft, _same_bytes(submission))
    return Known.read(books, draft).same is not None


def _same_bytes(submission: Submission) -> str | None:
    try:
        return submission.submitted.same_bytes()
    except MeterError:  # files that cannot be read are refused when they are opened
        return None


def open_submission(
    actor: Actor, state: MeterState, submission: Submission, measured: Measured
) -> tuple[Attempt, Draft]:
    """Open a submission, which finds everything that is wrong with its files."""
    draft = _drafted(actor, state, submission, measured.generation, measured.validation)
    draft = _known_by(measured.space, state.spec, submission, draft, None)
    return _open(draft, submission, measured)


def known_by_name(space: Workspace, spec: MeterSpec, submission: Submission) -> bool:
    """Whether a submission is known by its model's name alone, whatever is in its files.

    A runner makes them of hidden inputs or labels. If the same contents were free, a candidate
    that fails only on inputs with X would tell, for free, whether X is among them.
    """
    hidden = made_of_hidden(space, spec, sees_inputs=submission.sees_inputs)
    return hidden and isinstance(submission.submitted, PredictionFiles)


def _known_by(
    space: Workspace, spec: MeterSpec, submission: Submission, draft: Draft, digest: str | None
) -> Draft:
    """Return a draft with what it is known by, as far as its files need not be opened for that."""
    if known_by_name(space, spec, submission):
        name = digest_of(f"name|{submission.model}")
        return replace(draft, entry=replace(draft.entry, submission=name), once=True)
    if digest is None or (
        isinstance(submission.submitted, PredictionFiles)
        and submission.submitted.by_content(space, spec)
    ):
        return draft
    return replace(draft, entry=replace(draft.entry, submission=digest))


def _drafted(
    actor: Actor,
    state: MeterState,
    submission: Submission,
    test_set: TestSet,
    validation: ValidationSet,
) -> Draft:
    draft = draft_of(submission, test_set, validation)
    tenant = state.tenant(draft.entry.tenant)
    if not actor.acts_for(tenant):
        raise Denied(f"team {tenant}: not yours")
    if submission.baseline and not state.spec.meter.compares:
        raise invalid("baseline", submission.model, "no such flag: this meter compares no models")
    return draft


def draft_of(submission: Submission, test_set: TestSet, validation: ValidationSet) -> Draft:
    """Return the draft of a submission, which nothing is known by until it is read or opened."""
    entry = Entry(
        meter=test_set.meter,
        generation=test_set.number,
        tenant=submission.tenant,
        step=0,
        answer="",
        model=submission.model,
        submission="",
        validation_number=validation.number,
        validation_set=validation.identity,
        validation_loss="",
        blob="",
        told_at="",
        user=submission.user,
        token=submission.token,
        note=submission.note,
        link=submission.link,
    )
    return Draft(entry, once=submission.once, baseline=submission.baseline, pace=submission.pace)


def _open(draft: Draft, submission: Submission, measured: Measured) -> tuple[Attempt, Draft]:
    # Nobody can check a score against a label: a developer could make one up.
    if measured.spec.meter.sample.takes_scores and not submission.reports_scores:
        raise Denied(f"developers may not {Permission.REPORT_SCORES}: a runner submits them")
    submitted = submission.submitted
    if isinstance(submitted, PredictionFiles) and known_by_name(
        measured.space, measured.spec, submission
    ):
        return submitted.open_charged(measured), draft
    sees_inputs = inputs_told(measured.spec, by_role=submission.sees_inputs)
    attempt = submitted.open(measured, sees_inputs=sees_inputs)
    name = _name(measured.space, measured.spec, attempt.identity)
    return attempt, replace(draft, entry=replace(draft.entry, submission=name))


def _name(space: Workspace, spec: MeterSpec, digest: str) -> str:
    """Return what a submission of this digest is called in the books and the audit chain.

    Scores are made of labels, and developers read the chain: of a few hundred scores, mostly right,
    the plain digest would give away which are wrong to whoever tries the likely ones.
    """
    if not spec.meter.sample.takes_scores:
        return digest
    key = fingerprint_key(space.identity)
    return hmac.new(key, b"scores " + digest.encode(), "sha256").hexdigest()


def _measure(decisions: Decisions, attempt: Attempt, draft: Draft, measured: Measured) -> Draft:
    reached = measured.conditions.reached is not None
    decisions.check_budget(draft.entry, reached=reached)
    decisions.check_pace(draft)
    decisions.check_baseline(draft)
    if not reached:
        decisions.check_telling(draft.entry.tenant)
    on_demand = measured.spec.meter.sample.orders_labels
    if on_demand:
        check_free(measured.space, measured.generation, draft)
    content = attempt.content()
    if content and not reached:  # once hidden rows were touched, nothing is refused any more
        measured.space.check_room(len(content) + room_of_curve(measured.spec, measured.validation))
    entry = draft.entry
    old = decisions.old
    kept = Kept.of(entry, attempt.suffix, content) if content else None
    if on_demand and old is not None and attempt.predictions:
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
        validation_rows=measured.validation.rows,
        kept=kept and with_curve(kept, losses.visible),
        old=0 if old is None else old.step,
    )


def _losses(attempt: Attempt, measured: Measured, old: Entry | None) -> Losses:
    """Measure a submission, beside the old model if the question compares the two.

    The first one, which others will be compared with, is not measured on the hidden rows.
    """
    if not measured.spec.meter.compares:
        return attempt.measure(measured)
    if old is None:
        return Losses(attempt.validation_loss(measured), None)
    # A broken one that was to be compared with is worse than none: nothing passes beside it.
    before = accepted_predictions(measured, old) if old.blob else None
    losses = attempt.measure(measured)
    against = None if before is None else attempt.compare(measured, before)
    return replace(losses, against=against, test=None if against is None else losses.test)


def _on_demand(draft: Draft, attempt: Attempt, measured: Measured, old: Entry) -> Draft:
    """Measure a submission where each step asks for labels, if it need not wait for any."""
    loss = attempt.validation_loss(measured)
    draft = replace(draft, entry=replace(draft.entry, validation_loss=str(loss)))
    if not old.blob:
        return replace(draft, losses=Losses(loss, None))
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
        draft = unanswered(books, waited)
        if draft is None or draft.kept is None:
            return False
        entry, kept = draft.entry, draft.kept
        given = books.validation.all(state.meter.id)
        old = books.entries.at(test_set.meter, test_set.number, entry.tenant, draft.old)
    if old is None:
        raise AssertionError("the old model was answered before a submission waited")
    validation = next(each for each in given if each.number == entry.validation_number)
    with Measured(space, state.spec, test_set, validation) as measured:
        new = kept_predictions(kept.content, measured)
        against = KnownLabels.read(space, orders).compared(new, accepted_predictions(measured, old))
    losses = Losses(Fraction(entry.validation_loss), None, against=against)
    _tell(space, test_set, replace(draft, losses=losses))
    return True


def _tell(space: Workspace, test_set: TestSet, draft: Draft) -> Signal:
    """Enter the answer, commit, add it to the journal, and only then let it leave.

    The lock is held from the first read to the commit, so nothing that is checked here can change.
    """
    refusal: MeterError | None = None
    entry: Entry | None = None
    with Keeping(space, draft.kept) as keeping, space.writing() as books:
        state = space.state(books)
        test_set = state.numbered(test_set.number)
        histories, unjournaled = reconcile(space, books, state, test_set)
        decisions = Decisions.read(books, state, test_set, draft, space.clock, histories=histories)
        known = decisions.known
        if known.same is None:
            try:
                entry = decisions.decide(draft, keeping.name, space.now())
            except MeterError as error:  # what was completed from the journal stays
                refusal = to_keep(error)
            else:
                histories = histories.after(entry)
                _enter(books, test_set, entry, histories)
        if test_set.phase is Phase.ACTIVE and histories.all_spent:
            retire(space, books, state, test_set)
        keeping.wait()
    # The answer is committed and counts as given, so a crash from here on loses nothing: the next
    # answer adds its line to the journal, and the same submission gets the same answer for free.
    # A crash before the commit has charged nothing.
    fresh = [] if entry is None else [entry]
    space.journal(test_set).append([*unjournaled, *fresh], histories.journaled)
    if refusal is not None:
        raise refusal
    told = known.same or entry
    if told is None:
        raise AssertionError("it is answered or refused")
    return signal_of(
        state,
        histories.on,
        told,
        histories.at(told.tenant),
        repeated=entry is None,
        by_name=known.by_name is not None,
    )


def _enter(books: Books, test_set: TestSet, entry: Entry, histories: Histories) -> None:
    """Write an answer, its audit link and the account that it leads to."""
    books.entries.add([entry])
    books.audit.append(test_set.meter, entry.told_at, Event.TOLD, _disclosed(entry))
    books.accounts.put(test_set.meter, test_set.number, [histories.folded[entry.tenant]])


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
