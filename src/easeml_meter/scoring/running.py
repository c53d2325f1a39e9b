"""Models, run on hidden or visible rows and scored there, shard by shard.

A shard is a run of consecutive row groups. Where the cuts are depends on the rows alone, so a model
is run on the same pieces whatever executor runs it. A task opens its rows itself, runs the model on
them, runs it again on part of them (`rerun`), and gives back the sum of the losses: neither inputs
nor labels nor predictions leave it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Protocol, Self

import numpy as np
import pyarrow as pa

from easeml_meter.errors import InvalidInput
from easeml_meter.scoring.classes import Classes
from easeml_meter.scoring.columns import ColumnForm
from easeml_meter.scoring.losses import Loss
from easeml_meter.scoring.outputs import Expected, read_labels
from easeml_meter.scoring.predictions import checked_answers
from easeml_meter.scoring.predictor import (
    HIDDEN_FAILURE,
    Limits,
    ModelFailed,
    Predictor,
    SandboxUnavailable,
)
from easeml_meter.scoring.rerun import HIDDEN_RUNS, VISIBLE_RUNS, RerunRows, part_of
from easeml_meter.scoring.score import MapFunction, Score, total_loss, unscorable
from easeml_meter.scoring.silence import silence
from easeml_meter.scoring.validation import Validation
from easeml_meter.tables.opening import open_table
from easeml_meter.tables.source import excerpt, some
from easeml_meter.tables.table import FileTable, Table

SHARD_ROWS = 1 << 20


class Source(Protocol):
    """Labelled rows in row groups, to score a model on; it can be pickled."""

    hidden: ClassVar[bool]

    @property
    def expected(self) -> Expected:
        """What predictions on all of the rows must look like."""

    @property
    def inputs(self) -> pa.Schema:
        """The columns a model gets."""

    @property
    def group_rows(self) -> Sequence[int]:
        """The number of rows in each row group."""

    def inputs_of(self, groups: range) -> Iterator[pa.RecordBatch]:
        """Open the rows, and stream the inputs of these row groups."""

    def labels_of(self, groups: range) -> Iterator[Any]:
        """Open the rows, and stream the labels of these row groups."""

    def check_unchanged(self) -> None:
        """Refuse rows that were changed since the source was made."""


class OpenedSet(Protocol):
    """A sealed test set that is open (`vault.sealing.SealedTestSet`)."""

    def labels(self, group: int) -> pa.Array:
        """Decrypt the labels of one row group."""

    def batches(
        self, columns: Sequence[str] | None = None, groups: range | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Decrypt columns of row groups."""


class OpensTestSet(Protocol):
    """Leave to open a sealed test set (`vault.sealing.Grant`)."""

    def open(self) -> AbstractContextManager[OpenedSet]:
        """Open it."""


class Grantable(Protocol):
    """A sealed test set that can be opened by workers, too."""

    @property
    def group_rows(self) -> Sequence[int]:
        """The number of rows in each row group."""

    @property
    def schema(self) -> pa.Schema:
        """All columns."""

    @property
    def inputs(self) -> tuple[str, ...]:
        """The columns that are neither label nor id."""

    def grant(self) -> OpensTestSet:
        """Let a worker open it."""


@dataclass(frozen=True)
class HiddenRows:
    """The rows of a sealed test set."""

    grant: OpensTestSet
    inputs: pa.Schema
    expected: Expected
    group_rows: tuple[int, ...] = field(repr=False)
    hidden: ClassVar[bool] = True

    @classmethod
    def of(
        cls, sealed: Grantable, loss: Loss, classes: Classes | None, form: ColumnForm | None = None
    ) -> Self:
        """Take the rows of an open set."""
        if not sealed.inputs:
            raise InvalidInput("the test set has no inputs to run a model on: submit predictions")
        inputs = pa.schema([sealed.schema.field(name) for name in sealed.inputs])
        groups = tuple(sealed.group_rows)
        expected = Expected(sum(groups), loss, classes, form=form)
        return cls(sealed.grant(), inputs, expected, groups)

    def inputs_of(self, groups: range) -> Iterator[pa.RecordBatch]:
        """Decrypt the inputs."""
        with self.grant.open() as sealed:
            yield from sealed.batches(self.inputs.names, groups)

    def labels_of(self, groups: range) -> Iterator[Any]:
        """Decrypt the labels: opened apart from the inputs, which another thread may read."""
        with self.grant.open() as sealed:
            for group in groups:
                yield sealed.labels(group)

    def check_unchanged(self) -> None:
        """Do nothing: what is decrypted is authentic."""


@dataclass(frozen=True)
class VisibleRows:
    """The rows of a validation set, with the inputs that the test set has, in its types.

    A plain table may have no row groups: each shard stands for one.
    """

    inputs: pa.Schema
    expected: Expected
    label: str
    labels: FileTable = field(repr=False)
    """The table as `Validation` reads it."""
    table: Table = field(repr=False)
    """The same with the types of the test set."""
    hidden: ClassVar[bool] = False

    @classmethod
    def of(cls, validation: Validation, inputs: pa.Schema) -> Self:
        """Take the rows of a validation set."""
        labels = replace(validation.table, path=validation.table.path.absolute())
        types = {column.name: column.type for column in inputs}
        for name in inputs.names:
            if name not in labels.columns:
                there = f"there are {some(labels.columns)}"
                line = f"no column {excerpt(name)}, which is an input of the test set ({there})"
                raise InvalidInput(f"{labels.name}: {line}: give all inputs")
        table = open_table(labels.path, types=types)
        return cls(inputs, validation.expected, validation.label, labels, table)

    @property
    def group_rows(self) -> list[int]:
        """The number of rows in each shard."""
        full, rest = divmod(self.expected.rows, SHARD_ROWS)
        return [SHARD_ROWS] * full + [rest] * (rest > 0)

    def inputs_of(self, groups: range) -> Iterator[pa.RecordBatch]:
        """Read the inputs."""
        for batch in _rows_of(self.table, self.inputs.names, self._rows(groups)):
            columns = map(self._cast, batch.columns, self.inputs)
            yield pa.RecordBatch.from_arrays(list(columns), schema=self.inputs)

    def labels_of(self, groups: range) -> Iterator[Any]:
        """Read the labels."""
        for batch in _rows_of(self.labels, [self.label], self._rows(groups)):
            yield batch.column(0)

    def check_unchanged(self) -> None:
        """Refuse a file that was changed since it was opened."""
        self.labels.check_unchanged()

    def _rows(self, groups: range) -> range:
        return range(groups.start * SHARD_ROWS, groups.stop * SHARD_ROWS)

    def _cast(self, column: Any, wanted: pa.Field) -> Any:
        try:
            return column if column.type == wanted.type else column.cast(wanted.type)
        except pa.ArrowException:
            given = f"column {excerpt(wanted.name)} of type {excerpt(column.type)} given"
            needed = f"values of type {excerpt(wanted.type)} needed, as in the test set"
            raise InvalidInput(f"{self.table.name}: {given}, {needed}") from None


def _rows_of(table: Table, columns: Sequence[str], rows: range) -> Iterator[pa.RecordBatch]:
    """Stream some rows, counted from 0; row groups before and after them are not read."""
    for part in table.parts(columns, at_most=max(1, table.rows or 1)):
        at = part.first_row - 1
        if at >= rows.stop:
            return
        if part.rows is not None and at + part.rows <= rows.start:
            continue
        for batch in part.batches():
            start, stop = max(rows.start, at), min(rows.stop, at + batch.num_rows)
            if start < stop:
                yield batch.slice(start - at, stop - start)
            at += batch.num_rows
            if at >= rows.stop:
                return


def shards(group_rows: Sequence[int], most: int | None = None) -> list[range]:
    """Gather consecutive row groups, as many as fit into `most` (SHARD_ROWS) rows, one at least."""
    most = SHARD_ROWS if most is None else most
    found, start, rows = [], 0, 0
    for group, size in enumerate(group_rows):
        if group > start and rows + size > most:
            found.append(range(start, group))
            start, rows = group, 0
        rows += size
    if start < len(group_rows):
        found.append(range(start, len(group_rows)))
    return found


def effort(source: Source) -> tuple[int, int]:
    """Return how often a model is started and on how many rows it runs, second runs included."""
    groups = source.group_rows
    sizes = [sum(groups[each.start : each.stop]) for each in shards(groups)]
    starts = len(sizes) * (1 + _second_runs(source))
    return starts, sum(size + part_of(size) for size in sizes)


def _second_runs(source: Source) -> int:
    return HIDDEN_RUNS if source.hidden else VISIBLE_RUNS


@dataclass(frozen=True)
class ShardTask:
    """The runs of a model on one shard; everything in it can be sent to another machine."""

    predictor: Predictor = field(repr=False)
    source: Source
    limits: Limits
    groups: range
    first_row: int
    """Counted from 1."""
    rows: int
    again: bool = True
    """Whether part of the rows run a second time, to be compared."""

    def total(self) -> Any:
        """Run the model, and sum up its losses, in units of the loss.

        On hidden rows, whatever fails because of the model, the loss or the rows is `Unscorable`.
        What fails without them (a file, a key, what the machine lacks) stays what it is.
        """
        inputs = _Watched(self.source.inputs_of(self.groups))
        labels = _Watched(self.source.labels_of(self.groups))
        hidden = self.source.hidden
        with closing(inputs), closing(labels):
            try:
                with silence() if hidden else nullcontext():
                    return self._total(inputs, labels)
            except SandboxUnavailable:
                raise
            except (Exception, SystemExit):
                failure = inputs.failure or labels.failure
                if failure is None and not hidden:
                    raise
        raise failure or unscorable() from None

    def _total(self, inputs: Iterator[pa.RecordBatch], labels: Iterator[Any]) -> Any:
        end = time.monotonic() + self.limits.seconds
        if not self.again:
            return self._scored(self._predict(inputs, self.limits), labels)
        part = RerunRows(self.rows, _second_runs(self.source))
        answers = self._predict(part.keeping_inputs(inputs), self.limits)
        with closing(answers):
            total = self._scored(part.keeping_answers(answers), labels)
        self._check(part, end)
        return total

    def _check(self, part: RerunRows, end: float) -> None:
        """Run part of the rows again, and refuse a model that predicts them otherwise."""
        again: list[pa.RecordBatch] = []
        try:
            for inputs in part.runs():
                limits = self.limits
                if self.source.hidden:  # all runs share a limit, which ends at a fixed time
                    if (left := end - time.monotonic()) <= 0:
                        raise ModelFailed(HIDDEN_FAILURE)
                    limits = replace(limits, seconds=left)
                with closing(self._predict(inputs, limits)) as answers:
                    again += answers
        except ModelFailed as error:
            raise ModelFailed(f"{error} (when part of the rows ran again)") from None
        try:
            part.check(again, self._read_part, self.source.expected.loss, self.first_row)
        except InvalidInput as error:
            raise ModelFailed(f"the model's predictions: {error}") from None

    def _predict(
        self, inputs: Iterable[pa.RecordBatch], limits: Limits
    ) -> Generator[pa.RecordBatch, None, None]:
        source = self.source
        batches = self.predictor.predict(source.inputs, inputs, limits, hidden=source.hidden)
        try:
            yield from batches
        finally:
            if close := getattr(batches, "close", None):
                close()

    def _scored(self, batches: Iterable[pa.RecordBatch], labels: Iterator[Any]) -> Any:
        expected, row = self.source.expected, self.first_row
        total = expected.loss.nothing
        waiting: Any = np.empty(0)
        with closing(self._checked(batches)) as answers:
            for values in answers:
                at = 0
                while at < len(values):
                    if not len(waiting):
                        waiting = self._read_labels(next(labels), row)
                        row += len(waiting)
                    size = min(len(values) - at, len(waiting))
                    total += total_loss(expected.loss, values[at : at + size], waiting[:size])
                    waiting = waiting[size:]
                    at += size
        return total

    def _checked(self, batches: Iterable[pa.RecordBatch]) -> Generator[Any, None, None]:
        """Check answers, before the labels of the same rows are read."""
        try:
            yield from checked_answers(batches, self.source.expected, self.first_row, self.rows)
        except ModelFailed:
            raise
        except InvalidInput as error:
            raise ModelFailed(f"the model's predictions: {error}") from None
        finally:
            if close := getattr(batches, "close", None):
                close()

    def _read_part(self, batches: Iterable[pa.RecordBatch]) -> Any:
        """Return the answers for a part of the rows, as the loss takes them."""
        held = list(batches)
        rows = sum(batch.num_rows for batch in held)
        return np.concatenate(list(checked_answers(held, self.source.expected, 1, rows)))

    def _read_labels(self, column: Any, row: int) -> Any:
        visible, expected = not self.source.hidden, self.source.expected
        return read_labels(
            column,
            expected.loss,
            expected.classes,
            form=expected.form,
            first_row=row,
            known_only=visible,
            secret=not visible,
        )


def imported(_: None) -> None:
    """Do nothing, where a task would run: there, this module was imported for it."""


class _Watched:
    """Rows being read; remembers a failure to read them, which is no fault of any model."""

    def __init__(self, source: Iterator[Any]) -> None:
        self._source = source
        self.failure: Exception | None = None

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        try:
            return next(self._source)
        except StopIteration:
            raise
        except Exception as error:
            self.failure = error
            raise

    def close(self) -> None:
        self._source.close()  # type: ignore[attr-defined]


def score_model(
    predictor: Predictor,
    source: Source,
    limits: Limits,
    *,
    map_function: MapFunction = map,
    progress: Callable[[int, int], None] | None = None,
    again: bool = True,
) -> Score:
    """Run a model on all rows, and score it; `limits` are those of the runs on one shard together.

    The model was checked before (`Predictor.check`): here each start would take time that on hidden
    rows is limited.

    `map_function` is `map` or the `map` of an executor. `progress` is told, here, how many rows are
    done, and how many there are. `again`: part of the rows run a second time, and a model that
    predicts them otherwise has failed.
    """
    expected, sizes = source.expected, source.group_rows
    tasks, row = [], 1
    for groups in shards(sizes):
        rows = sum(sizes[groups.start : groups.stop])
        tasks.append(ShardTask(predictor, source, limits, groups, row, rows, again))
        row += rows
    total, done = expected.loss.nothing, 0
    for task, part in zip(tasks, map_function(ShardTask.total, tasks), strict=True):
        total += part
        done += task.rows
        if progress is not None:
            progress(done, expected.rows)
    source.check_unchanged()
    return Score(total, done, expected.loss.unit)
