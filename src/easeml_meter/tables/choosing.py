"""A table without some of its columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

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
