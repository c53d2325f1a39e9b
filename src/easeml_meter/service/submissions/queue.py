"""The queue of submissions: predictions are answered at once, models wait for a worker.

A submission is described by what stands in the books: a row of `submissions` while it waits, the
ledger's entry once it was answered. Predictions never wait, so they have an entry and no row.
"""

from __future__ import annotations

import hashlib
import logging
import secrets
import threading
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any

from easeml_meter.core.model import Entry, stamp
from easeml_meter.core.people import Role, Seat
from easeml_meter.core.views import Signal
from easeml_meter.errors import (
    MeterError,
    NotFound,
    StorageError,
    invalid,
)
from easeml_meter.meter import Meter
from easeml_meter.service.actor import Permission, require
from easeml_meter.service.place import Site
from easeml_meter.service.submissions.answering import Submission, submit_all
from easeml_meter.service.submissions.kinds import (
    Parcel,
    PredictionFiles,
    _model,
)
from easeml_meter.service.submissions.measuring import Conditions
from easeml_meter.storage import jobs, schema
from easeml_meter.storage.books import Books
from easeml_meter.tables.source import Held

_LOG = logging.getLogger(__name__)

MOST_ATTEMPTS = 5
"""So often a submission is tried that the program itself fails at."""

_PATIENCE = 1.0
"""Seconds between two looks at the queue."""


class State(StrEnum):
    """Where a submission stands."""

    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Ticket:
    """A row of the queue."""

    id: str
    meter: str
    tenant: int
    user: str
    model: str
    kind: str
    blob: str
    options: dict[str, Any]
    state: State
    problem: dict[str, str] | None
    generation: int | None
    step: int | None
    attempts: int
    created_at: str
    changed_at: str


@dataclass(frozen=True)
class Receipt:
    """What whoever handed something in may know of it; the signal is told apart."""

    id: str
    state: State
    kind: str
    model: str
    tenant: int
    generation: int | None
    step: int | None
    created_at: str
    problem: dict[str, str] | None = None

    @property
    def final(self) -> bool:
        """Tell whether nothing more will happen."""
        return self.state in (State.DONE, State.REFUSED)


@dataclass(frozen=True)
class Handed:
    """A submission as it came in."""

    site: Site
    seat: Seat
    model: str
    body: bytes = field(repr=False)


Accepted = tuple[Receipt, Signal | None]


def accept(site: Site, seat: Seat, model: str, body: bytes) -> Accepted:
    """Take a submission: answer predictions, queue a model.

    Its format is checked first. What is refused here or later for its format costs nothing.
    """
    (outcome,) = accept_all(seat.meter, [Handed(site, seat, model, body)])
    if isinstance(outcome, Exception):
        raise outcome
    return outcome


def accept_all(meter: str, together: Sequence[Handed]) -> list[Accepted | Exception]:
    """Take submissions to one meter, each for itself, in one transaction."""
    outcomes: list[Submission | Accepted | Exception] = []
    for handed in together:
        try:
            outcomes.append(_received(handed))
        except Exception as error:  # is told to whom it concerns
            outcomes.append(error)
    given = [each for each in outcomes if isinstance(each, Submission)]
    answered = iter(submit_all(together[0].site.space(meter), given) if given else ())
    found: list[Accepted | Exception] = []
    for outcome in outcomes:
        told = next(answered) if isinstance(outcome, Submission) else outcome
        found.append((_receipt_of(meter, told), told) if isinstance(told, Signal) else told)
    return found


def _received(handed: Handed) -> Submission | Accepted:
    """Look at what came in: predictions are to be answered, a model is queued."""
    seat, parcel = handed.seat, Parcel.unpack(handed.body)
    require(seat.role, Permission.SUBMIT)
    if parcel.kind != "predictions":
        return _enqueue(handed.site, seat, handed.model, parcel), None
    files = {name.partition(".")[0]: Held(name, parcel.files[name]) for name in parcel.files}
    submitted = PredictionFiles(files["test"], files["validation"])
    return Submission(submitted, handed.model, seat.tenant, seat.user)


def _meter(site: Site, seat: Seat) -> Meter:
    return Meter(site.space(seat.meter), seat.role, seat.tenant, seat.user)


def _enqueue(site: Site, seat: Seat, model: str, parcel: Parcel) -> Receipt:
    space = site.space(seat.meter)
    (content,) = parcel.files.values()
    Submission(_model(parcel.kind, content), model, seat.tenant)  # what is wrong is told now
    with space.reading() as books:
        situation = space.state(books)
    situation.active()
    if not situation.spec.models:
        needed = "predictions: this meter was planned without models = true in meter.toml"
        raise invalid("submission", "a model", needed)
    identifier, now = secrets.token_hex(16), site.now()
    ticket = Ticket(
        id=identifier,
        meter=seat.meter,
        tenant=seat.tenant,
        user=seat.user,
        model=model,
        kind=parcel.kind,
        blob=space.files.put(f"submissions/{identifier}", content),
        options={"role": str(seat.role)},
        state=State.QUEUED,
        problem=None,
        generation=None,
        step=None,
        attempts=0,
        created_at=now,
        changed_at=now,
    )
    with space.writing() as books:
        books.connection.execute(schema.submissions.insert(), asdict(ticket))
        jobs.enqueue(books, jobs.Job(ticket.id, ticket.meter, ticket.tenant))
    return _receipt(ticket)


def claim(site: Site) -> str | None:
    """Take the oldest submission that can be worked on; one at a time of each tenant."""
    table = schema.submissions
    with site.writing() as books:
        rows = books.select(
            table,
            table.c.state.in_([State.QUEUED, State.RUNNING]),
            order=(table.c.created_at, table.c.id),
        )
        busy = {(row["meter"], row["tenant"]) for row in rows if row["state"] == State.RUNNING}
        for row in rows:
            # The oldest of a tenant goes first, also if it was put back.
            if (row["meter"], row["tenant"]) not in busy:
                _change(books, row["id"], state=State.RUNNING, changed_at=site.now())
                return str(row["id"])
    return None


def work(site: Site, identifier: str) -> None:
    """Answer a queued submission; done twice, or after it was cancelled, it does nothing.

    It can be interrupted at any point and done again: the ledger charges the same bytes once.
    """
    ticket = _begin(site, identifier)
    if ticket is None:
        return
    space = site.space(ticket.meter)
    try:
        submitted = _model(ticket.kind, space.files.read(ticket.blob))
        meter = Meter(space, Role(ticket.options["role"]), ticket.tenant, ticket.user)
        # What ends its workers again and again does so on hidden rows, for all one knows: that
        # must not be a free answer.
        hopeless = Conditions(hopeless=ticket.attempts > MOST_ATTEMPTS)
        signal = meter.submit_any(submitted, model=ticket.model, conditions=hopeless)
    except StorageError:
        put_back(site, identifier)
        raise
    except MeterError as error:
        _end(
            site, ticket, state=State.REFUSED, problem={"error": error.word, "message": str(error)}
        )
    except Exception:
        if ticket.attempts <= MOST_ATTEMPTS:
            put_back(site, identifier)
            raise
        _end(site, ticket, state=State.REFUSED, problem=_FAILED)
    else:
        _end(site, ticket, state=State.DONE, generation=signal.generation, step=signal.step)


_FAILED = {"error": "internal", "message": "the server failed at it: tell its admin"}


def put_back(site: Site, identifier: str) -> None:
    """Return a submission under way to the queue."""
    table = schema.submissions
    where = (table.c.id == identifier) & (table.c.state == State.RUNNING)
    with site.writing() as books:
        changes = {"state": State.QUEUED, "changed_at": site.now()}
        books.connection.execute(table.update().where(where), changes)


def put_all_back(site: Site) -> None:
    """Queue again what a process that died had under way; only where no other one works."""
    table = schema.submissions
    with site.reading() as books:
        rows = books.select(table, table.c.state == State.RUNNING)
    for row in rows:
        put_back(site, row["id"])


def cancel(site: Site, seat: Seat, identifier: str) -> None:
    """Take a submission back, as long as it waits: it costs nothing."""
    receipt(site, seat, identifier)  # whether there is one
    with site.writing() as books:
        ticket = _ticket(books, seat, identifier)
        if ticket is None or ticket.state is not State.QUEUED:
            raise MeterError("the submission does not wait any more: it cannot be cancelled")
        books.connection.execute(
            schema.submissions.delete().where(schema.submissions.c.id == identifier)
        )
    site.space(seat.meter).files.remove(ticket.blob)


def receipts(site: Site, seat: Seat) -> list[Receipt]:
    """List a tenant's submissions, the newest first."""
    table = schema.submissions
    where = (table.c.meter == seat.meter) & (table.c.tenant == seat.tenant)
    with site.reading() as books:
        tickets = [_as_ticket(row) for row in books.select(table, where)]
        entries = _entries(books, seat)
    known = {(ticket.generation, ticket.step) for ticket in tickets}
    told = [_receipt_of(seat.meter, entry) for entry in entries]
    found = [each for each in told if (each.generation, each.step) not in known]
    found += [_receipt(ticket) for ticket in tickets]
    return sorted(found, key=lambda receipt: (receipt.created_at, receipt.id), reverse=True)


def receipt(site: Site, seat: Seat, identifier: str) -> Receipt:
    """Find a submission of the seat's tenant."""
    with site.reading() as books:
        ticket = _ticket(books, seat, identifier)
        if ticket is not None:
            return _receipt(ticket)
        for entry in _entries(books, seat):
            found = _receipt_of(seat.meter, entry)
            if found.id == identifier:
                return found
    raise NotFound(f"submission {identifier[:32]!r}: none of yours with that id")


def signal_for(site: Site, seat: Seat, receipt: Receipt) -> Signal | None:
    """Give the signal that a submission was answered with."""
    if receipt.state is not State.DONE:
        return None
    view = _meter(site, seat).status(generation=receipt.generation)
    own = (receipt.tenant, receipt.step)
    return next(signal for signal in view.signals if (signal.tenant, signal.step) == own)


def _entries(books: Books, seat: Seat) -> list[Entry]:
    table = schema.entries
    where = (table.c.meter == seat.meter) & (table.c.tenant == seat.tenant)
    return [Entry(**row) for row in books.select(table, where)]


def _ticket(books: Books, seat: Seat, identifier: str) -> Ticket | None:
    table = schema.submissions
    where = (
        (table.c.id == identifier) & (table.c.meter == seat.meter) & (table.c.tenant == seat.tenant)
    )
    rows = books.select(table, where)
    return _as_ticket(rows[0]) if rows else None


def _begin(site: Site, identifier: str) -> Ticket | None:
    table = schema.submissions
    with site.writing() as books:
        rows = books.select(table, table.c.id == identifier)
        ticket = _as_ticket(rows[0]) if rows else None
        if ticket is None or _receipt(ticket).final:
            return None
        begun = replace(
            ticket, state=State.RUNNING, attempts=ticket.attempts + 1, changed_at=site.now()
        )
        _change(books, identifier, **asdict(begun))
    return begun


def _end(site: Site, ticket: Ticket, **changes: Any) -> None:
    table = schema.submissions
    # Another worker may have ended it meanwhile, when this one was taken for dead.
    where = (table.c.id == ticket.id) & (table.c.state == State.RUNNING)
    with site.writing() as books:
        changes["changed_at"] = site.now()
        books.connection.execute(table.update().where(where), changes)
    site.space(ticket.meter).files.remove(ticket.blob)


def _change(books: Books, identifier: str, **changes: Any) -> None:
    table = schema.submissions
    books.connection.execute(table.update().where(table.c.id == identifier), changes)


def _as_ticket(row: dict[str, Any]) -> Ticket:
    return Ticket(**(row | {"state": State(row["state"])}))


def _receipt(ticket: Ticket) -> Receipt:
    return Receipt(
        id=ticket.id,
        state=ticket.state,
        kind=ticket.kind,
        model=ticket.model,
        tenant=ticket.tenant,
        generation=ticket.generation,
        step=ticket.step,
        created_at=ticket.created_at,
        problem=ticket.problem,
    )


def _receipt_of(meter: str, told: Entry | Signal) -> Receipt:
    """Make the receipt of predictions; they are known by their place in the ledger."""
    told_at = stamp(told.told_at) if isinstance(told, Signal) else told.told_at
    place = f"{meter}/{told.generation}/{told.tenant}/{told.step}"
    return Receipt(
        id=hashlib.sha256(place.encode()).hexdigest()[:32],
        state=State.DONE,
        kind="predictions",
        model=told.model,
        tenant=told.tenant,
        generation=told.generation,
        step=told.step,
        created_at=told_at,
    )


class Worker:
    """Works through the queue in a thread of this process, for a site that has no other workers."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._stopping = threading.Event()
        self._called = threading.Event()
        self._current: str | None = None
        self._thread = threading.Thread(target=self._run, name="worker", daemon=True)

    def start(self) -> None:
        """Begin, with what an earlier process left undone."""
        put_all_back(self._site)
        self._thread.start()

    def call(self) -> None:
        """Say that there is something to do."""
        self._called.set()

    def stop(self, patience: float = 20.0) -> None:
        """Let the submission under way finish; put it back if that takes too long."""
        self._stopping.set()
        self._called.set()
        self._thread.join(patience)
        if self._thread.is_alive() and self._current is not None:
            put_back(self._site, self._current)

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._current = claim(self._site)
                if self._current is not None:
                    work(self._site, self._current)
                    continue
            except Exception as error:
                # The kind of the error, never its text: that may hold what was read.
                _LOG.error("submission %s: unexpected %s", self._current, type(error).__name__)
            self._called.wait(_PATIENCE)
            self._called.clear()
