"""A developer's predictions: checked in full before any label is touched, then read in step."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from easeml_meter.errors import InvalidInput
from easeml_meter.scoring.ids import Order
from easeml_meter.scoring.losses import Output
from easeml_meter.scoring.outputs import Expected, read_predictions
from easeml_meter.tables.comma_separated import CsvTable
from easeml_meter.tables.opening import open_raw
from easeml_meter.tables.source import Given
from easeml_meter.tables.table import FileTable, RowRange, Table, check_columns
from easeml_meter.tables.wording import about, some

KEEP_BYTES = 128 << 20
"""Checked predictions of up to this size stay in memory; larger ones are read a second time."""
WORKERS = min(4, os.cpu_count() or 1)
WORKER_ROWS = 1 << 18
"""Fewer rows are not worth another reader."""


@dataclass(frozen=True)
class Predictions:
    """Predictions that passed every check: the right number, in order, each fit for the loss.

    Only `open` makes them, so whoever holds them may touch labels.
    """

    expected: Expected
    digest: str
    """SHA-256 of the file's bytes: what makes two submissions the same."""
    table: FileTable = field(repr=False)
    layout: ReadColumns = field(repr=False)
    kept: NDArray[Any] | None = field(repr=False, compare=False)

    @classmethod
    def open(cls, path: Given, *, expected: Expected) -> Predictions:
        """Read and check a file of predictions; refuse it in one line that says why.

        Parquet, Arrow, CSV, JSON Lines or npy. A single column is the prediction, whatever its
        name; else it is the column `prediction`: a class, a number, or a list of ranked classes
        or of one score per class. Ranked classes may also stand in `prediction_1`,
        `prediction_2`, ..., scores in one column `probability_CLASS` for each class.
        """
        output = expected.loss.output
        reals = output in (Output.REAL, Output.PROBABILITIES, Output.ANY)
        table = open_raw(path, reals=reals)
        with about(path):
            layout = _layout(table.columns, expected)
            if table.rows is not None:
                _check_rows(table.rows, expected, table)
            digest = table.digest()
            kept = _check(table, layout, expected)
            table.check_unchanged()
        return cls(expected, digest, table, layout, kept)

    @property
    def rows(self) -> int:
        """How many there are."""
        return self.expected.rows

    def batches(self, sizes: Iterable[int]) -> Iterator[NDArray[Any]]:
        """Yield, for each size, that many next predictions: those of one row group of labels."""
        at, source = 0, self._stream()
        rest: list[NDArray[Any]] = []
        for size in sizes:
            at += size
            if at > self.rows:
                raise ValueError(f"{at} predictions asked for, {self.rows} there")
            if self.kept is not None:
                yield self.kept[at - size : at]
                continue
            pieces, missing = [], size
            while missing:
                piece = rest.pop() if rest else next(source, None)
                if piece is None:
                    raise InvalidInput(f"{self.table.name}: cut short while it was read")
                pieces.append(piece[:missing])
                missing -= len(pieces[-1])
                if len(piece) > len(pieces[-1]):
                    rest.append(piece[len(pieces[-1]) :])
            yield pieces[0] if len(pieces) == 1 else _join(pieces, self.expected)
        if self.kept is None:
            self.table.check_unchanged()

    def _stream(self) -> Iterator[NDArray[Any]]:
        """Read the file again, checks included: it may have been changed meanwhile."""
        row = 1
        for batch in self.table.batches(self.layout.columns):
            yield read_predictions(batch.columns, self.expected, row, scores=self.layout.scores)
            row += batch.num_rows


def checked_answers(
    batches: Iterable[pa.RecordBatch], expected: Expected, first_row: int, rows: int
) -> Iterator[NDArray[Any]]:
    """Turn the answers of a model for `rows` rows into what the loss takes, checked as a file is.

    Columns are laid out as in a file of predictions.
    """
    row, end = first_row, first_row + rows
    for batch in batches:
        try:
            batch.validate(full=True)  # offsets of a stranger's may lead out of memory
        except pa.ArrowInvalid:
            raise InvalidInput("no valid Arrow data given: write it again") from None
        check_columns(batch.schema.names)
        layout = _layout(tuple(batch.schema.names), expected)
        if row + batch.num_rows > end:
            raise InvalidInput(f"more than {rows:,} rows given, {rows:,} needed, one per example")
        if batch.num_rows:
            columns = [batch.column(name) for name in layout.columns]
            yield read_predictions(columns, expected, row, scores=layout.scores)
        row += batch.num_rows
    if row < end:
        raise InvalidInput(f"{row - first_row:,} rows given, {rows:,} needed, one per example")


@dataclass(frozen=True)
class ReadColumns:
    """Which columns of a file are read."""

    columns: tuple[str, ...]
    scores: bool = False
    """One column of scores per class."""
    ids: str | None = None


def _layout(names: tuple[str, ...], expected: Expected) -> ReadColumns:
    has_ids = expected.id_column in names and (expected.ids or expected.ids_digest)
    ids = expected.id_column if has_ids else None
    if "prediction" in names:
        return ReadColumns(("prediction",), ids=ids)
    if len(names) == 1 and names[0] != expected.id_column:
        return ReadColumns(names)
    output, wanted = expected.loss.output, "a column named prediction"
    if output is Output.RANKED:
        ranked = tuple(f"prediction_{place}" for place in range(1, expected.loss.ranks + 1))
        if set(ranked) <= set(names):
            return ReadColumns(ranked, ids=ids)
        wanted += f" or prediction_1 to prediction_{expected.loss.ranks}"
    if output in (Output.CLASS, Output.RANKED, Output.PROBABILITIES):
        scores = tuple(f"probability_{value}" for value in expected.class_list.values)
        if set(scores) <= set(names):
            return ReadColumns(scores, scores=True, ids=ids)
        wanted += " or one named probability_CLASS for each class"
    raise InvalidInput(f"columns {some(names) or 'none'} given, {wanted} needed")


def _check(table: Table, layout: ReadColumns, expected: Expected) -> NDArray[Any] | None:
    """Go through the whole file once; give the predictions if they are small enough to keep."""
    kept = None
    if expected.shape is not None:
        size = expected.rows * expected.dtype.itemsize * math.prod(expected.shape)
        if size <= KEEP_BYTES:
            kept = np.empty((expected.rows, *expected.shape), expected.dtype)
    order = None
    columns = layout.columns
    if layout.ids is not None:
        order = Order(expected.ids() if expected.ids else None, expected.ids_digest)
        columns = (*columns, layout.ids)
    # Ids are compared in order, so by one reader.
    readers = 1 if order else min(WORKERS, -(-expected.rows // WORKER_ROWS))
    parts = table.parts(columns, at_most=readers)

    def check_part(part: RowRange) -> int:
        return _check_part(part, layout, expected, kept, order)

    if len(parts) <= 1:
        rows = sum(map(check_part, parts))
    else:
        with ThreadPoolExecutor(len(parts)) as pool:
            rows = sum(pool.map(check_part, parts))
    _check_rows(rows, expected, table)
    if order is not None:
        order.finish()
    if kept is not None:
        kept.flags.writeable = False
    return kept


def _check_part(
    part: RowRange,
    layout: ReadColumns,
    expected: Expected,
    kept: NDArray[Any] | None,
    order: Order | None,
) -> int:
    row = part.first_row
    last = expected.rows if part.rows is None else part.first_row + part.rows - 1
    for batch in part.batches():
        fitting = batch.slice(0, max(0, last + 1 - row))
        if fitting.num_rows:  # rows beyond the expected number are only counted
            columns = fitting.columns
            if order is not None:
                order.check(columns.pop(), row)
            values = read_predictions(columns, expected, row, scores=layout.scores)
            if kept is not None:
                kept[row - 1 : row - 1 + len(values)] = values
        row += batch.num_rows
    return row - part.first_row


def _check_rows(rows: int, expected: Expected, table: Table) -> None:
    if rows == expected.rows:
        return
    csv = isinstance(table, CsvTable) and rows < expected.rows
    hint = " (the header and empty lines are no rows)" if csv else ""
    raise InvalidInput(f"{rows:,} rows given, {expected.rows:,} needed, one per example{hint}")


def _join(pieces: list[NDArray[Any]], expected: Expected) -> NDArray[Any]:
    if pieces:
        return np.concatenate(pieces)
    return np.empty((0, *(expected.shape or ())), expected.dtype)
