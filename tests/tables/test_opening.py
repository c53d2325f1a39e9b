"""Good files are read alike in every format; bad ones are one line without their content."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from easeml_meter.errors import InvalidInput
from easeml_meter.tables import table as text
from easeml_meter.tables.opening import open_raw, open_table
from easeml_meter.tables.source import USUAL_LIMITS, Held
from easeml_meter.tables.table import LIST_ROWS, MOST_ROWS, Table

ROWS = {"n": [1, 2, 3], "x": [0.5, None, 2.0], "text": ["a", 'b "quoted",\nline', ""]}


def content(table: Table, columns: list[str] | None = None) -> dict[str, list[Any]]:
    read = pa.Table.from_batches(table.batches(columns))
    return dict(read.to_pydict())


def refusal(path: Path, opener: Callable[[Path], Table] = open_table) -> str:
    """Open and read a bad file; give the one line that it is refused with."""
    with pytest.raises(InvalidInput) as refused:
        for _ in opener(path).batches():
            pass
    line = str(refused.value)
    assert "hush" not in line
    assert line.isprintable()
    assert len(line) < 400
    assert refused.value.exit_code == 2
    return line


BOTH = pytest.mark.parametrize("opener", [open_table, open_raw])


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


def test_a_table_in_memory_is_one() -> None:
    table = open_table(pa.table(ROWS))
    assert content(table) == ROWS
    assert content(table, ["x"]) == {"x": ROWS["x"]}
    table.check_unchanged()
    with pytest.raises(InvalidInput, match="the table: no rows given"):
        open_table(pa.table({"n": []}))
    with pytest.raises(InvalidInput, match="the table: two columns named 'n'"):
        open_table(pa.table([[1], [2]], names=["n", "n"]))


def test_npy_is_one_column(tmp_path: Path) -> None:
    path = tmp_path / "rows.npy"
    for array in (np.array([1, 2], ">i4"), np.array(["a", "long"]), np.eye(2, dtype=np.float16)):
        np.save(path, array)
        table = open_table(path)
        assert (table.columns, table.rows) == (("prediction",), 2)
        assert content(table) == {"prediction": array.tolist()}
        assert next(table.batches()).schema == table.schema


def test_batches_stay_small() -> None:
    table = open_table(pa.table({"n": range(2 * MOST_ROWS + 1)}))
    assert [batch.num_rows for batch in table.batches()] == [MOST_ROWS, MOST_ROWS, 1]
    lists = open_table(pa.table({"n": [[1]] * (LIST_ROWS + 1)}))
    assert [batch.num_rows for batch in lists.batches()] == [LIST_ROWS, 1]


@pytest.mark.parametrize("encoding", ["DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY"])
def test_texts_that_no_dictionary_can_take_are_read_plainly(encoding: str, tmp_path: Path) -> None:
    values, path = {"text": ["a", "b", "a"], "other": ["c", "c", "c"]}, tmp_path / "a.parquet"
    pq.write_table(
        pa.table(values), path, use_dictionary=["other"], column_encoding={"text": encoding}
    )
    stored = path.read_bytes()
    for source in (path, Held("a.parquet", stored), Held("a.parquet", stored, "", USUAL_LIMITS)):
        table = open_raw(source)
        assert content(table) == values


@pytest.mark.parametrize("dictionaries", [True, False])
def test_row_groups_without_rows_are_read_over(dictionaries: bool) -> None:
    """Programs that write what a filter leaves of each piece write them."""
    table, sink = pa.table({"n": [1, 2], "text": ["a", "b"]}), pa.BufferOutputStream()
    with pq.ParquetWriter(sink, table.schema, use_dictionary=dictionaries) as writer:
        for rows in (0, 2, 0, 1, 0):
            writer.write_table(table.slice(0, rows))
    stored = bytes(sink.getvalue())
    assert pq.ParquetFile(pa.BufferReader(stored)).num_row_groups == 5
    for limits in (None, USUAL_LIMITS):
        read = content(open_table(Held("a.parquet", stored, limits=limits)))
        assert read == {"n": [1, 2, 1], "text": ["a", "b", "a"]}


@pytest.mark.parametrize("kind", [pa.list_(pa.int8()), pa.list_(pa.int8(), 21_000)])
def test_long_lists_come_in_smaller_batches(kind: pa.DataType) -> None:
    """Read as numbers of eight bytes, 600 lists of 21,000 would take 100 MB, and copies of it."""
    values = pa.array(np.zeros(600 * 21_000, np.int8))
    offsets = pa.array(np.arange(601, dtype=np.int32) * 21_000)
    rows: Any = pa.ListArray.from_arrays(offsets, values).cast(kind)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, pa.schema([("s", kind)])) as writer:
        writer.write_table(pa.table({"s": rows}))
    table = open_table(Held("a.arrow", bytes(sink.getvalue())))
    assert [batch.num_rows for batch in table.batches()] == [199, 199, 199, 3]
    wide = open_table(pa.table({f"c{i}": range(5000) for i in range(1000)}))
    assert max(batch.num_rows for batch in wide.batches()) < 2000


def test_a_dot_in_a_name_is_no_path(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    rows = {"label.x": [1], "label": [2], "inner": [{"label": 3}]}
    pq.write_table(pa.table(rows), path)
    assert content(open_table(path), ["label"]) == {"label": [2]}


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text, "BLOCK", 64)


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
        ("2020-01-01", "2020-01-01", pa.string()),
        (["2020-01-01"], ["2020-01-01"], pa.list_(pa.string())),
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


def test_raw_values_are_as_they_stand_in_the_file(tmp_path: Path) -> None:
    csv, lines = (tmp_path / name for name in ("a.csv", "a.jsonl"))
    csv.write_bytes("\ufeffid,x\r\n007,1.50\r\n\r\n2, NA\r\n".encode())
    assert content(open_raw(csv)) == {"id": ["007", "2"], "x": ["1.50", " NA"]}
    lines.write_text('\n{"n": 1, "day": "2020-01-01"}\n\n{"n": 2, "day": "x", "new": [{}]}')
    assert content(open_raw(lines)) == {"n": [1, 2], "day": ["2020-01-01", "x"]}


def test_raw_numbers_may_be_whole_at_first(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"x": 1, "y": [1, 2]}\n{"x": 0.5, "y": [0.5, 2]}')
    assert content(open_raw(path, reals=True)) == {"x": [1, 0.5], "y": [[1, 2], [0.5, 2]]}
    assert f"row 2 or later: {NO_OBJECT}" in refusal(path, open_raw)


def test_a_file_is_known_by_its_bytes_and_noticed_when_it_changes(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("a\n1\n")
    table = open_raw(path)
    assert table.digest() == hashlib.sha256(path.read_bytes()).hexdigest()
    table.check_unchanged()
    path.write_text("a\n2\n")
    os.utime(path, ns=(1, 1))
    with pytest.raises(InvalidInput, match=r"rows.csv: changed while it was read: try again"):
        table.check_unchanged()


def test_parts_of_a_file_can_be_read_at_the_same_time(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"n": range(100), "x": range(100)}), path, row_group_size=7)
    parts = open_raw(path).parts(["n"], at_most=4)
    assert 1 < len(parts) <= 4
    for part in parts:
        rows = [n for batch in part.batches() for n in batch.column(0).to_pylist()]
        assert rows == list(range(part.first_row - 1, part.first_row - 1 + len(rows)))
        assert len(rows) == part.rows
    assert sum(part.rows or 0 for part in parts) == 100


EMPTY = "an empty file given, one row per example needed"
NONE = "no rows given, one per example needed"
OUT_OF_PLACE = "a quote out of place: put the whole field in quotes"
NO_CSV, NO_JSON, NO_PARQUET, NO_ARROW, NO_NPY = (
    f"no {kind} file, or a damaged one: write it again"
    for kind in ("CSV", "JSON Lines", "Parquet", "Arrow", "npy")
)
NO_OBJECT = "no JSON object of the same kind as the rows before it: write one per row"
FIRST_OBJECT = 'row 1: no JSON object, such as {"prediction": 3}: write one per row'
LATER = "row 1 or later: no JSON object: write one per row"

BROKEN: dict[str, tuple[bytes, str]] = {
    "empty.csv": (b"", EMPTY),
    "blank.csv": (b"\n\n", NO_CSV),
    "quote.csv": (b'a,b\n1,"hush\n3,4\n', "line 2: a quote that is not closed"),
    "last.csv": (b'a\n"1"\n2\n"hush', "line 4: a quote that is not closed"),
    "header quote.csv": (b'"a\n1\nhush\n', "line 1: a quote that is not closed"),
    "stray.csv": (b'a,b\n1,2\n"5"",6\n"7,8\n', f"line 4: {OUT_OF_PLACE}"),
    "inch.csv": (b'a,b\n1,2\n5" hush,6\n7" hush,8\n', f"line 3: {OUT_OF_PLACE}"),
    "odd inch.csv": (b'a\n1\n5" hush\n6\n', f"line 3: {OUT_OF_PLACE}"),
    "short.csv": (b"a,b\n1,2\nhush\n", "row 2: 1 fields given, 2 needed, as in the header"),
    "long.csv": (b"a,b\n1,2\n1,2\nhush,3,4\n", "row 3: 3 fields given, 2 needed, as in the header"),
    "twice.csv": (b"a,b,a\n1,2,3\n", "two columns named 'a': rename one"),
    "latin.csv": (b"a,b\n1,hush\xe9\n", "column 'b': no UTF-8 text: write the file as UTF-8"),
    "latin header.csv": (b"a,\xe9\n1,2\n", NO_CSV),
    "latin and short.csv": (b"a,b\n1,2\nhush\xe9\n", NO_CSV),  # ignored errors fail, too
    "empty.jsonl": (b"", EMPTY),
    "blank.jsonl": (b"\n \n", NONE),
    "cut.jsonl": (b'{"a": 1}\n{"a": "hush', f"row 2: {NO_OBJECT}"),
    "mixed.jsonl": (b'{"a": 1}\n{"a": 2}\n{"a": "hush"}\n', f"row 3: {NO_OBJECT}"),
    "empty.parquet": (b"", EMPTY),
    "text.parquet": (b"hush, not parquet", NO_PARQUET),
    "magic.parquet": (b"PAR1hushPAR1", NO_PARQUET),
    "zeros.parquet": (b"PAR1" + b"\0" * 100 + b"PAR1", NO_PARQUET),
    "empty.arrow": (b"", EMPTY),
    "text.arrow": (b"hush, not arrow at all", NO_ARROW),
    "cut.arrow": (b"ARROW1\0\0hush", NO_ARROW),
    "ones.arrow": (b"ARROW1\0\0" + b"\xff" * 100, NO_ARROW),
    "empty.arrows": (b"", EMPTY),
    "empty.npy": (b"", EMPTY),
    "text.npy": (b"hush, no numpy at all", NO_NPY),
    "header.npy": (b"\x93NUMPY\x01\x00\x02\x00{}", NO_NPY),
    "version.npy": (b"\x93NUMPY\x07\x00", NO_NPY),
    "packed.csv": (gzip.compress(b"a,b\n1,hush\n"), "packed by gzip: let its name say"),
    "packed.jsonl": (gzip.compress(b'{"a": "hush"}\n'), "packed by gzip: let its name say"),
    "book.csv": (b'PK\3\4"hush"', "a zip file or a spreadsheet (.xlsx): save the sheet as CSV"),
    "parquet.csv": (b'PAR1\x15"hush"', "a Parquet file: let its name end in .parquet"),
    "arrow.tsv": (b'ARROW1\0\0"hush"', "an Arrow file: let its name end in .arrow"),
    "wide.csv": ("a,b\n1,hush\n".encode("utf-16"), "UTF-16: write the file as UTF-8"),
    "wide.json": ('[{"a": "hush"}]'.encode("utf-16"), "UTF-16: write the file as UTF-8"),
    "rows.csv.gz": (b"hush", "ending '.gz' given, one of .parquet"),
    "rows.gz": (b"hush", ".npy needed: let its name say"),
    "rows.xlsx": (b"hush", ".npy needed: save the sheet as CSV"),
    "rows.xls": (b"hush", "ending '.xls' given, one of .parquet"),
    "rows": (b"hush", "no ending given, one of .parquet"),
    "rows." + "x" * 200: (b"hush", "(201 characters) given, one of .parquet"),
}


@pytest.mark.parametrize("name", ["PAR1", "ARROW1"])
def test_a_column_may_be_called_as_a_format_begins(tmp_path: Path, name: str) -> None:
    (tmp_path / "rows.csv").write_text(f"{name},b\n1,2\n")
    assert open_table(tmp_path / "rows.csv").columns == (name, "b")


@pytest.mark.parametrize("name", BROKEN, ids=lambda name: name[:20])
def test_a_broken_file_is_one_line_without_content(tmp_path: Path, name: str) -> None:
    raw, message = BROKEN[name]
    path = tmp_path / name
    path.write_bytes(raw)
    for opener in (open_table, open_raw):
        line = refusal(path, opener)
        assert message in line
        assert line.startswith((f"{path}: ", "...'"))
    assert os.listdir(tmp_path) == [name]


@pytest.mark.parametrize(
    ("text", "column"),
    [
        ("x;label\n0,5;a\n-1,5e1;b\n;c\n", [0.5, -15.0, None]),
        ("x;label\n0.5;a\n2;b\n", [0.5, 2.0]),
        ("x;label\n0,5;a\n1.5;b\n", ["0,5", "1.5"]),  # one of them has thousands
        ('"x";"a, b"\n0,5;a\n', [0.5]),
        ("x;label\n0,5;a\n-;b\n", ["0,5", "-"]),
        ("x\tlabel\n5\ta\n", [5]),
        ("x,a;b\n0.5,a\n", [0.5]),
    ],
)
def test_the_header_says_what_separates_fields(tmp_path: Path, text: str, column: Any) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(text)
    assert open_table(path).in_memory().column("x").to_pylist() == column
    as_names = open_table(path, texts=["x"]).in_memory().column("x")
    assert as_names[0].as_py() in (text.split("\n")[1][:3], 5)


@pytest.mark.parametrize(
    ("raw", "message", "raw_message"),
    [
        (b'["hush"]\n', LATER, FIRST_OBJECT),
        (b"1\n", LATER, FIRST_OBJECT),
        (b"\xff\xff\xff\n", LATER, NO_JSON),
        (b"[" * 1_000_000, LATER, NO_JSON),
        (b'{"a": ' + b"[" * 1_000_000, "more than 100 levels", NO_JSON),
        (b'{"a":\n' + b'{"\\"}": {"]": [' * 20_000 + b"\n", "more than 100 levels", NO_JSON),
    ],
    ids=["list", "number", "bytes", "brackets", "deep", "hidden depth"],
)
def test_lines_that_are_no_objects(
    tmp_path: Path, raw: bytes, message: str, raw_message: str
) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(raw)
    assert message in refusal(path)
    assert raw_message in refusal(path, open_raw)


def test_depth_that_would_end_the_process_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    for depth in (90, 30_000):
        path.write_text('{"n": 1, "a": ' + "[" * depth + "]" * depth + "}\n")
        if depth < 100:
            assert content(open_table(path), ["n"]) == {"n": [1]}
        else:
            assert "more than 100 levels" in refusal(path)
    brackets = '{"a": "' + "[" * 1000 + '\\\\"}\n'
    path.write_text(brackets)
    assert content(open_table(path)) == {"a": ["[" * 1000 + "\\"]}


def test_a_header_alone_is_no_table(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("a,b\n")
    assert NONE in refusal(path)
    assert list(open_raw(path).batches()) == []
    path.write_text("a,b")
    assert NO_CSV in refusal(path)


@pytest.mark.parametrize("block", [4, 5, 7, 16, 64])
def test_rows_and_quotes_may_span_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    monkeypatch.setattr(text, "BLOCK", block)
    path = tmp_path / "rows.csv"
    path.write_bytes(b'\xef\xbb\xbf"a","b"\r\n"","x ""y"""\r\n"1\n2","""z"""\r\n')
    assert content(open_table(path)) == {"a": ["", "1\n2"], "b": ['x "y"', '"z"']}
    whole = path.read_bytes()
    path.write_bytes(whole + b'5"0,1"\r\n')
    assert refusal(path).endswith(f"line 5: {OUT_OF_PLACE}")
    path.write_bytes(whole + b'6,"7\r\n')
    assert refusal(path).endswith("line 5: a quote that is not closed")


@pytest.mark.usefixtures("small_blocks")
def test_a_row_broken_late_is_found_by_its_number(tmp_path: Path) -> None:
    csv, lines, mixed = (tmp_path / name for name in ("a.csv", "b.jsonl", "c.jsonl"))
    csv.write_text("a,b\n" + "1,2\n" * 99 + "hush\n")
    lines.write_text('{"a": 1}\n' * 99 + '{"a": hush}\n')
    mixed.write_text('{"a": 1}\n' * 99 + '{"a": "hush"}\n')
    for opener in (open_table, open_raw):
        assert "row 100: 1 fields given" in refusal(csv, opener)
        assert f"row 100: {NO_OBJECT}" in refusal(lines, opener)
    assert f"row 100: {NO_OBJECT}" in refusal(mixed, open_raw)
    assert "row 100: no JSON" in (line := refusal(mixed)) or "of another type from row" in line


@pytest.mark.usefixtures("small_blocks")
def test_lines_and_values_that_never_end_are_refused(tmp_path: Path) -> None:
    csv, lines = tmp_path / "a.csv", tmp_path / "b.jsonl"
    csv.write_text('a,b\n1,2\n"' + "x" * 10_000 + '",2\n')
    lines.write_text('{"a": "' + "x" * 10_000 + '"}\n')
    for opener in (open_table, open_raw):
        assert "line 3: a row that does not end within 256 bytes" in refusal(csv, opener)
    assert "a line of more than 256 bytes" in refusal(lines)
    assert NO_JSON in refusal(lines, open_raw)


def test_given_types_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    csv, lines = tmp_path / "a.csv", tmp_path / "b.jsonl"
    csv.write_text("n,a\n1,1\n2,hush\n")
    lines.write_text('{"a": 1}\n{"a": 0.5}\n')

    def as_sealed(path: Path) -> Table:
        return open_table(path, types={"a": pa.int64()})

    assert "column 'a': a value that is not of the type int64" in refusal(csv, as_sealed)
    assert f"row 1 or later: {NO_OBJECT}" in refusal(lines, as_sealed)


def test_pickles_are_never_loaded(tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> tuple[Any, ...]:
            return os.system, (f"touch {tmp_path}/sprung",)

    np.save(tmp_path / "p.npy", np.array([Trap()], dtype=object), allow_pickle=True)
    refusal(tmp_path / "p.npy")
    assert not (tmp_path / "sprung").exists()


@pytest.mark.parametrize(
    "array",
    [
        np.zeros((2, 2, 2)),
        np.float64(1),
        np.zeros((2, 0)),
        np.zeros(2, dtype="f8,f8"),
        np.zeros(2, dtype="c16"),
        np.array([b"a", b"b"]),
        np.asfortranarray(np.eye(3)[:2]),
    ],
    ids=lambda array: f"{array.dtype}{array.shape}",
)
def test_arrays_that_are_no_column(tmp_path: Path, array: Any) -> None:
    np.save(tmp_path / "p.npy", array)
    refusal(tmp_path / "p.npy")


@BOTH
def test_what_is_no_file_is_refused(tmp_path: Path, opener: Callable[[Path], Table]) -> None:
    os.mkfifo(tmp_path / "pipe.csv")
    (tmp_path / "folder.csv").mkdir()
    assert "a folder given, a file needed" in refusal(tmp_path / "folder.csv", opener)
    assert "no regular file given, a file needed" in refusal(tmp_path / "pipe.csv", opener)
    assert "cannot be read (No such file" in refusal(tmp_path / "missing.csv", opener)
    assert "no possible name of a file" in refusal(tmp_path / "a\0b.csv", opener)
    assert "cannot be read" in refusal(tmp_path / "\x1b[31m\n.csv", opener)
    line = refusal(Path("x" * 10_000_000 + ".csv"), opener)
    assert "(10,000,004 characters)" in line
    assert "File name too long" in line


def test_no_permission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("a\n1\n")
    if os.geteuid():
        path.chmod(0)
    else:

        def refuse(*_: object) -> int:
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr(os, "open", refuse)
    line = refusal(path)
    assert line.endswith("cannot be read (Permission denied): give a file that you may read")


def test_a_missing_column_is_named_next_to_those_there_are() -> None:
    with pytest.raises(InvalidInput, match=r"the table: no column 'label' \(there are 'n', 'x'"):
        list(open_table(pa.table(ROWS)).batches(["label"]))
    wide = open_table(pa.table({f"c{i}": [0] for i in range(1000)}))
    with pytest.raises(
        InvalidInput, match=r"no column 'id' .*'c0', .*'c4' and 995 more.*the id column"
    ):
        wide.require("id", "id column")


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (["7", "-3", "0"], [7, -3, 0]),
        (["007", "10"], ["007", "10"]),
        (["7", "007"], ["7", "007"]),
        (["-0"], ["-0"]),
        (["+7"], ["+7"]),
        (["7.0", "8"], ["7.0", "8"]),
        (["0.50"], ["0.50"]),
        (["true", "false"], ["true", "false"]),
        (["2020-01-01"], ["2020-01-01"]),
        (["1", "NA"], ["1", "NA"]),
        (["1", ""], ["1", ""]),
        (["9" * 30], ["9" * 30]),
    ],
    ids=str,
)
@pytest.mark.parametrize("block", [16, 1 << 20])
def test_columns_of_names_stay_as_they_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: list[str], read: list[Any], block: int
) -> None:
    """An id or a label that was read as a number, a date or a boolean was no longer the same."""
    monkeypatch.setattr(text, "BLOCK", block)
    path = tmp_path / "t.csv"
    path.write_text("id,x\n" + "".join(f"{each},1\n" for each in written))
    found = content(open_table(path, texts=["id", "none"]))
    assert found == {"id": read, "x": [1] * len(read)}
    assert content(open_table(path, texts=["id"], types={"id": pa.string()}))["id"] == written


def test_names_in_json_have_types_of_their_own(tmp_path: Path) -> None:
    lines = tmp_path / "t.jsonl"
    lines.write_text('{"id": 7, "label": "007"}\n')
    assert content(open_table(lines, texts=["id", "label"])) == {"id": [7], "label": ["007"]}


def test_types_of_all_rows_where_they_are_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text('{"n": 1, "id": 7}\n{"n": 0.5, "id": 8}\n')
    assert content(open_raw(path, settled=True)) == {"n": [1, 0.5], "id": [7, 8]}
    assert f"row 1 or later: {NO_OBJECT}" in refusal(path, open_raw)


@pytest.mark.parametrize("categories", [False, True])
def test_views_of_text_are_read_as_plain_text(tmp_path: Path, categories: bool) -> None:
    """Rows of such a column can be neither taken nor filtered; polars has categories of them."""
    column = pa.array(["a", "b"]).cast(pa.string_view())
    plain: Any = pa.large_string()
    if categories:
        column = pa.DictionaryArray.from_arrays(pa.array([0, 1], pa.int8()), column)
        plain = pa.dictionary(pa.int8(), plain)
    table = pa.table({"id": column, "n": [1, 2]})
    with pa.ipc.new_file(tmp_path / "t.arrow", table.schema) as writer:
        writer.write_table(table)
    given: list[Any] = [table, tmp_path / "t.arrow"]
    if not categories:  # nobody writes these as Parquet
        pq.write_table(table, tmp_path / "t.parquet")
        given.append(tmp_path / "t.parquet")
    for found in (*map(open_table, given), *map(open_raw, given[1:])):
        assert found.schema.field("id").type == plain
        column = next(found.batches()).column("id")
        assert column.take(pa.array([1])).to_pylist() == ["b"]


@pytest.mark.parametrize(
    "text", ['null\n{"a": {}}\n', 'null{"a": {}}\n{}\n', '{"a": 1}\nnull\n', '{"a": 1}\n 7\n']
)
def test_rows_of_json_that_are_no_objects_are_refused(text: str) -> None:
    """Arrow ended the process at the first two, and took the third for a row of nulls."""
    with pytest.raises(InvalidInput, match=r"row [12]"):
        open_table(Held("rows.jsonl", text.encode()))


def test_a_mark_of_the_byte_order_may_stand_before_json() -> None:
    assert open_table(Held("rows.jsonl", b'\xef\xbb\xbf{"a": 1}\n')).in_memory().num_rows == 1
