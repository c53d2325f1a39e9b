"""Plain files of scores: the columns `id` and `score`, in any format that tables come in."""

from __future__ import annotations

from pathlib import Path

from easeml_meter.integrations.reading import Reading
from easeml_meter.scoring.columns import RowPlaces, no_nulls, read_reals
from easeml_meter.spec import MeterSpec
from easeml_meter.tables.opening import open_raw
from easeml_meter.tables.spelling import as_texts


def read(path: Path, _: MeterSpec) -> Reading:
    """Return the scores of a table.

    Raises:
        InvalidInput: it cannot be read, has other columns, or lacks an id or a score.
    """
    table = open_raw(path, reals=True, texts=("id",))
    for name in ("id", "score"):
        table.require(name)
    ids: list[str] = []
    values: list[float] = []
    for batch in table.batches(["id", "score"]):
        rows = RowPlaces(len(ids) + 1)
        no_nulls(batch.column(0), rows)
        values += read_reals(batch.column(1), rows).tolist()
        ids += as_texts(batch.column(0)).to_pylist()
    return Reading(tuple(ids), tuple(values))
