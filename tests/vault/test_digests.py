from __future__ import annotations

import math
import string
import tracemalloc
import unicodedata
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from easeml_meter.errors import InvalidInput
from easeml_meter.vault import digests
from easeml_meter.vault.digests import (
    Digests,
    _hash_slices,
    collect,
    content_digest,
    duplicate_rows,
    row_digests,
    shared_rows,
    siphash128,
)

KEY = bytes(range(32))


def digest(table: pa.Table, columns: list[str] | None = None, key: bytes = KEY) -> Digests:
    return collect(row_digests(table.to_batches(), columns or table.column_names, key))


def same(left: pa.Array, right: pa.Array) -> bool:
    return bool((digest(pa.table({"x": left})) == digest(pa.table({"x": right}))).all())


def test_siphash_agrees_with_the_reference() -> None:
    """From vectors_sip128 of the reference code: the key 00..0f, the messages 00 01 02 ..."""
    key = bytes(range(16))
    messages = [bytes(range(length)) for length in range(64)]
    offsets = np.cumsum([0, *map(len, messages)])
    found = _hash_slices(np.frombuffer(b"".join(messages), np.uint8), offsets, key)
    assert found[0].tobytes().hex() == "a3817f04ba25a8e66df67214c7550293"
    assert found[1].tobytes().hex() == "da87c1d86b99af44347659119b22fc45"
    assert found[63].tobytes().hex() == "5150d1772f50834a503e069a973fbd7c"
    words = np.frombuffer(messages[56], np.uint64)
    repeated = siphash128([np.full(9000, word) for word in words], 9000, key)
    assert (repeated == found[56]).all()


LISTS = st.lists(st.lists(st.text(max_size=2), max_size=2), max_size=2)

VALUES = {
    pa.int64(): st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 3),
    pa.uint64(): st.integers(0, 2**64 - 1) | st.integers(0, 3),
    pa.float64(): st.floats() | st.sampled_from([0.0, -0.0, 1.0, math.nan]),
    pa.bool_(): st.booleans(),
    pa.string(): st.text(max_size=12) | st.just("long" * 80),
    pa.large_binary(): st.binary(max_size=20),
    pa.list_(pa.float32()): st.lists(st.floats(width=32), max_size=4),
    pa.list_(pa.list_(pa.string())): st.lists(
        st.lists(st.text(max_size=2), max_size=2), max_size=2
    ),
    pa.list_(pa.int16(), 2): st.lists(st.integers(-5, 5), min_size=2, max_size=2),
    pa.struct({"a": pa.int64(), "b": pa.string()}): st.fixed_dictionaries(
        {"a": st.none() | st.integers(0, 1), "b": st.none() | st.text(max_size=1)}
    ),
    pa.timestamp("us"): st.datetimes(),
    pa.date32(): st.dates(),
    pa.decimal128(5, 2): st.decimals(-99, 99, places=2),
    pa.null(): st.none(),
}


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    rows = draw(st.integers(1, 12))
    columns = {}
    for index, kind in enumerate(
        draw(st.lists(st.sampled_from(list(VALUES)), min_size=1, max_size=3))
    ):
        values = draw(st.lists(st.none() | VALUES[kind], min_size=1, max_size=4))
        chosen = draw(st.lists(st.sampled_from(values), min_size=rows, max_size=rows))
        columns[f"c{index}"] = pa.array(chosen, kind)
    return pa.table(columns)


def canonical(value: Any) -> Any:
    """The value in a form in which Python's equality is the one that is wanted."""
    if isinstance(value, float):
        return "nan" if math.isnan(value) else value
    if isinstance(value, str):
        return unicodedata.normalize("NFC", value).strip(string.whitespace)
    if isinstance(value, list):
        return tuple(map(canonical, value))
    if isinstance(value, dict):
        return tuple((name, canonical(inner)) for name, inner in value.items())
    return value


def keys_of(table: pa.Table) -> list[Any]:
    return [canonical(list(row.values())) for row in table.to_pylist()]


@given(tables())
def test_digests_are_equal_exactly_for_equal_rows(table: pa.Table) -> None:
    found = [tuple(pair) for pair in digest(table).tolist()]
    wanted = keys_of(table)
    for i in range(len(wanted)):
        for j in range(i):
            assert (found[i] == found[j]) == (wanted[i] == wanted[j])


@given(tables(), st.integers(1, 5), st.integers(0, 3))
def test_batches_slices_and_column_order_do_not_matter(
    table: pa.Table, size: int, start: int
) -> None:
    whole = digest(table)
    cut = [batch for batch in table.to_batches(max_chunksize=size) if batch.num_rows]
    assert (collect(row_digests(cut, table.column_names, KEY)) == whole).all()
    assert (digest(table.slice(start)) == whole[start:]).all()
    turned = table.select(table.column_names[::-1])
    assert (digest(turned, table.column_names) == whole).all()


@given(tables(), tables())
def test_repeated_and_shared_rows_are_found(first: pa.Table, second: pa.Table) -> None:
    keys = keys_of(first)
    repeated = [i + 1 for i, key in enumerate(keys) if key in keys[:i]]
    assert duplicate_rows(digest(first)).tolist() == repeated
    if first.schema == second.schema:
        others = keys_of(second)
        shared = [i + 1 for i, key in enumerate(keys) if key in others]
        assert shared_rows(digest(first), digest(second)).tolist() == shared
    assert shared_rows(digest(first), digest(first)).tolist() == list(range(1, len(keys) + 1))


def test_large_batches_are_taken_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = range(1000)
    table = pa.table({"n": numbers, "text": [f"text {i % 300}" for i in numbers]})
    whole = digest(table)
    monkeypatch.setattr(digests, "_SLICE_BYTES", 1)
    assert len(list(row_digests(table.to_batches(), table.column_names, KEY))) == 16
    assert (digest(table) == whole).all()


@pytest.mark.parametrize("bucket", [1, 7, 64, 10**6])
def test_rows_are_sorted_in_buckets(monkeypatch: pytest.MonkeyPatch, bucket: int) -> None:
    random = np.random.default_rng(bucket)
    # Few first words, over the whole range, so that rows are equal, half equal and far apart.
    words = np.array([0, 1, 1 << 62, 1 << 63, (1 << 64) - 1], np.uint64)
    few = np.column_stack([random.choice(words, 200), random.integers(0, 30, 200, np.uint64)])
    others = few[random.permutation(200)[:50]]
    monkeypatch.setattr(digests, "_BUCKET_ROWS", bucket)
    rows, known = list(map(tuple, few.tolist())), set(map(tuple, others.tolist()))
    repeated = [at + 1 for at, row in enumerate(rows) if row in rows[:at]]
    assert duplicate_rows(few).tolist() == repeated
    assert shared_rows(few, others).tolist() == [at + 1 for at in range(200) if rows[at] in known]


def test_many_digests_take_little_more_than_their_own_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of 100 million rows they are 1.6 GB; sorted all at once, they took four times as much."""
    random, rows = np.random.default_rng(1), 1 << 14
    monkeypatch.setattr(digests, "_BUCKET_ROWS", rows)
    tracemalloc.start()
    try:
        found = collect(
            np.frombuffer(random.bytes(16 * rows), np.uint64).reshape(-1, 2) for _ in range(64)
        )
        assert len(duplicate_rows(found)) == len(shared_rows(found, found[:0])) == 0
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1.5 * found.nbytes


def test_half_a_digest_is_not_enough() -> None:
    few = np.array([[1, 1], [1, 2], [2, 1], [1, 1], [2, 1], [1, 3]], np.uint64)
    assert duplicate_rows(few).tolist() == [4, 5]
    others = np.array([[1, 9], [1, 2], [1, 7], [2, 9]], np.uint64)
    assert shared_rows(few, others).tolist() == [2]
    assert shared_rows(few, few[:0]).tolist() == []
    assert shared_rows(few[:0], few).tolist() == duplicate_rows(few[:0]).tolist() == []


def test_how_a_value_is_stored_does_not_matter() -> None:
    numbers = [0, 1, -7, 2**53, 2**60]
    assert same(pa.array(numbers), pa.array(list(map(float, numbers))))
    for kind in (pa.int8(), pa.uint8(), pa.float16(), pa.float32()):
        assert same(pa.array([1, 5], kind), pa.array([1, 5], pa.int64()))
    texts = pa.array(["a", None, "", "b" * 300])
    for kind in (
        pa.large_string(),
        pa.string_view(),
        pa.binary(),
        pa.dictionary(pa.int8(), pa.string()),
    ):
        assert same(texts, texts.cast(kind))
    assert same(pa.array([b"ab"], pa.binary(2)), pa.array(["ab"]))
    accents = pa.array(["é", None, "Å b"])
    assert same(accents, pa.array(["e\u0301", None, " A\u030a b\n"], pa.string_view()))
    amounts = pa.array([Decimal("1.50"), None, Decimal("-7.00"), Decimal("0.07")])
    for kind in (pa.decimal128(38, 20), pa.decimal256(60, 2), pa.float64()):
        assert same(amounts, amounts.cast(kind))
    assert same(pa.array([Decimal("7.00")]), pa.array([7]))
    long = pa.array([Decimal("12345678901234567.80"), Decimal("12345678901234567.81")])
    assert same(long, long.cast(pa.decimal128(38, 10)))
    assert not len(duplicate_rows(digest(pa.table({"x": long}))))
    lists = pa.array([[1.0, 2.0], None, [3.0, 4.0]])
    for kind in (pa.list_(pa.float64(), 2), pa.large_list(pa.int8())):
        assert same(lists, lists.cast(kind))
    times = pa.array([datetime(2020, 1, 1), None, datetime(1969, 1, 1)])
    for kind in (pa.timestamp("s"), pa.timestamp("ns"), pa.date32(), pa.date64()):
        assert same(times, times.cast(kind))
    assert same(pa.array([date(2020, 1, 1)]), pa.array([datetime(2020, 1, 1)]))


def test_whole_numbers_beyond_floats_stay_apart() -> None:
    near = [2**62, 2**62 + 1, 2**62 + 2, -(2**62) - 1, 2**63 - 1, -(2**63)]
    assert not len(duplicate_rows(digest(pa.table({"x": pa.array(near, pa.int64())}))))
    high = pa.array([2**63 + 1, 2**64 - 1, 2**64 - 2], pa.uint64())
    low = pa.array([2**63 - 1, -1, -2], pa.int64())
    assert not len(shared_rows(digest(pa.table({"x": high})), digest(pa.table({"x": low}))))


@pytest.mark.parametrize("sign", [1, -1])
def test_the_first_whole_number_that_no_float_is_has_a_digest_of_its_own(sign: int) -> None:
    first = sign * (2**53 + 1)
    near = pa.table({"x": pa.array([sign * 2**53, first], pa.int64())})
    assert not len(duplicate_rows(digest(near)))
    beside = pa.table({"x": pa.array([2**60, first], pa.int64())})
    assert digest(beside)[1].tolist() == digest(near)[1].tolist()


def test_missing_is_neither_nan_nor_empty() -> None:
    floats = pa.table({"x": pa.array([None, math.nan, 0.0], from_pandas=False)})
    texts = pa.table({"x": [None, "", "null"]})
    lists = pa.table({"x": [None, [], [None]]})
    for table in (floats, texts, lists):
        assert not len(duplicate_rows(digest(table)))


def test_values_do_not_run_into_each_other() -> None:
    assert not len(duplicate_rows(digest(pa.table({"a": ["ab", "a"], "b": ["c", "bc"]}))))
    assert not len(duplicate_rows(digest(pa.table({"a": [["ab"], ["a", "b"]]}))))
    row = pa.table({"a": [1], "b": [2]})
    assert not len(shared_rows(digest(row), digest(row.rename_columns(["b", "a"]))))


def test_wide_rows_are_digested_too() -> None:
    wide = pa.table({f"c{i}": [0, 1, 0, i] for i in range(100)})
    assert duplicate_rows(digest(wide)).tolist() == [3]


def test_another_key_gives_other_digests() -> None:
    table = pa.table({"x": [1], "y": ["long" * 100]})
    assert not (digest(table) == digest(table, key=bytes(32))).any()


def test_what_cannot_be_compared_is_said() -> None:
    union = pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array([1])])
    with pytest.raises(InvalidInput, match="column 'x' of type sparse_union"):
        digest(pa.table({"x": union}))


@given(tables(), st.randoms(use_true_random=False))
def test_the_content_digest_ignores_order_and_nothing_else(table: pa.Table, random: Any) -> None:
    def of(rows: pa.Table) -> str:
        return content_digest([digest(rows)], KEY)

    order = list(range(table.num_rows))
    random.shuffle(order)
    assert of(table.take(order)) == of(table)
    assert of(pa.concat_tables([table, table.slice(0, 1)])) != of(table)
    assert of(table.slice(1)) != of(table)


def test_stored_fingerprints_stay_the_same() -> None:
    """Budgets are keyed to fingerprints."""
    table = pa.table(
        {
            "number": pa.array([1, 2**60 + 1, None]),
            "float": pa.array([0.5, math.nan, -0.0]),
            "text": pa.array(["short", "long" * 80, None]),
            "list": pa.array([[1.0, 2.0], [], None], pa.list_(pa.float32())),
            "time": pa.array([datetime(2026, 3, 1, 12), None, datetime(1999, 1, 1)]),
        }
    )
    assert content_digest([digest(table)], KEY) == (
        "213e1844f4edfe22f5d91513caf52a18e74f16f6e6c2894ffb814902ecf5184d"
    )
