"""How much a table may hold that a stranger sent.

A few kilobytes can unpack to gigabytes. So a child process decodes the file (`apart`), and counts
what it finds batch by batch. The files of a meter's owner are not limited.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from easeml_meter.errors import InvalidInput, TooLarge

_WORDS = {
    "most_rows": "rows",
    "most_columns": "columns",
    "most_decoded_bytes": "bytes when decoded",
    "longest_text": "bytes in one text",
    "most_classes": "classes",
}
_MEMORY = 64 << 20
_TIMES = 4
"""A child may take so many bytes, and so many times `most_decoded_bytes`: rows exist as pages, as
values and as texts."""


@dataclass(frozen=True)
class TableLimits:
    """What one table may hold; each limit is a setting of a server, of the same name."""

    most_rows: int = 10_000_000
    most_columns: int = 10_000
    most_decoded_bytes: int = 256 << 20
    longest_text: int = 1 << 20
    most_classes: int = 25_000

    @property
    def memory(self) -> int:
        """Bytes that a child may take to decode a file."""
        return _MEMORY + _TIMES * self.most_decoded_bytes

    def check(self, setting: str, given: int) -> None:
        """Refuse more than a setting allows.

        Raises:
            TooLarge: it is more.
        """
        if given > (most := getattr(self, setting)):
            line = f"{given:,} {_WORDS[setting]} given, at most {most:,}"
            raise TooLarge(f"{line} (setting {setting} of the server)")


USUAL_LIMITS = TableLimits()


class TableTally:
    """What was read of a table so far, against its limits."""

    def __init__(self, limits: TableLimits) -> None:
        self._limits = limits
        self._rows = self.bytes = 0

    def add(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Count a valid batch, with dictionaries and views written out, and return it so.

        Raises:
            TooLarge: it is too much.
            InvalidInput: it is of a type whose values may share their storage.
        """
        plain = written_out(batch.schema)
        if plain != batch.schema:
            batch = batch.cast(plain)
        self._rows += batch.num_rows
        self._limits.check("most_rows", self._rows)
        for column in batch.columns:
            for texts in _texts(column):
                longest = pc.max(pc.binary_length(texts)).as_py() or 0
                self._limits.check("longest_text", longest)
        self.bytes += batch.nbytes
        self._limits.check("most_decoded_bytes", self.bytes)
        return batch


def written_out(schema: pa.Schema) -> pa.Schema:
    """Return columns whose dictionaries and views, also those in lists, are laid out plainly."""
    plain = [(field.name, _plain(field.type)) for field in schema]
    return pa.schema(plain)


def _plain(kind: pa.DataType) -> pa.DataType:
    types = pa.types
    if types.is_dictionary(kind):
        return _plain(kind.value_type)
    if types.is_string_view(kind):
        return pa.large_string()
    if types.is_binary_view(kind):
        return pa.large_binary()
    if types.is_struct(kind):
        return pa.struct([field.with_type(_plain(field.type)) for field in kind])
    if types.is_map(kind):
        return pa.map_(_plain(kind.key_type), _plain(kind.item_type))
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        item = kind.value_field.with_type(_plain(kind.value_type))
        if types.is_fixed_size_list(kind):
            return pa.list_(item, kind.list_size)
        return pa.list_(item) if types.is_list(kind) else pa.large_list(item)
    return kind


def _texts(column: Any) -> Iterator[Any]:
    """Yield the texts of a column, also those in lists."""
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    kind, types = column.type, pa.types
    if types.is_struct(kind):
        for field in column.flatten():
            yield from _texts(field)
    elif any(is_list(kind) for is_list in _LISTS):
        yield from _texts(column.flatten())
    elif any(is_text(kind) for is_text in _TEXTS):
        yield column
    elif types.is_nested(kind) or types.is_run_end_encoded(kind) or types.is_dictionary(kind):
        # Lists that are views, runs and unions may show the same value any number of times.
        shown = str(kind)[:40]
        raise InvalidInput(f"type {shown!r} given, numbers, texts or lists of them needed")


_LISTS = (
    *(pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list),
    pa.types.is_map,
)
_TEXTS = (
    *(pa.types.is_string, pa.types.is_large_string),
    *(pa.types.is_binary, pa.types.is_large_binary),
)
