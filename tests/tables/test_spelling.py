"""Ids and labels as text: the same value has the same text in every file, or is refused."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from easeml_meter.errors import InvalidInput
from easeml_meter.tables.spelling import as_texts

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
