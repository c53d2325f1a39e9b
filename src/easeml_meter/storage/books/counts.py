"""Totals over the whole site, for those who run it."""

from __future__ import annotations

import sqlalchemy as sa

from easeml_meter.storage import schema
from easeml_meter.storage.books.repository import Repository


class Counts(Repository):
    """How much there is of what, of all meters together."""

    def submissions(self) -> dict[str, int]:
        """Return how many submissions there are in each state."""
        state = schema.submissions.c.state
        counted = sa.select(state, sa.func.count()).group_by(state).order_by(state)
        return {row[0]: row[1] for row in self._connection.execute(counted)}

    def answers(self) -> int:
        """Return how many answers were given."""
        counted = sa.select(sa.func.count()).select_from(schema.entries)
        return int(self._connection.execute(counted).scalar_one())
