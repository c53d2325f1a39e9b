"""The state of a meter, and a tenant's history replayed from its entries."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache

from easeml_meter.core.ledger import Account, Ledger
from easeml_meter.core.lifecycle import Phase
from easeml_meter.core.model import Entry, HandOver, MeterRecord, TestSet, ValidationSet
from easeml_meter.core.signals import answer_named
from easeml_meter.core.views import SessionView, Signal, Truth
from easeml_meter.errors import NotFound, Spent, WrongPhase, invalid
from easeml_meter.spec import MeterSpec
from easeml_meter.stats.planning import Plan, assumptions_of, required_labels


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
        return required_labels(self.spec)

    def active(self) -> TestSet:
        """Give the test set that answers submissions, or say why there is none."""
        latest = self.generations[-1]
        spent = [row for row in self.generations if row.phase in (Phase.SPENT, Phase.RELEASED)]
        if latest.phase is Phase.REQUESTED and spent:
            raise Spent(
                f"test set {spent[-1].number} is spent: the labelers are asked for "
                f"{latest.labels_needed:,} fresh labels (test set {latest.number})"
            )
        if latest.phase is Phase.REQUESTED:
            raise WrongPhase(
                f"no test set yet: the labelers are asked for {latest.labels_needed:,} labels; "
                "seal them with meter seal, then meter testset add"
            )
        if latest.phase is not Phase.ACTIVE:
            raise Spent(f"test set {latest.number} is {latest.phase}: no further one was planned")
        return latest

    def requested(self) -> TestSet:
        """Return the test set that labels are needed for, or say that none is."""
        latest = self.generations[-1]
        if latest.phase is not Phase.REQUESTED:
            raise WrongPhase(
                f"test set {latest.number} is {latest.phase}: no other one is asked for"
            )
        return latest

    def numbered(self, number: int) -> TestSet:
        """Return a test set by its number, or say that there is none."""
        for each in self.generations:
            if each.number == number:
                return each
        raise NotFound(f"test set {number}: there is none of that number")

    @property
    def tenants(self) -> int:
        """The number of separate histories."""
        return 1 if self.spec.handover else max(1, len(self.spec.tenants))

    def tenant(self, number: int) -> int:
        """Return the number of a tenant, if this meter has it.

        Raises:
            InvalidInput: it is not from 1 to the number of tenants.
        """
        if not 1 <= number <= self.tenants:
            raise invalid("tenant", number, f"a number from 1 to {self.tenants}")
        return number


@lru_cache(maxsize=256)
def _spec(settings: str) -> MeterSpec:
    return MeterSpec.from_mapping(json.loads(settings))


def ledger_of(spec: MeterSpec, generation: TestSet) -> Ledger:
    """Open the ledger of a delivered test set."""
    if generation.rows is None:
        raise WrongPhase(f"test set {generation.number} was not delivered yet")
    return _ledger(spec, generation.rows)


_ledger = lru_cache(maxsize=256)(Ledger)  # what it computes once, it keeps


def replay(
    ledger: Ledger, entries: list[Entry], tenant: int, handovers: Sequence[HandOver] = ()
) -> Account:
    """Fold one tenant's entries, and those of all with whom it shares a history by hand-over."""
    folded = [_fold(ledger, entries, member) for member in sharing(tenant, handovers)]
    return folded[0] if len(folded) == 1 else ledger.merge(folded)


def _fold(ledger: Ledger, entries: list[Entry], tenant: int) -> Account:
    """Fold one tenant's entries, from where that was done before: entries are only ever added."""
    own = [entry for entry in entries if entry.tenant == tenant]
    if not own:
        return Account(tenant=tenant)
    place = (own[0].meter, own[0].generation, tenant)
    last, count, account = _FOLDED.get(place, (None, 0, Account(tenant=tenant)))
    if count > len(own) or (count and (own[count - 1], ledger) != last):
        count, account = 0, Account(tenant=tenant)
    for entry in own[count:]:
        account = replay_one(ledger, account, entry)
    if len(_FOLDED) >= _FOLDS:
        _FOLDED.pop(next(iter(_FOLDED)), None)
    _FOLDED[place] = (own[-1], ledger), len(own), account
    return account


_FOLDS = 1024

_FOLDED: dict[tuple[str, int, int], tuple[object, int, Account]] = {}
"""By meter, generation and tenant: the last entry folded and the ledger, how many, the account."""


def all_spent(
    state: MeterState, test_set: TestSet, entries: list[Entry], handovers: Sequence[HandOver]
) -> bool:
    """Whether a test set has no answer left for any tenant."""
    ledger = ledger_of(state.spec, test_set)
    accounts = (
        replay(ledger, entries, tenant, handovers) for tenant in range(1, state.tenants + 1)
    )
    return not any(map(ledger.may_submit, accounts))


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
    ledger: Ledger,
    entry: Entry,
    account: Account,
    *,
    repeated: bool = False,
    forecast: bool = True,
) -> Signal:
    """Show an entry, with what is left after `account`.

    A forecast walks ahead step by step: past steps do without one.
    """
    left = ledger.steps_left(account)
    return Signal(
        spec=situation.spec,
        answer=answer_named(entry.answer),
        step=entry.step,
        generation=entry.generation,
        model=entry.model,
        tenant=entry.tenant,
        told_at=datetime.fromisoformat(entry.told_at),
        battery=ledger.battery(account),
        steps_left=left,
        steps_expected=ledger.steps_expected(account) if forecast else left,
        repeated=repeated,
    )


def session_view(
    situation: MeterState,
    generation: TestSet,
    entries: list[Entry],
    tenant: int,
    *,
    handovers: Sequence[HandOver] = (),
    truths: tuple[Truth | None, ...] = (),
) -> SessionView:
    """Show one tenant's session on one test set."""
    spec = situation.spec
    plan = situation.plan
    own = [entry for entry in entries if entry.tenant == tenant]
    signals: list[Signal] = []
    battery, left, expected = 1.0, plan.spec.steps, plan.spec.steps
    if generation.rows is not None:
        ledger = ledger_of(spec, generation)
        account = Account(tenant=tenant)
        for entry in own:
            account = replay_one(ledger, account, entry)
            signals.append(signal_of(situation, ledger, entry, account, forecast=False))
        account = replay(ledger, entries, tenant, handovers)
        battery = ledger.battery(account)
        left, expected = ledger.steps_left(account), ledger.steps_expected(account)
    return SessionView(
        meter=situation.meter.name,
        spec=spec,
        generation=generation.number,
        phase=generation.phase,
        rows=generation.rows,
        labels_needed=generation.labels_needed,
        signals=tuple(signals),
        battery=battery,
        steps_left=left,
        steps_expected=expected,
        promise=plan.promise,
        assumptions=assumptions_of(spec),
        retrospective=truths,
        submitters=tuple(entry.user for entry in own),
    )


def replay_one(ledger: Ledger, account: Account, entry: Entry) -> Account:
    """Fold one entry."""
    if entry.after_reset:
        account = ledger.reset(account)
    return ledger.record(account, answer_named(entry.answer))
