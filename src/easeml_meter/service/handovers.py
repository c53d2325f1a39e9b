"""Hand-overs: one tenant continues from another's model, once all who pay for it have agreed.

What it costs them is the rule of `promise.ledger`: from then on, one history for all of them.
"""

from __future__ import annotations

from dataclasses import replace

from easeml_meter.core.history import consequence_of
from easeml_meter.core.model import Event, HandOver, HandOverRequest, TestSet
from easeml_meter.core.views import Consequence
from easeml_meter.errors import Denied, MeterError, NotFound
from easeml_meter.service.actor import Actor, Permission, needs
from easeml_meter.service.journal import histories_of, requested_handovers
from easeml_meter.service.place import Workspace
from easeml_meter.service.submissions.deciding import tenants_held
from easeml_meter.service.testsets.requests import settled
from easeml_meter.storage.books import Books


@needs(Permission.HAND_OVER)
def hand_over(
    actor: Actor, space: Workspace, giver: int, receiver: int, *, confirm: bool = False
) -> Consequence:
    """Return what a hand-over means; with `confirm` request it, or agree to it.

    It counts once every tenant that would share the history has agreed; the actor agrees for the
    tenants it acts for. From then on they share one history, until the next test set. It is not
    refused where it leaves nothing: a checkpoint that was passed on must be recorded.

    Raises:
        Denied: the actor is of neither tenant.
        InvalidInput: there is no such tenant, they share a history already, or the meter cannot.
        MeterError: it would leave no answer for a model that runs on hidden rows.
        WrongPhase: there is no test set yet.
    """
    if not (actor.acts_for(giver) or actor.acts_for(receiver)):
        raise Denied(f"teams {giver} and {receiver}: neither is yours")
    if confirm:
        return _agree(actor, space, giver, receiver, request=True)
    with space.reading() as books:
        test_set, found = _case(space, books, giver, receiver)
        waiting = _request(books, test_set, giver, receiver)
    # Whoever is the last to agree must know it before: their consent makes it count at once.
    return found if waiting is None else replace(found, agreed=tuple(waiting.agreed))


@needs(Permission.CONSENT)
def list_handovers(actor: Actor, space: Workspace) -> list[Consequence]:
    """Return the hand-overs that wait for a tenant to agree, of those that concern the actor."""
    with space.reading() as books:
        state = space.state(books)
        test_set = state.generations[-1]
        if test_set.rows is None:
            return []
        histories = histories_of(books, state, test_set)
        waiting = requested_handovers(books, state, test_set, histories)
    return [each for each in waiting if any(map(actor.acts_for, each.sharing))]


@needs(Permission.CONSENT)
def answer_handover(
    actor: Actor, space: Workspace, giver: int, receiver: int, *, accept: bool
) -> Consequence:
    """Agree to a hand-over that was requested, for the actor's tenants, or decline it.

    Whoever requested it withdraws it by declining. Admins decide for every tenant.

    Raises:
        Denied: none of the tenants that would share the history is the actor's.
        InvalidInput: there is no such tenant.
        MeterError: it would leave no answer for a model that runs on hidden rows.
        NotFound: this hand-over was not requested, or was answered meanwhile.
    """
    if accept:
        return _agree(actor, space, giver, receiver, request=False)
    with space.writing() as books:
        test_set, found = _case(space, books, giver, receiver)
        _own(actor, found)
        waiting = _request(books, test_set, giver, receiver)
        if waiting is None and _declined_before(books, test_set, {giver, receiver}):
            return found
        if waiting is None:
            raise _not_requested(giver, receiver)
        books.handovers.withdraw(waiting)
        _link(actor, space, books, waiting, Event.HAND_OVER_DECLINED)
    return found


def _agree(
    actor: Actor, space: Workspace, giver: int, receiver: int, *, request: bool
) -> Consequence:
    """Add the actor's consent under the lock, and record the hand-over if it was the last one.

    One that is recorded stays as it is.
    """
    with space.writing() as books:
        if (done := _recorded(space, books, giver, receiver)) is not None:
            _own(actor, done)
            return done
        test_set, found = _case(space, books, giver, receiver)
        own = _own(actor, found)
        waiting = _request(books, test_set, giver, receiver)
        if waiting is None and not request:
            raise _not_requested(giver, receiver)
        if waiting is None:
            space.check_links(books, actor.user, Event.HAND_OVER_REQUESTED)
        before = waiting.agreed if waiting else []
        agreed = sorted({*before, *own})
        made = waiting or HandOverRequest(*_key(test_set), giver, receiver, [], space.now())
        made = replace(made, agreed=agreed)
        found = replace(found, agreed=tuple(agreed))
        if found.waiting_for:
            books.handovers.request(made)
            if agreed != before:
                event = Event.HAND_OVER_AGREED if waiting else Event.HAND_OVER_REQUESTED
                _link(actor, space, books, made, event)
            return found
        held = tenants_held(books, space.state(books), test_set).intersection(found.sharing)
        if len(held) > found.steps_left_after:
            # Its run has touched hidden rows, so it is answered, and charged to what they share.
            line = "a model of one of these teams is running, and would get no answer"
            raise MeterError(f"{line}: agree when it is answered")
        row = HandOver(*_key(test_set), made.giver, made.receiver, space.now())
        books.handovers.add(row)
        books.handovers.withdraw(made)
        left = {"steps_left": found.steps_left_after}
        _link(actor, space, books, made, Event.HANDED_OVER, **left)
        settled(space, books, space.state(books))  # it may have left nothing to anybody
    # After the commit, as every line of a journal: it must not know what the books gave up.
    space.journal(test_set).append_handover(row)
    return replace(found, recorded=True)


def _case(space: Workspace, books: Books, giver: int, receiver: int) -> tuple[TestSet, Consequence]:
    state = space.state(books)
    test_set = state.active()
    histories = histories_of(books, state, test_set)
    return test_set, consequence_of(state, test_set, histories, giver, receiver)


def _recorded(space: Workspace, books: Books, giver: int, receiver: int) -> Consequence | None:
    """Return what a hand-over that was recorded has meant; None: it was not."""
    state = space.state(books)
    test_set = state.active()
    histories = histories_of(books, state, test_set)
    others = [
        each for each in histories.handovers if (each.giver, each.receiver) != (giver, receiver)
    ]
    if len(others) == len(histories.handovers):
        return None
    before = replace(histories, handovers=others)
    found = consequence_of(state, test_set, before, giver, receiver)
    return replace(found, agreed=found.sharing, recorded=True)


def _declined_before(books: Books, test_set: TestSet, pair: set[int]) -> bool:
    details = [link.details for link in books.audit.of(test_set.meter, Event.HAND_OVER_DECLINED)]
    own = (each for each in details if each["generation"] == test_set.number)
    return any({each["giver"], each["receiver"]} == pair for each in own)


def _own(actor: Actor, found: Consequence) -> list[int]:
    """Return the actor's tenants; asked first, so that others do not learn what is requested."""
    own = [tenant for tenant in found.sharing if actor.acts_for(tenant)]
    if not own:
        raise Denied(f"teams {found.giver} and {found.receiver}: neither is yours")
    return own


def _request(books: Books, test_set: TestSet, giver: int, receiver: int) -> HandOverRequest | None:
    """Return the request that two tenants share a history; which one gives changes nothing."""
    waiting = books.handovers.requests(*_key(test_set))
    return next(
        (each for each in waiting if {each.giver, each.receiver} == {giver, receiver}), None
    )


def _key(test_set: TestSet) -> tuple[str, int]:
    return test_set.meter, test_set.number


def _not_requested(giver: int, receiver: int) -> NotFound:
    return NotFound(f"hand-over {giver} {receiver}: nobody has requested it, or it was answered")


def _link(
    actor: Actor,
    space: Workspace,
    books: Books,
    about: HandOverRequest,
    event: Event,
    **more: object,
) -> None:
    details: dict[str, object] = {
        "generation": about.generation,
        "giver": about.giver,
        "receiver": about.receiver,
        **more,
        **actor.by_user,
    }
    books.audit.append(about.meter, space.now(), event, details)
