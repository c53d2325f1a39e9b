"""The state of a meter, and its tenants' histories folded from their entries."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

from easeml_meter.core.lifecycle import Phase
from easeml_meter.core.model import Entry, HandOver, MeterRecord, TestSet, ValidationSet
from easeml_meter.core.questions.alarm import in_force
from easeml_meter.core.questions.labels import validation_noise
from easeml_meter.core.questions.planning import (
    Plan,
    assumptions_of,
    following,
    plan_of,
    promise_of,
)
from easeml_meter.core.signals import answer_named
from easeml_meter.core.submissions import Note
from easeml_meter.core.views import Consequence, SessionView, Signal, Truth
from easeml_meter.errors import InvalidInput, NotFound, Spent, WrongPhase, invalid
from easeml_meter.promise import ledger
from easeml_meter.promise.ledger import Snapshot
from easeml_meter.promise.meter import Meter
from easeml_meter.promise.questions import Shown
from easeml_meter.spec import MeterSpec


@dataclass(frozen=True)
class MeterState:
    """What a use case needs to know of a meter, read in one transaction."""

    meter: MeterRecord
    spec: MeterSpec
    generations: tuple[TestSet, ...]
    validation: ValidationSet | None

    @classmethod
    def of(
        cls, meter: MeterRecord, generations: Sequence[TestSet], validation: ValidationSet | None
    ) -> MeterState:
        """Put together what was read of a meter."""
        spec = _spec(json.dumps(meter.settings))
        return cls(meter, spec, tuple(generations), validation)

    @property
    def current(self) -> TestSet:
        """The newest test set that was delivered, else the one asked for."""
        delivered = [row for row in self.generations if row.phase is not Phase.REQUESTED]
        return delivered[-1] if delivered else self.generations[-1]

    @property
    def plan(self) -> Plan:
        """The plan of every test set of this meter."""
        return plan_of(self.spec)

    @property
    def promise(self) -> str:
        """What is promised of the current test set."""
        return promised_of(self.spec, self.current)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What that rests on."""
        return assumptions_of(as_delivered(self.spec, self.current))

    @property
    def archived(self) -> bool:
        """Whether the meter was given up: it takes no labels and gives no answers."""
        return self.generations[-1].phase is Phase.ARCHIVED

    def active(self) -> TestSet:
        """Give the test set that answers submissions, or say why there is none."""
        latest, handed_in = self.generations[-1], self.spec.meter.sample.handed_in
        if self.archived:
            raise WrongPhase("this meter is archived: it gives no answers; take another one")
        if latest.phase is Phase.REQUESTED and self._rolls and latest.number > 1:
            raise Spent(
                f"window {latest.number - 1} has given its answers, and the batch that the next "
                f"one begins with is missing: {latest.labels_needed:,} labels are needed "
                f"(window {latest.number})"
            )
        spent = [row for row in self.generations if row.phase in (Phase.SPENT, Phase.RELEASED)]
        if latest.phase is Phase.REQUESTED and self.joins(latest):
            raise Spent(
                f"test set {latest.number - 1} has given its answers, and the labels that top it "
                f"up are missing: {latest.labels_needed:,} are needed (test set {latest.number})"
            )
        if latest.phase is Phase.REQUESTED and spent:
            needed = f"{latest.labels_needed:,} fresh {handed_in} are needed"
            raise Spent(
                f"test set {spent[-1].number} is spent: {needed} (test set {latest.number})"
            )
        if latest.phase is Phase.REQUESTED:
            raise WrongPhase(
                f"no test set yet: {latest.labels_needed:,} {handed_in} are needed; "
                "seal them with meter seal, then meter testset add"
            )
        if latest.phase is not Phase.ACTIVE:
            raise Spent(f"test set {latest.number} is {latest.phase}: no other one is requested")
        return latest

    def requested(self) -> TestSet:
        """Return the test set that labels are needed for, or say that none is."""
        latest = self.generations[-1]
        if self.archived:
            raise WrongPhase("this meter is archived: it takes no labels; take another one")
        if latest.phase is not Phase.REQUESTED and self._rolls:
            needed = "the next batch is needed when it has given its answers"
            raise WrongPhase(f"window {latest.number} is {latest.phase}: {needed}")
        if latest.phase is not Phase.REQUESTED:
            raise WrongPhase(f"test set {latest.number} is {latest.phase}: no other one is needed")
        return latest

    @property
    def releasable(self) -> TestSet | None:
        """The oldest spent test set, if it can be released.

        One window of a rolling test set shares batches with those after it, as many as it has: it
        can when the last of these is spent, too. So it is with a test set that will be topped up.
        """
        spent = [each for each in self.generations if each.phase is Phase.SPENT]
        if not spent:
            return None
        apart = self.last_sharing(spent[0]) - spent[0].number
        return spent[0] if len(spent) > apart else None

    def last_sharing(self, test_set: TestSet) -> int:
        """Return the number of the last test set that has rows of this one."""
        return self.spec.meter.renewal.last_sharing(test_set.number)

    @property
    def _rolls(self) -> bool:
        return self.spec.meter.renewal.rolls

    def joins(self, test_set: TestSet) -> bool:
        """Whether the rows that are delivered for a test set join those of the one before."""
        return self.spec.meter.renewal.joins(test_set.number)

    def numbered(self, number: int) -> TestSet:
        """Return a test set by its number, or say that there is none."""
        for each in self.generations:
            if each.number == number:
                return each
        raise NotFound(f"test set {number}: there is none of that number")

    @property
    def tenants(self) -> int:
        """The number of separate histories."""
        return self.spec.meter.budget.apart

    def tenant(self, number: int) -> int:
        """Return the number of a tenant, if this meter has it.

        Raises:
            InvalidInput: it is not from 1 to the number of tenants.
        """
        if not 1 <= number <= self.tenants:
            raise invalid("tenant", number, f"a number from 1 to {self.tenants}")
        return number


# The settings of a meter never change, so what was read of them is valid for ever.
@lru_cache(maxsize=256)
def _spec(settings: str) -> MeterSpec:
    return MeterSpec.from_mapping(json.loads(settings))


def as_delivered(spec: MeterSpec, test_set: TestSet) -> MeterSpec:
    """Return a meter as it is for a test set: once rows were delivered, its plan follows them.

    Their number, which is in the books before the first answer, says all: nothing else is kept.
    """
    found = spec.of_test_set(test_set.number)
    return found if test_set.rows is None else following(found, test_set.rows)


def promised_of(spec: MeterSpec, test_set: TestSet) -> str:
    """Say what a meter promises of a test set."""
    in_all = spec if test_set.rows is None else following(spec, test_set.rows)
    return promise_of(in_all, test_set.number)


class Delivered(NamedTuple):
    """A test set that was delivered: its meter, and what its promise is counted of."""

    spec: MeterSpec
    size: int
    stage: int = 0
    """1: it has the rows of the one before, and more."""

    @property
    def meter(self) -> Meter:
        """The meter in force on it."""
        return self.spec.meter

    def start(self, tenant: int) -> Folded:
        """Return the history of a tenant that was told nothing yet."""
        return Folded(ledger.start(self.meter, tenant, self.stage))


def delivered(spec: MeterSpec, generation: TestSet) -> Delivered:
    """Return what the answers of a delivered test set depend on.

    Raises:
        InvalidInput: it is too small, so the books were changed by hand.
    """
    if generation.rows is None:
        raise WrongPhase(f"test set {generation.number} was not delivered yet")
    found = as_delivered(spec, generation)
    # Of a score such as recall, the planned positives: sealing has checked that so many are there,
    # and how many more there are is nobody's business. With a judge, the planned labels.
    size = plan_of(found).size if found.sized else generation.rows
    return _checked(Delivered(found, size, found.meter.renewal.stage(generation.number)))


@lru_cache(maxsize=256)  # at every opening, and not only at delivery
def _checked(on: Delivered) -> Delivered:
    ledger.check_size(on.meter, on.size, on.stage)
    return on


@dataclass(frozen=True, slots=True)
class Folded:
    """One tenant's entries folded, and the step of the last one."""

    at: Snapshot
    step: int = 0

    def after(self, meter: Meter, entry: Entry) -> Folded:
        """Return this with one entry more."""
        return Folded(ledger.step(meter, self.at, entry.answer), entry.step)


def fold(on: Delivered, entries: Iterable[Entry], tenant: int) -> Folded:
    """Fold one tenant's entries, which come in the order of their steps."""
    folded = on.start(tenant)
    for entry in entries:
        folded = folded.after(on.meter, entry)
    return folded


@dataclass(frozen=True)
class Histories:
    """What all tenants of one test set were told, folded, and the hand-overs that join them."""

    on: Delivered
    folded: Mapping[int, Folded]
    """By tenant; every tenant of the meter is there."""
    handovers: Sequence[HandOver] = ()
    retired: bool = False
    """Whether the journal says that the test set was retired early."""

    @property
    def answers(self) -> int:
        """The number of answers that the test set has given."""
        return sum(each.step for each in self.folded.values())

    @property
    def journaled(self) -> int:
        """What the journal counts: the answers, and one more if the test set was retired early.

        So books that do not know of that have another number, and read the whole journal.
        """
        return self.answers + self.retired

    @property
    def all_spent(self) -> bool:
        """Whether no tenant gets another answer."""
        left = (ledger.may(self.on.meter, self.at(tenant)) for tenant in self.folded)
        return self.retired or not any(left)

    def at(self, tenant: int) -> Snapshot:
        """Return where a tenant stands, with those it shares a history with by hand-over."""
        group = [self.folded[each].at for each in sharing(tenant, self.handovers)]
        return ledger.joined(self.on.meter, self.on.size, group)

    def steps_left(self, tenant: int) -> int:
        """Return the steps that are promised to a tenant, alone or shared."""
        return ledger.left(self.on.meter, self.at(tenant))

    def after(self, entry: Entry) -> Histories:
        """Return these with one entry more."""
        own = self.folded[entry.tenant].after(self.on.meter, entry)
        return replace(self, folded={**self.folded, entry.tenant: own})


def consequence_of(
    state: MeterState, test_set: TestSet, histories: Histories, giver: int, receiver: int
) -> Consequence:
    """Return what a hand-over would mean.

    Raises:
        InvalidInput: there is no such tenant, they share a history already, or the meter cannot
            count what they would share.
    """
    state.tenant(giver), state.tenant(receiver)
    if giver == receiver:
        raise invalid("receiver", receiver, "a team other than the giver")
    if receiver in sharing(giver, histories.handovers):
        raise invalid("receiver", receiver, f"already shares one history with team {giver}")
    ledger.check_handover(histories.on.meter, (giver, receiver))
    row = HandOver(test_set.meter, test_set.number, giver, receiver, "")
    after = replace(histories, handovers=[*histories.handovers, row])
    group = sharing(giver, after.handovers)
    return Consequence(
        generation=test_set.number,
        giver=giver,
        receiver=receiver,
        sharing=group,
        steps_left_before=tuple(histories.steps_left(tenant) for tenant in group),
        steps_left_after=after.steps_left(giver),
        labels_planned_shared=plan_of(state.spec.replace(handover=True)).labels,
        spends=after.all_spent,
    )


def brought_to(
    tenant: int, entries: Sequence[Entry], handovers: Sequence[HandOver]
) -> tuple[int, ...]:
    """Return, before each step of a tenant, the worst band told to those it shared a history with.

    `entries` are those of all tenants. Moments are texts that sort in time, or in any better order.
    """
    found = []
    for own in entries:
        if own.tenant == tenant:
            group = sharing(tenant, [row for row in handovers if row.at <= own.told_at])
            told = (
                answer_named(each.answer)
                for each in entries
                if each.tenant in group and each.told_at < own.told_at
            )
            found.append(max([1, *told]))
    return tuple(found)


def sharing(tenant: int, handovers: Sequence[HandOver]) -> tuple[int, ...]:
    """List the tenants that share one history with this one, itself included."""
    found = {tenant}
    for _ in handovers:  # as long a chain as there can be
        for row in handovers:
            if {row.giver, row.receiver} & found:
                found |= {row.giver, row.receiver}
    return tuple(sorted(found))


def signal_of(
    situation: MeterState,
    on: Delivered,
    entry: Entry,
    at: Snapshot,
    *,
    repeated: bool = False,
    by_name: bool = False,
    past: bool = False,
) -> Signal:
    """Show an entry, with what is left there; `past`, with what was left then."""
    # A test set that was retired has nothing left now.
    over = not past and situation.numbered(entry.generation).phase is not Phase.ACTIVE
    left = 0 if over else ledger.left(on.meter, at)
    answer = answer_named(entry.answer)
    loss = Fraction(entry.validation_loss) if entry.validation_loss else None
    first_edge = Fraction(entry.first_edge) if entry.first_edge else None
    return Signal(
        spec=on.spec,
        answer=answer,
        step=shown_step(on.spec, entry),
        generation=entry.generation,
        model=entry.model,
        tenant=entry.tenant,
        told_at=datetime.fromisoformat(entry.told_at),
        rows=situation.numbered(entry.generation).rows,
        battery=_empty(on.spec) if over else ledger.battery(on.meter, at),
        steps_left=left,
        repeated=repeated,
        by_name=by_name,
        first_edge=None if first_edge is None else float(first_edge),
        old=entry.old or None,
        validation_loss=None if loss is None else float(loss),
        exact=Shown(on.size, loss, None, first_edge),
    )


def shown_step(spec: MeterSpec, entry: Entry) -> int:
    """Return the step of an answer; those of a rolling test set go on from window to window."""
    meter = spec.meter
    before = (entry.generation - 1) * (meter.answers() or 0) if meter.renewal.rolls else 0
    return before + entry.step


def _empty(spec: MeterSpec) -> float:
    """Return the battery of a test set that gives no more answers.

    A rolling one waits for its next batch: its budget is never used up.
    """
    return float(spec.meter.renewal.rolls)


def session_view(
    state: MeterState,
    test_set: TestSet,
    entries: Sequence[Entry],
    at: Snapshot | None,
    *,
    truths: tuple[Truth | None, ...] = (),
    earlier: Sequence[tuple[TestSet, Sequence[Entry]]] = (),
    shared: Sequence[Entry] = (),
    handovers: Sequence[HandOver] = (),
) -> SessionView:
    """Show one tenant's session on one test set: its own entries, and where it stands now.

    All who share the tenant's history stand there, so the entries alone do not give it; nobody does
    before a test set is delivered.
    `earlier` are windows of a rolling test set whose answers are shown before those of this one;
    `shared` are the entries of all tenants, where `handovers` join its history with others.
    """
    spec = as_delivered(state.spec, test_set)
    signals: list[Signal] = []
    left = spec.meter.answers(test_set.number) or ledger.left(spec.meter, ledger.start(spec.meter))
    battery = 1.0
    if test_set.phase is Phase.ARCHIVED:
        battery, left = 0.0, 0
    if test_set.rows is not None and at is not None:
        # A history that is shared names the first of its tenants.
        tenant = entries[0].tenant if entries else at.team
        for window, told in earlier:
            signals += _told(state, window, told, tenant)
        if entries:
            signals += _told(state, test_set, shared or entries, tenant, handovers)
        if test_set.phase is Phase.ACTIVE:
            meter = delivered(state.spec, test_set).meter
            battery, left = ledger.battery(meter, at), ledger.left(meter, at)
        else:  # perhaps retired with budget left
            battery, left = _empty(spec), 0
    return SessionView(
        meter=state.meter.name,
        spec=spec,
        generation=test_set.number,
        phase=test_set.phase,
        rows=test_set.rows,
        labels_needed=test_set.labels_needed,
        signals=tuple(signals),
        battery=battery,
        steps_left=left,
        promise=_promise(state, test_set, at),
        assumptions=assumptions_of(spec),
        retrospective=truths,
        submitters=tuple(
            entry.user for told in (*(each for _, each in earlier), entries) for entry in told
        ),
        notes=tuple(
            note
            for told in (*(each for _, each in earlier), entries)
            for note in _notes(spec, told)
        ),
        validation_noise=validation_noise(state.validation.rows, spec) if state.validation else "",
    )


def _promise(state: MeterState, test_set: TestSet, at: Snapshot | None) -> str:
    """Say what a test set promises; of an alarm, with g as it is now."""
    if (
        not state.spec.meter.question.vouches
        or at is None
        or test_set.rows is None
        or state.validation is None
    ):
        return promised_of(state.spec, test_set)
    rows, visible = test_set.rows, state.validation.rows
    return promise_of(in_force(state.spec, at, rows, visible), test_set.number)


def _notes(spec: MeterSpec, entries: Sequence[Entry]) -> Iterator[Note]:
    for entry in entries:
        if entry.note or entry.link:
            step = shown_step(spec, entry)
            # What was changed by hand is for the audit to tell, and for no page to link to.
            with suppress(InvalidInput):
                yield Note(entry.generation, step, entry.note, entry.link, entry.told_at)


def _told(
    state: MeterState,
    test_set: TestSet,
    entries: Sequence[Entry],
    tenant: int,
    handovers: Sequence[HandOver] = (),
) -> list[Signal]:
    """Show a tenant's entries, each with what was left then: to all who shared its history."""
    on = delivered(state.spec, test_set)
    signals: list[Signal] = []
    if not handovers:
        folded = on.start(tenant)
        for entry in entries:
            folded = folded.after(on.meter, entry)
            signals.append(signal_of(state, on, entry, folded.at, past=True))
        return signals
    histories = Histories(on, {each: on.start(each) for each in range(1, state.tenants + 1)})
    for moment, entry in _in_time(entries):
        histories = histories.after(entry)
        if entry.tenant == tenant:
            rows = [row for row in handovers if row.at <= moment]
            at = replace(histories, handovers=rows).at(tenant)
            signals.append(signal_of(state, on, entry, at, past=True))
    return signals


def _in_time(entries: Sequence[Entry]) -> list[tuple[str, Entry]]:
    """Return entries in time, which come tenant by tenant in the order of their steps.

    Those of a tenant stay in that order although a clock was set back: no step is told before the
    one that it follows.
    """
    latest: dict[int, str] = {}
    timed = []
    for entry in entries:
        latest[entry.tenant] = max(latest.get(entry.tenant, ""), entry.told_at)
        timed.append((latest[entry.tenant], entry))
    return sorted(timed, key=lambda each: each[0])
