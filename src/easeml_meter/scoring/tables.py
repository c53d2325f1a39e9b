"""Tables by the ending of their file: Parquet, Arrow, CSV, JSON Lines, npy."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from easeml_meter.errors import InvalidInput
from easeml_meter.scoring.binary_formats import ArrowTable, NpyTable, ParquetTable
from easeml_meter.scoring.files import Table, readable, stamp_of
from easeml_meter.scoring.text_formats import CsvTable, JsonTable
from easeml_meter.scoring.wording import excerpt, named

_FORMATS: dict[str, Callable[..., Table]] = {
    ".parquet": ParquetTable.open,
    ".pq": ParquetTable.open,
    ".arrow": ArrowTable.open,
    ".arrows": ArrowTable.open,
    ".feather": ArrowTable.open,
    ".ipc": ArrowTable.open,
    ".csv": CsvTable.open,
    ".jsonl": JsonTable.open,
    ".ndjson": JsonTable.open,
    ".npy": NpyTable.open,
}
ENDINGS = tuple(_FORMATS)


def open_table(path: str | os.PathLike[str], *, reals: bool = False) -> Table:
    """Open a table by the ending of its name; of its values none is read.

    `reals`: its numbers are fractions even if the first ones (of JSON Lines) look whole.
    """
    name = named(path)
    ending = os.path.splitext(os.fspath(path))[1].lower()
    if ending not in _FORMATS:
        given = f"ending {excerpt(ending, 20)}" if ending else "no ending"
        raise InvalidInput(f"{name}: {given} given, one of {' '.join(ENDINGS)} needed")
    path = Path(path)
    opener = _FORMATS[ending]
    stamp = stamp_of(path)
    if not stamp[2]:
        raise InvalidInput(f"{name}: an empty file given, one row per example needed")
    with readable(path, f"{ending[1:]} file"):
        table = opener(path, stamp, reals=reals)
    for index, column in enumerate(table.columns):
        if column in table.columns[:index]:
            raise InvalidInput(f"{name}: two columns named {excerpt(column)}: rename one")
    return table
