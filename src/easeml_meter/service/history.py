"""History: what a tenant was answered from each test set, and what is left."""

from __future__ import annotations

from easeml_meter.core.history import MeterState
from easeml_meter.core.model import TestSet
from easeml_meter.core.views import SessionView
from easeml_meter.errors import invalid
from easeml_meter.service.actor import Actor, Permission, needs
from easeml_meter.service.journal import session_of
from easeml_meter.service.place import Workspace
from easeml_meter.service.testsets.release import truths_of
from easeml_meter.storage.books import Books


@needs(Permission.SEE_SIGNALS)
def show_session(actor: Actor, space: Workspace, number: int | None = None) -> SessionView:
    """Return the session of the actor's tenant on one test set; without a number, the current.

    That of a window of a rolling test set shows the answers of the windows before it, too.

    Raises:
        InvalidInput: the meter has no such test set, or no such tenant.
    """
    with space.reading() as books:
        state = space.state(books)
        test_set = state.current if number is None else _numbered(state, number)
        return _session(actor, space, books, state, test_set, trail=True)


@needs(Permission.SEE_SIGNALS)
def list_sessions(actor: Actor, space: Workspace) -> tuple[SessionView, ...]:
    """Return the sessions of the actor's tenant on all test sets delivered so far.

    Raises:
        InvalidInput: the meter has no such tenant.
    """
    with space.reading() as books:
        state = space.state(books)
        delivered = [each for each in state.generations if each.rows is not None]
        return tuple(_session(actor, space, books, state, each) for each in delivered)


def _session(
    actor: Actor,
    space: Workspace,
    books: Books,
    state: MeterState,
    test_set: TestSet,
    *,
    trail: bool = False,
) -> SessionView:
    tenant = state.tenant(actor.acting_for)
    truths = truths_of(space, test_set, tenant)
    return session_of(books, state, test_set, tenant, truths, trail=trail)


def _numbered(state: MeterState, number: int) -> TestSet:
    if not 1 <= number <= len(state.generations):
        raise invalid("generation", number, f"a number from 1 to {len(state.generations)}")
    return state.numbered(number)
