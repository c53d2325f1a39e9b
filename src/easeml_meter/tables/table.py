"""A table of rows in batches, whatever it comes from, and files of text cut into blocks of rows.

CSV and JSON Lines are formats without types, whose rows can be broken anywhere. They are cut into
blocks of whole rows, which Arrow then parses one by one. Arrow's own streams would settle the types
by the first block alone, and read far ahead of a slow consumer.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, Self

import pyarrow as pa
import pyarrow.compute as pc

from easeml_meter.errors import InvalidInput
from easeml_meter.tables.source import (
    Held,
    Source,
    Stamp,
    TableLimits,
    excerpt,
    file_digest,
    no_column,
    reading,
    stamp_of,
    written_out,
)

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
            chosen = laid_out(chosen)
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


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """Return the columns as `laid_out` gives them."""
    empty = [pa.nulls(0, kind) for kind in schema.types]
    plain = laid_out(pa.RecordBatch.from_arrays(empty, schema=schema)).schema
    return pa.schema(list(zip(plain.names, plain.types, strict=True)))


def laid_out(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return columns whose text is laid out plainly: Arrow can do little with views of text.

    Numbers that Hugging Face's `datasets` wrote for classes become their names: in another file
    the same number may be another class.
    """
    names, given = _class_names(batch.schema), batch.columns
    columns = [
        _named(column, names[name]) if name in names else _plain(column)
        for name, column in zip(batch.schema.names, given, strict=True)
    ]
    if all(plain is column for plain, column in zip(columns, given, strict=True)):
        return batch
    return pa.RecordBatch.from_arrays(columns, batch.schema.names)


def _plain(column: Any) -> Any:
    kind = column.type
    if pa.types.is_string_view(kind):
        return column.cast(pa.large_string())
    if pa.types.is_dictionary(kind) and pa.types.is_string_view(kind.value_type):
        return pa.DictionaryArray.from_arrays(column.indices, _plain(column.dictionary))
    if pa.types.is_nested(kind) and kind.num_fields and pa.types.is_string_view(kind.field(0).type):
        return column.cast(written_out(pa.schema([("list", kind)])).types[0])
    return column


def _class_names(schema: pa.Schema) -> dict[str, list[str]]:
    """Return the names of classes that are written as numbers, by column."""
    noted = json.loads((schema.metadata or {}).get(b"huggingface", b"{}"))
    features = noted.get("info", {}).get("features", {})
    found = {}
    for column, kind in zip(schema.names, schema.types, strict=True):
        feature = features.get(column, {}) if pa.types.is_integer(kind) else {}
        if feature.get("_type") == "ClassLabel" and feature.get("names"):
            found[column] = feature["names"]
    return found


def _named(places: Any, names: list[str]) -> Any:
    """Return classes by name; -1, which stands for none there, is a missing value."""
    known = pc.and_(pc.greater_equal(places, 0), pc.less(places, len(names)))
    indices = pc.if_else(known, places, None).cast(pa.int32())
    return pa.DictionaryArray.from_arrays(indices, pa.array(names, pa.large_string()))


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


BLOCK = 8 << 20
"""Bytes; no row may be longer than four blocks."""


@dataclass(frozen=True)
class Block:
    """Whole rows of a file, and how many rows stand before them."""

    text: bytes = field(repr=False)
    before: int = 0
    names: Sequence[str] | None = None
    """The columns, where an earlier block held the header."""


@dataclass(frozen=True)
class TextTable(FileTable):
    """Rows of text, parsed block by block."""

    mixed: ClassVar[bool]
    """Whether values of different types may share a column, then as text."""

    def settled(self, types: Types) -> Self:
        """Read all rows once, to settle the types of the columns that `types` leaves open."""
        found, rows = pa.schema([]), 0
        for part in self._parsed(types, None):
            check_columns(part.schema.names)
            for column in part.schema:
                found = self._with(found, self._kept(part, column), rows + 1)
            rows += part.num_rows
        return replace(self, schema=found, rows=rows)

    def _kept(self, _part: pa.Table, column: pa.Field) -> pa.Field:
        """Return the column with the type that it is read in, as far as a block can tell."""
        return column

    def _with(self, known: pa.Schema, column: pa.Field, row: int) -> pa.Schema:
        """Join what blocks say about a column: numbers widen, other values are text or refused."""
        index = known.get_field_index(column.name)
        if index < 0:
            return known.append(column)
        try:
            pair = [pa.schema([known.field(index)]), pa.schema([column])]
            merged = pa.unify_schemas(pair, promote_options="permissive").field(0)
        except pa.ArrowException:
            if not self.mixed:
                line = f"column {excerpt(column.name)}: values of another type from row {row} on"
                raise InvalidInput(f"{line}: give all the same type") from None
            merged = pa.field(column.name, pa.string())
        return known.set(index, merged)

    def _parsed(self, types: Types, columns: Sequence[str] | None) -> Iterator[pa.Table]:
        block = Block(b"")
        for text in self._blocks():
            part = self._parse(replace(block, text=text), types, columns)
            yield part
            names = part.schema.names if columns is None else self.columns
            block = replace(block, before=block.before + part.num_rows, names=names)

    def _read(self, columns: list[str]) -> Batches:
        types = dict(zip(self.schema.names, self.schema.types, strict=True))
        for part in self._parsed(types, columns):
            yield from part.to_batches()

    @abstractmethod
    def _blocks(self) -> Iterator[bytes]:
        """Cut the file after rows."""

    @abstractmethod
    def _parse(self, block: Block, types: Types, columns: Sequence[str] | None) -> pa.Table:
        """Parse all columns, of `types` where given, or only `columns`."""
