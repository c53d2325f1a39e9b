"""A table without some of its columns, with one more in place of labels, or with a judge's word.

Where a meter has a judge, few rows have a label; the others, its *pool*, have none. All have the
judge's word. Both stand in the label column, the one that nobody but the meter reads.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from easeml_meter.errors import InvalidInput, invalid
from easeml_meter.tables.opening import open_raw, unpacked
from easeml_meter.tables.source import Source
from easeml_meter.tables.spelling import as_texts, is_text
from easeml_meter.tables.table import Batches, Table

_ID = re.compile(r"(?i:id|uuid|key|.*_id)|.*Id")
_NO_ID = r"\s|^[+-]?[0-9]*[.,][0-9]*$"
"""Texts with spaces are read, and fractions are measured."""


@dataclass(frozen=True)
class ChosenColumns(Table):
    """Some columns of a table, in the table's order."""

    whole: Table = field(repr=False)

    def check_unchanged(self) -> None:
        """Refuse a file that was changed since it was opened."""
        self.whole.check_unchanged()

    def _read(self, columns: list[str]) -> Batches:
        yield from self.whole.batches(columns)


NO_LABEL = "no label"
"""The column that stands for labels in a table that has none."""


@dataclass(frozen=True)
class Unlabelled(Table):
    """A table with a column of zeros for labels, which the loss of its meter does not read."""

    whole: Table = field(repr=False)

    def check_unchanged(self) -> None:
        """Refuse a file that was changed since it was opened."""
        self.whole.check_unchanged()

    def _read(self, columns: list[str]) -> Batches:
        read = [name for name in columns if name != NO_LABEL] or [self.whole.columns[0]]
        for batch in self.whole.batches(read):
            zeros = pa.array(np.zeros(batch.num_rows, np.int8))
            yield batch.append_column(NO_LABEL, zeros).select(columns)


def without_labels(table: Table) -> Table:
    """Return a table with the column `NO_LABEL`."""
    if NO_LABEL in table.columns:
        raise invalid("column", NO_LABEL, "another name: this one says that there are no labels")
    schema = table.schema.append(pa.field(NO_LABEL, pa.int8()))
    return Unlabelled(table.name, schema, table.rows, table)


def choose_columns(
    table: Table,
    columns: Sequence[str] | None,
    drop: Sequence[str] = (),
    *,
    always: Sequence[str] = (),
) -> Table:
    """Return a table with `columns` only (None: all), without `drop`, but with `always`."""
    for name in (*(columns or ()), *drop):
        table.require(name)
    for name in drop:
        if name in always:
            raise invalid("drop", name, "it is the label or the id column, which is needed")
    wanted = {*(table.columns if columns is None else columns), *always} - set(drop)
    fields = [each for each in table.schema if each.name in wanted]
    if len(fields) == len(table.schema):
        return table
    return ChosenColumns(table.name, pa.schema(fields), table.rows, table)


def looks_like_id(source: Source, named: Sequence[str | None]) -> str | None:
    """Return a column that nobody named, and that tells rows apart as ids do, if there is one."""
    table = open_raw(unpacked(source))
    for at, name in enumerate(table.columns):
        if name in named or not (at == 0 or _ID.fullmatch(name)):
            continue
        with suppress(InvalidInput):
            texts = pa.chunked_array([as_texts(each.column(0)) for each in table.batches([name])])
            odd = pc.any(pc.match_substring_regex(texts, _NO_ID)).as_py()
            if len(texts.unique()) == len(texts) and not odd:
                return name
    return None


BETWEEN = "\x1f"
"""Stands between label and word; a class that contains it is refused."""


@dataclass(frozen=True)
class JudgedRows(Table):
    """A table whose label column holds both, without the column of the judge."""

    whole: Table = field(repr=False)
    label: str
    judge: str

    def check_unchanged(self) -> None:
        """Refuse a file that was changed since it was opened."""
        self.whole.check_unchanged()

    def _read(self, columns: list[str]) -> Batches:
        wanted = dict.fromkeys([*columns, *([self.judge] if self.label in columns else [])])
        for batch in self.whole.batches(list(wanted)):
            yield (self._joined(batch) if self.label in columns else batch).select(columns)

    def _joined(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        both = joined(batch.column(self.label), batch.column(self.judge))
        place = batch.schema.get_field_index(self.label)
        return batch.set_column(place, pa.field(self.label, pa.string()), both)


def with_judge(table: Table, label: str, judge: str) -> Table:
    """Return a table with labels and a judge's words in one column."""
    table.require(judge, "column of the judge")
    if judge == label:
        raise invalid("judge", judge, "another column than the labels")
    place = table.schema.get_field_index(label)
    schema = table.schema.set(place, pa.field(label, pa.string()))
    schema = schema.remove(schema.get_field_index(judge))
    return JudgedRows(table.name, schema, table.rows, table, label, judge)


def joined(labels: Any, words: Any) -> Any:
    """Join labels, of which some are missing, and words, of which none may be."""
    said = as_texts(_whole(words), "judge")
    known = _whole(labels)
    if is_text(known.type):
        known = pc.if_else(pc.equal(known, ""), None, known)
    present = known.is_valid()
    texts = as_texts(known.filter(present), "labels")
    if pc.any(pc.equal(said, "")).as_py():
        raise InvalidInput("judge: one word is missing, each row needs one")
    for each in (said, texts):
        if pc.any(pc.match_substring(each, BETWEEN)).as_py():
            raise InvalidInput("classes: one has a control character: rename it")
    if not len(texts):  # a batch of the pool
        filled = pa.array([""] * len(said), pa.large_string())
    else:
        places = pc.subtract(pc.cumulative_sum(present.cast(pa.int64())), 1)
        nearest = texts.take(pc.max_element_wise(places, 0))
        filled = pc.if_else(present, nearest, pa.scalar("", pa.large_string()))
    between = pa.scalar(BETWEEN, pa.large_string())
    return pc.binary_join_element_wise(filled, said, between).cast(pa.string())


def split(both: Any) -> tuple[Any, Any]:
    """Return labels, null in the pool, and words."""
    if isinstance(both, pa.ChunkedArray):
        both = both.combine_chunks()
    # Pairs of classes repeat: each is taken apart once.
    both = both if pa.types.is_dictionary(both.type) else both.dictionary_encode()
    pairs = [text.partition(BETWEEN) for text in both.dictionary.to_pylist()]
    if not all(between for _, between, _ in pairs):
        raise InvalidInput("labels: they were sealed without a judge: seal the rows again")
    labels = pa.array([label or None for label, _, _ in pairs], pa.string())
    words = pa.array([word for *_, word in pairs], pa.string())
    return labels.take(both.indices), words.take(both.indices)


def apart(schema: pa.Schema, batches: Batches, label: str) -> tuple[pa.Schema, Batches]:
    """Return rows with labels and words in two columns again, for their release."""
    judge = "judge"
    while judge in schema.names:
        judge += "_"
    place = schema.get_field_index(label)
    wider = schema.set(place, pa.field(label, pa.string())).append(pa.field(judge, pa.string()))

    def rows() -> Iterator[pa.RecordBatch]:
        for batch in batches:
            labels, words = split(batch.column(label))
            columns = [labels if i == place else each for i, each in enumerate(batch.columns)]
            yield pa.RecordBatch.from_arrays([*columns, words], schema=wider)

    return wider, rows()


def _whole(column: Any) -> Any:
    """Return whole numbers as such: a column with gaps is often one of fractions."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_null(column.type):
        return column.cast(pa.large_string())
    if pa.types.is_floating(column.type):
        column = pc.if_else(pc.is_nan(column), None, column)
        try:
            return column.cast(pa.int64())
        except pa.ArrowInvalid:
            raise InvalidInput("labels: fractions given, classes needed") from None
    return column
