"""What all repositories share: a connection, and queries that are built once."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import fields
from functools import cache
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.dialects.postgresql import ARRAY

from easeml_meter.storage.books.exchange import Exchange, Query

Value = TypeVar("Value")


class Repository:
    """Reads and writes the tables of one noun inside a transaction."""

    def __init__(self, connection: Exchange) -> None:
        self._connection = connection

    def _values(
        self, table: sa.Table, kind: Callable[..., Value], *order: str, **equal: object
    ) -> list[Value]:
        """Return the rows in which these columns have these values, as values of `kind`."""
        found = self._connection.execute(query(table, kind, order, tuple(equal)), equal)
        return [kind(*row) for row in found]

    def _add(self, table: sa.Table, values: Sequence[object]) -> None:
        """Enter values of one kind as rows."""
        if values:
            insert = adding(self._connection.dialect, table, tuple(columns_of(values[0])))
            rows = [columns_of(each) for each in values]
            self._connection.add(insert, rows_of(table), rows)

    def _put(self, table: sa.Table, rows: list[dict[str, Any]]) -> None:
        """Enter rows in the place of those with the same primary keys."""
        if rows:
            insert = putting(self._connection.dialect, table, tuple(rows[0]))
            self._connection.add(insert, rows_of(table), rows)


def of_pairs(
    dialect: str,
    table: sa.Table,
    kind: Callable[..., Value],
    names: tuple[str, str],
    pairs: Collection[tuple[Any, Any]],
    *,
    by: str | None = None,
    **equal: object,
) -> Query:
    """Ask for the rows in which two columns have one of these pairs of values, of any number.

    An index on them finds the rows, however many there are; `equal` as in `_values`. Where `by`
    names one of the two, it is the index on that column alone: where a database has a choice, it
    may keep the worse one for long, because it chose while the table was small. SQLite also gives
    rows with the one value of one pair and the other of another.
    """
    lists: Iterable[Collection[object]] = zip(*sorted(pairs), strict=True) if pairs else ((), ())
    if dialect == "sqlite":
        lists = map(set, lists)  # every value of the one with every value of the other
    given = {f"{name}s": list(values) for name, values in zip(names, lists, strict=True)}
    return Query(_lookup(dialect, table, kind, names, by=by, equal=tuple(equal)), equal | given)


def rows_of(table: sa.Table) -> str:
    """Return the name of the parameter for rows of a table."""
    return f"{table.name}_added"


@cache
def adding(dialect: str, table: sa.Table, names: tuple[str, ...]) -> Any:
    """Return the statement that enters any number of rows with these columns.

    PostgreSQL gets them as one JSON text. With a parameter for each value, the statement would have
    another text for each number of rows, which takes longer to build and parse than to run.
    """
    if dialect == "sqlite":
        return sqlite.insert(table)
    kind: sa.ColumnElement[Any] = sa.literal_column(f"NULL::{table.name}")
    given = sa.func.json_populate_recordset(kind, sa.bindparam(rows_of(table), type_=sa.JSON))
    rows = given.table_valued(*(sa.column(name, table.c[name].type) for name in names))
    return postgresql.insert(table).from_select(names, sa.select(*rows.c))


@cache
def putting(dialect: str, table: sa.Table, names: tuple[str, ...]) -> Any:
    """Return the statement that enters rows in the place of those with the same primary keys."""
    keys = [column.name for column in table.primary_key]
    insert = adding(dialect, table, names)
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


@cache
def _lookup(
    dialect: str,
    table: sa.Table,
    kind: Any,
    names: tuple[str, str],
    *,
    by: str | None,
    equal: tuple[str, ...],
) -> sa.Select[Any]:
    def column(name: str) -> sa.ColumnElement[Any]:
        return table.c[name] if by in {None, name} else _without_index(table.c[name])

    columns = (table.c[field.name] for field in fields(kind))
    found = sa.select(*columns).where(*(column(name) == sa.bindparam(name) for name in equal))
    if dialect == "sqlite":
        listed = (column(name).in_(sa.bindparam(f"{name}s", expanding=True)) for name in names)
        return found.where(*listed)
    # By statistics of yesterday, PostgreSQL takes a long history for a short one: it then reads all
    # of it and drops what is not in a list. So each pair is looked up for itself, and OFFSET keeps
    # these questions apart.
    lists = (sa.bindparam(f"{name}s", type_=ARRAY(table.c[name].type)) for name in names)
    pairs = sa.func.unnest(*lists).table_valued(*(sa.column(n, table.c[n].type) for n in names))
    wanted = pairs.render_derived(name="wanted")
    each = found.where(*(column(name) == wanted.c[name] for name in names)).offset(0).lateral()
    return sa.select(*each.c).select_from(wanted.join(each, sa.true()))


def _without_index(column: sa.Column[Any]) -> sa.ColumnElement[Any]:
    """Return a column as an expression of the same value, for which no index is looked for."""
    nothing = "''" if isinstance(column.type, sa.String) else "0"
    return column + sa.literal_column(nothing, column.type)


def columns_of(value: Any) -> dict[str, Any]:
    """Return a value's columns by name, as they are: `asdict` would copy them one by one."""
    return {name: getattr(value, name) for name in value.__slots__}
