"""A small file costs little, whatever it says: it is refused before it is written out."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.tables.costs import cost_of

from easeml_meter.errors import InvalidInput, TooLarge
from easeml_meter.scoring.losses import parse_loss
from easeml_meter.scoring.validation import Validation
from easeml_meter.tables.opening import check_whole, open_raw, open_table, unpacked
from easeml_meter.tables.source import USUAL_LIMITS, Held, TableLimits

pytestmark = pytest.mark.usefixtures("apart")

MEGABYTES = 200
"""What reading one of these may take; written out, each takes from 300 to 2,500."""
PACKED: Any = {"compression": "zstd", "write_statistics": False}


def parquet(path: Path, table: pa.Table, **options: Any) -> Path:
    pq.write_table(table, path, **(PACKED | options))
    return path


def one_long_label(folder: Path) -> Path:
    label = pa.array(["x" * (300 << 20)], pa.large_string())
    return parquet(folder / "a.parquet", pa.table({"label": label}), use_dictionary=False)


def long_words(folder: Path) -> Path:
    words = pa.DictionaryArray.from_arrays(np.zeros(300, np.int32), ["x" * (4 << 20)])
    return parquet(folder / "a.parquet", pa.table({"prediction": words}))


def long_words_in_lists(folder: Path) -> Path:
    words = pa.array(["x" * (1 << 20)]).take(pa.array(np.zeros(1, int)))
    lists = pa.ListArray.from_arrays(np.arange(301, dtype=np.int32), _repeated(words, 300))
    return parquet(folder / "a.parquet", pa.table({"prediction": lists}))


def _repeated(words: Any, times: int) -> Any:
    return pa.DictionaryArray.from_arrays(np.zeros(times, np.int32), words).dictionary_decode()


def long_lists(folder: Path) -> Path:
    lists = pa.FixedSizeListArray.from_arrays(np.zeros(300 * 200_000), 200_000)
    table = pa.table({"prediction": lists.cast(pa.list_(pa.float64()))})
    return parquet(folder / "a.parquet", table)


def long_ids(folder: Path) -> Path:
    ids = _repeated(pa.array(["x" * (1 << 20)]), 300)
    return parquet(folder / "a.parquet", pa.table({"label": ["a"] * 300, "id": ids}))


def shared_prefixes(folder: Path) -> Path:
    table = pa.table({"prediction": _repeated(pa.array(["x" * (1 << 20)]), 300)})
    encoding = {"use_dictionary": False, "column_encoding": {"prediction": "DELTA_BYTE_ARRAY"}}
    return parquet(folder / "a.parquet", table, **encoding)


def compressed_arrow(folder: Path) -> Path:
    path = folder / "a.arrow"
    table = pa.table({"prediction": np.zeros(300 << 17)})
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_file(path, table.schema, options=options) as writer:
        writer.write_table(table)
    return path


def words_in_arrow(folder: Path) -> Path:
    path = folder / "a.arrows"
    words = pa.DictionaryArray.from_arrays(np.zeros(3000, np.int32), ["x" * 1_000_000])
    table = pa.table({"prediction": words})
    with pa.ipc.new_stream(path, table.schema) as writer:
        writer.write_table(table)
    return path


def views_in_arrow(folder: Path) -> Path:
    """Views of one text, as often as one likes."""
    path = folder / "a.arrow"
    view = np.array([[1_000_000, int.from_bytes(b"xxxx", "little"), 0, 0]] * 3000, np.int32)
    buffers = [None, pa.py_buffer(view), pa.py_buffer(b"x" * 1_000_000)]
    column = pa.Array.from_buffers(pa.string_view(), 3000, buffers)
    table = pa.table({"prediction": column})
    with pa.ipc.new_file(path, table.schema) as writer:
        writer.write_table(table)
    return path


def wide_csv(folder: Path) -> Path:
    path = folder / "a.csv"
    path.write_text(",".join(f"name{n}" for n in range(300_000)) + "\n1\n", encoding="ascii")
    return path


def wide_csv_in_quotes(folder: Path) -> Path:
    path = folder / "a.csv"
    names = ",".join(f"name{n}" for n in range(300_000))
    path.write_text(f'"a\nb",{names}\n1\n', encoding="ascii")
    return path


def wide_parquet(folder: Path) -> Path:
    names = ["label", *(f"c{n}" for n in range(60_000))]
    return parquet(folder / "a.parquet", pa.table([pa.array(["a"])] * len(names), names))


def other_keys(folder: Path) -> Path:
    """Rows of ever other keys: Arrow fills in each of them in every row."""
    path = folder / "a.jsonl"
    rows = "".join(f'{{"label": "a", "k{n}": 1}}\n' for n in range(9000))
    path.write_text(rows, encoding="ascii")
    return path


def long_first_row(folder: Path) -> Path:
    path = folder / "a.jsonl"
    path.write_text('{"prediction": [' + "[]," * 10**7 + "[]]}\n", encoding="ascii")
    return path


PREDICTIONS = (
    *(long_words, long_words_in_lists, long_lists, shared_prefixes, compressed_arrow),
    *(words_in_arrow, views_in_arrow, wide_csv, wide_csv_in_quotes, long_first_row),
)
VALIDATION = (one_long_label, long_ids, wide_parquet, other_keys)


@pytest.mark.slow
@pytest.mark.parametrize("make", [*PREDICTIONS, *VALIDATION], ids=lambda make: make.__name__)
def test_a_small_file_that_unpacks_to_much_is_refused_at_little_cost(
    make: Any, tmp_path: Path
) -> None:
    path = make(tmp_path)
    cost = cost_of("predictions" if make in PREDICTIONS else "validation", path)
    assert path.stat().st_size < 31 << 20
    assert cost.refusal
    assert "\n" not in cost.refusal
    assert cost.megabytes < MEGABYTES


@pytest.mark.slow
def test_ten_million_rows_are_taken_and_cost_little_and_one_more_is_refused(tmp_path: Path) -> None:
    most = USUAL_LIMITS.most_rows
    path = parquet(tmp_path / "a.parquet", pa.table({"label": np.zeros(most, np.int64)}))
    cost = cost_of("validation", path)
    assert not cost.refusal
    assert cost.megabytes < MEGABYTES
    path = parquet(tmp_path / "b.parquet", pa.table({"label": np.zeros(most + 1, np.int64)}))
    refused = cost_of("validation", path)
    assert "10,000,001 rows given, at most 10,000,000" in refused.refusal
    assert "setting most_rows" in refused.refusal
    assert refused.megabytes < 20


@pytest.mark.slow
def test_lines_within_one_open_quote_cost_no_more_than_other_lines(tmp_path: Path) -> None:
    """Each of them was searched for the quotes after it, one by one."""
    few = 1 << 20
    (tmp_path / "plain.csv").write_bytes(b"prediction\n" + b"a\n" * (3 * few))
    (tmp_path / "open.csv").write_bytes(b'prediction\n"' + b"\n" * (6 * few))
    plain = cost_of("predictions", tmp_path / "plain.csv")
    quoted = cost_of("predictions", tmp_path / "open.csv")
    assert "a quote that is not closed" in quoted.refusal
    assert quoted.cpu_seconds < 5 * max(plain.cpu_seconds, 0.1)
    assert quoted.megabytes < MEGABYTES


def held(path: Path, limits: TableLimits = USUAL_LIMITS) -> Held:
    return Held(path.name, path.read_bytes(), limits=limits)


ENDINGS = (".parquet", ".arrow", ".arrows", ".csv", ".tsv", ".jsonl", ".json")


def written(folder: Path, ending: str, table: pa.Table) -> Path:
    path = folder / f"table{ending}"
    rows = table.to_pylist()
    match ending:
        case ".parquet":
            pq.write_table(table, path)
        case ".arrow" | ".arrows":
            opener = pa.ipc.new_file if ending == ".arrow" else pa.ipc.new_stream
            with opener(path, table.schema) as writer:
                writer.write_table(table)
        case ".csv" | ".tsv":
            mark = "," if ending == ".csv" else "\t"
            lines = [table.column_names, *(map(str, row.values()) for row in rows)]
            path.write_text("".join(mark.join(line) + "\n" for line in lines), encoding="utf-8")
        case ".jsonl":
            path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        case ".json":
            path.write_text(json.dumps(rows), encoding="utf-8")
    return path


TABLE = pa.table(
    {"id": ["a", "bb", "ccc"] * 4, "label": ["x", "y", "long-one"] * 4, "n": [*range(12)]}
)


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize(
    ("limits", "refusal"),
    [
        (TableLimits(most_rows=11), "12 rows given, at most 11 (setting most_rows of the server)"),
        (TableLimits(most_columns=2), "3 columns given, at most 2 (setting most_columns"),
        (TableLimits(longest_text=7), "8 bytes in one text given, at most 7 (setting longest_text"),
        (TableLimits(most_decoded_bytes=60), "bytes when decoded given, at most 60 (setting most_"),
    ],
)
def test_the_same_limit_refuses_the_same_table_in_every_format(
    ending: str, limits: TableLimits, refusal: str, tmp_path: Path
) -> None:
    path = written(tmp_path, ending, TABLE)
    with pytest.raises(TooLarge) as refused:
        check_whole(held(path, limits))
    assert str(refused.value).startswith(f"table{ending}: ")
    assert refusal in str(refused.value)


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_table_within_its_limits_is_read_as_without_them(ending: str, tmp_path: Path) -> None:
    path = written(tmp_path, ending, TABLE)
    limits = TableLimits(12, 3, 1000, 8)
    check_whole(held(path, limits))
    for opener in (open_table, open_raw):
        limited = pa.Table.from_batches(opener(held(path, limits)).batches())
        assert limited == pa.Table.from_batches(opener(path).batches())


def test_texts_that_dictionaries_could_repeat_too_often_are_written_out_if_they_do_not(
    tmp_path: Path,
) -> None:
    """What a dictionary's texts add up to is known only when its rows are read."""
    table = pa.table(
        {
            "id": [f"row {n}" for n in range(3000)],
            "ranked": [[f"class {n % 50}", "other"] for n in range(3000)],
        }
    )
    path = parquet(tmp_path / "a.parquet", table)
    limits = TableLimits(most_decoded_bytes=200_000)
    opened = open_table(held(path, limits))
    assert pa.Table.from_batches(opened.batches()) == table


@pytest.mark.parametrize(
    "kind",
    [
        pa.list_view(pa.int64()),
        pa.run_end_encoded(pa.int32(), pa.int64()),
        pa.dense_union([pa.field("a", pa.int64())]),
    ],
    ids=str,
)
def test_types_whose_values_may_share_their_storage_are_refused(
    kind: pa.DataType, tmp_path: Path
) -> None:
    path = tmp_path / "a.arrow"
    schema = pa.schema([("prediction", kind)])
    if pa.types.is_union(kind):
        union = pa.UnionArray.from_dense(
            pa.array([0], pa.int8()), pa.array([0], pa.int32()), [pa.array([1])], ["a"]
        )
        batch = pa.record_batch([union], ["prediction"])
    elif pa.types.is_run_end_encoded(kind):
        runs = pa.RunEndEncodedArray.from_arrays(pa.array([5], pa.int32()), pa.array([1]))
        batch = pa.record_batch([runs], ["prediction"])
    else:
        batch = pa.record_batch([pa.array([[1]], kind)], schema=schema)
    with pa.ipc.new_file(path, batch.schema) as writer:
        writer.write_batch(batch)
    with pytest.raises(InvalidInput, match=r"type .* given"):
        list(open_table(held(path)).batches())


def test_so_many_classes_are_found_in_a_validation_set_and_no_more(tmp_path: Path) -> None:
    path = written(tmp_path, ".parquet", pa.table({"label": [f"c{n}" for n in range(30)]}))
    loss = parse_loss("0-1")
    found = Validation.open(held(path, TableLimits(most_classes=30)), label="label", loss=loss)
    assert len(found.classes or ()) == 30
    with pytest.raises(TooLarge, match=r"30 classes given, at most 29 \(setting most_classes of"):
        Validation.open(held(path, TableLimits(most_classes=29)), label="label", loss=loss)
    assert Validation.open(path, label="label", loss=loss).rows == 30


@pytest.mark.parametrize("ending", [".gz", ".zst"])
def test_what_is_packed_holds_no_more_than_other_files(ending: str, tmp_path: Path) -> None:
    text = b"label\n" + b"a\n" * (200 << 20)
    packed = gzip.compress(text, 1) if ending == ".gz" else bytes(pa.compress(text, "zstd"))
    (tmp_path / f"a.csv{ending}").write_bytes(packed)
    limits = TableLimits(most_decoded_bytes=32 << 20)
    bomb = held(tmp_path / f"a.csv{ending}", limits)
    with pytest.raises(TooLarge, match=f"^a.csv{ending}: .* most_decoded_bytes"):
        unpacked(bomb)
    few = replace(bomb, content=gzip.compress(b"label\na\n")) if ending == ".gz" else bomb
    if few is not bomb:
        assert open_table(unpacked(few)).in_memory().column("label").to_pylist() == ["a"]
