"""Completing the books from the journal beside each test set: what was answered stays answered."""

from __future__ import annotations

from dataclasses import replace

from easeml_meter.core.model import Entry, Event, TestSet
from easeml_meter.service.place import Workspace
from easeml_meter.storage.books import Books


def reconcile(
    space: Workspace,
    books: Books,
    generation: TestSet,
    seen: list[Entry] | None = None,
) -> tuple[list[Entry], list[Entry]]:
    """Complete the books from the journal beside the test set; what was told stays told.

    Gives all entries, and those the journal lacks (a crash came between the two): the caller
    appends them once its transaction has been committed. `seen` are the entries read before.
    """
    _remember_handovers(space, books, generation)
    if seen is None or len(seen) != books.entries.count(generation.meter, generation.number):
        seen = None
    entries = books.entries.all(generation.meter, generation.number) if seen is None else seen
    if space.journal(generation).count() == len(entries):
        return entries, []
    known = {(entry.tenant, entry.step) for entry in entries}
    told = space.journal(generation).read()
    forgotten = [
        replace(entry, meter=generation.meter, generation=generation.number)
        for entry in told
        if (entry.tenant, entry.step) not in known
    ]
    if forgotten:
        books.entries.add(forgotten)
        steps = [[entry.tenant, entry.step] for entry in forgotten]
        details = {"generation": generation.number, "tenant_and_step": steps}
        books.audit.append(generation.meter, space.now(), Event.BOOKS_BEHIND, details)
        entries = books.entries.all(generation.meter, generation.number)
    told_keys = {(entry.tenant, entry.step) for entry in told}
    return entries, [entry for entry in entries if (entry.tenant, entry.step) not in told_keys]


def _remember_handovers(space: Workspace, books: Books, generation: TestSet) -> None:
    """Complete the hand-overs, too: an older database put back would forget what they cost."""
    told = space.journal(generation).handovers()
    if not told:
        return
    known = books.handovers.all(generation.meter, generation.number)
    pairs = {(row.giver, row.receiver) for row in known}
    for row in told:
        if (row.giver, row.receiver) not in pairs:
            pairs.add((row.giver, row.receiver))
            books.handovers.add(replace(row, meter=generation.meter, generation=generation.number))
            details = {
                "generation": generation.number,
                "giver": row.giver,
                "receiver": row.receiver,
            }
            books.audit.append(generation.meter, space.now(), Event.HAND_OVER_MISSING, details)
