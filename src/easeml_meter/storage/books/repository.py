"""What all repositories share: a connection, and queries that are built once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from functools import cache
from typing import Any, TypeVar

import sqlalchemy as sa

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


# Building a query takes longer than running it: those that are asked often are built once.
@cache
def query(
    table: sa.Table, kind: Any, order: tuple[str, ...], names: tuple[str, ...]
) -> sa.Select[Any]:
    """Select the columns of `kind` where the columns named equal parameters of their names."""
    columns = (table.c[field.name] for field in fields(kind))
    where = (table.c[name] == sa.bindparam(name) for name in names)
    return sa.select(*columns).where(*where).order_by(*(table.c[name] for name in order))


def columns_of(value: Any) -> dict[str, Any]:
    """Return a value's columns by name, as they are: `asdict` would copy them one by one."""
    return {name: getattr(value, name) for name in value.__slots__}
