"""Tables in every format: made at random, then changed where it hurts."""

from __future__ import annotations

import io
import json
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from easeml_meter.errors import InvalidInput
from easeml_meter.scoring.classes import Classes
from easeml_meter.scoring.losses import parse_loss
from easeml_meter.scoring.outputs import Expected
from easeml_meter.scoring.predictions import Predictions
from easeml_meter.scoring.validation import Validation
from easeml_meter.tables.opening import check_whole, open_raw, open_table
from easeml_meter.tables.source import Held, TableLimits, written_out
from fuzz import Failed, one_line
from fuzz.mutation import change, word

LIMITS = TableLimits(100_000, 1000, 32 << 20, 1 << 16, 1000)
NAMES = ("label", "prediction", "id", "prediction_1", "probability_a", "x", "y", "")
EXPECTED = [
    Expected(3, parse_loss("0-1"), Classes.of(["a", "b"])),
    Expected(3, parse_loss("0-1"), Classes.of([0, 1, 2])),
    Expected(3, parse_loss("top-2"), Classes.of(["a", "b", "c"])),
    Expected(3, parse_loss("squared[0,1]")),
    Expected(3, parse_loss("brier"), Classes.of(["a", "b"])),
]


class TableFormat:
    """A format of tables."""

    def __init__(self, ending: str) -> None:
        self.name = ending
        self._write = getattr(self, f"_write_{ending}", self._write_text)

    def make(self, draw: Random) -> bytes:
        """Make a table, and most often change its bytes."""
        data: bytes = self._write(draw)
        return data if draw.random() < 0.3 else change(data, draw)

    def run(self, data: bytes) -> bool:
        """Open it in every way there is; what is read within limits is read without them, too."""
        held = Held(f"table.{self.name}", data, limits=LIMITS)
        taken = False
        ways: list[Any] = [
            lambda: check_whole(held),
            lambda: self._compare(held),
            lambda: list(open_raw(held, reals=bool(len(data) & 1)).batches()),
            lambda: Validation.open(held, label="label", loss=parse_loss("0-1"), id_column="id"),
            lambda: Predictions.open(held, expected=EXPECTED[len(data) % len(EXPECTED)]),
        ]
        for way in ways:
            try:
                taken |= bool(way())
            except InvalidInput as error:
                one_line(error)
        return taken

    def _compare(self, held: Held) -> bool:
        limited, whole = _read(held), _read(Held(held.name, held.content))
        whole = whole.cast(written_out(whole.schema))
        # Compared as texts: NaN is not NaN, and Python knows no year 10,000.
        if str(limited.schema) != str(whole.schema) or limited.to_string() != whole.to_string():
            raise Failed("limits change what is read")
        return True

    def _write_parquet(self, draw: Random) -> bytes:
        sink, table = io.BytesIO(), random_table(draw)
        pq.write_table(
            table,
            sink,
            compression=draw.choice(("none", "snappy", "zstd", "gzip", "lz4", "brotli")),
            use_dictionary=draw.random() < 0.7,
            data_page_version=draw.choice(("1.0", "2.0")),
            row_group_size=_piece(table, draw),
            data_page_size=draw.choice((100, 1000, 1 << 20)),
            write_statistics=draw.random() < 0.5,
            store_schema=draw.random() < 0.7,
        )
        return sink.getvalue()

    def _write_arrow(self, draw: Random) -> bytes:
        sink, table = io.BytesIO(), random_table(draw)
        options = pa.ipc.IpcWriteOptions(
            compression=draw.choice((None, "lz4", "zstd")),
            emit_dictionary_deltas=draw.random() < 0.2,
        )
        opener = pa.ipc.new_stream if self.name == "arrows" else pa.ipc.new_file
        with opener(sink, table.schema, options=options) as writer:
            for batch in table.to_batches(max_chunksize=_piece(table, draw)):
                writer.write_batch(batch)
        return sink.getvalue()

    _write_arrows = _write_arrow

    def _write_npy(self, draw: Random) -> bytes:
        sink = io.BytesIO()
        kind = draw.choice(
            ("<i8", ">i4", "u1", "<f8", "<f2", "?", "<U5", "<U1", "S3", "M8[s]", "c16")
        )
        shape = draw.choice(((3,), (3, 2), (0,), (3, 0), (1, 3), (2, 2, 2), ()))
        values = np.zeros(shape, kind)
        np.save(sink, np.asfortranarray(values) if draw.random() < 0.2 else values)
        data = sink.getvalue()
        return change(data, draw, 0, 128) if draw.random() < 0.5 else data

    def _write_json(self, draw: Random) -> bytes:
        rows = [_object(draw) for _ in range(draw.choice((0, 1, 3, 3, 3, 20)))]
        gap = draw.choice(("", " ", "\n"))
        return f"[{gap}{f',{gap}'.join(rows)}{gap}]".encode("utf-8", "replace")

    def _write_jsonl(self, draw: Random) -> bytes:
        rows = [_object(draw) for _ in range(draw.choice((0, 1, 3, 3, 3, 20)))]
        end = draw.choice(("\n", "\r\n", "\n\n"))
        return "".join(row + end for row in rows).encode("utf-8", "replace")

    def _write_text(self, draw: Random) -> bytes:
        """Write CSV."""
        mark = "\t" if self.name == "tsv" else draw.choice((",", ",", ";", "\t"))
        end = draw.choice(("\n", "\r\n", "\r"))
        names = [draw.choice((*NAMES, word(draw))) for _ in range(draw.choice((1, 1, 2, 3)))]
        lines = [names]
        for _ in range(draw.choice((0, 1, 3, 3, 3, 20))):
            many = len(names) + (draw.randint(-1, 1) if draw.random() < 0.05 else 0)
            lines.append([_field(draw) for _ in range(many)])
        text = "".join(mark.join(line) + end for line in lines)
        return (draw.choice(("", "", "\ufeff")) + text).encode("utf-8", "replace")


def _piece(table: pa.Table, draw: Random) -> int:
    """Return how many rows go together: few of few rows."""
    return draw.choice((1, 3, 1000)) if table.num_rows < 1000 else 10_000


def _read(held: Held) -> pa.Table:
    opened = open_table(held)
    found = list(opened.batches())
    return pa.Table.from_batches(found, None if found else opened.schema)


def _field(draw: Random) -> str:
    text = draw.choice((draw.choice("ab01"), word(draw)))
    if draw.random() < 0.3:
        return '"' + text.replace('"', '""' if draw.random() < 0.9 else '"') + '"'
    return text


def _object(draw: Random) -> str:
    pairs = []
    for _ in range(draw.choice((0, 1, 2, 3))):
        name = json.dumps(draw.choice((*NAMES, word(draw))))
        pairs.append(f"{name}:{_value(draw, 0)}")
    return "{" + ",".join(pairs) + "}"


def _value(draw: Random, depth: int) -> str:
    kind = draw.randrange(9 if depth < 4 else 6)
    if kind < 2:
        return json.dumps(draw.choice("abc"))
    if kind < 4:
        return draw.choice(("0", "1", "0.5", "-1", "1e5", "null", "true"))
    if kind == 4:
        return json.dumps(word(draw))
    if kind == 5:
        return word(draw)
    items = [_value(draw, depth + 1) for _ in range(draw.randrange(4))]
    if kind < 8:
        return "[" + ",".join(items) + "]"
    return "{" + ",".join(f'"{draw.choice("abc")}":{item}' for item in items) + "}"


KINDS: list[Any] = [
    *(pa.int64(), pa.uint8(), pa.float64(), pa.float32(), pa.bool_(), pa.string(), pa.null()),
    *(pa.large_string(), pa.binary(), pa.binary(3), pa.date32(), pa.timestamp("us", "UTC")),
    *(pa.decimal128(5, 2), pa.dictionary(pa.int8(), pa.string()), pa.list_(pa.int64())),
    *(pa.list_(pa.string()), pa.list_(pa.float64(), 2), pa.large_list(pa.float64())),
    *(pa.struct([("a", pa.int64()), ("b", pa.string())]), pa.map_(pa.string(), pa.int64())),
    *(pa.list_(pa.list_(pa.string())), pa.string_view(), pa.list_view(pa.int64())),
]


def random_table(draw: Random) -> pa.Table:
    """Make a table of a few rows and columns of any type."""
    rows = draw.choice((0, 1, 3, 3, 3, 3, 50))
    columns = {}
    for _ in range(draw.choice((1, 1, 2, 3, 5))):
        kind = draw.choice(KINDS)
        values = [None if draw.random() < 0.05 else _of(kind, draw) for _ in range(rows)]
        columns[draw.choice(NAMES)] = pa.array(values, kind)
    table = pa.table(columns)
    views = any(kind in (pa.string_view(), pa.list_view(pa.int64())) for kind in table.schema.types)
    if rows and not views and draw.random() < 0.05:  # one row, many times
        row = table.slice(0, 1).combine_chunks()
        times = min(50_000, (64 << 20) // max(1, row.nbytes))
        table = row.take(pa.array(np.zeros(times, int)))
    return table


def _of(kind: Any, draw: Random) -> Any:
    types = pa.types
    if types.is_integer(kind) or types.is_date(kind) or types.is_timestamp(kind):
        return draw.randrange(3)
    if types.is_floating(kind):
        return draw.choice((0.5, 0.0, 1.0, -0.0, float("nan"), float("inf")))
    if types.is_boolean(kind):
        return draw.random() < 0.5
    if types.is_decimal(kind):
        return draw.choice((0, 1))
    if types.is_fixed_size_binary(kind):
        return b"abc"
    if types.is_binary(kind):
        return draw.randbytes(draw.randrange(5))
    if types.is_struct(kind):
        return {"a": draw.randrange(3), "b": draw.choice("abc")}
    if types.is_map(kind):
        return [(draw.choice("abc"), 1)]
    if types.is_null(kind):
        return None
    if types.is_fixed_size_list(kind):
        return [0.5, 0.5]
    if hasattr(kind, "value_type") and not types.is_dictionary(kind):
        return [_of(kind.value_type, draw) for _ in range(draw.randrange(4))]
    return draw.choice(("a", "b", "a", "b", word(draw), "x" * draw.choice((10, 1000, 70_000))))


TARGETS = [
    TableFormat(ending)
    for ending in ("parquet", "arrow", "arrows", "csv", "tsv", "jsonl", "json", "npy")
]
