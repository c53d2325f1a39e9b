"""Ids and labels as text: the same value has the same text in every file, or is refused."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from easeml_meter.errors import InvalidInput
from easeml_meter.tables.spelling import OrderDigest, as_texts

TEXTS = [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())]
WHOLE = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.dictionary(pa.int32(), pa.int64())]


@pytest.mark.parametrize("kind", TEXTS, ids=str)
def test_text_stays_as_it_is(kind: Any) -> None:
    given = ["007", "7", " 7", "7.0", "True", "", "Ä"]
    assert as_texts(pa.array(given).cast(kind)).to_pylist() == given


@pytest.mark.parametrize("kind", WHOLE, ids=str)
def test_whole_numbers_are_their_digits(kind: Any) -> None:
    column = pa.array([7, 0, -3], pa.int64())
    column = column.dictionary_encode() if pa.types.is_dictionary(kind) else column.cast(kind)
    assert as_texts(column).to_pylist() == ["7", "0", "-3"]


def test_large_numbers_keep_all_their_digits() -> None:
    assert as_texts(pa.array([2**64 - 1], pa.uint64())).to_pylist() == [str(2**64 - 1)]
    assert as_texts([2**53 + 1]).to_pylist() == [str(2**53 + 1)]


def test_booleans_are_true_and_false() -> None:
    assert as_texts(pa.chunked_array([[True], [False]])).to_pylist() == ["true", "false"]


@pytest.mark.parametrize("column", [pa.array([1.5]), pa.array([7.0]), pa.array([[7]]), pa.nulls(1)])
def test_what_has_no_text_form_is_refused(column: pa.Array) -> None:
    with pytest.raises(InvalidInput, match=r"ids: type .* given, whole numbers or text needed"):
        as_texts(column)


def test_none_may_be_missing() -> None:
    coded = pa.DictionaryArray.from_arrays(pa.array([0, 1]), pa.array(["a", None]))
    for column in (pa.array([1, None]), coded):
        with pytest.raises(InvalidInput, match="labels: one is missing"):
            as_texts(column, "labels")


def order_digest(*parts: pa.Array) -> str:
    digest = OrderDigest()
    for part in parts:
        digest.update(part)
    return digest.hexdigest()


def test_the_order_digest_is_the_documented_one() -> None:
    ids = ["r1", "", "row 3"]
    content = hashlib.sha256("".join(ids).encode()).digest()
    lengths = hashlib.sha256(np.array([2, 0, 5], "<i8").tobytes()).digest()
    wanted = hashlib.sha256(content + lengths).hexdigest()
    array = pa.array(ids)
    assert order_digest(array) == wanted
    assert order_digest(array.slice(0, 1), array.slice(1)) == wanted
    assert order_digest(array.cast(pa.large_string())) == wanted
    assert order_digest(array.dictionary_encode()) == wanted
    assert order_digest(array.take([1, 0, 2])) != wanted
    assert order_digest(pa.array([7, 8])) == order_digest(pa.array(["7", "8"]))
    assert order_digest(pa.array(["12", "3"])) != order_digest(pa.array(["1", "23"]))


@given(st.lists(st.text()) | st.lists(st.integers(-(2**63), 2**63 - 1)), st.integers(0, 10))
def test_only_the_order_matters(ids: list[Any], cut: int) -> None:
    kind = pa.int64() if ids and isinstance(ids[0], int) else pa.string()
    texts = [str(each) for each in ids]
    whole = order_digest(pa.array(texts, pa.string()))
    assert order_digest(pa.array(ids[:cut], kind), pa.array(ids[cut:], kind)) == whole
    assert (
        order_digest(pa.array(texts[:cut], pa.large_string()), pa.array(texts[cut:], pa.string()))
        == whole
    )
    assert (order_digest(pa.array(texts[::-1], pa.string())) == whole) == (texts == texts[::-1])
    joined = ["".join(texts)]
    assert (order_digest(pa.array(joined)) == whole) == (joined == texts)
