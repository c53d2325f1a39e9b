"""Predictions that a stranger's program writes as an Arrow stream, read with all due distrust.

They are parsed in a process that holds keys. So every message is looked at before Arrow sees it:
how large it says it is, and whether it would unpack to more than that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import IO, Any

import pyarrow as pa

from easeml_meter.tables.arrow_layout import DICTIONARY, SCHEMA, check_schema, look_at
from easeml_meter.tables.limits import USUAL_LIMITS
from easeml_meter.tables.table import cut
from easeml_meter.tables.wording import excerpt

MOST_MESSAGE = 256 << 20
MOST_METADATA = 4 << 20
MOST_DICTIONARY = 16 << 20
LONGEST_TEXT = 1000
"""Bytes of an entry of a dictionary: each costs little to repeat."""
FREE_BYTES = 1 << 20
ROW_BYTES = 64 << 10
"""So many bytes for each row of input: enough for 8,000 scores."""

_SLICE_ROWS = 1 << 16
_CONTINUES = b"\xff\xff\xff\xff"
_END = _CONTINUES + bytes(4)


class Unreadable(ValueError):
    """What was written is no stream of predictions."""


class CutShort(Unreadable):
    """The stream ended too early, most often because the program did."""


def read_answers(stream: IO[bytes], reaches: Callable[[int], bool]) -> Iterator[pa.RecordBatch]:
    """Yield the batches of an Arrow stream, then see that nothing follows it.

    `reaches` tells, maybe after a while, whether there are so many rows of input.
    """
    messages = _Messages(stream, reaches)
    rows = 0
    try:
        reader = pa.ipc.open_stream(pa.PythonFile(messages, mode="r"))
        schema = _plain(reader.schema)
        for batch in reader:
            rows += batch.num_rows
            if batch.num_rows and not reaches(rows):
                raise Unreadable("more predictions written than there are rows of input")
            batch.validate(full=True)
            for column in batch.columns:
                _check_dictionary(column)
            # Without what else a schema can carry, and never much at a time.
            clean = pa.RecordBatch.from_arrays(batch.columns, schema=schema)
            yield from cut(clean, _SLICE_ROWS)
        if stream.read(9) not in (b"", _END):  # closed twice, pyarrow marks the end twice
            raise Unreadable("something was written after the end of the Arrow stream")
    except Unreadable:
        raise
    except Exception as error:  # whatever Arrow makes of bytes chosen to confuse it
        raise Unreadable(f"no valid Arrow stream was written: {excerpt(str(error), 200)}") from None


def _plain(schema: pa.Schema) -> pa.Schema:
    """Keep names and types; refuse types that no prediction has."""
    for field in schema:
        if not _is_plain(field.type):
            allowed = "numbers, texts or lists of them needed"
            raise Unreadable(f"column {excerpt(field.name)}: {excerpt(field.type)}, {allowed}")
    return pa.schema([pa.field(field.name, field.type) for field in schema])


def _is_plain(kind: pa.DataType) -> bool:
    types = pa.types
    if types.is_dictionary(kind):
        return bool(types.is_string(kind.value_type) or types.is_large_string(kind.value_type))
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        kind = kind.value_type
    return any(
        (
            types.is_integer(kind),
            types.is_floating(kind),
            types.is_boolean(kind),
            types.is_string(kind),
            types.is_large_string(kind),
        )
    )


def _check_dictionary(column: Any) -> None:
    if isinstance(column, pa.DictionaryArray):
        import pyarrow.compute as pc

        longest = pc.max(pc.binary_length(column.dictionary)).as_py() or 0
        if longest > LONGEST_TEXT:
            line = f"a text of {longest:,} bytes in a dictionary, {LONGEST_TEXT:,} at most"
            raise Unreadable(line)


class _Messages:
    """What Arrow reads from: whole messages, each let through only after a look at its head."""

    closed = False

    def __init__(self, stream: IO[bytes], reaches: Callable[[int], bool]) -> None:
        self._stream = stream
        self._reaches = reaches
        self._bytes = 0
        self._pieces: list[memoryview] = []

    def read(self, size: int) -> memoryview:
        """Return the next bytes; none at the end."""
        if not self._pieces:
            self._pieces = [memoryview(piece) for piece in self._next() if piece]
        if not self._pieces:
            return memoryview(b"")
        piece = self._pieces[0]
        if size > len(piece):  # Arrow sees another message than we do
            raise Unreadable("a message of the Arrow stream contradicts itself")
        self._pieces[:1] = [piece[size:]] if size < len(piece) else []
        return piece[:size]

    def close(self) -> None:
        """Leave the stream to its owner."""

    def _next(self) -> tuple[bytes, ...]:
        prefix = self._stream.read(8)
        if not prefix and self._bytes:
            return ()
        if len(prefix) < 8:
            raise CutShort("no predictions written, an Arrow stream needed on stdout")
        if not prefix.startswith(_CONTINUES):
            raise Unreadable(f"only an Arrow stream may be written to stdout, {prefix!r} found")
        size = int.from_bytes(prefix[4:], "little")
        if not size:
            return (prefix,)
        if size > MOST_METADATA:
            raise Unreadable("the head of a message of the Arrow stream is too large")
        head = self._read(size)
        return prefix, head, self._read(self._body_of(head))

    def _body_of(self, head: bytes) -> int:
        """Return the size of what follows the head of a message, if it may follow."""
        message = look_at(head)
        if message.kind == SCHEMA:
            check_schema(head, USUAL_LIMITS)
        if message.compressed:
            raise Unreadable("the Arrow stream is compressed, write it without compression")
        if message.grows:
            raise Unreadable("a dictionary grows in the Arrow stream, write it at once")
        size, most = message.body, MOST_DICTIONARY if message.kind == DICTIONARY else MOST_MESSAGE
        if not 0 <= size <= most:
            line = f"{size >> 20:,} MB in one message, {most >> 20} MB at most"
            raise Unreadable(f"{line}: write smaller batches")
        self._bytes += len(head) + size
        rows = -((FREE_BYTES - self._bytes) // ROW_BYTES)
        if rows > 0 and not self._reaches(rows):
            raise Unreadable(f"more than {ROW_BYTES >> 10} KB written for each row of input")
        return size

    def _read(self, size: int) -> bytes:
        data = self._stream.read(size)
        if len(data) < size:
            raise CutShort("the Arrow stream of predictions ended in the middle")
        return data
