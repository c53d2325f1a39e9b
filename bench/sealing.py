"""Reading the labels of a sealed test set, next to reading them from plain Parquet."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench import Benchmark, folder
from easeml_meter.vault.containers import GROUP_ROWS
from easeml_meter.vault.keys import Identity
from easeml_meter.vault.sealing import SealedTestSet, seal

KINDS = ("int64", "int32", "text")


def benchmarks() -> list[Benchmark]:
    """List them."""
    return [reading(rows, kind) for rows in (10**5, 10**6, 10**7) for kind in KINDS]


def reading(rows: int, kind: str) -> Benchmark:
    """Compare both ways for labels of one kind."""
    sealed, key, plain = written(rows, kind)
    return Benchmark(
        name=f"read {rows:,} sealed labels, {kind} (reference: plain Parquet)",
        ours=lambda: sealed_labels(sealed, key),
        reference=lambda: plain_labels(plain),
        at_most=2.5 if rows >= 10**6 else float("inf"),  # below, it is about milliseconds
        agree=lambda ours, plain: bool(ours.cast(plain.type) == plain),
    )


def sealed_labels(path: Path, key: Identity) -> Any:
    """Decrypt all labels, row group by row group."""
    with SealedTestSet.open(path, key, meter="bench", generation=1) as sealed:
        return pa.chunked_array([sealed.labels(group) for group in range(sealed.row_groups)])


def plain_labels(path: Path) -> Any:
    """Read them from a file of the same layout that is not encrypted."""
    with pq.ParquetFile(path, pre_buffer=False) as file:
        groups = [file.read_row_group(i, columns=["label"]) for i in range(file.num_row_groups)]
        return pa.concat_tables(groups).column(0)


@cache
def written(rows: int, kind: str) -> tuple[Path, Identity, Path]:
    """Write the same rows sealed and in the clear."""
    random = np.random.default_rng(rows)
    codes = random.integers(0, 10, rows)
    texts = np.array([f"class {code}" for code in range(10)])
    labels = pa.array(texts[codes]) if kind == "text" else pa.array(codes.astype(kind))
    table = pa.table({"input": random.random(rows, dtype=np.float32), "label": labels})
    sealed, plain = (folder() / f"{rows}-{kind}.{end}" for end in ("sealed", "parquet"))
    layout: dict[str, Any] = {"use_dictionary": False, "compression": "none"}
    pq.write_table(table, plain, row_group_size=GROUP_ROWS, **layout)
    key = Identity.new()
    recipients = [key.recipient]
    seal(table, sealed, meter="bench", generation=1, label="label", recipients=recipients)
    return sealed, key, plain
