"""A developer's predictions: checked in full before any label is touched, then read in step."""

from __future__ import annotations

import hashlib
import json
import math
import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import chain
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from easeml_meter.errors import InvalidInput
from easeml_meter.scoring.columns import is_list
from easeml_meter.scoring.ids import BY_IDS, CommittedIds, Joined, Order, RowMatching, is_shuffled
from easeml_meter.scoring.losses import Output
from easeml_meter.scoring.outputs import (
    Expected,
    Wrong,
    read_or_wrong,
    read_predictions,
    wrong_prediction,
)
from easeml_meter.tables.opening import open_raw
from easeml_meter.tables.source import Given, about, excerpt, some
from easeml_meter.tables.spelling import OrderDigest
from easeml_meter.tables.table import FileTable, RowRange, Table, check_columns, cut

KEEP_BYTES = 128 << 20
"""Checked predictions of up to this size stay in memory; larger ones are read a second time."""
WORKERS = min(4, os.cpu_count() or 1)
WORKER_ROWS = 1 << 18
"""Fewer rows are not worth another reader."""
_TAKEN_ROWS = 1 << 16


class InBatches(Protocol):
    """Rows that can be read, sealed or not."""

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Read some columns."""


class Content(ABC):
    """What is predicted, one for each row, in the order of the set, handed out in step."""

    expected: Expected

    @abstractmethod
    def batches(self, sizes: Iterable[int]) -> Iterator[NDArray[Any]]:
        """Yield, for each size, that many next predictions: those of one row group of labels."""

    @property
    def rows(self) -> int:
        """How many there are."""
        return self.expected.rows

    @cached_property
    def content_digest(self) -> str:
        """SHA-256 of what is predicted, whatever it came in: in a form of ours, for ever."""
        expected = self.expected
        classes = expected.classes.values if expected.classes else None
        digest = hashlib.sha256(json.dumps([expected.loss.name, self.rows, classes]).encode())
        sizes = [min(_TAKEN_ROWS, self.rows - at) for at in range(0, self.rows, _TAKEN_ROWS)]
        for values in self.batches(sizes):
            digest.update(_canonical(values))
        return digest.hexdigest()


@dataclass(frozen=True)
class Accepted(Content):
    """Predictions as they were read when they were accepted: nothing of them is read again."""

    expected: Expected
    values: NDArray[Any] = field(repr=False, compare=False)

    @classmethod
    def of_bytes(cls, content: bytes, expected: Expected) -> Accepted:
        """Take what `Predictions.to_bytes` gave."""
        with pa.ipc.open_file(content) as reader:
            column = reader.read_all().column(0).combine_chunks()
        if len(column) != expected.rows:
            raise InvalidInput(f"{len(column):,} rows kept, {expected.rows:,} needed")
        if not pa.types.is_fixed_size_list(column.type):
            return cls(expected, column.to_numpy(zero_copy_only=False))
        flat = column.flatten().to_numpy(zero_copy_only=False)
        return cls(expected, flat.reshape(len(column), -1))

    def batches(self, sizes: Iterable[int]) -> Iterator[NDArray[Any]]:
        """Yield, for each size, that many next predictions."""
        at = 0
        for size in sizes:
            at += size
            yield self.values[at - size : at]


@dataclass(frozen=True)
class Predictions(Content):
    """Predictions that passed every check: one for each row, in order, each fit for the loss.

    Only `open` makes them, so whoever holds them may touch labels.
    """

    expected: Expected
    digest: str
    """SHA-256 of the file's bytes."""
    table: FileTable = field(repr=False)
    layout: ReadColumns = field(repr=False)
    joined: Joined
    kept: NDArray[Any] | None = field(repr=False, compare=False)

    @classmethod
    def open(
        cls,
        path: Given,
        *,
        expected: Expected,
        ids: CommittedIds | None = None,
        matching: RowMatching = BY_IDS,
    ) -> Predictions:
        """Read and check a file of predictions; refuse it in one line that says why.

        Parquet, Arrow, CSV, JSON Lines or npy. A single column besides the ids is the prediction,
        whatever its name; else it is the column `prediction`: a class, a number, or a list of
        ranked classes or of one score per class. Reported scores are in the column `score`. Ranked
        classes may also stand in `prediction_1`, `prediction_2`, ..., scores in one column
        `probability_CLASS`, or `CLASS`, for each class. Rows are joined to `ids`, if there are any.
        """
        output = expected.loss.output
        reals = output in (Output.REAL, Output.PROBABILITIES)
        wrong = wrong_prediction(expected) if matching.missing_wrong else None
        texts = matching.columns(ids)
        table = open_raw(path, reals=reals, settled=output is Output.ANY, texts=texts)
        with about(path):
            layout = _layout(table.columns, expected, matching.column_in(table.columns, ids), wrong)
            if table.rows is not None and (layout.ids is None or not (ids and ids.told)):
                _check_rows(table.rows, expected, table)
            digest = table.digest()
            found = _check(table, layout, expected, ids)
            table.check_unchanged()
        return cls(expected, digest, table, layout, *found)

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
            expected = self.expected
            none = [] if pieces else [np.empty((0, *(expected.shape or ())), expected.dtype)]
            yield pieces[0] if len(pieces) == 1 else np.concatenate(pieces or none)
        if self.kept is None:
            self.table.check_unchanged()

    def to_bytes(self) -> bytes:
        """Return what is predicted, to be kept for the retrospective.

        Raises:
            InvalidInput: it could not be read again, so it must not be answered.
        """
        (values,) = self.batches([self.rows])
        column = pa.array(values.ravel(), pa.large_string() if values.dtype.kind == "O" else None)
        if values.ndim > 1:
            column = pa.FixedSizeListArray.from_arrays(column, values.shape[1])
        sink, table = pa.BufferOutputStream(), pa.table({"prediction": column})
        options = pa.ipc.IpcWriteOptions(compression="zstd")
        with pa.ipc.new_file(sink, table.schema, options=options) as writer:
            writer.write_table(table)
        found = bytes(sink.getvalue())
        if Accepted.of_bytes(found, self.expected).content_digest != self.content_digest:
            raise InvalidInput(f"{self.table.name}: cannot be kept: write it in another format")
        # What is kept must be what was checked and will be measured.
        self.table.check_unchanged()
        return found

    def _stream(self) -> Iterator[NDArray[Any]]:
        """Read the file again, checks included: it may have been changed meanwhile."""
        if self.joined.places is None:
            batches = self.table.batches(self.layout.columns)
        else:
            table = pa.Table.from_batches(self.table.batches(self.layout.columns))
            places = pa.array(self.joined.places, mask=self.joined.places < 0)
            taken = table.unify_dictionaries().combine_chunks().take(places).to_batches()
            batches = chain.from_iterable(cut(each, _TAKEN_ROWS) for each in taken)
        row = 1
        for batch in batches:
            yield self.layout.read(batch.columns, self.expected, row)
            row += batch.num_rows


def check_order(given: Predictions, owner: str, columns: Sequence[str], rows: InBatches) -> None:
    """Refuse the ids of a set in another order, where nobody has named their column."""
    for name in given.table.columns:
        if name not in columns or name in given.layout.columns:
            continue
        here, there = (each.batches([name]) for each in (given.table, rows))
        if is_shuffled((each.column(0) for each in here), (each.column(0) for each in there)):
            ways = f"give {owner} with --id {name}, or rely on the order of the rows (--no-ids)"
            line = f"column {excerpt(name)} has the rows of {owner} in another order"
            raise InvalidInput(f"{given.table.name}: {line}: {ways}")


def meant(values: NDArray[Any], expected: Expected) -> list[Any]:
    """Return what was read by the names of its classes; None for a missing prediction."""
    found: list[Any] = values.tolist()
    if expected.loss.output is Output.PROBABILITIES:
        classes = expected.class_list.values
        return [dict(zip(map(str, classes), row, strict=True)) for row in found]
    if expected.loss.output not in (Output.CLASS, Output.RANKED):
        return found
    # Rows without a prediction, which count as wrong, have a code of no class.
    names = dict(enumerate(expected.class_list.values))
    if expected.loss.output is Output.CLASS:
        return [names.get(code) for code in found]
    return [[names.get(code) for code in row] for row in found]


def check_same_width(test: Predictions, validation: Predictions) -> None:
    """Refuse numbers of different precision, where those of both files are compared.

    0.8 in 32 bits is more than 0.8 in 64: of one model, all rows would lie on one side of it.
    """
    here, there = _widths(test), _widths(validation)
    if here and there and here != there:
        ours, theirs = (" and ".join(map(str, sorted(each))) for each in (here, there))
        raise InvalidInput(
            f"{test.table.name}: numbers of {ours} bits given, of {theirs} in "
            f"{validation.table.name}: write both files with the same type"
        )


def _widths(given: Predictions) -> set[int]:
    """Return how many bits the numbers of a file have; text is read with 64, and 0 and 1 fit."""
    found = set()
    for name in given.layout.columns:
        kind = given.table.schema.field(name).type
        while is_list(kind) or pa.types.is_dictionary(kind):
            kind = kind.value_type
        if not (pa.types.is_integer(kind) or pa.types.is_boolean(kind)):
            found.add(kind.bit_width if pa.types.is_floating(kind) else 64)
    return found


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
            yield layout.read(columns, expected, row)
        row += batch.num_rows
    if row < end:
        raise InvalidInput(f"{row - first_row:,} rows given, {rows:,} needed, one per example")


@dataclass(frozen=True)
class ReadColumns:
    """Which columns of a file are read, and how."""

    columns: tuple[str, ...]
    ids: str | None = None
    wrong: Wrong | None = None
    """What rows without a prediction count as; None: they are refused."""
    scores: bool = False
    """One column of scores per class."""

    def read(self, columns: list[Any], expected: Expected, first_row: int) -> NDArray[Any]:
        """Turn a batch of the columns into what the loss takes."""
        if self.wrong is None:
            return read_predictions(columns, expected, first_row, scores=self.scores)
        return read_or_wrong(columns, expected, first_row, self.wrong, scores=self.scores)


def _layout(
    names: tuple[str, ...],
    expected: Expected,
    ids: str | None = None,
    wrong: Wrong | None = None,
) -> ReadColumns:
    named = ("prediction",) if expected.loss.reads_labels else ("score", "prediction")
    for name in named:
        if name in names and ids != name:
            return ReadColumns((name,), ids, wrong)
    rest = tuple(name for name in names if name != ids)
    # Of reported scores the name is asked for: the one column beside ids may be a target.
    if len(rest) == 1 and (ids is None or expected.loss.reads_labels):
        return ReadColumns(rest, ids, wrong)
    output, wanted = expected.loss.output, f"a column named {named[0]}"
    if output is Output.RANKED:
        ranked = tuple(f"prediction_{place}" for place in range(1, expected.loss.ranks + 1))
        wanted += f" or prediction_1 to prediction_{expected.loss.ranks}"
        if "prediction_0" in names:
            line = f"prediction_0 given, {wanted} needed"
            raise InvalidInput(f"{line}: the best guess is prediction_1")
        if set(ranked) <= set(names):
            return ReadColumns(ranked, ids, wrong)
    if output in (Output.CLASS, Output.RANKED, Output.PROBABILITIES):
        for form in ("probability_{}", "{}"):  # the second as in submissions to Kaggle
            scores = tuple(form.format(value) for value in expected.class_list.values)
            if set(scores) <= set(rest):
                return ReadColumns(scores, ids, wrong, scores=True)
        wanted += " or one named probability_CLASS, or CLASS, for each class"
    raise InvalidInput(f"columns {some(names) or 'none'} given, {wanted} needed")


def _check(
    table: Table, layout: ReadColumns, expected: Expected, ids: CommittedIds | None
) -> tuple[Joined, NDArray[Any] | None]:
    """Go through the whole file once; return the predictions if they are small enough to keep."""
    kept = None
    if expected.shape is not None:
        dtype = expected.dtype if layout.wrong is None else layout.wrong.dtype
        size = expected.rows * dtype.itemsize * math.prod(expected.shape)
        if size <= KEEP_BYTES:
            kept = np.empty((expected.rows, *expected.shape), dtype)
    order = None if layout.ids is None or ids is None else Order(ids)
    columns = layout.columns if layout.ids is None else (*layout.columns, layout.ids)
    # Ids are digested in order, so by one reader.
    readers = 1 if order else min(WORKERS, -(-expected.rows // WORKER_ROWS))
    parts = table.parts(columns, at_most=readers)

    def check_part(part: RowRange) -> int:
        return _check_part(part, layout, expected, kept, order)

    if len(parts) <= 1:
        rows = sum(map(check_part, parts))
    else:
        with ThreadPoolExecutor(len(parts)) as pool:
            rows = sum(pool.map(check_part, parts))
    joined = Joined(rows)
    if order is None:
        _check_rows(rows, expected, table)
    else:
        joined = order.joined(rows, partial(_ids, table, layout), lenient=layout.wrong is not None)
        kept = None if kept is None else _reordered(kept, joined, layout.wrong)
    if kept is not None:
        kept.flags.writeable = False
    return joined, kept


def _ids(table: Table, layout: ReadColumns) -> Iterator[Any]:
    return (batch.column(0) for batch in table.batches([str(layout.ids)]))


def _reordered(kept: NDArray[Any], joined: Joined, wrong: Wrong | None) -> NDArray[Any]:
    places = joined.places
    if places is None:
        return kept
    ordered: NDArray[Any] = kept[places]
    if wrong is not None:
        ordered[places < 0] = wrong
    return ordered


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
        if order is not None:
            order.add(batch.column(batch.num_columns - 1))
        most = max(0, min(last, expected.rows) + 1 - row)
        fitting = batch if batch.num_rows <= most else batch.slice(0, most)
        if fitting.num_rows:  # rows beyond the expected number are only counted
            columns = fitting.columns[: len(layout.columns)]
            values = layout.read(columns, expected, row)
            if kept is not None:
                kept[row - 1 : row - 1 + len(values)] = values
        row += batch.num_rows
    return row - part.first_row


def _check_rows(rows: int, expected: Expected, table: Table) -> None:
    if rows == expected.rows:
        return
    csv = isinstance(table, FileTable) and table.path.suffix.lower() in (".csv", ".tsv")
    hint = " (the header and empty lines are no rows)" if csv and rows < expected.rows else ""
    raise InvalidInput(f"{rows:,} rows given, {expected.rows:,} needed, one per example{hint}")


def _canonical(values: NDArray[Any]) -> bytes:
    """Write checked predictions as bytes that equal ones share, whatever their types were."""
    kind = values.dtype.kind
    if kind in "iu":
        return b"i" + values.astype("<i8").tobytes()
    if kind == "f":
        return b"f" + (values.astype("<f8") + 0.0).tobytes()  # -0.0 is 0.0
    if kind == "b":
        return b"b" + values.tobytes()
    texts = pa.array(values.ravel(), pa.large_string())
    order = OrderDigest()
    order.update(texts)
    return f"t{values.shape[1:]}{order.hexdigest()}".encode()
