"""The first reading of what a labeler hands in: is every label there, and how is it stored?"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from easeml_meter.errors import InvalidInput, invalid
from easeml_meter.tables.groups import Clusters
from easeml_meter.tables.source import excerpt
from easeml_meter.tables.spelling import as_texts
from easeml_meter.tables.table import Table
from easeml_meter.vault.digests import TEXT, Digests, collect, duplicate_rows, id_digests

MOST_CLASSES = 1 << 16
NAMED = 10
"""Ids or rows that a refusal or a notice names; the rest is counted."""


@dataclass(frozen=True)
class Survey:
    """What the first reading found, and how the second has to store the labels.

    Text that repeats is stored as numbers of `classes`, which are kept in the footer: all labels
    then take the same room, and the file's size does not tell how often each class occurs.
    """

    table: Table
    label: str
    type: pa.DataType
    rows: int
    classes: pa.Array | None = field(repr=False)
    clusters: int | None = None
    """How many clusters there are, where one example is a cluster of rows."""

    @property
    def examples(self) -> int:
        """How many examples there are: clusters, or rows."""
        return self.rows if self.clusters is None else self.clusters

    @property
    def stored(self) -> pa.Schema:
        """The columns as they are encrypted."""
        kind = self.type if self.classes is None else pa.int32()
        index = self.table.schema.get_field_index(self.label)
        return self.table.schema.set(index, pa.field(self.label, kind, nullable=False))

    def labels(self) -> Iterator[Any]:
        """Read the labels once more, batch by batch."""
        return (batch.column(0) for batch in self.table.batches([self.label]))

    def encode(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Bring a batch of the second reading into the form that is stored."""
        labels = batch.column(self.label).cast(self.type)
        if self.classes is not None:
            labels = pc.index_in(labels, value_set=self.classes)
        if labels.null_count:
            raise self.changed()
        columns = list(batch.columns)
        columns[batch.schema.get_field_index(self.label)] = labels
        return pa.RecordBatch.from_arrays(columns, schema=self.stored)

    def changed(self) -> InvalidInput:
        """Say that the second reading does not show what the first did."""
        return InvalidInput(f"{self.table.name}: changed while it was read: try again")


def survey(table: Table, label: str, id_column: str | None, cluster: str | None = None) -> Survey:
    """Read labels and ids once; refuse rows where one is missing, and ids that repeat."""
    kind = table.require(label, "label column")
    if id_column is not None:
        table.require(id_column, "id column")
        if id_column == label:
            raise invalid("id column", id_column, "it must not be the label column")
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    is_text = kind in TEXT
    kind = pa.string() if is_text else kind
    classes = pa.array([], kind) if is_text else None
    without_label, without_id = _Rows("label"), _Rows("id")
    ids: list[Digests] = []
    key = secrets.token_bytes(16)
    rows = 0
    for batch in table.batches([label] if id_column is None else [label, id_column]):
        labels = batch.column(0).cast(kind)
        absent = pc.is_null(labels, nan_is_null=True)
        if is_text:
            absent = pc.or_(absent, pc.fill_null(pc.equal(labels, ""), True))
        without_label.add(absent, rows)
        if id_column is not None:
            without_id.add(batch.column(1).is_null(), rows)
            if not without_id.count:
                ids += id_digests([batch.column(1)], key)
        if classes is not None:
            classes = pa.concat_arrays([classes, labels.unique()]).unique()
            classes = classes if len(classes) <= MOST_CLASSES else None
        rows += batch.num_rows
    if not rows:
        raise InvalidInput(f"{table.name}: no rows given, one per example needed")
    without_label.refuse(table.name)
    without_id.refuse(table.name)
    if id_column is not None:
        with_ids = [id_column]
        refuse_repeated_ids(
            f"{table.name}: ",
            collect(ids),
            lambda: (batch.column(0) for batch in table.batches(with_ids)),
        )
    clusters = None if cluster is None else _clusters(table, cluster, (label, id_column))
    return Survey(table, label, kind, rows, None if classes is None else classes.sort(), clusters)


def _clusters(table: Table, cluster: str, others: tuple[str | None, ...]) -> int:
    table.require(cluster, "cluster column")
    if cluster in others:
        raise invalid("cluster column", cluster, "it must be neither the label nor the id column")
    try:
        return Clusters.of(batch.column(0) for batch in table.batches([cluster])).count
    except InvalidInput as error:
        raise InvalidInput(f"{table.name}: {error}") from None


def refuse_repeated_ids(where: str, digests: Digests, ids: Callable[[], Iterable[Any]]) -> None:
    """Refuse ids that stand there more than once: an id is one example, with one label."""
    repeated = duplicate_rows(digests)
    if len(repeated):
        named = ", ".join(dict.fromkeys(ids_of(repeated[:NAMED], ids())))
        more = f" and {len(repeated) - NAMED:,} more" if len(repeated) > NAMED else ""
        raise InvalidInput(
            f"{where}ids given more than once: {named}{more}: each example needs an id of its own"
        )


def ids_of(rows: Iterable[int], ids: Iterable[Any]) -> list[str]:
    """Return the ids of some rows (numbered from 1, ascending), as a message shows them."""
    wanted, found, before = list(rows), [], 0
    for each in ids:
        while wanted and wanted[0] <= before + len(each):
            place = wanted.pop(0) - before - 1
            found.append(excerpt(as_texts(each.slice(place, 1))[0].as_py(), 40))
        before += len(each)
        if not wanted:
            break
    return found


class _Rows:
    """Rows in which something is missing: how many, and the first few by number."""

    def __init__(self, what: str) -> None:
        self.what, self.count = what, 0
        self.first: list[int] = []

    def add(self, absent: pa.Array, before: int) -> None:
        found = np.flatnonzero(absent.to_numpy(zero_copy_only=False)) + before + 1
        self.first += found[: 5 - len(self.first)].tolist()
        self.count += len(found)

    def refuse(self, name: str) -> None:
        if not self.count:
            return
        more = self.count - len(self.first)
        rows = ", ".join(str(row) for row in self.first)
        rest = f" and {more:,} more" if more else ""
        raise InvalidInput(f"{name}: the {self.what} is missing in row {rows}{rest}")
