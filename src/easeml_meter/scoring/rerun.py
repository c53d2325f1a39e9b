"""A random part of the rows, run again: does each prediction depend on its own row alone?

The promise is about a fixed function of one row. The test loss of a model that looks at all rows
before it answers (a hash of its input, a scaler fitted to it) is no mean of independent terms. So
part of the rows run again in fresh processes, in another order and other batches, without the rest.
A model passes only if it predicts the same without knowing the other rows.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from easeml_meter.errors import InvalidInput
from easeml_meter.scoring.losses import Loss, Output
from easeml_meter.tables.source import excerpt

HIDDEN_RUNS = 7
"""Second runs on hidden rows: a program that guesses one bit right each time passes 1 in 128."""
VISIBLE_RUNS = 1
"""On visible rows, where a difference costs nothing, the check is a courtesy to honest models."""
MOST_ROWS = 8000
"""A model that misuses one row in a thousand is found with a probability above 0.999."""
MOST_BYTES = 256 << 20
"""Inputs held in memory until they run again; of larger ones fewer rows are taken."""
TOLERANCE = 1e-3
"""How far numbers may lie apart, as a share of their range: sums of float32 depend on the batch."""
TIED_ROWS = 1000
"""Among so many rows, one class may differ where its scores are equal up to rounding."""

_Kept = tuple[NDArray[Any], pa.RecordBatch]
"""Places of rows, and the rows."""
Read = Callable[[Iterable[pa.RecordBatch]], NDArray[Any]]
"""Turns answers into what the loss takes."""


def part_of(rows: int) -> int:
    """Return how many of so many rows run again: half of them, since those left out matter, too."""
    return min(MOST_ROWS, -(-rows // 2))


class RerunRows:
    """The rows of one run that run again, and what the first run predicted for them."""

    def __init__(self, rows: int, runs: int) -> None:
        # Drawn for each run from the system's randomness: a model that could foresee the choice
        # would misuse the other rows only.
        self._random = np.random.default_rng(secrets.randbits(128))
        self._rank = self._random.permutation(rows)
        self._most = part_of(rows)
        self._runs = runs
        self._inputs: list[_Kept] = []
        self._answers: list[_Kept] = []

    def keeping_inputs(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Hand on the inputs of the first run, and keep those of the part."""
        row = held = 0
        for batch in batches:
            kept = self._chosen(row, batch)
            self._inputs.append(kept)
            held += kept[1].nbytes
            while held > MOST_BYTES and self._most > 1:
                self._most //= 2  # the rows of the lowest ranks are still a random part
                self._inputs = [self._thinned(*each) for each in self._inputs]
                held = sum(each.nbytes for _, each in self._inputs)
            row += batch.num_rows
            yield batch

    def keeping_answers(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Hand on the answers of the first run, and keep those for the part."""
        row = 0
        for batch in batches:
            yield batch
            # Only now: whoever took the batch has checked it, and asks for the next one.
            self._answers.append(self._chosen(row, batch))
            row += batch.num_rows

    def runs(self) -> Iterator[Iterator[pa.RecordBatch]]:
        """Yield the inputs of each second run: an equal share of the part, in random order."""
        rows, table = self._ordered(self._inputs)
        for places in np.array_split(np.arange(len(rows)), min(self._runs, len(rows))):
            yield self._cut(table.slice(places[0], len(places)))

    def _cut(self, table: pa.Table) -> Iterator[pa.RecordBatch]:
        """Cut rows into a few batches of random sizes."""
        at, largest = 0, max(1, table.num_rows // 2)
        while at < table.num_rows:
            size = int(self._random.integers(-(-largest // 3), largest + 1))
            yield from table.slice(at, size).combine_chunks().to_batches()
            at += size

    def check(self, answers: Iterable[pa.RecordBatch], read: Read, loss: Loss, first: int) -> None:
        """Raise `InvalidInput` if a row of the part was predicted otherwise the second time.

        `first` is the number of the first row, for the message.
        """
        rows, before = self._ordered(self._answers)
        after = pa.Table.from_batches(answers)
        values = read(before.to_batches()), read(after.to_batches())
        different = _differ(*values, _scale(*values, loss))
        if _scores(before) is not None and values[0].dtype.kind != "f":
            different = _beyond_ties(different, _scores(before), _scores(after))
        if different.any():
            index = int(np.argmax(different))
            one, other = (_shown(table, index) for table in (before, after))
            raise InvalidInput(
                f"row {first + rows[index]}: {one} predicted among all rows, {other} among others: "
                "a prediction may depend on its own row only, and must be the same every time"
            )

    def _chosen(self, row: int, batch: pa.RecordBatch) -> _Kept:
        places = np.flatnonzero(self._rank[row : row + batch.num_rows] < self._most)
        return row + places, batch.take(pa.array(places))

    def _thinned(self, rows: NDArray[Any], batch: pa.RecordBatch) -> _Kept:
        places = np.flatnonzero(self._rank[rows] < self._most)
        return rows[places], batch.take(pa.array(places))

    def _ordered(self, kept: list[_Kept]) -> tuple[NDArray[Any], pa.Table]:
        """Join what was kept, in the order of the second run."""
        thinned = [self._thinned(*each) for each in kept]
        rows = np.concatenate([rows for rows, _ in thinned])
        order = np.argsort(self._rank[rows])
        table = pa.Table.from_batches([batch for _, batch in thinned]).combine_chunks()
        return rows[order], table.take(pa.array(order))


def _scale(first: NDArray[Any], second: NDArray[Any], loss: Loss) -> Any:
    """Return the range of the predictions, of which `TOLERANCE` is a share."""
    if loss.span is not None:
        return loss.span[1] - loss.span[0]
    if loss.output is Output.PROBABILITIES or first.shape != second.shape:
        return 1.0
    return _largest(first, second) if first.dtype.kind == second.dtype.kind == "f" else 1.0


def _largest(first: NDArray[Any], second: NDArray[Any]) -> Any:
    return np.maximum(1.0, np.maximum(np.abs(first), np.abs(second)))


def _differ(first: NDArray[Any], second: NDArray[Any], scale: Any) -> NDArray[np.bool_]:
    """Return for each row whether its two predictions differ."""
    if first.shape != second.shape:
        return np.ones(len(first), bool)
    if first.dtype.kind == second.dtype.kind == "f":
        apart = np.abs(first - second) > TOLERANCE * scale
    else:
        apart = np.asarray(first != second)
    found: NDArray[np.bool_] = apart.reshape(len(first), -1).any(axis=1)
    return found


def _beyond_ties(
    different: NDArray[np.bool_], first: NDArray[Any] | None, second: NDArray[Any] | None
) -> NDArray[np.bool_]:
    """Forgive a few classes that differ because the scores they are taken from are nearly equal.

    Only a few: scores that are made to tie could carry any class.
    """
    if first is None or second is None or first.shape != second.shape:
        return different
    # A row's scores have one scale: rounding is relative to the largest of them.
    scale = np.maximum(np.abs(first), np.abs(second)).max(axis=1, keepdims=True)
    tied = different & ~_differ(first, second, scale)
    allowed = max(1, len(different) // TIED_ROWS)
    return different & ~tied if np.count_nonzero(tied) <= allowed else different


def _scores(table: pa.Table) -> NDArray[Any] | None:
    """Return the columns as one matrix if all of them are scores, in lists or by themselves."""
    found = []
    for column in table.columns:
        array = column.combine_chunks()
        if hasattr(array, "flatten") and hasattr(array.type, "value_type"):  # lists
            array = array.flatten()
        if not pa.types.is_floating(array.type) or len(array) % table.num_rows:
            return None
        found.append(np.asarray(array, np.float64).reshape(table.num_rows, -1))
    return np.concatenate(found, axis=1)


def _shown(table: pa.Table, index: int) -> str:
    values = table.slice(index, 1).to_pylist()[0].values()
    return ", ".join(excerpt(value, 60) for value in values)
