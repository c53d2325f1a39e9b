"""The old model: which one the next submission is compared with, and promoting another.

The first submission to a test set is the one that others are compared with, until a model that
passed is promoted. A promotion is a link of the audit chain, with a second copy in the journal. A
ladder promotes every model that passes by itself.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from easeml_meter.core.history import MeterState
from easeml_meter.core.model import Entry, Event, Promotion, TestSet, stamp
from easeml_meter.core.signals import PASS, name_of
from easeml_meter.errors import invalid
from easeml_meter.service.actor import Actor, Permission, needs
from easeml_meter.service.journal import enter_promotion, promotions_of, reconcile
from easeml_meter.service.place import Workspace
from easeml_meter.storage.books import Books

_PASSED = name_of(PASS)
MOST_FOR_EACH = 10
"""Promotions of a team for each of its answers: none leaves the chain, and every answer reads all
of them."""


def old_model(books: Books, state: MeterState, test_set: TestSet, tenant: int) -> Entry | None:
    """Return the submission that a tenant's next one is compared with; None: there is none yet."""
    place = (test_set.meter, test_set.number, tenant)
    step = 1
    if state.spec.ladder:
        step = books.entries.last(*place, _PASSED) or 1
    else:
        own = [each for each in promotions_of(books, test_set) if each.tenant == tenant]
        step = own[-1].step if own else 1
    return books.entries.at(*place, step)


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
        if not state.spec.compares:
            raise invalid("promote", model, "this meter compares no models: ask for n - o")
        if state.spec.ladder:
            raise invalid("promote", model, "a ladder goes on from the last model that passed")
        test_set, tenant = state.active(), state.tenant(actor.acting_for)
        histories, unjournaled = reconcile(space, books, state, test_set)
        known = books.entries.of_models(test_set.meter, test_set.number, tenant, model)
        # Where nothing can pass, n - o is only read, and its reader decides.
        judged = state.spec.condition is not None
        found = [each for each in known if each.answer == _PASSED or not judged]
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
