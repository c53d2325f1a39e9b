"""Strata are read from a column: every row is in one, and every one has a row."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from easeml_meter.errors import InvalidInput
from easeml_meter.tables.clusters import LARGEST
from easeml_meter.tables.strata import StrataNamed

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
