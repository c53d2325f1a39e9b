"""Deciding on a submission: its answer, "no reading" too, and its cost; repetitions cost nothing.

The same code gives advice before the lock is taken, and decides under it. What the answers are
and what they cost is decided in `promise.ledger`.

The pace of a token is at most so many answers of a meter in any 24 hours. Answers are counted from
the entries, under the meter's lock: so the pace holds over restarts, and for any number of servers.
It depends on what was submitted with the token, and on nothing else. What repeats an answer is
free, and no answer of its own.

The first submission to a test set is the old model that others are compared with, until a model
that passed is promoted. Nothing is measured of it, so its sender has to say that it is meant to be
(`baseline`), unless its name is that of the model they were last compared with. A promotion is a
link of the audit chain, with a second copy in the journal. A ladder promotes every model that
passes by itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from fractions import Fraction

from easeml_meter.core.history import Delivered, Histories, MeterState
from easeml_meter.core.lifecycle import Phase
from easeml_meter.core.model import Entry, Event, Promotion, TestSet, ValidationSet, stamp
from easeml_meter.core.questions.planning import labels_needed
from easeml_meter.core.submissions import Ticket
from easeml_meter.errors import MeterError, Spent, TooSoon, WrongPhase, invalid
from easeml_meter.promise import ledger
from easeml_meter.promise.condition import PASS
from easeml_meter.promise.ledger import Snapshot
from easeml_meter.promise.questions import BASELINE, Measured, Shown, measured_of
from easeml_meter.scoring.score import Score
from easeml_meter.service.actor import Actor, Permission, needs
from easeml_meter.service.journal import enter_promotion, histories_of, promotions_of, reconcile
from easeml_meter.service.place import Clock, Workspace
from easeml_meter.service.submissions.measuring import Kept, Losses
from easeml_meter.storage.books import Books


@dataclass(frozen=True)
class Draft:
    """An entry without its answer, what the answer follows from, and what would repeat another."""

    entry: Entry
    once: bool = False
    """Whether an answer to a model of the same name is good enough."""
    baseline: bool = False
    """Whether its sender says that others are compared with it from now on."""
    losses: Losses | None = None
    """None: it was answered before."""
    first_edge: Fraction | None = None
    """Where its bands begin, if edges are drawn; like the losses, it is known to nobody yet."""
    validation_rows: int = 0
    """How many rows its validation loss was measured on."""
    kept: Kept | None = None
    old: int = 0
    """The step of the model that it was compared with; 0: with none."""
    pace: int | None = None
    """How many answers its token gets in 24 hours; None: as many as there are."""


@dataclass(frozen=True)
class Known:
    """The answers that a draft may repeat."""

    by_digest: Entry | None
    by_name: Entry | None
    """The newest answer to a model of its name, if that is good enough for it."""

    @classmethod
    def read(cls, books: Books, draft: Draft) -> Known:
        """Read what the books say about a draft."""
        entry = draft.entry
        place = (entry.meter, entry.generation, entry.tenant)
        found = books.entries.of_submission(*place, entry.submission) if entry.submission else []
        named = books.entries.of_models(*place, entry.model) if draft.once else []
        return cls(
            next((each for each in found if _alike(each, entry)), None),
            next((each for each in reversed(named) if _alike(each, entry)), None),
        )

    @property
    def same(self) -> Entry | None:
        """The entry that the draft repeats: the same submission, or name if that is enough."""
        return self.by_name or self.by_digest


def _alike(known: Entry, entry: Entry) -> bool:
    """Whether an answer was given on the same validation set."""
    return known.validation_set == entry.validation_set


@dataclass
class Standing:
    """Where a test set stands, as one transaction sees it."""

    state: MeterState
    test_set: TestSet
    histories: Histories
    held: frozenset[int]
    """Tenants with a model that runs on hidden rows: an answer must be left for it."""

    @classmethod
    def of(cls, books: Books, state: MeterState, test_set: TestSet) -> Standing:
        """Read what the books say about a test set."""
        histories = histories_of(books, state, test_set)
        return cls(state, test_set, histories, tenants_held(books, state, test_set))

    def check_reach(self, tenant: int, *, reached: bool) -> None:
        """Refuse a model that is about to run on hidden rows unless there is an answer for it.

        `reached`: one was set aside for it, as it ran on them before.

        Raises:
            Spent: there is none.
            MeterError: the last one is set aside for another model that runs on hidden rows.
        """
        at = self.histories.at(tenant)
        if not ledger.may(self.histories.on.meter, at):
            raise self.spent()
        if not reached:
            self._leave_held(tenant, at)

    def check_telling(self, tenant: int) -> None:
        """Refuse a submission, before a hidden row is touched, whose answer is known already."""
        at = self.histories.at(tenant)
        if at.told and len(ledger.answers(self.histories.on.meter, at)) == 1:
            number = self.test_set.number
            raise Spent(
                f"band {at.told + 1}, the worst, was told on test set {number}, so every further "
                "answer is known: nothing was charged; ask a labeler to retire it for a fresh one "
                "(meter testset retire)"
            )

    def _leave_held(self, tenant: int, at: Snapshot) -> None:
        """Refuse what would use an answer that is set aside for a model on hidden rows.

        After a hand-over, teams share their answers, and each of them may run a model.
        """
        held = self.held & {tenant, *at.group}
        if held and ledger.left(self.histories.on.meter, at) <= len(held):
            whose = "this team" if tenant in held else "a team that shares its answers"
            line = f"the last answer is for a model of {whose} that is running"
            raise MeterError(f"{line}: submit again when it is answered")

    def spent(self) -> Spent:
        """Return the refusal of a submission for which no answer is left."""
        if self.state.spec.meter.renewal.rolls:
            return Spent(
                f"window {self.test_set.number} has given its answers: the next one begins with a "
                f"batch of {self.state.plan.labels:,} labels"
            )
        if self.state.last_sharing(self.test_set) > self.test_set.number:
            more = labels_needed(self.state.spec, 2, self.test_set.rows or 0)
            return Spent(
                f"test set {self.test_set.number} has given its answers: {more:,} labels more are "
                "needed to top it up"
            )
        return Spent(
            f"test set {self.test_set.number} has no answer left for this team: a fresh one of "
            f"{self.state.plan.labels:,} {self.state.spec.meter.sample.handed_in} is needed"
        )


@dataclass
class Decisions(Standing):
    """The same, and what decides on one draft."""

    known: Known
    paces: Paces
    old: Entry | None
    """The model that the draft is compared with, if the meter compares."""
    before: Entry | None
    """The same; or, if there is none on this test set yet, the last one on those before it."""

    @classmethod
    def read(
        cls,
        books: Books,
        state: MeterState,
        test_set: TestSet,
        draft: Draft,
        clock: Clock,
        *,
        histories: Histories | None = None,
    ) -> Decisions:
        """Read what the books say about an entry that has no answer yet."""
        entry = draft.entry
        paced = {entry.token} if draft.pace is not None else set()
        old = before = None
        if state.spec.meter.compares:
            old = old_model(books, state, test_set, entry.tenant)
            before = old or _before(books, state, test_set, entry.tenant)
        return cls(
            state,
            test_set,
            histories or histories_of(books, state, test_set),
            tenants_held(books, state, test_set),
            Known.read(books, draft),
            Paces.read(books, test_set.meter, paced, clock),
            old,
            before,
        )

    def check_budget(self, entry: Entry, *, reached: bool = False) -> None:
        """Refuse a draft for which no answer is left, or that no rows could say yes to.

        `reached`: it has an answer set aside, since it runs on hidden rows.
        """
        self.check_reach(entry.tenant, reached=reached)
        if not reached:  # before any hidden row is read
            on, visible = self.histories.on, validation_in_force(self.state).rows
            at = self.histories.at(entry.tenant)
            ledger.askable(on.meter, at, Shown(on.size, None, visible))

    def check_pace(self, draft: Draft) -> None:
        """Refuse a draft whose token has had its answers of a day."""
        if draft.pace is not None:
            self.paces.check(draft.entry.token, draft.pace)

    def check_baseline(self, draft: Draft) -> None:
        """Refuse a first model that may not be meant as the baseline, and a second "first" one."""
        line = f"test set {self.test_set.number} has"
        if draft.baseline and self.old is not None:
            raise WrongPhase(f"{line} a model to compare with: submit without --baseline")
        known = draft.baseline or (self.before and self.before.model == draft.entry.model)
        if self.state.spec.meter.compares and not known and self.old is None:
            # The name of the last one is not told: it is an answer, which not all senders see.
            first = (
                "submit the deployed one first, by the name it was kept under or with --baseline"
            )
            raise WrongPhase(f"{line} no model to compare with yet: {first}")

    def decide(self, draft: Draft, blob: str, now: str) -> Entry:
        """Return the entry of a draft with its answer, which follows all answers before it.

        `blob` names what is kept of the submission.

        A validation set that was replaced since then changes nothing: the submission has touched
        hidden rows, so it is answered, and charged, on the set that it was measured with.

        Raises:
            Spent: the test set has no answer left for the tenant.
            TooSoon: the token has had its answers of a day.
            MeterError: the last one is set aside for a model that runs on hidden rows.
        """
        # Retired while this was measured, and even released, the test set still answers: the
        # submission has touched hidden rows, and that must not be free.
        entry, losses = draft.entry, draft.losses
        if losses is None or (self.test_set.phase is Phase.ACTIVE and self.histories.retired):
            raise self.spent()
        self.check_budget(entry, reached=losses.of_model)
        self.check_pace(draft)
        self.check_baseline(draft)
        compares = self.state.spec.meter.compares
        if compares and self.old is not None and losses.test is None and not draft.old:
            # No label was touched for a model that others were to be compared with.
            raise MeterError("another model came first, to compare this one with: submit it again")
        if compares and self.old is None:
            return self._entered(draft, BASELINE, None, blob, now)
        on, at = self.histories.on, self.histories.at(entry.tenant)
        decided = ledger.decide(on.meter, at, _measured(on, draft, losses))
        return self._entered(draft, decided.answer, decided.edge, blob, now)

    def _entered(
        self, draft: Draft, answer: str, edge: Fraction | None, blob: str, now: str
    ) -> Entry:
        return replace(
            draft.entry,
            step=self.histories.folded[draft.entry.tenant].step + 1,
            answer=answer,
            blob=blob,
            told_at=now,
            first_edge="" if edge is None else str(edge),
            old=draft.old,
        )


def _measured(on: Delivered, draft: Draft, losses: Losses) -> Measured:
    """Return what an answer depends on."""
    validation, test, against = losses.validation, losses.test, losses.against
    shown = Shown(on.size, validation, draft.validation_rows, draft.first_edge)
    orders = on.meter.sample.orders_labels
    loss: Fraction | None = None
    few = validation is not None and too_few(on, test)
    if validation is None or few:
        pass
    elif test is not None:
        loss = test.mean
    elif orders and against is not None:
        loss = Fraction(0)  # nobody knows it, and no question that waits for labels reads it
    return measured_of(shown, loss, against)._replace(few=few, unlabeled=orders)


def too_few(on: Delivered, test: Score | None) -> bool:
    """Whether a model predicts too few positives for what its score was planned with."""
    return test is not None and on.meter.sample.measured.unsized and test.counted < on.size


def validation_in_force(state: MeterState) -> ValidationSet:
    """Return the validation set that submissions are measured on."""
    if state.validation is None:
        raise WrongPhase("no validation set yet: give one with meter validation set")
    return state.validation


def tenants_held(books: Books, state: MeterState, test_set: TestSet) -> frozenset[int]:
    """Return the tenants with a model that runs on hidden rows, for which an answer is left."""
    if not state.spec.meter.sample.models:
        return frozenset()
    return frozenset(
        ticket.tenant
        for ticket in books.submissions.unfinished()
        if ticket.meter == test_set.meter and (ticket.reached or (0,))[0] == test_set.number
    )


MOST_FOR_EACH = 10
"""Promotions of a team for each of its answers: none leaves the chain, and every answer reads all
of them."""


def old_model(books: Books, state: MeterState, test_set: TestSet, tenant: int) -> Entry | None:
    """Return the submission that a tenant's next one is compared with; None: there is none yet."""
    place = (test_set.meter, test_set.number, tenant)
    step = 1
    if not state.spec.meter.question.promotes:
        step = books.entries.last(*place, PASS) or 1
    else:
        own = [each for each in promotions_of(books, test_set) if each.tenant == tenant]
        step = own[-1].step if own else 1
    return books.entries.at(*place, step)


def _before(books: Books, state: MeterState, test_set: TestSet, tenant: int) -> Entry | None:
    """Return the model that a tenant's were last compared with before this test set."""
    earlier = (each for each in reversed(state.generations) if each.number < test_set.number)
    found = (old_model(books, state, each, tenant) for each in earlier)
    return next(filter(None, found), None)


@needs(Permission.PROMOTE)
def promote(actor: Actor, space: Workspace, model: str) -> Entry:
    """Let a model that passed be the one that the next submissions are compared with.

    Where it is that already, nothing changes.

    Raises:
        InvalidInput: the meter compares no models or keeps the last one that passed by itself, no
            model of this name has passed on the test set in use, or too many were promoted.
        WrongPhase: no test set is in use.
    """
    with space.writing() as books:
        state = space.state(books)
        if not state.spec.meter.compares:
            raise invalid("promote", model, "this meter compares no models: ask for n - o")
        if not state.spec.meter.question.promotes:
            raise invalid("promote", model, "a ladder goes on from the last model that passed")
        test_set, tenant = state.active(), state.tenant(actor.acting_for)
        histories, unjournaled = reconcile(space, books, state, test_set)
        known = books.entries.of_models(test_set.meter, test_set.number, tenant, model)
        # Where nothing can pass, n - o is only read, and its reader decides.
        judged = state.spec.meter.question.verdict
        found = [each for each in known if each.answer == PASS or not judged]
        if not found:
            needed = "a model that has passed" if judged else "a model that was answered"
            raise invalid("promote", model, f"{needed} on this test set")
        entry = found[-1]
        own = [each for each in promotions_of(books, test_set) if each.tenant == tenant]
        if own and own[-1].step == entry.step:
            return entry
        if len(own) >= MOST_FOR_EACH * histories.folded[tenant].step:
            allowed = f"at most {MOST_FOR_EACH} promotions for each answer: submit first"
            raise invalid("promote", model, allowed)
        made = Promotion(tenant, entry.step, entry.model, _moment(space, test_set))
        enter_promotion(books, test_set, made, Event.PROMOTED, **actor.by_user)
    # After the commit: a line for a promotion that was given up would bring it back.
    journal = space.journal(test_set)
    journal.append(unjournaled, histories.journaled)
    journal.append_promotion(made)
    return entry


def _moment(space: Workspace, test_set: TestSet) -> str:
    """Return the moment of a promotion: after all before it, though a clock was set back.

    The journal, which may be many objects in no order, is sorted by these moments.
    """
    before = max((row.at for row in space.journal(test_set).promotions()), default="")
    now = space.now()
    if now > before:
        return now
    return stamp(datetime.fromisoformat(before) + timedelta(microseconds=1))


DAY = timedelta(days=1)
_MINUTE = timedelta(minutes=1)
_NEVER = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True)
class Paces:
    """What tokens have had of one meter within a day, as one transaction sees it."""

    now: datetime
    told: dict[str, list[str]]
    """By token, when each of its answers was told, the oldest first."""
    waiting: dict[str, int]
    """By token, its models in the queue: each of them may become an answer."""

    @classmethod
    def read(
        cls,
        books: Books,
        meter: str,
        tokens: Iterable[str],
        clock: Clock,
        tickets: Iterable[Ticket] | None = None,
    ) -> Paces:
        """Read what the books say about tokens that have a pace."""
        told: dict[str, list[str]] = {token: [] for token in tokens}
        if not told:
            return cls(_NEVER, {}, {})
        now = clock()
        for token, told_at in books.entries.told_to(meter, list(told), stamp(now - DAY)):
            told[token].append(told_at)
        waiting = dict.fromkeys(told, 0)
        for ticket in books.submissions.unfinished() if tickets is None else tickets:
            if ticket.meter == meter and ticket.token in waiting:
                waiting[ticket.token] += 1
        return cls(now, told, waiting)

    def check(self, token: str, most: int) -> None:
        """Refuse one more answer to a token that has had as many as it gets in a day."""
        told, waiting = self.told[token], self.waiting[token]
        surplus = len(told) + waiting - most
        if surplus < 0:
            return
        line = f"this token gets {_answers(most)} in 24 hours at this meter"
        if waiting >= most:
            raise TooSoon(
                f"{line}, and models of it that wait will use them: wait until they are answered",
                DAY.total_seconds(),
            )
        free = datetime.fromisoformat(told[surplus]) + DAY
        rounded = free.astimezone(UTC) + _MINUTE - timedelta(microseconds=1)
        when = f"{rounded:%Y-%m-%d %H:%M} UTC"
        wait = (free - self.now).total_seconds()
        raise TooSoon(f"{line}, and has had them: the next is possible from {when} on", wait)


def _answers(number: int) -> str:
    return "1 answer" if number == 1 else f"{number:,} answers"
