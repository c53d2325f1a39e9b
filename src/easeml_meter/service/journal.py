"""What was answered stays answered: the same rows, sealed again, keep the budget that they had.

The histories of a test set are folded from the books, which are completed from the journal that
lies beside its rows: a lost or older database gives no answer back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

from easeml_meter.core.history import (
    Histories,
    MeterState,
    brought_to,
    consequence_of,
    delivered,
    fold,
    session_view,
    sharing,
)
from easeml_meter.core.lifecycle import Phase
from easeml_meter.core.model import Entry, Event, HandOver, Promotion, TestSet, stamp
from easeml_meter.core.views import Consequence, SessionView, Truth
from easeml_meter.service.place import Workspace
from easeml_meter.storage.books import Books

_IN_FLIGHT = 100
"""Answers by which a journal may be behind without being read: others are about to add them."""
_JUST_NOW = timedelta(minutes=10)


def histories_of(
    books: Books, state: MeterState, test_set: TestSet, *, store: bool = False
) -> Histories:
    """Return all tenants' histories of a delivered test set, from their stored accounts.

    A stored account that is missing or behind (an older database, a restore, entries from the
    journal) is folded again from all of the tenant's entries; `store` keeps it for the next time.
    """
    meter, number = test_set.meter, test_set.number
    on = delivered(state.spec, test_set)
    found = books.accounts.complete(meter, number)
    missing = [tenant for tenant in range(1, state.tenants + 1) if tenant not in found]
    again = {
        tenant: fold(on, books.entries.all(meter, number, tenant), tenant) for tenant in missing
    }
    if store:
        books.accounts.put(meter, number, again.values())
    # Where there is one tenant only, nothing can be handed over.
    handovers = books.handovers.all(meter, number) if state.tenants > 1 else []
    return Histories(on, found | again, handovers)


def session_of(
    books: Books,
    state: MeterState,
    test_set: TestSet,
    tenant: int,
    truths: tuple[Truth | None, ...] = (),
    *,
    trail: bool = False,
) -> SessionView:
    """Return one tenant's session on a test set, which may still be requested.

    `trail`: with the answers of the windows before it, if it is one of a rolling test set.
    """
    entries = books.entries.all(test_set.meter, test_set.number, tenant)
    if test_set.rows is None:
        return session_view(state, test_set, entries, None, truths=truths)
    histories = histories_of(books, state, test_set)
    at = histories.at(tenant)
    waiting = requested_handovers(books, state, test_set, histories)
    every = books.entries.all(test_set.meter, test_set.number) if at.group else []
    handovers = histories.handovers if at.group else ()
    brought: tuple[int, ...] = ()
    if truths and at.group:
        brought = brought_to(tenant, *_as_entered(books, test_set, every, handovers))
    earlier = _windows_before(books, state, test_set, tenant) if trail and not truths else []
    view = session_view(
        state,
        test_set,
        entries,
        at,
        truths=truths,
        earlier=earlier,
        shared=every,
        handovers=handovers,
    )
    return replace(
        view,
        brought=brought,
        sharing=at.group,
        handovers=tuple(each for each in waiting if tenant in each.sharing),
    )


def _as_entered(
    books: Books, test_set: TestSet, entries: Sequence[Entry], handovers: Sequence[HandOver]
) -> tuple[Sequence[Entry], Sequence[HandOver]]:
    """Put places in the audit chain for moments: the clock may have been set back meanwhile.

    Where the chain lacks one of them, as after older books were put back, the moments stay.
    """

    def places(event: Event, *names: str) -> dict[tuple[int, ...], str]:
        links = books.audit.of(test_set.meter, event)
        own = (each for each in links if each.details["generation"] == test_set.number)
        return {tuple(each.details[n] for n in names): f"{each.number:020}" for each in own}

    told = places(Event.TOLD, "tenant", "step")
    handed = places(Event.HANDED_OVER, "giver", "receiver")
    try:
        return (
            [replace(each, told_at=told[each.tenant, each.step]) for each in entries],
            [replace(each, at=handed[each.giver, each.receiver]) for each in handovers],
        )
    except KeyError:
        return entries, handovers


def _windows_before(
    books: Books, state: MeterState, test_set: TestSet, tenant: int
) -> list[tuple[TestSet, list[Entry]]]:
    """Return the windows that share batches or a delta with this one, with what they told."""
    meter, number = state.spec.meter, test_set.number
    first = meter.renewal.first_sharing(meter.budget, number)
    shown = (each for each in state.generations if first <= each.number < number)
    return [(each, books.entries.all(each.meter, each.number, tenant)) for each in shown]


def requested_handovers(
    books: Books, state: MeterState, test_set: TestSet, histories: Histories
) -> list[Consequence]:
    """Return what the hand-overs mean that wait for a tenant to agree."""
    if state.tenants == 1 or test_set.phase is not Phase.ACTIVE:
        return []
    return [
        replace(
            consequence_of(state, test_set, histories, each.giver, each.receiver),
            agreed=tuple(each.agreed),
        )
        for each in books.handovers.requests(test_set.meter, test_set.number)
        if each.receiver not in sharing(each.giver, histories.handovers)
    ]


def reconcile(
    space: Workspace,
    books: Books,
    state: MeterState,
    test_set: TestSet,
    *,
    restoring: bool = False,
) -> tuple[Histories, list[Entry]]:
    """Complete the books from the journal beside the test set: what was told stays told.

    Return all histories, and the entries that the journal lacks because a crash came between the
    two: the caller appends them once its transaction is committed. The chain says so; in a restore
    it is no fault of the books.
    """
    if state.tenants > 1:
        _complete_handovers(space, books, test_set)
    if state.spec.meter.question.promotes:
        _complete_promotions(space, books, test_set)
    histories = histories_of(books, state, test_set, store=True)
    # Where all answers were given, these alone keep older books from more; the chain is long.
    if test_set.phase is not Phase.ACTIVE and not histories.all_spent:
        complete_retirement(space, books, state, test_set)
    journal = space.journal(test_set)
    # The usual case, in which neither side has to be read: both hold as many answers.
    told_there = journal.answers()
    if told_there == histories.answers:
        return histories, []
    if told_there is not None and 0 < histories.answers - told_there <= _IN_FLIGHT:
        late = _newest(space, books, test_set, histories.answers - told_there)
        if late is not None:
            return histories, late
    entries = books.entries.all(test_set.meter, test_set.number)
    told = journal.read()
    known = {(entry.tenant, entry.step) for entry in entries}
    forgotten = [
        replace(entry, meter=test_set.meter, generation=test_set.number)
        for entry in told
        if (entry.tenant, entry.step) not in known
    ]
    # These answers have left the meter, so they count; the chain says that the books had lost them.
    if forgotten:
        books.entries.add(forgotten)
        steps = [[entry.tenant, entry.step] for entry in forgotten]
        details = {"generation": test_set.number, "tenant_and_step": steps}
        details |= {"restoring": True} if restoring else {}
        books.audit.append(test_set.meter, space.now(), Event.BOOKS_BEHIND, details)
        histories = histories_of(books, state, test_set, store=True)
    histories = replace(histories, retired=journal.retired())
    journaled = {(entry.tenant, entry.step) for entry in told}
    return histories, [each for each in entries if (each.tenant, each.step) not in journaled]


def _newest(space: Workspace, books: Books, test_set: TestSet, count: int) -> list[Entry] | None:
    """Return the newest answers, if they were given just now; None: something else is wrong.

    Another server has committed them, and is about to add them to the journal. Whoever answers
    next adds them as well, as that server may have died; a line that is there twice counts once.
    """
    links = books.audit.newest_of(test_set.meter, Event.TOLD, count)
    since = stamp(space.clock() - _JUST_NOW)
    if len(links) < count or any(link.at < since for link in links):
        return None
    if any(link.details["generation"] != test_set.number for link in links):
        return None
    places = ((link.details["tenant"], link.details["step"]) for link in links)
    found = [books.entries.at(test_set.meter, test_set.number, *place) for place in places]
    return None if None in found else [entry for entry in found if entry is not None]


def _complete_handovers(space: Workspace, books: Books, test_set: TestSet) -> None:
    """Complete the hand-overs, too: an older database put back would forget what they cost.

    Those that a crash kept from the journal were committed before, and are added to it now.
    """
    journal = space.journal(test_set)
    told = journal.handovers()
    known = books.handovers.all(test_set.meter, test_set.number)
    if not told and not known:
        return
    journaled = {(row.giver, row.receiver) for row in told}
    for row in known:
        if (row.giver, row.receiver) not in journaled:
            journal.append_handover(row)
    pairs = {(row.giver, row.receiver) for row in known}
    for row in told:
        if (row.giver, row.receiver) not in pairs:
            pairs.add((row.giver, row.receiver))
            books.handovers.add(replace(row, meter=test_set.meter, generation=test_set.number))
            details = {
                "generation": test_set.number,
                "giver": row.giver,
                "receiver": row.receiver,
            }
            books.audit.append(test_set.meter, space.now(), Event.HAND_OVER_MISSING, details)


def complete_retirement(
    space: Workspace, books: Books, state: MeterState, test_set: TestSet
) -> None:
    """Add to the journal that a test set was retired early, if a crash has kept that from it.

    Before any of its labels are public: an older database put back would answer from them.
    """
    links = books.audit.of(test_set.meter, Event.RETIRED)
    retired = [link for link in links if link.details["generation"] == test_set.number]
    if retired and not space.journal(test_set).retired():
        answers = histories_of(books, state, test_set).answers
        space.journal(test_set).retire(retired[-1].at, answers)


def catch_up(space: Workspace, state: MeterState, test_set: TestSet) -> None:
    """Complete books that lack a promotion before a model is compared with the one before."""
    if not state.spec.meter.question.promotes:
        return
    told = space.journal(test_set).promotions()
    with space.reading() as books:
        behind = len(told) > len(promotions_of(books, test_set))
    if behind:
        with space.writing() as books:
            histories, unjournaled = reconcile(space, books, state, test_set)
        space.journal(test_set).append(unjournaled, histories.journaled)


def promotions_of(books: Books, test_set: TestSet) -> list[Promotion]:
    """Return all promotions on a test set, the oldest first."""
    links = [
        link
        for event in (Event.PROMOTED, Event.PROMOTION_MISSING)
        for link in books.audit.of(test_set.meter, event)
        if link.details["generation"] == test_set.number
    ]
    links.sort(key=lambda link: link.number)
    return [
        Promotion(link.details["tenant"], link.details["step"], link.details["model"], link.at)
        for link in links
    ]


def _complete_promotions(space: Workspace, books: Books, test_set: TestSet) -> None:
    """Complete the promotions, too: an older database would compare with the model before.

    Each is entered once for every time that it was made; the last one counts. Those that a crash
    kept from the journal were committed before, and are added to it now.
    """
    journal = space.journal(test_set)
    told, known = journal.promotions(), promotions_of(books, test_set)
    for row in _beyond(told, known):
        journal.append_promotion(row)
    for row in _beyond(known, told):
        missing = replace(row, at=space.now())
        enter_promotion(books, test_set, missing, Event.PROMOTION_MISSING)


def enter_promotion(
    books: Books, test_set: TestSet, row: Promotion, event: Event, **by_user: str
) -> None:
    """Add a promotion to the audit chain, which is where the books keep them."""
    said = {"tenant": row.tenant, "step": row.step, "model": row.model}
    details = {"generation": test_set.number, **said, **by_user}
    books.audit.append(test_set.meter, row.at, event, details)


def _beyond(these: list[Promotion], others: list[Promotion]) -> list[Promotion]:
    """Return those of the others that were made more often than these say, the oldest first."""
    left = Counter((row.tenant, row.step) for row in these)
    found = []
    for row in others:
        left[row.tenant, row.step] -= 1
        if left[row.tenant, row.step] < 0:
            found.append(row)
    return found
