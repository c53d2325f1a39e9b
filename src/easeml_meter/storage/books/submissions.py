"""Submissions that wait for a worker or waited, and totals for those who run a server."""

from __future__ import annotations

from dataclasses import replace

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from easeml_meter.core.lifecycle import Phase
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
