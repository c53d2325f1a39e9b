"""Rows without a prediction, counted as wrong where a loss knows what wrong is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from easeml_meter.errors import invalid
from easeml_meter.scoring.losses import Brier
from easeml_meter.scoring.outputs import Expected, read_predictions
from easeml_meter.tables.spelling import is_text

Wrong = np.ndarray[tuple[()], np.dtype[Any]]
"""A single value, which also says the type of predictions that it fits into."""


def wrong_prediction(expected: Expected) -> Wrong:
    """Return a prediction whose loss is 1 whatever the label, for rows that have none.

    Raises:
        InvalidInput: the loss has no such prediction.
    """
    loss = expected.loss
    if loss.zero_one and loss.reads_labels:
        # Labels outside the class list have the code after the last class. This is the one after
        # that, so no label has it.
        code = len(expected.class_list) + 1
        return np.array(code, np.min_scalar_type(code))
    if isinstance(loss, Brier):
        return np.array(-1.0)  # far outside the simplex: the loss is cut off at 1
    reason = f"the loss {loss.name} has no wrong answer to count: predict every row"
    raise invalid("missing", "wrong", reason)


def may_miss(expected: Expected) -> bool:
    """Whether rows without a prediction can be counted as wrong."""
    loss = expected.loss
    return (loss.zero_one and loss.reads_labels) or isinstance(loss, Brier)


def read_or_wrong(
    columns: Sequence[Any], expected: Expected, first_row: int, wrong: Wrong, *, scores: bool
) -> NDArray[Any]:
    """Read predictions as `read_predictions` does; rows without one become `wrong`."""
    absent = np.zeros(len(columns[0]), bool)
    for column in columns:
        absent |= _absent(column, expected)
    values = np.full((len(absent), *(expected.shape or ())), wrong, wrong.dtype)
    present = np.flatnonzero(~absent)
    if not len(present):
        return values
    # An absent row is read as the present one before it: refusals then name the right row.
    start = int(present[0])
    nearest = np.maximum.accumulate(np.where(absent, 0, np.arange(len(absent))))[start:]
    filled = [column.take(pa.array(nearest)) for column in columns]
    found = read_predictions(filled, expected, first_row + start, scores=scores)
    values[present] = found[present - start]
    return values


def _absent(column: Any, expected: Expected) -> NDArray[np.bool_]:
    """Tell where a column has no value; in CSV that is an empty field."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    absent = column.is_null()
    if is_text(column.type) and (expected.classes is None or "" not in expected.classes.values):
        absent = pc.or_(absent, pc.equal(column, "").fill_null(True))
    found: NDArray[np.bool_] = absent.to_numpy(zero_copy_only=False)
    return found
