"""Columns of predictions and of labels, turned into the arrays that a loss takes, or refused.

Predictions are refused with the row and the value. Labels are refused with the row alone: their
content is nobody's business but the labeler's. Rows without a prediction count as wrong where a
loss knows what wrong is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from easeml_meter.errors import invalid
from easeml_meter.scoring.classes import Classes, WrongType
from easeml_meter.scoring.columns import (
    ColumnForm,
    RowPlaces,
    flattened,
    is_list,
    no_nulls,
    read_in_form,
    read_reals,
)
from easeml_meter.scoring.judged import read_pairs
from easeml_meter.scoring.losses import Brier, Loss, Output
from easeml_meter.tables.source import excerpt
from easeml_meter.tables.spelling import is_text

SUM_TOLERANCE = 1e-3
"""How far probabilities may add up from 1, for those stored in 16 bits."""

OF_CLASSES = (Output.CLASS, Output.RANKED, Output.PROBABILITIES)


@dataclass(frozen=True)
class Expected:
    """What a submission must look like; all of it is known to the developer."""

    rows: int
    loss: Loss
    classes: Classes | None = None
    form: ColumnForm | None = None
    """The form of the labels, where the loss takes any; None: each column has its own."""

    def __post_init__(self) -> None:
        if self.rows < 1:
            raise invalid("rows", self.rows, "1 or more")
        if self.loss.output not in OF_CLASSES:
            return
        if self.classes is None:
            raise invalid("classes", "none", f"the loss {self.loss.name} needs the class list")
        object.__setattr__(self, "loss", self.loss.within(self.classes.values))
        if self.loss.ranks >= max(2, len(self.classes)) and self.loss.output is Output.RANKED:
            allowed = f"fewer than the {len(self.classes)} classes, or nothing is ever wrong"
            raise invalid("loss", self.loss.name, allowed)

    @property
    def class_list(self) -> Classes:
        """The classes, where the loss needs them."""
        if self.classes is None:
            raise ValueError(f"{self.loss.name} has no classes")
        return self.classes

    @property
    def shape(self) -> tuple[int, ...] | None:
        """The shape of one prediction; None if it may be anything."""
        match self.loss.output:
            case Output.CLASS | Output.REAL:
                return ()
            case Output.RANKED:
                return (self.loss.ranks,)
            case Output.PROBABILITIES:
                return (len(self.class_list),)
            case _:
                return None

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of one prediction."""
        if self.loss.output in (Output.CLASS, Output.RANKED):
            return self.class_list.dtype
        return np.dtype(np.float64)


def read_predictions(
    columns: Sequence[Any], expected: Expected, first_row: int, *, scores: bool = False
) -> NDArray[Any]:
    """Turn the prediction columns of a batch into what the loss takes.

    One column of values or of lists; or several, of ranked classes, or, with `scores`, of one
    score per class.
    """
    rows = RowPlaces(first_row)
    match expected.loss.output:
        case Output.REAL:
            span = expected.loss.span
            if pa.types.is_boolean(columns[0].type) and span not in (None, (0.0, 1.0)):
                raise WrongType(f"type bool given, numbers needed for {expected.loss.name}")
            return _in_span(read_reals(columns[0], rows), expected.loss, rows)
        case Output.PROBABILITIES:
            matrix, sums = _simplex(_matrix_of_reals(columns, expected, rows), rows)
            return matrix / sums if expected.loss.rescales else matrix
        case Output.CLASS | Output.RANKED:
            return _ranked(columns, expected, rows, scores=scores)
        case _:
            return read_in_form(columns[0], expected.form, rows)


def read_labels(
    column: Any,
    loss: Loss,
    classes: Classes | None,
    *,
    form: ColumnForm | None = None,
    first_row: int = 1,
    known_only: bool = False,
    secret: bool = True,
) -> NDArray[Any]:
    """Turn labels into what the loss takes; `secret` ones are refused without their content.

    A class outside the list gets the code `len(classes)` and so counts as wrong for everybody;
    `known_only`, for the intake of a test set, refuses it instead.
    """
    column = _one_array(column)
    if loss.judged and classes is not None:
        return read_pairs(column, classes)
    if not loss.reads_labels:
        return np.zeros(len(column))
    rows = RowPlaces(first_row, secret=secret)
    if loss.output is Output.REAL:
        return _in_span(read_reals(column, rows), loss, rows)
    if loss.output is Output.ANY:
        return read_in_form(column, form, rows)
    if classes is None:
        raise invalid("classes", "none", f"the loss {loss.name} needs the class list")
    no_nulls(column, rows)
    codes = classes.codes(column)
    if known_only and len(codes) and codes.max() == len(classes):
        raise rows.refuse_first(codes == len(classes), column, f"one of {classes} needed")
    return codes


def _ranked(
    columns: Sequence[Any], expected: Expected, rows: RowPlaces, *, scores: bool
) -> NDArray[Any]:
    """Return the class, or the k classes, ranked first; equal scores rank by the class list."""
    classes, k = expected.class_list, expected.loss.ranks
    column = columns[0]
    listed = is_list(column.type)
    if scores or (listed and pa.types.is_floating(column.type.value_type)):
        matrix = _matrix_of_reals(columns, expected, rows)
        if k == 1:
            best = matrix.argmax(axis=1)[:, None]
        else:
            best = np.argsort(-matrix, axis=1, kind="stable")[:, :k]
        codes = best.astype(classes.dtype)
    elif listed:
        flat, width = flattened(column, rows)
        if width != k:  # such as a 1 among zeros, which must not pass for ranked classes
            needed = "a class" if k == 1 else f"a list of {k} ranked classes"
            needed += f" or of {len(classes)} scores that are not whole numbers needed"
            raise rows.refuse(0, f"a list of {width}", needed)
        codes = _codes(flat, classes, rows[width]).reshape(-1, width)
    elif len(columns) == k == 1 and expected.loss.output is Output.CLASS:
        return _codes(column, classes, rows)  # as most submissions are
    elif len(columns) == k:
        codes = np.stack([_codes(column, classes, rows) for column in columns], axis=1)
    else:
        raise WrongType(f"{excerpt(column.type)} given, a list of {k} ranked classes needed")
    return np.ascontiguousarray(codes[:, 0] if expected.loss.output is Output.CLASS else codes)


def _codes(column: Any, classes: Classes, rows: RowPlaces) -> NDArray[Any]:
    no_nulls(column, rows)
    codes = classes.codes(column, or_places=True)
    if len(codes) and np.maximum.reduce(codes) == len(classes):
        strange, needed = codes == len(classes), f"one of {classes} needed"
        if near := classes.near(str(column[int(np.argmax(strange))].as_py())):
            needed += f": write {excerpt(near)}, which differs by case or space"
        raise rows.refuse_first(strange, column, needed)
    return codes


def _matrix_of_reals(columns: Sequence[Any], expected: Expected, rows: RowPlaces) -> NDArray[Any]:
    """Return one row of numbers per example, one number per class."""
    size = len(expected.class_list)
    if len(columns) > 1 or not is_list(columns[0].type):
        if len(columns) != size:
            raise WrongType(f"{excerpt(columns[0].type)} given, a list of {size} numbers needed")
        return np.stack([read_reals(column, rows) for column in columns], axis=1)
    expected.class_list.check_order("a list of scores")
    flat, width = flattened(columns[0], rows, size)
    return read_reals(flat, rows[width]).reshape(-1, width)


def _in_span(numbers: NDArray[Any], loss: Loss, rows: RowPlaces) -> NDArray[Any]:
    if loss.span is None or not len(numbers):
        return numbers
    low, high = loss.span
    if numbers.min() < low or numbers.max() > high:
        outside = (numbers < low) | (numbers > high)
        needed = f"a number from {low} to {high} needed, the range of {loss.name}"
        raise rows.refuse_first(outside, numbers, needed)
    if loss.zero_one and (between := (numbers != 0) & (numbers != 1)).any():
        raise rows.refuse_first(between, numbers, f"0 or 1 needed, the scores of {loss.name}")
    return numbers


def _simplex(matrix: NDArray[Any], rows: RowPlaces) -> tuple[NDArray[Any], NDArray[Any]]:
    """Check that rows are probabilities; return them, and what each adds up to."""
    outside = (matrix < 0) | (matrix > 1)
    if outside.any():
        wide = rows[matrix.shape[1]]
        raise wide.refuse_first(outside.ravel(), matrix.ravel(), "probabilities in [0, 1] needed")
    sums = np.add.reduce(matrix, axis=1)
    apart = np.abs(sums - 1) > SUM_TOLERANCE
    if apart.any():
        index = int(np.argmax(apart))
        raise rows.refuse(index, f"a sum of {sums[index]:.6g}", "probabilities that add up to 1")
    return matrix, sums[:, None]


def _one_array(column: Any) -> Any:
    if isinstance(column, pa.ChunkedArray):
        if column.num_chunks == 1:
            return column.chunk(0)
        return column.unify_dictionaries().combine_chunks()
    return column if isinstance(column, pa.Array) else pa.array(column)


Wrong = np.ndarray[tuple[()], np.dtype[Any]]
"""A single value, which also says the type of predictions that it fits into."""


def wrong_prediction(expected: Expected) -> Wrong:
    """Return a prediction whose loss is 1 whatever the label, for rows that have none."""
    loss = expected.loss
    if loss.zero_one and loss.reads_labels:
        # Labels outside the class list have the code after the last class. This is the one after
        # that, so no label has it.
        code = len(expected.class_list) + 1
        return np.array(code, np.min_scalar_type(code))
    if isinstance(loss, Brier):
        return np.array(-1.0)  # far outside the simplex: the loss is cut off at 1
    if not loss.reads_labels and loss.span:
        return np.array(loss.span[0])  # the lowest score
    reason = f"the loss {loss.name} has no wrong answer to count: predict every row"
    raise invalid("missing", "wrong", reason)


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
