"""Untrusted Arrow streams: read to the end or refused, and never larger than they may be."""

from __future__ import annotations

import io
import resource
import struct
import tempfile
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.scoring.probes import stream

from easeml_meter.scoring import answers
from easeml_meter.scoring.answers import CutShort, Unreadable, read_answers, received, rewrite

BATCH = pa.record_batch(
    {
        "number": pa.array([1.5, None, 2.5]),
        "text": ["a", "b", None],
        "class": pa.array(["cat", "dog", "cat"]).dictionary_encode(),
        "scores": pa.array([[0.1, 0.9], [0.2, 0.8], [1.0]]),
        "ranked": pa.array([["a"], [], None], pa.large_list(pa.large_string())),
        "fixed": pa.array([[1, 2], [3, 4], [5, 6]], pa.list_(pa.int8(), 2)),
        "flag": [True, False, None],
        "half": pa.array(np.array([1, 2, 3], np.float16)),
    }
)

PLAIN = pa.Table.from_batches([BATCH.set_column(2, "class", pa.array(["cat", "dog", "cat"]))])
"""Dictionaries are written out."""


def read(data: bytes, rows: int = 3) -> list[Any]:
    """Read what a program wrote in this process: what a child does, and what its parent does."""
    plain = io.BytesIO()
    rewrite(io.BytesIO(data), plain)
    plain.seek(0)
    return list(received(plain, lambda asked: asked <= rows))


def read_apart(data: bytes, rows: int = 3) -> list[Any]:
    """Read it as for users: a child reads first."""
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.seek(0)
        return list(read_answers(file, lambda asked: asked <= rows, 60))


def table(data: bytes, rows: int = 3) -> Any:
    return pa.Table.from_batches(read(data, rows))


def test_plain_types_are_read_as_they_are() -> None:
    found = table(stream(BATCH))
    assert found.equals(PLAIN)
    assert pa.Table.from_batches(read_apart(stream(BATCH))).equals(PLAIN)


@pytest.mark.parametrize("name", BATCH.schema.names)
def test_batches_of_any_size_are_read(name: str) -> None:
    batch = BATCH.select([name])
    parts = (batch.slice(0, 1), batch.slice(0, 0), batch.slice(1, 2))
    assert table(stream(*parts)).equals(PLAIN.select([name]))


def test_large_batches_come_in_slices() -> None:
    batch = pa.record_batch({"prediction": np.arange(200_000)})
    found = read(stream(batch), 200_000)
    assert max(len(each) for each in found) <= 1 << 16
    assert pa.Table.from_batches(found).equals(pa.Table.from_batches([batch]))


def test_nothing_but_names_and_types_is_kept_of_a_schema() -> None:
    field = pa.field("x", pa.int64(), metadata={"a": "b"})
    schema = pa.schema([field], metadata={"pandas": "{}"})
    (found,) = read(stream(pa.record_batch([[1, 2, 3]], schema=schema)))
    assert found.schema.metadata is None
    assert found.schema.field(0).metadata is None


@pytest.mark.parametrize(
    "column",
    [
        pa.nulls(1),
        pa.array([{"a": 1}]),
        pa.array([[[1]]]),
        pa.array([[{"a": 1}]]),
        pa.array([b"bytes"]),
        pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int8())),
        pa.array([1]).cast(pa.timestamp("s")),
        pa.array(["a"], pa.string_view()),
        pa.array([1]).dictionary_encode(),
        pa.array([[None]], pa.list_(pa.null())),
        pa.RunEndEncodedArray.from_arrays(pa.array([1], pa.int32()), pa.array([1])),
        pa.ExtensionArray.from_storage(pa.bool8(), pa.array([1], pa.int8())),
    ],
    ids=lambda column: str(column.type).split("<")[0],
)
def test_other_types_are_refused(column: Any) -> None:
    with pytest.raises(Unreadable, match=r"column 'x'.*numbers, texts or lists of them needed"):
        read(stream(pa.record_batch([column], names=["x"])))


# --- Bombs ---


def bomb(codec: str | None, batch: Any) -> bytes:
    return stream(batch, options=pa.ipc.IpcWriteOptions(compression=codec))


MILLIONS = 40
LISTS = pa.record_batch([pa.array([np.zeros(MILLIONS << 20, np.int8)])], names=["x"])
WORDS = pa.record_batch(
    [pa.DictionaryArray.from_arrays(np.zeros(10_000, np.int32), ["a" * 200_000])], names=["x"]
)


def test_the_bomb_is_one() -> None:
    data = bomb("zstd", LISTS)
    assert len(data) < 1 << 14
    assert pa.ipc.open_stream(data).read_all().nbytes > MILLIONS << 20


@pytest.mark.parametrize("codec", ["zstd", "lz4"])
@pytest.mark.parametrize("batch", [LISTS, WORDS], ids=["lists", "dictionary"])
def test_what_unpacks_to_much_is_refused(codec: str, batch: Any) -> None:
    with pytest.raises(Unreadable, match=r"64 KB written for each row|MB of memory are needed"):
        read_apart(bomb(codec, batch), batch.num_rows)


@pytest.mark.parametrize("size", [100 << 30, 3 << 30, -1, -(1 << 62)])
def test_a_body_that_says_it_is_large_takes_no_memory_here(size: int) -> None:
    data = bytearray(stream(pa.record_batch({"x": np.zeros(333)})))
    schema = len(pa.schema([("x", pa.float64())]).serialize())
    length = struct.pack("<q", 333 * 8)
    at = data.index(length, schema)
    data[at : at + 8] = struct.pack("<q", size)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(Unreadable, match="Arrow stream"):
        read_apart(bytes(data), 333)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak < 100 << 10


def test_a_child_that_ends_is_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "MEMORY", 0)
    large = stream(pa.record_batch({"x": np.zeros(4 << 20)}))  # never fits what a child has free
    with pytest.raises(Unreadable, match="0 MB of memory are needed to read the Arrow stream"):
        read_apart(large, 4 << 20)


def test_bytes_are_limited_by_rows() -> None:
    fat = pa.record_batch({"x": ["a" * (2 << 20)]})
    needed = -(-(2 << 20) // answers.ROW_BYTES)
    with pytest.raises(Unreadable, match="more than 64 KB written for each row of input"):
        read(stream(fat), needed // 4)
    assert read(stream(fat), needed)


# --- Ends ---


def test_more_rows_than_there_are_inputs_are_refused() -> None:
    batch = BATCH.slice(0, 1)
    with pytest.raises(Unreadable, match="more predictions written than there are rows"):
        read(stream(batch, batch, batch, batch))
    assert len(read(stream(batch, batch, batch))) == 3


def test_something_after_the_end_is_refused() -> None:
    with pytest.raises(Unreadable, match="after the end"):
        read(stream(BATCH) + b"x")
    with pytest.raises(Unreadable, match="after the end"):
        read(stream(BATCH) + stream(BATCH))
    assert read(stream(BATCH) + stream(BATCH)[-8:])  # a writer that was closed twice


def test_the_mark_of_the_end_may_be_left_out() -> None:
    assert read(stream(BATCH)[:-8]) == read(stream(BATCH))


def test_wherever_a_stream_is_cut_that_is_noticed() -> None:
    data = stream(BATCH)
    whole = {len(data), len(data) - 8}
    batches = {0}
    for at in range(len(data)):
        try:
            batches.add(len(read(data[:at])))
        except CutShort:
            continue
        assert at in whole or at in _ends(data)
    assert batches == {0, 1}


def _ends(data: bytes) -> set[int]:
    """Give where messages end: a stream cut there is just shorter, and its rows are counted."""
    reader = pa.MessageReader.open_stream(data)
    at, ends = 0, set()
    for message in reader:
        at += 8 + len(message.metadata) + (len(message.body) if message.body else 0)
        at += -at % 8
        ends.add(at)
    return ends


@pytest.mark.parametrize("data", [b"", b"\xff", b"\xff\xff\xff\xff\0\0\0"])
def test_nothing_is_not_enough(data: bytes) -> None:
    with pytest.raises(CutShort, match="no predictions written"):
        read(data)


@pytest.mark.parametrize("data", [b"1\n0\n1\n0\n1\n", b"ARROW1\0\0", b"PAR1" * 9])
def test_other_formats_are_refused(data: bytes) -> None:
    with pytest.raises(Unreadable, match=r"only an Arrow stream may be written to stdout, b'"):
        read(data)


# --- Whatever the bytes ---


def test_offsets_that_point_elsewhere_are_refused() -> None:
    data = stream(pa.record_batch({"x": ["abc", "def", "ghi"]}))
    offsets = struct.pack("<4i", 0, 3, 6, 9)
    for wrong in ((0, 3, 6, 1 << 30), (0, 9, 3, 9), (-9, 3, 6, 9)):
        with pytest.raises(Unreadable, match="no valid Arrow stream"):
            read(data.replace(offsets, struct.pack("<4i", *wrong)))


def test_places_in_a_dictionary_that_do_not_exist_are_refused() -> None:
    column = pa.DictionaryArray.from_arrays(pa.array([0, 1, 7], pa.int32()), ["a"] * 8)
    data = stream(pa.record_batch([column], names=["x"]))
    places = struct.pack("<3i", 0, 1, 7)
    assert data.count(places) == 1
    with pytest.raises(Unreadable, match="no valid Arrow stream"):
        read(data.replace(places, struct.pack("<3i", 0, 1, 8)))


SAMPLES = [stream(BATCH), *(stream(BATCH.select([name])) for name in BATCH.schema.names)]


@given(st.sampled_from(SAMPLES), st.data())
def test_damaged_streams_are_read_or_refused(sample: bytes, data: st.DataObject) -> None:
    damaged = bytearray(sample)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(damaged) - 1))
        damaged[at] = data.draw(st.sampled_from([0, 1, 2, 4, 8, 127, 128, 255]))
    before = pa.total_allocated_bytes()
    try:
        found = read(bytes(damaged))
    except Unreadable:
        return
    assert sum(len(batch) for batch in found) <= 3
    assert pa.total_allocated_bytes() - before < 1 << 20
    for batch in found:
        batch.to_pylist()
