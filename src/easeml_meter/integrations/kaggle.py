"""Rows from the solution file of a Kaggle competition: ids, targets, and who is scored by them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa

from easeml_meter.errors import InvalidInput
from easeml_meter.integrations.sourcing import (
    Example,
    LeftOut,
    Rows,
    WantedColumns,
    gather,
    no_label,
)
from easeml_meter.tables.opening import open_table

_USAGE = "Usage"


def rows(path: Path, wanted: WantedColumns) -> Rows:
    """Return the rows of one usage; a target of one column for each class becomes one label."""
    if wanted.id_column is None:
        raise InvalidInput("the column of ids is not given: --id NAME")
    opened = open_table(path, texts=[wanted.label, wanted.id_column, *wanted.others])
    opened.require(wanted.id_column)
    table = _used(opened.in_memory(), wanted)
    # The other columns are targets, too, or say how a row is scored: no inputs. What is dropped is
    # handed on as well: sealing refuses a name that it does not find.
    named = {wanted.id_column, *(wanted.columns or ()), *wanted.others}
    if wanted.label in table.column_names:
        kept = named | {wanted.label}
        return table.select([name for name in table.column_names if name in kept]), {}
    apart = [name for name in table.column_names if name in named]
    classes = [name for name in table.column_names if name not in apart]
    found = table.to_pylist()
    one_hot = all(each[name] in (0, 1) for each in found for name in classes)
    if len(classes) == 1 or not one_hot:
        raise no_label(wanted.label, classes)
    return gather(
        [Example({name: each[name] for name in apart}, [_class(each, classes)]) for each in found],
        wanted,
    )


def _used(table: pa.Table, wanted: WantedColumns) -> pa.Table:
    if _USAGE not in table.column_names:
        if wanted.usage is not None:
            raise InvalidInput(f"no column {_USAGE!r}: leave --usage away")
        return table
    usages = [str(each) for each in table.column(_USAGE).to_pylist()]
    if wanted.usage not in usages:
        counted = ", ".join(f"{name} {count:,}" for name, count in Counter(usages).items())
        why = "the public rows have told something to whoever saw the leaderboard"
        raise InvalidInput(f"rows of several uses ({counted}): choose --usage, e.g. Private: {why}")
    chosen = pa.array([usage == wanted.usage for usage in usages])
    return table.filter(chosen).drop_columns([_USAGE] if _USAGE not in wanted.others else [])


def _class(row: dict[str, Any], classes: list[str]) -> Any:
    chosen = [name for name in classes if row[name] == 1]
    if len(chosen) == 1:
        return chosen[0]
    return LeftOut.SEVERAL if chosen else LeftOut.UNLABELLED
