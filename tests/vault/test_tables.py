from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from easeml_meter.errors import InvalidInput
from easeml_meter.vault import text_tables
from easeml_meter.vault.tables import MOST_ROWS, Table, open_table

ROWS = {"n": [1, 2, 3], "x": [0.5, None, 2.0], "text": ["a", 'b "quoted",\nline', ""]}


def content(table: Table, columns: list[str] | None = None) -> dict[str, list[Any]]:
    read = pa.Table.from_batches(table.batches(columns))
    return dict(read.to_pydict())


def write_arrow(table: pa.Table, path: Path) -> None:
    with pa.ipc.new_file(path, table.schema) as writer:
        writer.write_table(table)


def write_stream(table: pa.Table, path: Path) -> None:
    with pa.ipc.new_stream(path, table.schema) as writer:
        writer.write_table(table)


def write_json(table: pa.Table, path: Path) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))


@pytest.mark.parametrize(
    ("ending", "write"),
    [
        ("csv", pyarrow.csv.write_csv),
        ("CSV", pyarrow.csv.write_csv),
        ("parquet", pq.write_table),
        ("arrow", write_arrow),
        ("arrows", write_stream),
        ("feather", write_arrow),
        ("jsonl", write_json),
        ("ndjson", write_json),
    ],
)
def test_every_format_gives_the_same_rows(
    tmp_path: Path, ending: str, write: Callable[..., None]
) -> None:
    path = tmp_path / f"rows.{ending}"
    write(pa.table(ROWS), path)
    table = open_table(path)
    assert table.schema == pa.schema({"n": pa.int64(), "x": pa.float64(), "text": pa.string()})
    assert content(table) == ROWS
    assert content(table) == ROWS, "a table can be read again"
    assert content(table, ["text", "n"]) == {"text": ROWS["text"], "n": ROWS["n"]}


def test_tabs_separate_too(tmp_path: Path) -> None:
    path = tmp_path / "rows.tsv"
    path.write_text("a\tb\n1\tx,y\n")
    assert content(open_table(path)) == {"a": [1], "b": ["x,y"]}


def test_a_table_in_memory_is_one(table: pa.Table) -> None:
    assert content(open_table(table)) == table.to_pydict()


def test_batches_stay_small() -> None:
    table = open_table(pa.table({"n": range(2 * MOST_ROWS + 1)}))
    assert [batch.num_rows for batch in table.batches()] == [MOST_ROWS, MOST_ROWS, 1]


def test_a_dot_in_a_name_is_no_path(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    rows = {"label.x": [1], "label": [2], "inner": [{"label": 3}]}
    pq.write_table(pa.table(rows), path)
    assert content(open_table(path), ["label"]) == {"label": [2]}


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_tables, "BLOCK", 64)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize(
    ("early", "late", "kind"),
    [
        ("1", "2", pa.int64()),
        ("1", "2.5", pa.float64()),
        ("1", "late", pa.string()),
        ("", "3", pa.int64()),
        ("", "late", pa.string()),
        ("true", "late", pa.string()),
        ("2020-01-01", "late", pa.string()),
    ],
)
def test_csv_types_are_settled_by_all_rows(
    tmp_path: Path, early: str, late: str, kind: pa.DataType
) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("n,x\n" + f"7,{early}\n" * 100 + f"7,{late}\n")
    table = open_table(path)
    assert table.schema.field("x").type == kind
    assert sum(batch.num_rows for batch in table.batches(["x"])) == 101


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize(
    ("early", "late", "kind"),
    [
        (1, 2.5, pa.float64()),
        (None, "text", pa.string()),
        ("2020-01-01", "text", pa.string()),
        ([1], [0.5, 2], pa.list_(pa.float64())),
        ({"a": 1}, {"b": "x"}, pa.struct({"a": pa.int64(), "b": pa.string()})),
    ],
)
def test_json_types_are_settled_by_all_rows(
    tmp_path: Path, early: object, late: object, kind: pa.DataType
) -> None:
    path = tmp_path / "rows.jsonl"
    lines = [{"x": early}] * 50 + [{"x": late, "new": 1}]
    path.write_text("\n".join(map(json.dumps, lines)))
    table = open_table(path)
    assert table.rows == 51
    assert table.schema == pa.schema({"x": kind, "new": pa.int64()})
    assert content(table)["new"] == [None] * 50 + [1]


def test_types_can_be_given(tmp_path: Path) -> None:
    csv, lines = tmp_path / "rows.csv", tmp_path / "rows.jsonl"
    csv.write_text("n,code\n1,007\n")
    lines.write_text('{"n": 1, "code": "007"}\n')
    types = {"n": pa.float64(), "code": pa.string(), "elsewhere": pa.int8()}
    for path in (csv, lines):
        table = open_table(path, types=types)
        assert table.schema == pa.schema({"n": pa.float64(), "code": pa.string()})
        assert content(table) == {"n": [1.0], "code": ["007"]}


BROKEN = {
    "empty.csv": (b"", "is empty"),
    "blank.csv": (b"\n\n", "not a readable CSV"),
    "header.csv": (b"a,b\n", "has no rows"),
    "quote.csv": (b'a,b\n1,"hush\n3,4\n', "broken quote in line 2: it is not closed"),
    "stray.csv": (b'a,b\n1,2\n"5"",6\n"7,8\n', "broken quote in line 4"),
    "inch.csv": (b'a,b\n1,2\n5" hush,6\n7" hush,8\n', "broken quote in line 3"),
    "short.csv": (b"a,b\n1,2\nhush\n", "row 2 has 1 fields where 2 are expected"),
    "long.csv": (b"a,b\n1,2\n1,2\nhush,3,4\n", "row 3 has 3 fields where 2 are expected"),
    "twice.csv": (b"a,b,a\n1,2,3\n", "more than one column named a"),
    "latin.csv": (b"a,b\n1,hush\xe9\n", "column 'b' is not UTF-8"),
    "empty.jsonl": (b"", "is empty"),
    "blank.jsonl": (b"\n\n", "has no rows"),
    "cut.jsonl": (b'{"a": 1}\n{"a": "hush', "row 2 is not a JSON object"),
    "mixed.jsonl": (b'{"a": 1}\n{"a": 2}\n{"a": "hush"}\n', "row 3 is not a JSON object"),
    "list.jsonl": (b'["hush"]\n', "row 1 is not a JSON object"),
    "empty.parquet": (b"", "is empty"),
    "text.parquet": (b"hush, not parquet", "not a readable Parquet"),
    "magic.parquet": (b"PAR1hushPAR1", "not a readable Parquet"),
    "text.arrow": (b"hush, not arrow at all", "not a readable Arrow"),
    "cut.arrow": (b"ARROW1\0\0hush", "not a readable Arrow"),
    "rows.xls": (b"hush", "must end in .csv"),
    "rows": (b"hush", "must end in .csv"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_file_is_one_line_without_content(tmp_path: Path, name: str) -> None:
    raw, message = BROKEN[name]
    path = tmp_path / name
    path.write_bytes(raw)
    with pytest.raises(InvalidInput, match=message) as caught:
        content(open_table(path))
    assert len(str(caught.value).splitlines()) == 1
    assert "hush" not in str(caught.value)
    assert os.listdir(tmp_path) == [name]


@pytest.mark.parametrize("block", [4, 5, 7, 16, 64])
def test_rows_and_quotes_may_span_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    monkeypatch.setattr(text_tables, "BLOCK", block)
    path = tmp_path / "rows.csv"
    path.write_bytes(b'\xef\xbb\xbf"a","b"\r\n"","x ""y"""\r\n"1\n2","""z"""\r\n')
    assert content(open_table(path)) == {"a": ["", "1\n2"], "b": ['x "y"', '"z"']}
    whole = path.read_bytes()
    path.write_bytes(whole + b'5"0,1"\r\n')
    with pytest.raises(InvalidInput, match=r"broken quote in line 5$"):
        open_table(path)
    path.write_bytes(whole + b'6,"7\r\n')
    with pytest.raises(InvalidInput, match=r"broken quote in line 5: it is not closed$"):
        open_table(path)


@pytest.mark.usefixtures("small_blocks")
def test_a_row_broken_late_is_found_by_its_number(tmp_path: Path) -> None:
    csv, lines, mixed = (tmp_path / name for name in ("a.csv", "b.jsonl", "c.jsonl"))
    csv.write_text("a,b\n" + "1,2\n" * 99 + "hush\n")
    lines.write_text('{"a": 1}\n' * 99 + '{"a": hush}\n')
    mixed.write_text('{"a": 1}\n' * 99 + '{"a": "hush"}\n')
    with pytest.raises(InvalidInput, match="row 100 has 1 fields"):
        open_table(csv)
    with pytest.raises(InvalidInput, match="row 100 is not a JSON object"):
        open_table(lines)
    with pytest.raises(InvalidInput, match=r"row 100 is not|column 'a' holds values of different"):
        open_table(mixed)


@pytest.mark.usefixtures("small_blocks")
def test_lines_and_values_that_never_end_are_refused(tmp_path: Path) -> None:
    csv, lines = tmp_path / "a.csv", tmp_path / "b.jsonl"
    csv.write_text('a,b\n1,2\n"' + "x" * 10_000 + '",2\n')
    lines.write_text('{"a": "' + "x" * 10_000 + '"}\n')
    with pytest.raises(InvalidInput, match="row in line 3 does not end within 256 bytes"):
        open_table(csv)
    with pytest.raises(InvalidInput, match="line of more than 256 bytes"):
        open_table(lines)


def test_a_file_cut_short_is_refused(tmp_path: Path) -> None:
    whole = pa.table({"n": range(5000)})
    for name, write in {"a.parquet": pq.write_table, "a.arrow": write_arrow}.items():
        path = tmp_path / name
        write(whole, path)
        os.truncate(path, path.stat().st_size // 2)
        with pytest.raises(InvalidInput, match="not a readable"):
            content(open_table(path))


def test_given_types_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    csv, lines = tmp_path / "a.csv", tmp_path / "b.jsonl"
    csv.write_text("a\n1\nhush\n")
    lines.write_text('{"a": 1}\n{"a": 0.5}\n')
    for path in (csv, lines):
        with pytest.raises(InvalidInput) as caught:
            content(open_table(path, types={"a": pa.int64()}))
        assert "hush" not in str(caught.value)


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.csv")
    (tmp_path / "folder.csv").mkdir()
    for name in ("missing.csv", "folder.csv", "pipe.csv", "a\0.csv"):
        with pytest.raises(InvalidInput, match="cannot read file") as caught:
            open_table(tmp_path / name)
        assert len(str(caught.value).splitlines()) == 1


def test_a_missing_column_is_named_next_to_those_there_are(table: pa.Table) -> None:
    with pytest.raises(InvalidInput, match="has the columns name, size, words, kind"):
        list(open_table(table).batches(["label"]))
    wide = open_table(pa.table({f"c{i}": [0] for i in range(1000)}))
    with pytest.raises(InvalidInput, match="c0, c1, c2, c3, c4 and 995 more"):
        wide.require("label")
