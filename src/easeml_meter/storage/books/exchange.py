"""What repositories speak through: a connection that takes several questions, or rows, at once.

Every statement that is sent to PostgreSQL is a round trip, and takes longer to build, send, plan
and wait for than to carry out. SQLite is in this process: there each is carried out by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import sqlalchemy as sa

Rows = Sequence[Sequence[Any]]


@dataclass(frozen=True)
class Query:
    """A statement that was built once, and what it is asked with."""

    statement: sa.Select[Any]
    given: Mapping[str, Any]


class Exchange:
    """A connection inside a transaction, what was read ahead there, and what is to be entered."""

    def __init__(self, connection: sa.Connection) -> None:
        self.connection = connection
        self.dialect = connection.dialect.name
        self._ahead: list[tuple[Query, Rows]] = []
        self._collected: list[tuple[sa.Insert, str, list[dict[str, Any]]]] | None = None

    def execute(
        self, statement: sa.Executable, given: Any = None
    ) -> sa.CursorResult[*tuple[Any, ...]]:
        """Carry out a statement; whatever is written, what was read ahead counts no longer."""
        if not statement.is_select:
            self.forget()
            self._enter()  # what was added before it may be what it changes
        return self.connection.execute(statement, given)

    def ask(self, question: Query) -> Rows:
        """Return the rows that answer a question, read ahead or now; what was read is used once."""
        for place, (known, rows) in enumerate(self._ahead):
            if known.statement is question.statement and known.given == question.given:
                del self._ahead[place]
                return rows
        return self.connection.execute(question.statement, question.given).all()

    def read_ahead(self, *questions: Query) -> None:
        """Ask several questions at once: what is asked next, before anything is written.

        A name of a parameter that two of them share has one value.
        """
        if self.dialect == "sqlite":
            return
        given = {name: each for question in questions for name, each in question.given.items()}
        answers = self.connection.execute(_at_once(*(each.statement for each in questions)), given)
        self._ahead = list(zip(questions, answers.one(), strict=True))

    def forget(self) -> None:
        """Let what was read ahead count no longer."""
        self._ahead.clear()

    def add(self, insert: sa.Insert, name: str, rows: list[dict[str, Any]]) -> None:
        """Enter rows, with a statement that takes them as one parameter of this name."""
        self.forget()
        if self.dialect == "sqlite":
            self.connection.execute(insert, rows)
        elif self._collected is None:
            self.connection.execute(insert, {name: rows})
        else:
            if any(name == other for _, other, _ in self._collected):
                self._enter()  # rows of one table keep their order
            self._collected.append((insert, name, rows))

    @contextmanager
    def entering(self) -> Iterator[None]:
        """Enter the rows that are added inside with one statement, at the end or before a change.

        They are of tables that do not depend on each other, and are read after the end only.
        """
        self._collected = []
        try:
            yield
            self._enter()
        finally:
            self._collected = None

    def _enter(self) -> None:
        if self._collected:
            given = {name: rows for _, name, rows in self._collected}
            self.connection.execute(_all_of(*(each for each, _, _ in self._collected)), given)
            self._collected.clear()


@cache
def _at_once(*queries: sa.Select[Any]) -> sa.Select[Any]:
    """Return a query with one row: of each query all rows, as one list of lists."""
    return sa.select(*map(_listed, queries))


def _listed(query: sa.Select[Any]) -> sa.ScalarSelect[Any]:
    rows = query.subquery()
    listed = sa.func.json_agg(sa.func.json_build_array(*rows.c))
    nothing: sa.ColumnElement[Any] = sa.literal_column("'[]'::json")
    return sa.select(sa.func.coalesce(listed, nothing, type_=sa.JSON)).scalar_subquery()


@cache
def _all_of(*inserts: sa.Insert) -> sa.Executable:
    """Return a statement that carries out several; with `WITH` they need not be the last."""
    if len(inserts) == 1:
        return inserts[0]
    named = (each.cte(f"entered_{number}") for number, each in enumerate(inserts))
    return sa.select(sa.literal_column("1")).add_cte(*named)
