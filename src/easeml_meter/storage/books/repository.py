"""What all repositories share: a connection, and queries that are built once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields
from functools import cache
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from easeml_meter.storage.schema import columns_of

Value = TypeVar("Value")


class Repository:
    """Reads and writes the tables of one noun inside a transaction."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def _values(
        self, table: sa.Table, kind: Callable[..., Value], *order: str, **equal: object
    ) -> list[Value]:
        """Return the rows in which these columns have these values, as values of `kind`."""
        found = self._connection.execute(query(table, kind, order, tuple(equal)), equal)
        return [kind(*row) for row in found]

    def _add(self, table: sa.Table, values: Sequence[object]) -> None:
        if values:
            self._connection.execute(table.insert(), [columns_of(each) for each in values])

    def _put(self, table: sa.Table, rows: list[dict[str, Any]]) -> None:
        """Enter rows in the place of those with the same primary keys."""
        if rows:
            insert = putting(self._connection.dialect.name, table, tuple(rows[0]))
            self._connection.execute(insert, rows)


@cache
def putting(dialect: str, table: sa.Table, names: tuple[str, ...]) -> Any:
    """Return the statement that enters rows in the place of those with the same primary keys."""
    keys = [column.name for column in table.primary_key]
    insert = (sqlite if dialect == "sqlite" else postgresql).insert(table)
    return insert.on_conflict_do_update(
        index_elements=keys,
        set_={name: insert.excluded[name] for name in names if name not in keys},
    )


# Building a query takes longer than running it: those that are asked often are built once.
@cache
def query(
    table: sa.Table, kind: Any, order: tuple[str, ...], names: tuple[str, ...]
) -> sa.Select[Any]:
    """Select the columns of `kind` where the columns named equal parameters of their names."""
    columns = (table.c[field.name] for field in fields(kind))
    where = (table.c[name] == sa.bindparam(name) for name in names)
    return sa.select(*columns).where(*where).order_by(*(table.c[name] for name in order))
