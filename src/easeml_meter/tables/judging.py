"""Labels and a judge's word in one column: what a test set with a judge is sealed with.

Few rows have a label; the others, its *pool*, have none. All have the judge's word. Both stand in
the label column, which is the one that nobody but the meter reads.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from easeml_meter.errors import InvalidInput, invalid
from easeml_meter.tables.spelling import as_texts, is_text
from easeml_meter.tables.table import Batches, Table

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
