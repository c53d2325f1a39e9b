"""What a Parquet file says about itself is understood, and lies in its footer do not help."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from easeml_meter.errors import InvalidInput, TooLarge
from easeml_meter.tables import parquet_layout as module
from easeml_meter.tables.limits import USUAL_LIMITS, TableLimits
from easeml_meter.tables.opening import open_table
from easeml_meter.tables.parquet_layout import parquet_layout
from easeml_meter.tables.source import Held

ROWS = 5000
DRAW = np.random.default_rng(1)
TABLE = pa.table(
    {
        "whole": DRAW.integers(0, 3, ROWS),
        "real": DRAW.normal(size=ROWS),
        "truth": DRAW.integers(0, 2, ROWS).astype(bool),
        "text": [f"text {n % 70}" for n in range(ROWS)],
        "id": [f"id {n}" for n in range(ROWS)],
        "list": [[n, None, n] if n % 3 else None for n in range(ROWS)],
        "pair": [{"a": n, "b": ["x"] * (n % 3)} for n in range(ROWS)],
        "fixed": pa.array([b"1234"] * ROWS, pa.binary(4)),
        "time": pa.array(DRAW.integers(0, 9, ROWS), pa.timestamp("us")),
    }
)


def written(table: pa.Table = TABLE, **options: Any) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink, **options)
    return sink.getvalue()


OPTIONS: list[dict[str, Any]] = [
    {},
    {"compression": "none"},
    {"compression": "zstd", "use_dictionary": False},
    {"compression": "gzip", "row_group_size": 700},
    {"compression": "brotli", "data_page_version": "2.0"},
    {"compression": "lz4", "data_page_size": 1000, "write_statistics": False},
    {"version": "1.0", "store_schema": False},
    {"use_byte_stream_split": ["real"], "use_dictionary": ["text"]},
    {"write_page_index": True, "write_page_checksum": True},
]


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: " ".join(map(str, options)) or "-")
def test_files_of_a_usual_writer_are_understood(options: dict[str, Any]) -> None:
    table = TABLE.drop_columns(["time"]) if options.get("version") == "1.0" else TABLE
    content = written(table, **options)
    found = parquet_layout(content, USUAL_LIMITS)
    least = 8 * ROWS * 2
    assert least <= found.decoded <= 3 * table.nbytes
    read = pa.Table.from_batches(
        open_table(Held("a.parquet", content, limits=USUAL_LIMITS)).batches()
    )
    assert read == pq.read_table(io.BytesIO(content))


def test_sizes_are_those_of_the_pages_whatever_the_footer_says() -> None:
    """A footer that says less than its pages hold would let any amount pass."""
    table = pa.table({"a": pa.array(["x" * 400_000])})
    content = written(table, compression="zstd", use_dictionary=False, write_statistics=False)
    size = pq.read_metadata(io.BytesIO(content)).row_group(0).total_byte_size
    assert content.count(_zigzag(size)) == 2  # of the column, and of the row group
    lying = content.replace(_zigzag(size), _zigzag(size - 300_000))
    assert pq.read_metadata(io.BytesIO(lying)).row_group(0).total_byte_size < 200_000
    for each in (content, lying):
        with pytest.raises(TooLarge, match="bytes when decoded given, at most 200,000"):
            parquet_layout(each, TableLimits(most_decoded_bytes=200_000))


def _zigzag(number: int) -> bytes:
    number, out = number * 2, b""
    while number > 127:
        out, number = out + bytes([number & 127 | 128]), number >> 7
    return out + bytes([number])


def test_columns_and_rows_are_counted_before_they_are_made() -> None:
    content = written()
    parquet_layout(content, TableLimits(most_rows=ROWS, most_columns=10))
    with pytest.raises(TooLarge, match="10 columns given, at most 9"):  # nested ones count each
        parquet_layout(content, TableLimits(most_columns=9))
    with pytest.raises(TooLarge, match="5,000 rows given, at most 4,999"):
        parquet_layout(content, TableLimits(most_rows=4999))


@pytest.mark.parametrize(("limit", "refusal"), [("MOST_PARTS", "parts"), ("MOST_PAGES", "pages")])
def test_there_may_be_so_many_parts_and_pages_and_no_more(
    limit: str, refusal: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = written(data_page_size=1000)
    monkeypatch.setattr(module, limit, 30)
    with pytest.raises(TooLarge, match=f"more than 30 {refusal} given"):
        parquet_layout(content, USUAL_LIMITS)


def test_every_cut_and_every_changed_byte_is_read_or_refused_in_one_line() -> None:
    content = written(TABLE.select(["whole", "text"]).slice(0, 20), compression="zstd")
    cuts = [content[:end] for end in range(1, len(content), 7)]
    changed = [
        content[:at] + bytes([content[at] ^ 255]) + content[at + 1 :]
        for at in range(0, len(content), 3)
    ]
    refused = []
    for each in cuts + changed:
        try:
            list(open_table(Held("a.parquet", each, limits=USUAL_LIMITS)).batches())
        except InvalidInput as error:
            refused.append(str(error))
    assert len(refused) >= len(cuts)
    assert not any("\n" in line for line in refused)
