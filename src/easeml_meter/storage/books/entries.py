"""Entries in the books: the answers that were given, only ever added."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from operator import attrgetter
from typing import Any

import sqlalchemy as sa

from easeml_meter.core.model import Entry
from easeml_meter.storage import schema
from easeml_meter.storage.books.repository import Repository, columns_of, query

_GENERATIONS = 256


@dataclass(frozen=True)
class History:
    """Entries of one test set that are committed, in the order of each tenant's steps."""

    entries: tuple[Entry, ...] = ()
    newest: str = ""
    """When the last of them was told."""

    def after(self, added: Iterable[Entry]) -> History:
        """Add entries, unless they are here already."""
        entries, newest = list(self.entries), self.newest
        for entry in added:
            if entry.told_at < self.newest:
                continue
            at = bisect_left(entries, _place(entry), key=_place)
            if at == len(entries) or _place(entries[at]) != _place(entry):
                entries.insert(at, entry)
                newest = max(newest, entry.told_at)
        return self if len(entries) == len(self.entries) else History(tuple(entries), newest)


_place = attrgetter("tenant", "step")


class Told:
    """Histories that were read before, by meter and generation: entries are only ever added.

    Reading a long history again for each answer would take longer than all else.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[str, int], History] = {}

    def get(self, meter: str, generation: int) -> History:
        """Give what is known."""
        return self._known.get((meter, generation), History())

    def put(self, meter: str, generation: int, history: History) -> None:
        """Remember entries that are committed."""
        if len(self._known) >= _GENERATIONS:
            self._known.pop(next(iter(self._known)), None)
        self._known[meter, generation] = history


class Entries(Repository):
    """The answers given from all test sets."""

    def __init__(self, connection: sa.Connection, told: Told, *, fills: bool = False) -> None:
        super().__init__(connection)
        self._told = told
        self._fills = fills
        self._added: list[Entry] = []

    def add(self, entries: Sequence[Entry]) -> None:
        """Enter answers, before they leave."""
        self._connection.execute(schema.entries.insert(), [columns_of(each) for each in entries])
        self._added += entries

    def remember(self) -> None:
        """Know the answers entered here, now that they are committed, without reading them."""
        for place in {(entry.meter, entry.generation) for entry in self._added}:
            added = [entry for entry in self._added if (entry.meter, entry.generation) == place]
            self._told.put(*place, self._told.get(*place).after(added))

    def all(self, meter: str, generation: int, tenant: int | None = None) -> list[Entry]:
        """Return the answers given from one test set, in the order of each tenant's steps."""
        known = self._told.get(meter, generation)
        if len(known.entries) != (count := self.count(meter, generation)):
            known = self._completed(known, count, meter, generation)
        if tenant is None:
            return list(known.entries)
        return [entry for entry in known.entries if entry.tenant == tenant]

    def _completed(self, known: History, count: int, meter: str, generation: int) -> History:
        """Read the entries that are not known yet, or all where that does not add up."""
        which = {"meter": meter, "generation": generation}
        newer = self._connection.execute(_since(), which | {"newest": known.newest})
        found = known.after(Entry(*row) for row in newer)
        if len(found.entries) != count:
            found = History().after(self._values(schema.entries, Entry, "tenant", "step", **which))
        if self._fills:
            self._told.put(meter, generation, found)
        return found

    def count(self, meter: str, generation: int) -> int:
        """Count the answers given from one test set; as they are only added, that says it all."""
        which = {"meter": meter, "generation": generation}
        return int(self._connection.execute(_count(), which).scalar_one())


@cache
def _since() -> sa.Select[Any]:
    told_at = schema.entries.c.told_at
    found = query(schema.entries, Entry, (), ("meter", "generation"))
    return found.where(told_at >= sa.bindparam("newest"))


@cache
def _count() -> sa.Select[Any]:
    table = schema.entries
    where = [table.c[name] == sa.bindparam(name) for name in ("meter", "generation")]
    return sa.select(sa.func.count()).select_from(table).where(*where)
