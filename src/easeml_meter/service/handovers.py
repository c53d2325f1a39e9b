"""Hand-overs: one tenant goes on from another's model, and what that costs."""

from __future__ import annotations

from dataclasses import dataclass, replace

from easeml_meter.core.history import Histories, sharing
from easeml_meter.core.model import Event, HandOver, TestSet
from easeml_meter.errors import Denied, invalid
from easeml_meter.service.actor import Actor, Permission, needs
from easeml_meter.service.journal import histories_of
from easeml_meter.service.place import Workspace
from easeml_meter.service.testsets.requests import settled
from easeml_meter.spec import MeterSpec
from easeml_meter.stats.planning import required_labels
from easeml_meter.storage.books import Books


@dataclass(frozen=True)
class Consequence:
    """What a hand-over means, told before it is confirmed. Tenants count from 1."""

    generation: int
    giver: int
    receiver: int
    sharing: tuple[int, ...]
    """All tenants that would share one history."""
    steps_left_before: tuple[int, ...]
    """Promised to each of them as things are."""
    steps_left_after: int
    """Promised to all of them together after the hand-over."""
    labels_planned_shared: int
    """Labels that the same steps take when tenants share a history from the start."""
    spends: bool
    """Whether no tenant at all has an answer left afterwards: then the test set is spent."""

    @property
    def sentence(self) -> str:
        """Say it to people."""
        named = " and ".join(map(str, self.sharing))
        before = " + ".join(map(str, self.steps_left_before))
        return (
            f"Teams {named} will share one history on test set {self.generation}: "
            f"{before} steps left now, {self.steps_left_after} together afterwards. "
            f"{f'Test set {self.generation} will be spent. ' if self.spends else ''}"
            f"A meter with handover = true needs {self.labels_planned_shared:,} labels."
        )


@needs(Permission.HAND_OVER)
def hand_over(
    actor: Actor, space: Workspace, giver: int, receiver: int, *, confirm: bool = False
) -> Consequence:
    """Return what a hand-over means; with `confirm` record it.

    From then on the two tenants share one history, until the next test set. Developers of the
    giver may hand over, and so may those of the receiver.

    Raises:
        Denied: the actor is of neither tenant.
        InvalidInput: there is no such tenant, they share a history already, or the meter cannot.
    """
    if not (actor.acts_for(giver) or actor.acts_for(receiver)):
        raise Denied(f"teams {giver} and {receiver}: neither is yours")
    if not confirm:
        with space.reading() as books:
            return _case(space, books, giver, receiver).consequence
    with space.writing() as books:
        case = _case(space, books, giver, receiver)
        now = space.now()
        test_set = case.generation
        made = HandOver(test_set.meter, test_set.number, giver, receiver, now)
        books.handovers.add(made)
        details = {
            "generation": test_set.number,
            "giver": giver,
            "receiver": receiver,
            "steps_left": case.consequence.steps_left_after,
        }
        books.audit.append(test_set.meter, now, Event.HANDED_OVER, details)
        settled(space, books, space.state(books))  # it may have left nothing to anybody
    space.journal(test_set).append_handover(made)
    return case.consequence


@dataclass(frozen=True)
class _Proposal:
    generation: TestSet
    consequence: Consequence


def _case(space: Workspace, books: Books, giver: int, receiver: int) -> _Proposal:
    situation = space.state(books)
    generation = situation.active()
    pair = situation.tenant(giver), situation.tenant(receiver)
    if giver == receiver:
        raise invalid("receiver", receiver, "a team other than the giver")
    known = books.handovers.all(generation.meter, generation.number)
    if pair[1] in sharing(pair[0], known):
        raise invalid("receiver", receiver, f"already shares one history with team {giver}")
    before = histories_of(books, situation, generation)
    before.ledger.check_handover(pair)
    row = HandOver(generation.meter, generation.number, *pair, "")
    after = replace(before, handovers=[*known, row])
    group = sharing(pair[0], after.handovers)
    consequence = Consequence(
        generation=generation.number,
        giver=giver,
        receiver=receiver,
        sharing=group,
        steps_left_before=tuple(_left(before, tenant) for tenant in group),
        steps_left_after=_left(after, pair[0]),
        labels_planned_shared=_shared_plan(situation.spec),
        spends=after.all_spent,
    )
    return _Proposal(generation, consequence)


def _left(histories: Histories, tenant: int) -> int:
    return histories.ledger.steps_left(histories.account(tenant))


def _shared_plan(spec: MeterSpec) -> int:
    return required_labels(spec.replace(handover=True)).labels
