"""Wholesale copies of the books, for backups: rows of named tables as plain dictionaries."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import sqlalchemy as sa

from easeml_meter.storage import schema
from easeml_meter.storage.books.repository import Repository

SITE_TABLES = tuple(table.name for table in (schema.users, schema.tokens))
METER_TABLES = tuple(
    table.name
    for table in (
        schema.meters,
        schema.generations,
        schema.validation_sets,
        schema.entries,
        schema.audit,
        schema.handovers,
        schema.parts,
        schema.members,
        schema.submissions,
    )
)
"""In an order in which they can be filled."""
FOLDED = schema.accounts.name
"""Accounts are folded from the entries: a restore removes them, and they are folded again."""
LEFT_OUT = (
    FOLDED,
    *(
        table.name
        for table in (
            schema.uploads,
            schema.deliveries,
            schema.handover_requests,
            schema.releases,
            schema.guesses,
            schema.queue_waits,
            schema.workers,
        )
    ),
)
"""Besides accounts, what is under way at the moment, which whoever began it begins again; and what
only operators look at."""

SCHEMA = schema.HEAD
"""The version of the tables that rows are copied from."""
_AT_ONCE = 1000
_FINAL = ("done", "refused")

Row = dict[str, Any]


class Copies(Repository):
    """Copies of whole tables, of one meter or of the site."""

    def rows(self, name: str, meter: str | None = None) -> Iterator[Row]:
        """Return the rows of a table: a meter's, or all of a table of the site."""
        table = schema.metadata.tables[name]
        query = table.select().order_by(*table.primary_key.columns)
        if meter is not None:
            query = query.where(_of_meter(table, meter))
        if table is schema.submissions:
            # One that waits has cost nothing; its sender submits it again.
            query = query.where(table.c.state.in_(_FINAL))
        query = query.execution_options(yield_per=_AT_ONCE)
        for row in self._connection.execute(query).mappings():
            yield dict(row)

    def add(self, name: str, rows: Iterable[Row]) -> None:
        """Insert rows into a table."""
        if found := list(rows):
            self._connection.execute(schema.metadata.tables[name].insert(), found)

    def remove(self, meter: str) -> None:
        """Remove everything about a meter, uploads under way included."""
        begun = (schema.uploads.name, schema.handover_requests.name, schema.releases.name)
        for name in (*begun, FOLDED, *reversed(METER_TABLES)):
            table = schema.metadata.tables[name]
            self._connection.execute(table.delete().where(_of_meter(table, meter)))

    def answers(self, meter: str) -> int:
        """Count the answers of a meter."""
        query = sa.select(sa.func.count()).where(schema.entries.c.meter == meter)
        return int(self._connection.execute(query).scalar_one())

    def files(self, meter: str) -> set[str]:
        """Return the names of sealed sets, validation sets and kept submissions of a meter."""
        named: set[str] = set()
        for table in (schema.generations, schema.validation_sets, schema.entries):
            query = sa.select(table.c.blob).where(table.c.meter == meter).distinct()
            named |= {blob for blob in self._connection.execute(query).scalars() if blob}
        return named


def _of_meter(table: sa.Table, meter: str) -> Any:
    return (table.c.id if table is schema.meters else table.c.meter) == meter
