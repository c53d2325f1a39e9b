"""A table is written in the format that its file's name says."""

from __future__ import annotations

import json
import os
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from easeml_meter.errors import InvalidInput
from easeml_meter.tables.opening import open_table
from easeml_meter.tables.writing import ENDINGS, write_table

ROWS: dict[str, list[Any]] = {
    "id": ["007", 'a "b",\nc', "é"],
    "x": [0.5, None, 2.0],
    "n": [1, 2, 3],
}
MAGIC = {
    ".parquet": b"PAR1",
    ".arrow": b"ARROW1",
    ".csv": b'"id","x","n"',
    ".jsonl": b'{"id": "007"',
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_it_is_what_its_name_says(tmp_path: Path, ending: str) -> None:
    """Inputs were written as Parquet, whatever the file was called."""
    table, path = pa.table(ROWS), tmp_path / f"rows{ending.upper()}"
    assert write_table(path, table.schema, table.to_batches(2)) == 3
    assert path.read_bytes().startswith(MAGIC[ending])
    found = pa.Table.from_batches(open_table(path, texts=["id"]).batches())
    assert found.to_pydict() == ROWS
    with pytest.raises(InvalidInput, match="already exists"):
        write_table(path, table.schema, table.to_batches())


@pytest.mark.parametrize("name", ["rows", "rows.txt", "rows.json", "rows.npy", "rows.xlsx"])
def test_other_names_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidInput, match=r"must end in \.parquet, \.arrow, \.csv or \.jsonl"):
        write_table(tmp_path / name, pa.schema([]), [])
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(("ending", "column"), [(".csv", [[1]]), (".jsonl", [b"1"])])
def test_what_a_format_cannot_hold(tmp_path: Path, ending: str, column: list[Any]) -> None:
    table = pa.table({"x": column})
    with pytest.raises(InvalidInput, match=f"{ending} cannot hold these columns"):
        write_table(tmp_path / f"rows{ending}", table.schema, table.to_batches())
    assert os.listdir(tmp_path) == []
    write_table(tmp_path / "rows.parquet", table.schema, table.to_batches())
    assert pq.read_table(tmp_path / "rows.parquet").to_pydict() == {"x": column}


def test_values_that_json_does_not_know(tmp_path: Path) -> None:
    day = date(2026, 1, 2)
    table = pa.table(
        {"a": [float("nan"), 1.0], "b": [day, day], "c": [Decimal("1.50"), None], "d": [[1], []]}
    )
    write_table(tmp_path / "rows.jsonl", table.schema, table.to_batches())
    lines = (tmp_path / "rows.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == [
        {"a": None, "b": "2026-01-02", "c": "1.50", "d": [1]},
        {"a": 1.0, "b": "2026-01-02", "c": None, "d": []},
    ]
