"""Predictions that a stranger's program writes as an Arrow stream, read with all due distrust.

The process that runs it holds keys. So a child process reads the stream (`tables.apart`), and
writes another one: checked, of plain types, and followed by what is wrong, if anything is.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import IO, Any

import pyarrow as pa

from easeml_meter.tables.apart import forked
from easeml_meter.tables.source import excerpt, written_out
from easeml_meter.tables.table import cut

MEMORY = 1 << 30
"""Bytes that a child may take: for a message, and for what it unpacks to."""
FREE_BYTES = 1 << 20
ROW_BYTES = 64 << 10
"""So many bytes for each row of input: enough for 8,000 scores."""
_HEAD_BYTES = 64
"""A batch takes at least so many, also one without rows."""

_SLICE_ROWS = 1 << 16
_CONTINUES = b"\xff\xff\xff\xff"
_END = _CONTINUES + bytes(4)


class Unreadable(ValueError):
    """What was written is no stream of predictions."""


class CutShort(Unreadable):
    """The stream ended too early, most often because the program did."""


def read_answers(
    stream: IO[bytes], reaches: Callable[[int], bool], seconds: float
) -> Iterator[pa.RecordBatch]:
    """Yield the batches of an Arrow stream, then see that nothing follows it.

    `reaches` tells, maybe after a while, whether there are so many rows of input. The program may
    run for so many seconds.
    """
    with forked(_rewrite, memory=MEMORY, seconds=int(seconds) + 1, stdin=stream) as plain:
        yield from received(plain, reaches)


def received(plain: IO[bytes], reaches: Callable[[int], bool]) -> Iterator[pa.RecordBatch]:
    """Yield the batches that a child wrote, and raise what it says about the rest."""
    rows = size = 0
    try:
        for batch in pa.ipc.open_stream(plain):
            rows += batch.num_rows
            size += batch.nbytes + _HEAD_BYTES
            if batch.num_rows and not reaches(rows):
                raise Unreadable("more predictions written than there are rows of input")
            if size > FREE_BYTES and not reaches((size - FREE_BYTES) // ROW_BYTES):
                raise Unreadable(f"more than {ROW_BYTES >> 10} KB written for each row of input")
            batch.validate(full=True)
            if batch.num_rows:
                yield batch
        said = json.loads(plain.read())
    except (OSError, ValueError) as error:  # its stream or its last word is cut short
        if isinstance(error, Unreadable):
            raise
        line = f"more than {MEMORY >> 20:,} MB of memory are needed to read the Arrow stream"
        raise Unreadable(f"{line}, or it is damaged: write smaller batches") from None
    if said:
        raise (CutShort if said["cut"] else Unreadable)(said["line"])


def _rewrite(stream: IO[bytes], number: int) -> None:
    with open(number, "rb") as source:
        rewrite(source, stream)


def rewrite(source: IO[bytes], stream: IO[bytes]) -> None:
    """Write the batches of a stranger's stream plainly, then what is wrong with it, as JSON."""
    watched, writer, said = _Watched(source), None, None
    try:
        reader = pa.ipc.open_stream(pa.PythonFile(watched, mode="r"))
        schema = _plain(reader.schema)
        writer = pa.ipc.new_stream(stream, schema)
        for batch in reader:
            batch.validate(full=True)
            # Without what else a schema can carry, and never much at a time.
            clean = pa.RecordBatch.from_arrays(batch.columns, batch.schema.names).cast(schema)
            for piece in cut(clean, _SLICE_ROWS) if clean.num_rows else [clean]:
                writer.write_batch(piece)
            stream.flush()
        if source.read(9) not in (b"", _END):  # closed twice, pyarrow marks the end twice
            raise Unreadable("something was written after the end of the Arrow stream")
    except MemoryError:
        raise
    except Exception as error:  # whatever Arrow makes of bytes chosen to confuse it
        said = _said(error, watched, begun=writer is not None)
    if writer is None:
        writer = pa.ipc.new_stream(stream, pa.schema([]))
    writer.close()
    stream.write(json.dumps(said).encode())


def _said(error: Exception, watched: _Watched, *, begun: bool) -> dict[str, Any]:
    """Say what is wrong with a stream, and whether it ended too early."""
    if isinstance(error, Unreadable):
        return {"line": str(error), "cut": False}
    if watched.ended:
        cut_off = "the Arrow stream of predictions ended in the middle"
        none = "no predictions written, an Arrow stream needed on stdout"
        return {"line": cut_off if begun else none, "cut": True}
    line = f"no valid Arrow stream was written: {excerpt(str(error), 200)}"
    return {"line": line, "cut": False}


class _Watched:
    """What Arrow reads from; it looks how each message begins, and notes where the stream ends.

    Of each message Arrow first reads four bytes that are always the same, then four of its size.
    """

    closed = False

    def __init__(self, source: IO[bytes]) -> None:
        self._source = source
        self._begins = True
        self.ended = False

    def read(self, size: int) -> bytes:
        data = self._source.read(size)
        self.ended = len(data) < size
        if size == len(_CONTINUES):
            if self._begins and not _CONTINUES.startswith(data):
                shown = data + self._source.read(4)
                raise Unreadable(f"only an Arrow stream may be written to stdout, {shown!r} found")
            self._begins = not self._begins
        return data

    def close(self) -> None:
        """Leave the stream to its owner."""


def _plain(schema: pa.Schema) -> pa.Schema:
    """Keep names and types, dictionaries written out; refuse types that no prediction has."""
    for field in schema:
        if not _is_plain(field.type):
            allowed = "numbers, texts or lists of them needed"
            raise Unreadable(f"column {excerpt(field.name)}: {excerpt(field.type)}, {allowed}")
    return written_out(schema)


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
