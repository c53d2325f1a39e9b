"""A table without some of its columns, or with one more in place of labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from easeml_meter.errors import invalid
from easeml_meter.tables.table import Batches, Table


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
