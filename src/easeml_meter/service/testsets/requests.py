"""Requests for labels: a fresh test set is requested when the last one is spent."""

from __future__ import annotations

from dataclasses import dataclass, replace

from easeml_meter.core.history import MeterState, all_spent
from easeml_meter.core.lifecycle import Phase, advance
from easeml_meter.core.model import Entry, Part, TestSet
from easeml_meter.errors import NotFound, WrongPhase
from easeml_meter.service.place import Workspace
from easeml_meter.spec import MeterSpec
from easeml_meter.stats.planning import required_labels
from easeml_meter.storage import schema
from easeml_meter.storage.books import Books


def requested(situation: MeterState) -> TestSet:
    """Give the test set that is asked for, or say that none is."""
    latest = situation.generations[-1]
    if latest.phase is not Phase.REQUESTED:
        raise WrongPhase(f"test set {latest.number} is {latest.phase}: no other one is asked for")
    return latest


@dataclass(frozen=True)
class Request:
    """A request for labels, and how far it has got."""

    generation: TestSet
    parts: tuple[Part, ...]

    @property
    def labels_here(self) -> int:
        """Rows in the parts delivered so far."""
        return sum(part.rows for part in self.parts)


def requests(space: Workspace) -> list[Request]:
    """Give the requests that are open."""
    with space.reading() as books:
        return [
            Request(row, tuple(parts_of(books, row)))
            for row in space.state(books).generations
            if row.phase is Phase.REQUESTED
        ]


def parts_of(books: Books, generation: TestSet) -> list[Part]:
    """Give the parts delivered for one test set, in order."""
    table = schema.parts
    where = (table.c.meter == generation.meter) & (table.c.generation == generation.number)
    return [Part(**row) for row in books.select(table, where, order=table.c.number)]


def describe_request(
    space: Workspace, number: int, *, reason: str | None, deadline: str | None
) -> Request:
    """Say why labels are asked for, and until when."""
    table = schema.generations
    with space.writing() as books:
        found = open_request(space, books, number)
        where = (table.c.meter == found.meter) & (table.c.number == number)
        changes = {"reason": reason, "deadline": deadline}
        books.connection.execute(table.update().where(where), changes)
        details = {"generation": number, **changes}
        books.audit.append(found.meter, space.now(), "request described", details)
    return next(each for each in requests(space) if each.generation.number == number)


def open_request(space: Workspace, books: Books, number: int) -> TestSet:
    """Return a test set that labels are still needed for."""
    rows = space.state(books).generations
    found = next((row for row in rows if row.number == number), None)
    if found is None:
        raise NotFound(f"test set {number}: there is none of that number")
    if found.phase is not Phase.REQUESTED:
        raise WrongPhase(f"test set {number} is {found.phase}: its labels are here already")
    return found


def retire_if_spent(
    space: Workspace, books: Books, generation: TestSet, entries: list[Entry]
) -> None:
    """Close a test set in use if answers that its journal brought back leave nothing to say."""
    situation = space.state(books)
    handovers = books.handovers.all(generation.meter, generation.number)
    if all_spent(situation, generation, entries, handovers):
        retire(space, books, situation, generation)


def retire(space: Workspace, books: Books, situation: MeterState, generation: TestSet) -> None:
    """Close a test set that has said all it can, and ask the labelers for the next one."""
    now = space.now()
    phase = advance(generation.phase, Phase.SPENT)
    books.testsets.update(replace(generation, phase=phase, changed_at=now))
    books.audit.append(generation.meter, now, "spent", {"generation": generation.number})
    if situation.spec.sessions == 1 or generation.number < situation.spec.sessions:
        request(books, situation.spec, generation.meter, generation.number + 1, now)


def request(books: Books, spec: MeterSpec, meter: str, number: int, now: str) -> None:
    """Ask the labelers for a test set of exactly the planned size."""
    labels = required_labels(spec).labels
    books.testsets.add(TestSet(meter, number, Phase.REQUESTED, labels, now))
    details = {"generation": number, "labels": labels}
    books.audit.append(meter, now, "requested", details)
