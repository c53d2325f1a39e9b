"""Totals over the whole site, for those who run it."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from easeml_meter.core.lifecycle import Phase
from easeml_meter.storage import schema
from easeml_meter.storage.books.repository import Repository


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
