"""Clusters are numbered by their names, and strata read from a column that every row is in."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from easeml_meter.errors import InvalidInput
from easeml_meter.tables import groups as module
from easeml_meter.tables.groups import LARGEST, Clusters, StrataNamed


@given(st.lists(st.sampled_from(["a", "b", "c", ""]), min_size=1), st.integers(1, 5))
def test_rows_of_one_name_are_one_cluster(names: list[str], size: int) -> None:
    batches = [pa.array(names[at : at + size]) for at in range(0, len(names), size)]
    found = Clusters.of(batches)
    assert found.count == len(set(names))
    same = [[first == second for second in names] for first in names]
    assert (found.codes[:, None] == found.codes[None, :]).tolist() == same
    assert found.sizes.tolist() == [int((found.codes == code).sum()) for code in range(found.count)]


def test_types_do_not_matter() -> None:
    whole = Clusters.of([pa.array([7, 8, 7])])
    text = Clusters.of([pa.array(["7", "8"]).dictionary_encode(), pa.array(["7"])])
    assert whole.codes.tolist() == text.codes.tolist() == [0, 1, 0]


@pytest.mark.parametrize(
    ("column", "why"),
    [
        (pa.array(["a", None]), "clusters: one is missing, each row needs one"),
        (pa.array([0.5]), "clusters: type double given, whole numbers or text needed"),
    ],
)
def test_names_that_are_none(column: pa.Array, why: str) -> None:
    with pytest.raises(InvalidInput, match=why):
        Clusters.of([column])


def test_a_cluster_whose_losses_would_not_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LARGEST", 2)
    assert Clusters.of([pa.array([1, 2, 1])]).count == 2
    with pytest.raises(InvalidInput, match="one of more than 2 rows given: split it"):
        Clusters.of([pa.array([1, 1, 1])])


def test_means_are_rounded_to_the_nearest() -> None:
    clusters = Clusters(np.array([0, 0, 1, 1, 1, 2]), 3)
    assert clusters.means(np.array([5, 4, 7])).tolist() == [3, 1, 7]


HALVES = StrataNamed("r", ("a", "b"), (Fraction(1, 2), Fraction(1, 2)))


def test_a_stratum_may_have_more_rows_than_a_cluster() -> None:
    """Small tolerances are planned with millions of rows for one."""
    indices = np.zeros(LARGEST + 2, np.int32)
    indices[-1] = 1
    batch = pa.record_batch({"r": pa.DictionaryArray.from_arrays(indices, pa.array(["a", "b"]))})
    assert HALVES.of([batch]).sizes.tolist() == [LARGEST + 1, 1]


def test_a_stratum_without_a_row_is_refused() -> None:
    with pytest.raises(InvalidInput, match="stratum 'b': 0 rows given, 1 or more needed"):
        HALVES.of([pa.record_batch({"r": ["a", "a"]})])
