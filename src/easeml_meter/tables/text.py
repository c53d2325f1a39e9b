"""CSV and JSON Lines alike: formats without types, whose rows can be broken anywhere.

Both are cut into blocks of whole rows, which Arrow then parses one by one. Arrow's own streams
would settle the types by the first block alone, and read far ahead of a slow consumer.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Self

import pyarrow as pa

from easeml_meter.errors import InvalidInput
from easeml_meter.tables.table import Batches, FileTable, Types, check_columns
from easeml_meter.tables.wording import excerpt

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
