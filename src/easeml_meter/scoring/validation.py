"""The validation set: a plain table whose labels the developers own and may be told about."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from easeml_meter.errors import InvalidInput
from easeml_meter.scoring.classes import Classes, WrongType, folded
from easeml_meter.scoring.columns import ColumnForm, form_of
from easeml_meter.scoring.losses import Loss, Output
from easeml_meter.scoring.outputs import Expected, read_labels
from easeml_meter.scoring.predictions import Predictions
from easeml_meter.scoring.score import MapFunction, Score, score
from easeml_meter.spec import MeterSpec
from easeml_meter.tables.groups import Clusters, StrataNamed
from easeml_meter.tables.opening import open_raw
from easeml_meter.tables.source import Given, TableLimits, about, excerpt
from easeml_meter.tables.spelling import is_text
from easeml_meter.tables.table import FileTable


@dataclass(frozen=True)
class Validation:
    """A labelled table that fits its loss: no label missing, none out of range or list."""

    table: FileTable
    label: str
    loss: Loss
    classes: Classes | None
    """Declared, or all that occur in the table, sorted; None where the loss has no classes."""
    rows: int
    digest: str
    """SHA-256 of the file's bytes."""
    id_column: str | None = None
    form: ColumnForm | None = None
    """The form in which labels are read, where the loss takes any."""
    cluster: str | None = None
    """The column of clusters, where one example is a cluster of rows."""
    strata: StrataNamed | None = None
    """The strata whose losses are weighed, if there are any."""

    @classmethod
    def open(
        cls,
        path: Given,
        *,
        label: str,
        loss: Loss,
        classes: Classes | None = None,
        id_column: str | None = None,
        cluster: str | None = None,
        strata: StrataNamed | None = None,
    ) -> Validation:
        """Read a table in any of the known formats, and check its label column."""
        table = open_labels(path, label, loss, id_column, cluster=cluster, strata=strata)
        with about(path):
            form = form_of(table.require(label)) if loss.output is Output.ANY else None
            if loss.output in (Output.REAL, Output.ANY):
                classes = None
            elif classes is None:
                labels = (batch.column(0) for batch in table.batches([label]))
                classes = _classes_in(labels, table.limits)
            digest = table.digest()
            found = cls(table, label, loss, classes, 0, digest, id_column, form, cluster, strata)
            rows = 0
            for labels in found.labels():
                if form is ColumnForm.TEXT:
                    _refuse_absent(labels, rows + 1)
                read_labels(
                    labels, loss, classes, first_row=rows + 1, known_only=True, secret=False
                )
                rows += len(labels)
            if not rows:
                raise InvalidInput("no rows given, one per example needed")
            found.clusters()
            table.check_unchanged()
        return replace(found, rows=rows)

    @classmethod
    def reopen(
        cls,
        path: Given,
        *,
        label: str,
        loss: Loss,
        classes: Classes | None,
        form: ColumnForm | None,
        rows: int,
        digest: str,
        id_column: str | None = None,
        cluster: str | None = None,
        strata: StrataNamed | None = None,
    ) -> Validation:
        """Open a table that `open` has checked before; scoring checks every label again."""
        table = open_labels(path, label, loss, id_column, cluster=cluster, strata=strata)
        return cls(table, label, loss, classes, rows, digest, id_column, form, cluster, strata)

    @property
    def expected(self) -> Expected:
        """What predictions for this table must look like."""
        return Expected(self.rows, self.loss, self.classes, form=self.form)

    def labels(self) -> Iterator[Any]:
        """Yield the labels, batch by batch."""
        for batch in self.table.batches([self.label]):
            yield batch.column(0)

    def ids(self) -> Iterator[Any]:
        """Yield the ids, batch by batch."""
        for batch in self.table.batches([str(self.id_column)]):
            yield batch.column(0)

    def clusters(self) -> Clusters | None:
        """Read the clusters, where one example is one of them, or the strata."""
        if self.strata is not None:
            return self.strata.of(self.table.batches([self.strata.column]))
        if self.cluster is None:
            return None
        return Clusters.of(batch.column(0) for batch in self.table.batches([self.cluster]))

    def score(self, predictions: Predictions, *, map_function: MapFunction = map) -> Score:
        """Score predictions on this table."""
        found = score(
            predictions,
            self.labels(),
            map_function=map_function,
            revealed=True,
            clusters=self.clusters(),
        )
        self.table.check_unchanged()
        return found


def strata_of(spec: MeterSpec) -> StrataNamed | None:
    """Return the strata of a meter, if it has any."""
    parts = spec.meter.sample.parts
    return None if parts is None else StrataNamed(parts.column, parts.names, parts.weights)


def open_labels(
    path: Given,
    label: str,
    loss: Loss,
    id_column: str | None = None,
    *,
    cluster: str | None = None,
    strata: StrataNamed | None = None,
) -> FileTable:
    """Open a table for the labels of a loss, as its predictions are opened."""
    stratum = None if strata is None else strata.column
    output, texts = loss.output, tuple(filter(None, (id_column, cluster, stratum)))
    table = open_raw(path, reals=output is Output.REAL, settled=output is Output.ANY, texts=texts)
    with about(path):
        table.require(label, "label column")
        if id_column is not None:
            table.require(id_column, "id column")
        if cluster is not None:
            table.require(cluster, "cluster column")
        if stratum is not None:
            table.require(stratum, "stratum column")
    return table


def _classes_in(columns: Iterator[Any], limits: TableLimits | None) -> Classes:
    """Collect the classes that occur, sorted as scikit-learn does, so that scores line up."""
    found: set[Any] = set()
    row = 1
    for column in columns:
        if not may_be_classes(column.type):
            raise WrongType(f"type {excerpt(column.type)} given, classes as text or numbers needed")
        _refuse_absent(column, row)
        for value in column.unique().to_pylist():
            whole = isinstance(value, float) and value.is_integer()
            found.add(int(value) if whole else value)
        if limits:
            limits.check("most_classes", len(found))
        row += len(column)
    if not found:
        raise InvalidInput("no rows given, one per example needed")
    _refuse_alike(sorted(each for each in found if isinstance(each, str)))
    classes = Classes.of(found)
    return Classes(tuple(sorted(classes.values)), declared=False)  # type: ignore[arg-type]


def _refuse_alike(names: list[str]) -> None:
    """Refuse classes that are one, as a rule, unless meter.toml says that they are not."""
    first: dict[str, str] = {}
    for name in names:
        if first.setdefault(folded(name), name) is not name:
            both = f"{excerpt(first[folded(name)], 40)} and {excerpt(name, 40)}"
            line = f"classes that differ by case or space alone: {both}"
            raise InvalidInput(f"{line}: write both alike, or list them in meter.toml (classes)")


def may_be_classes(kind: pa.DataType) -> bool:
    """Whether values of a type can be looked at: of lists, pairs and times not all can."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    tests = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_null)
    return is_text(kind) or any(test(kind) for test in tests)


def _refuse_absent(column: Any, first_row: int) -> None:
    missing = _absent(column).to_numpy(zero_copy_only=False)
    if missing.any():
        raise InvalidInput(f"row {first_row + int(np.argmax(missing))}: no label may be missing")


def _absent(column: Any) -> Any:
    """Tell where a label is missing: CSV has an empty field there, as when a set is sealed."""
    if pa.types.is_dictionary(column.type):
        return _absent(column.dictionary).take(column.indices).fill_null(True)
    if not is_text(column.type):
        return column.is_null()
    return pc.equal(column.cast(pa.large_string()), "").fill_null(True)
