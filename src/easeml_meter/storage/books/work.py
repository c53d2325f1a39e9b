"""Work that waits: submissions, messages to people, and totals for those who run a server."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from easeml_meter.core.lifecycle import Phase
from easeml_meter.core.model import AuditLink
from easeml_meter.core.people import Delivery, DeliveryState
from easeml_meter.core.submissions import FINAL, SubmissionState, Ticket
from easeml_meter.storage import schema
from easeml_meter.storage.books.repository import Repository


class Submissions(Repository):
    """Submissions that wait for a worker, or waited."""

    def add(self, ticket: Ticket) -> None:
        """Enter a submission that waits."""
        self._add(schema.submissions, [ticket])

    def get(self, identifier: str) -> Ticket | None:
        """Return a submission, or None if there is none, or none any more."""
        found = self._values(schema.submissions, Ticket, id=identifier)
        return _read(found[0]) if found else None

    def of(self, meter: str, tenant: int) -> list[Ticket]:
        """Return a tenant's submissions, the oldest first."""
        which = {"meter": meter, "tenant": tenant}
        found = self._values(schema.submissions, Ticket, "created_at", "id", **which)
        return [_read(each) for each in found]

    def unfinished(self) -> list[Ticket]:
        """Return the submissions that wait or are under way, the oldest first."""
        table = schema.submissions
        query = table.select().where(table.c.state.not_in([str(each) for each in FINAL]))
        rows = self._connection.execute(query.order_by(table.c.created_at, table.c.id))
        return [_read(Ticket(**row)) for row in rows.mappings()]

    def change(self, ticket: Ticket) -> None:
        """Record where a submission stands, unless it is finished already."""
        table = schema.submissions
        # Another worker may have ended it meanwhile, when this one was taken for dead.
        unfinished = table.c.state.not_in([str(each) for each in FINAL])
        change = table.update().where(table.c.id == ticket.id, unfinished)
        self._connection.execute(change, schema.columns_of(ticket))

    def remove(self, identifier: str) -> None:
        """Remove a submission from the queue."""
        table = schema.submissions
        self._connection.execute(table.delete().where(table.c.id == identifier))


def _read(ticket: Ticket) -> Ticket:
    return replace(ticket, state=SubmissionState(ticket.state))


class Counts(Repository):
    """How much there is of what, of all meters together."""

    def submissions(self) -> dict[str, int]:
        """Return how many submissions there are in each state."""
        state = schema.submissions.c.state
        counted = sa.select(state, sa.func.count()).group_by(state).order_by(state)
        return {row[0]: row[1] for row in self._connection.execute(counted)}

    def oldest(self, *states: str) -> dict[str, str | None]:
        """Return when the oldest submission of each state was handed in; None: there is none."""
        table = schema.submissions
        first = sa.select(sa.func.min(table.c.created_at))
        return {
            state: self._connection.execute(first.where(table.c.state == state)).scalar_one()
            for state in states
        }

    def add_wait(self, bucket: int, seconds: float) -> None:
        """Count a submission that was begun, after it had waited."""
        table = schema.queue_waits
        insert = (sqlite if self._connection.dialect.name == "sqlite" else postgresql).insert(table)
        more = {"submissions": table.c.submissions + 1, "seconds": table.c.seconds + seconds}
        # In one statement: workers of other meters, whose lock is another, count at the same time.
        counted = insert.on_conflict_do_update(index_elements=[table.c.bound], set_=more)
        self._connection.execute(counted, {"bound": bucket, "submissions": 1, "seconds": seconds})

    def waits(self) -> dict[int, tuple[int, float]]:
        """Return for each bucket how many submissions were begun, and their seconds in all."""
        table = schema.queue_waits
        return {
            row.bound: (row.submissions, row.seconds)
            for row in self._connection.execute(table.select())
        }

    def add_worker(self, identifier: str, seen_at: str, before: str) -> None:
        """Note a sign of life of a worker, and forget those that were silent since a moment."""
        self._put(schema.workers, [{"id": identifier, "seen_at": seen_at}])
        self._connection.execute(schema.workers.delete().where(schema.workers.c.seen_at < before))

    def workers(self, since: str) -> int:
        """Return how many workers gave a sign of life since a moment."""
        seen = schema.workers.c.seen_at >= since
        counted = sa.select(sa.func.count()).select_from(schema.workers).where(seen)
        return int(self._connection.execute(counted).scalar_one())

    def answers_of_active(self) -> dict[str, tuple[int, int]]:
        """Return the number of each meter's active test set, and how many answers it has given."""
        sets, entries = schema.generations, schema.entries
        own = (entries.c.meter == sets.c.meter) & (entries.c.generation == sets.c.number)
        given = sa.select(sa.func.count()).select_from(entries).where(own)
        active = sets.c.phase == str(Phase.ACTIVE)
        counted = sa.select(sets.c.meter, sets.c.number, given.scalar_subquery()).where(active)
        return {row[0]: (row[1], row[2]) for row in self._connection.execute(counted)}

    def answers(self) -> int:
        """Return how many answers were given."""
        counted = sa.select(sa.func.count()).select_from(schema.entries)
        return int(self._connection.execute(counted).scalar_one())


class Deliveries(Repository):
    """Messages, and how far the chains that they are made of were looked at."""

    def add(self, delivery: Delivery) -> None:
        """Enter a message that is to be sent."""
        self._add(schema.deliveries, [delivery])

    def get(self, identifier: str) -> Delivery | None:
        """Return a message, or None if there is none."""
        found = self._values(schema.deliveries, Delivery, id=identifier)
        return _message(found[0]) if found else None

    def waiting(self) -> list[Delivery]:
        """Return the messages still to be sent, the one due first first."""
        waiting = str(DeliveryState.WAITING)
        found = self._values(schema.deliveries, Delivery, "due_at", "id", state=waiting)
        return [_message(each) for each in found]

    def known(self, identifiers: Collection[str]) -> set[str]:
        """Return those of these ids that messages have."""
        table = schema.deliveries
        query = sa.select(table.c.id).where(table.c.id.in_(list(identifiers)))
        return set(self._connection.execute(query).scalars())

    def record(self, delivery: Delivery) -> None:
        """Record what became of a message, unless its fate was sealed meanwhile."""
        table = schema.deliveries
        # Of two senders, one of which was taken for dead, the slower must not undo a "sent".
        open_ = (table.c.id == delivery.id) & (table.c.state == str(DeliveryState.WAITING))
        self._connection.execute(table.update().where(open_), schema.columns_of(delivery))

    def forget(self, before: str) -> None:
        """Remove the records of old messages."""
        table = schema.deliveries
        over = (table.c.state != str(DeliveryState.WAITING)) & (table.c.created_at < before)
        # Those of e-mails stay: they keep the same e-mail from being written again.
        self._connection.execute(table.delete().where(over, table.c.address == ""))

    def behind(self) -> bool:
        """Whether there are links that were not looked at yet."""
        return self._connection.execute(_unseen().limit(1)).first() is not None

    def look(self) -> list[AuditLink]:
        """Return the links that were not looked at yet, which they then were."""
        rows = self._connection.execute(_unseen().order_by("meter", "number")).mappings()
        found = [AuditLink(**row) for row in rows]
        meters = schema.meters
        for meter, number in {link.meter: link.number for link in found}.items():
            change = meters.update().where(meters.c.id == meter)
            self._connection.execute(change, {"notified": number})
        return found


def _unseen() -> sa.Select[Any]:
    links, meters = schema.audit, schema.meters
    mine = (links.c.meter == meters.c.id) & (links.c.number > meters.c.notified)
    return sa.select(links).join(meters, mine)


def _message(delivery: Delivery) -> Delivery:
    return replace(delivery, state=DeliveryState(delivery.state))
