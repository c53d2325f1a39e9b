"""Entries in the books: the answers that were given, only ever added."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import fields
from functools import cache
from typing import Any

import sqlalchemy as sa

from easeml_meter.core.model import Entry
from easeml_meter.storage import schema
from easeml_meter.storage.books.repository import Repository, columns_of


class Entries(Repository):
    """The answers given from all test sets."""

    def add(self, entries: Sequence[Entry]) -> None:
        """Enter answers, before they leave."""
        self._connection.execute(schema.entries.insert(), [columns_of(each) for each in entries])

    def all(self, meter: str, generation: int, tenant: int | None = None) -> list[Entry]:
        """Return the answers given from one test set, in the order of each tenant's steps."""
        which = {"meter": meter, "generation": generation}
        if tenant is not None:
            which["tenant"] = tenant
        return self._values(schema.entries, Entry, "tenant", "step", **which)

    def of_submissions(
        self, meter: str, generation: int, tenants: Collection[int], submissions: Collection[str]
    ) -> list[Entry]:
        """Return the answers that these tenants got to submissions with these digests.

        The unique index on entries finds them, however long the histories are.
        """
        which = {"meter": meter, "generation": generation}
        given = {"tenants": list(tenants), "submissions": list(submissions)}
        found = self._connection.execute(_of_submissions(), which | given)
        return [Entry(*row) for row in found]

    def last(self, meter: str, generation: int, tenant: int) -> Entry | None:
        """Return the answer that a tenant got last."""
        which = {"meter": meter, "generation": generation, "tenant": tenant}
        row = self._connection.execute(_last(), which).first()
        return None if row is None else Entry(*row)


def _select(*names: str) -> sa.Select[Any]:
    table = schema.entries
    columns = (table.c[field.name] for field in fields(Entry))
    return sa.select(*columns).where(*(table.c[name] == sa.bindparam(name) for name in names))


@cache
def _of_submissions() -> sa.Select[Any]:
    table = schema.entries
    return _select("meter", "generation").where(
        table.c.tenant.in_(sa.bindparam("tenants", expanding=True)),
        table.c.submission.in_(sa.bindparam("submissions", expanding=True)),
    )


@cache
def _last() -> sa.Select[Any]:
    return _select("meter", "generation", "tenant").order_by(schema.entries.c.step.desc()).limit(1)
