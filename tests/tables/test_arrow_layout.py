"""Heads of Arrow messages that stand for more than their bytes are refused before they are read."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from easeml_meter.errors import InvalidInput, TooLarge
from easeml_meter.tables import arrow_layout
from easeml_meter.tables.arrow_layout import DamagedArrow, check_arrow, check_schema
from easeml_meter.tables.limits import USUAL_LIMITS, TableLimits
from easeml_meter.tables.opening import open_table
from easeml_meter.tables.source import Held

NAME = b"a name of some length"


def text(content: bytes) -> bytes:
    size = len(content)
    return struct.pack("<I", size) + content + bytes(4 - size % 4)


def head(columns: int = 1, pairs: int = 0, levels: int = 0) -> bytes:
    """Return a schema whose columns are all the same place in the file, and so is their metadata.

    With `levels`, each column has two nested ones, which are the same place again.
    """
    out = bytearray()

    def table(*offsets: tuple[int, int]) -> int:
        """Write a table whose fields are four bytes each, to be filled in; return its place."""
        slots = [0] * (1 + max(number for number, _ in offsets))
        for place, (number, _) in enumerate(offsets):
            slots[number] = 4 + 4 * place
        directory = struct.pack("<HH", 4 + 2 * len(slots), 4 + 4 * len(offsets))
        directory += struct.pack(f"<{len(slots)}H", *slots)
        directory += bytes(-len(directory) % 4)
        at = len(out) + len(directory)
        values = b"".join(struct.pack("<I", value) for _, value in offsets)
        out.extend(directory + struct.pack("<i", len(directory)) + values)
        return at

    def point(at: int) -> None:
        """Let an offset lead to the end."""
        struct.pack_into("<I", out, at, len(out) - at)

    def vector(count: int) -> list[int]:
        out.extend(struct.pack("<I", count) + bytes(4 * count))
        return list(range(len(out) - 4 * count, len(out), 4))

    def leading_to(write: Any, *places: int) -> int:
        before = len(out)
        at: int = write()
        for place in places:
            struct.pack_into("<I", out, place, at - place)
        assert at >= before
        return at

    out.extend(bytes(4))
    message = leading_to(lambda: table((0, 4), (1, 1), (2, 0)), 0)
    schema = leading_to(lambda: table((1, 0), (2, 0)), message + 12)
    point(schema + 4)
    places = vector(columns)
    for level in range(levels + 1):
        last = level == levels
        # A struct of two, or a whole number of 32 bits.
        kind = 2 if last else 13
        column = leading_to(lambda kind=kind: table((0, 0), (2, kind), (3, 0), (5, 0)), *places)
        point(column + 4)
        out.extend(text(NAME))
        leading_to(lambda last=last: table((0, 32), (1, 1)) if last else table((0, 0)), column + 12)
        point(column + 16)
        places = vector(0 if last else 2)
    point(schema + 8)
    places = vector(pairs)
    if pairs:
        pair = leading_to(lambda: table((0, 0), (1, 0)), *places)
        point(pair + 4)
        point(pair + 8)
        out.extend(text(b"x" * 1000))
    return bytes(out) + bytes(-len(out) % 8)


def framed(content: bytes) -> bytes:
    return b"\xff\xff\xff\xff" + struct.pack("<i", len(content)) + content


def as_arrow_reads(content: bytes) -> pa.Schema:
    return pa.ipc.read_schema(pa.py_buffer(framed(content)))


def test_arrow_itself_makes_as_many_columns_as_places_are_named() -> None:
    """So that the cases below are attacks and not only damaged files."""
    schema = as_arrow_reads(head(columns=500, pairs=300))
    assert len(schema) == 500
    assert schema.field(0).name == NAME.decode()
    nested = as_arrow_reads(head(levels=3)).field(0).type
    assert nested.num_fields == 2
    assert nested.field(0).type.field(1).type.num_fields == 2


def test_columns_at_one_place_are_counted_each() -> None:
    check_schema(head(columns=20), TableLimits(most_columns=20))
    with pytest.raises(TooLarge, match="21 columns given, at most 20"):
        check_schema(head(columns=21), TableLimits(most_columns=20))


def test_nested_columns_at_one_place_are_counted_each() -> None:
    """Sixty levels of two are a few kilobytes, and more columns than there are atoms in a room."""
    check_schema(head(levels=3), USUAL_LIMITS)
    content = head(levels=60)
    assert len(content) < 8000
    with pytest.raises((TooLarge, DamagedArrow)):
        check_schema(content, USUAL_LIMITS)


def test_metadata_at_one_place_is_counted_each_time() -> None:
    check_schema(head(pairs=1), USUAL_LIMITS)
    with pytest.raises(DamagedArrow, match="share their place"):
        check_schema(head(pairs=1000), USUAL_LIMITS)


@pytest.mark.parametrize("content", [head(columns=20_000), head(levels=60), head(pairs=3000)])
def test_a_stream_with_such_a_head_is_refused_in_one_line(content: bytes) -> None:
    with pytest.raises(InvalidInput) as refused:
        open_table(Held("a.arrows", framed(content), limits=USUAL_LIMITS))
    assert "\n" not in str(refused.value)


def written(table: pa.Table, *, stream: bool, **options: Any) -> bytes:
    sink = pa.BufferOutputStream()
    opener = pa.ipc.new_stream if stream else pa.ipc.new_file
    with opener(sink, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(table, max_chunksize=1000)
    return bytes(sink.getvalue())


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("compression", [None, "lz4", "zstd"])
def test_what_compressed_buffers_say_is_added_up(stream: bool, compression: str | None) -> None:
    table = pa.table({"a": np.zeros(10_000), "b": pa.array(["x"] * 10_000).dictionary_encode()})
    content = written(table, stream=stream, compression=compression)
    check_arrow(content, TableLimits(most_decoded_bytes=200_000))
    tight = TableLimits(most_decoded_bytes=60_000)
    if compression:
        with pytest.raises(TooLarge, match="bytes when decoded given, at most 60,000"):
            check_arrow(content, tight)
    else:  # as many bytes as the file has
        check_arrow(content, tight)
    assert open_table(Held("a.arrow", content, limits=USUAL_LIMITS)).columns == ("a", "b")


@pytest.mark.parametrize("stream", [False, True])
def test_there_may_be_so_many_batches_and_no_more(
    stream: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = written(pa.table({"a": np.zeros(9000)}), stream=stream)
    monkeypatch.setattr(arrow_layout, "MOST_MESSAGES", 10)
    check_arrow(content, USUAL_LIMITS)
    monkeypatch.setattr(arrow_layout, "MOST_MESSAGES", 8)
    with pytest.raises(TooLarge, match="more than 8 batches given"):
        check_arrow(content, USUAL_LIMITS)


def test_a_dictionary_that_grows_is_refused() -> None:
    """Arrow copies all of it for each addition."""
    sink = pa.BufferOutputStream()
    kind = pa.dictionary(pa.int32(), pa.string())
    options = pa.ipc.IpcWriteOptions(emit_dictionary_deltas=True)
    with pa.ipc.new_stream(sink, pa.schema([("a", kind)]), options=options) as writer:
        for words in (["x"], ["x", "y"]):
            writer.write_batch(pa.record_batch([pa.array(words, kind)], ["a"]))
    with pytest.raises(InvalidInput, match="a dictionary that grows"):
        check_arrow(sink.getvalue().to_pybytes(), USUAL_LIMITS)


@pytest.mark.parametrize("stream", [False, True])
def test_every_cut_of_a_file_is_read_or_refused_in_one_line(stream: bool) -> None:
    content = written(pa.table({"a": [1, 2, 3]}), stream=stream, compression="zstd")
    refused = []
    for end in range(1, len(content)):
        try:
            list(open_table(Held("a.arrow", content[:end], limits=USUAL_LIMITS)).batches())
        except InvalidInput as error:
            refused.append(str(error))
    assert refused
    assert not any("\n" in line for line in refused)
