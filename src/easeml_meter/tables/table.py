"""A table: what all formats have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar, Self

import pyarrow as pa

from easeml_meter.errors import InvalidInput
from easeml_meter.tables.files import Stamp, file_digest, reading, stamp_of
from easeml_meter.tables.limits import TableLimits
from easeml_meter.tables.source import Held, Source
from easeml_meter.tables.wording import excerpt, no_column

MOST_ROWS = 1 << 18
LEAST_ROWS = 1 << 8
LIST_ROWS = 1 << 12
"""Lists come in smaller batches: each may have a thousand values."""
_MOST_VALUES = 1 << 20
_MOST_LISTED = 1 << 22
"""Values of the lists in one batch: whoever reads a byte as a number takes eight, and for a while
several times as many."""

Batches = Iterator[pa.RecordBatch]
Types = Mapping[str, pa.DataType]


@dataclass(frozen=True)
class Manner:
    """How a file is opened (`opening` says what that means)."""

    types: Types = field(default_factory=dict)
    texts: Sequence[str] = ()
    raw: bool = False
    reals: bool = False
    settled: bool = False


@dataclass(frozen=True)
class RowRange:
    """A run of consecutive rows, from `first_row` (counted from 1); `rows` if known beforehand."""

    first_row: int
    rows: int | None
    batches: Callable[[], Batches]


@dataclass(frozen=True)
class Table(ABC):
    """Named columns of rows in a fixed order, streamed; it can be read again and again."""

    name: str
    """What errors call it."""
    schema: pa.Schema
    rows: int | None
    """None: known only after reading."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(self.schema.names)

    def require(self, column: str, role: str = "column") -> pa.DataType:
        """Return the type of `column`, or say in one line that there is none."""
        if column not in self.schema.names:
            raise InvalidInput(f"{self.name}: {no_column(column, self.columns)}: name the {role}")
        return self.schema.field(column).type

    def batches(self, columns: Sequence[str] | None = None) -> Batches:
        """Stream the rows, in order, at most `MOST_ROWS` at a time; only `columns` if given."""
        names = self._names(columns)
        return self._stream(names, partial(self._read, names))

    def in_memory(self) -> pa.Table:
        """Read all rows into memory."""
        return pa.Table.from_batches(self.batches(), self.schema)

    def parts(self, columns: Sequence[str], at_most: int) -> list[RowRange]:
        """Split into up to `at_most` parts that can be read at the same time."""
        return [RowRange(1, self.rows, partial(self.batches, columns))]

    def check_unchanged(self) -> None:
        """Refuse a file that was changed since it was opened."""
        return

    def _names(self, columns: Sequence[str] | None) -> list[str]:
        for column in columns or ():
            self.require(column)
        return list(self.columns if columns is None else columns)

    def _stream(self, names: list[str], read: Callable[[], Batches]) -> Batches:
        for given in read():
            chosen = given if given.schema.names == names else given.select(names)
            self._check(chosen)
            if any(map(pa.types.is_string_view, chosen.schema.types)):
                chosen = chosen.cast(without_views(chosen.schema))
            yield from cut(chosen, rows_at_once(chosen.schema.types))

    def _check(self, batch: pa.RecordBatch) -> None:
        """Look at each batch of a reading before it is used."""
        return

    @abstractmethod
    def _read(self, columns: list[str]) -> Batches:
        """Return at least `columns` of all rows."""


@dataclass(frozen=True)
class MemoryTable(Table):
    """A table in memory: the caller's own, so it is not checked."""

    content: pa.Table = field(repr=False)

    def _read(self, columns: list[str]) -> Batches:
        yield from self.content.select(columns).to_batches()


@dataclass(frozen=True)
class FileTable(Table):
    """A table in a file."""

    path: Source
    stamp: Stamp
    kind: ClassVar[str]

    @classmethod
    @abstractmethod
    def open(cls, path: Source, stamp: Stamp, manner: Manner) -> Self:
        """Find out the columns."""

    @property
    def limits(self) -> TableLimits | None:
        """What it may hold; None: any amount."""
        return self.path.limits if isinstance(self.path, Held) else None

    def check_unchanged(self) -> None:
        """Refuse a file that was changed since it was opened: its digest would mean nothing."""
        if stamp_of(self.path) != self.stamp:
            raise InvalidInput(f"{self.name}: changed while it was read: try again")

    def digest(self) -> str:
        """Return the SHA-256 digest of the file's bytes."""
        return file_digest(self.path, self.kind)

    def _stream(self, names: list[str], read: Callable[[], Batches]) -> Batches:
        with reading(self.path, self.kind):
            yield from super()._stream(names, read)

    def _check(self, batch: pa.RecordBatch) -> None:
        # Arrow trusts offsets and text to be in order; a stranger's may lead out of memory.
        batch.validate(full=True)


def without_views(schema: pa.Schema) -> pa.Schema:
    """Return columns whose text is laid out plainly: Arrow can do little with views of text."""
    kinds = [pa.large_string() if pa.types.is_string_view(k) else k for k in schema.types]
    return pa.schema(list(zip(schema.names, kinds, strict=True)))


def rows_at_once(types: Sequence[pa.DataType]) -> int:
    """Return how many rows of columns of these types make a batch."""
    most = LIST_ROWS if any(map(pa.types.is_nested, types)) else MOST_ROWS
    return min(most, max(LEAST_ROWS, _MOST_VALUES // max(1, len(types))))


def cut(batch: pa.RecordBatch, most: int) -> Batches:
    """Cut a batch into such of at most so many rows, and of fewer where lists are long."""
    rows = batch.num_rows
    for column in batch.columns:
        kind = column.type
        if pa.types.is_fixed_size_list(kind):
            most = min(most, max(1, _MOST_LISTED // max(1, kind.list_size)))
        elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
            most = min(most, max(1, _MOST_LISTED * rows // max(1, len(column.flatten()))))
    if 0 < rows <= most:
        yield batch
        return
    for start in range(0, rows, most):
        yield batch.slice(start, most)


def check_columns(names: Sequence[str]) -> None:
    """Refuse columns that cannot be told apart."""
    if len(set(names)) == len(names):
        return
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise InvalidInput(f"two columns named {excerpt(name)}: rename one")
        seen.add(name)
