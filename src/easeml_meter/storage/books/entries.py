"""Entries in the books: the answers that were given, only ever added."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import fields
from functools import cache
from typing import Any

import sqlalchemy as sa

from easeml_meter.core.model import Entry
from easeml_meter.storage import schema
from easeml_meter.storage.books.repository import Repository


class Entries(Repository):
    """The answers given from all test sets."""

    def add(self, entries: Sequence[Entry]) -> None:
        """Enter answers, before they leave."""
        self._add(schema.entries, entries)

    def all(self, meter: str, generation: int, tenant: int | None = None) -> list[Entry]:
        """Return the answers given from one test set, in the order of each tenant's steps."""
        which = {"meter": meter, "generation": generation}
        if tenant is not None:
            which["tenant"] = tenant
        return self._values(schema.entries, Entry, "tenant", "step", **which)

    def of_submission(
        self, meter: str, generation: int, tenant: int, submission: str
    ) -> list[Entry]:
        """Return the answers that a tenant got to a submission, by its digest.

        By the index on digests alone, however long the histories are: where PostgreSQL has a
        choice, it keeps the worse one for long, because it chose while the table was small.
        """
        found = self._values(schema.entries, Entry, submission=submission)
        place = (meter, generation, tenant)
        return [each for each in found if (each.meter, each.generation, each.tenant) == place]

    def of_models(self, meter: str, generation: int, tenant: int, model: str) -> list[Entry]:
        """Return the answers that a tenant got to models of a name, the newest last."""
        which = {"meter": meter, "generation": generation, "tenant": tenant, "model": model}
        return self._values(schema.entries, Entry, "step", **which)

    def at(self, meter: str, generation: int, tenant: int, step: int) -> Entry | None:
        """Return the answer of a step."""
        which = {"meter": meter, "generation": generation, "tenant": tenant, "step": step}
        return next(iter(self._values(schema.entries, Entry, "step", **which)), None)

    def last(self, meter: str, generation: int, tenant: int, answer: str) -> int | None:
        """Return the last step that got an answer; None: no step did."""
        which = {"meter": meter, "generation": generation, "tenant": tenant, "answer": answer}
        return self._connection.execute(_last(), which).scalar()

    def told_to(self, meter: str, tokens: Collection[str], since: str) -> list[tuple[str, str]]:
        """Return the tokens and times of a meter's answers after a moment, the oldest first."""
        given = {"meter": meter, "tokens": list(tokens), "since": since}
        return [(row.token, row.told_at) for row in self._connection.execute(_told_to(), given)]


def _select(*names: str) -> sa.Select[Any]:
    table = schema.entries
    columns = (table.c[field.name] for field in fields(Entry))
    return sa.select(*columns).where(*(table.c[name] == sa.bindparam(name) for name in names))


@cache
def _last() -> sa.Select[Any]:
    names = ("meter", "generation", "tenant", "answer")
    return _select(*names).with_only_columns(sa.func.max(schema.entries.c.step))


@cache
def _told_to() -> sa.Select[Any]:
    table = schema.entries
    chosen = _select("meter").where(
        table.c.token.in_(sa.bindparam("tokens", expanding=True)),
        table.c.told_at > sa.bindparam("since"),
    )
    return chosen.with_only_columns(table.c.token, table.c.told_at).order_by(table.c.told_at)
