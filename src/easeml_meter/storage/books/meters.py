"""Meters in the books."""

from __future__ import annotations

from dataclasses import fields
from functools import cache
from typing import Any

import sqlalchemy as sa

from easeml_meter.core.model import MeterRecord, TestSet, ValidationSet
from easeml_meter.errors import NotFound, StorageError
from easeml_meter.storage import schema
from easeml_meter.storage.books.repository import Repository

Overview = tuple[MeterRecord, list[TestSet], ValidationSet | None]


class Meters(Repository):
    """Meters, by id; an embedded database has exactly one, which needs no id."""

    def add(self, meter: MeterRecord) -> None:
        """Enter a new meter."""
        self._add(schema.meters, [meter])

    def get(self, identifier: str | None = None) -> MeterRecord:
        """Return a meter by its id, or the only one of an embedded database."""
        which = {} if identifier is None else {"id": identifier}
        found = self._values(schema.meters, MeterRecord, **which)
        if len(found) != 1:
            raise _not_one(identifier, len(found))
        return found[0]

    def overview(self, identifier: str | None = None) -> Overview:
        """Return a meter as `get` does, its test sets, and its newest validation set, at once."""
        which = {} if identifier is None else {"id": identifier}
        found = self._connection.execute(_overview(tuple(which)), which).all()
        meters = {row[0] for row in found}
        if len(meters) != 1:
            raise _not_one(identifier, len(meters))
        one, two = len(fields(MeterRecord)), len(fields(MeterRecord)) + len(fields(TestSet))
        sets = [TestSet(*row[one:two]) for row in found if row[one] is not None]
        newest = found[0][two:]
        return (
            MeterRecord(*found[0][:one]),
            sets,
            None if newest[0] is None else ValidationSet(*newest),
        )

    def all(self) -> list[MeterRecord]:
        """Return all meters, the oldest first."""
        return self._values(schema.meters, MeterRecord, "created_at", "id")


def _not_one(identifier: str | None, count: int) -> NotFound | StorageError:
    if identifier is not None:
        return NotFound(f"meter {identifier[:32]!r}: none of that name that you have a seat at")
    return StorageError(f"the database holds {count} meters: exactly one expected")


@cache
def _overview(names: tuple[str, ...]) -> sa.Select[Any]:
    meter, test, validation = schema.meters, schema.generations, schema.validation_sets
    all_of_them = validation.alias()
    newest = sa.select(sa.func.max(all_of_them.c.number)).where(all_of_them.c.meter == meter.c.id)
    its_own = (validation.c.meter == meter.c.id) & (validation.c.number == newest.scalar_subquery())
    rows = ((meter, MeterRecord), (test, TestSet), (validation, ValidationSet))
    return (
        sa.select(*(table.c[field.name] for table, kind in rows for field in fields(kind)))
        .select_from(
            meter.outerjoin(test, test.c.meter == meter.c.id).outerjoin(validation, its_own)
        )
        .where(*(meter.c[name] == sa.bindparam(name) for name in names))
        .order_by(meter.c.id, test.c.number)
    )
