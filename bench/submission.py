"""A whole submission, and scoring against sealed labels, next to the plain way."""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from bench import Benchmark
from bench.scoring import scoring
from easeml_meter.meter import Meter
from easeml_meter.spec import MeterSpec
from easeml_meter.vault.keys import Identity
from easeml_meter.vault.sealing import SealedTestSet, seal

ROWS = 10_000


def benchmarks(*, small: bool) -> list[Benchmark]:
    """List them; the small ones take milliseconds."""
    sizes = (1000,) if small else (10**5, 10**6, 10**7)
    folder = _folder()
    scored = [scoring(rows, folder, "sealed labels", sealed) for rows in sizes]
    return [*scored, _submission(folder)]


def sealed(labels: NDArray[Any], folder: Path) -> Callable[[], Iterable[Any]]:
    """Keep the labels in a sealed test set, as the meter does."""
    path = folder / f"labels-{len(labels)}.sealed"
    key = Identity.new()
    table = pa.table({"label": labels})
    seal(table, path, meter="bench", generation=1, label="label", recipients=[key.recipient])

    def groups() -> Iterable[Any]:
        with SealedTestSet.open(path, key, meter="bench", generation=1) as opened:
            for group in range(opened.row_groups):
                yield opened.labels(group)

    return groups


def _submission(folder: Path) -> Benchmark:
    """Time one submission of 10,000 rows against reading, comparing and committing one row."""
    meter, labels = _meter(folder)
    draw = np.random.default_rng(1)  # other predictions are another submission
    database = sqlite3.connect(folder / "plain.db", isolation_level=None)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("PRAGMA synchronous = FULL")
    database.execute("CREATE TABLE answers (loss REAL)")

    def write() -> tuple[Path, Path]:
        for name, rows in (("test", ROWS), ("validation", 100)):
            table = pa.table({"prediction": draw.integers(0, 2, rows)})
            pq.write_table(table, folder / f"{name}.parquet")
        return folder / "test.parquet", folder / "validation.parquet"

    def ours() -> bool:
        test, validation = write()
        return meter.submit(test, validation, model="model").step > 0

    def plain() -> bool:
        test, _ = write()
        loss = float(np.mean(pq.read_table(test).column(0).to_numpy() != labels))
        database.execute("INSERT INTO answers VALUES (?)", (loss,))
        return True

    return Benchmark(
        name=f"one submission of {ROWS:,} rows (reference: read, compare, commit a row)",
        ours=ours,
        reference=plain,
        at_most=10,
        seconds=0.05,
    )


@cache
def _meter(folder: Path) -> tuple[Meter, NDArray[Any]]:
    """Make a meter with a test set that answers as often as it is timed."""
    spec = MeterSpec.uniform(
        signals=1, tolerance=0.3, steps=1000, delta=0.1, classes=(0, 1), inputs="public"
    )
    meter = Meter.create(folder / "meter", spec, name="bench")
    random = np.random.default_rng(0)
    labels = random.integers(0, 2, ROWS)
    for name, rows in (("validation", 100), ("test", ROWS)):
        columns = {"x": random.normal(size=rows), "label": labels[:rows]}
        pq.write_table(pa.table(columns), folder / f"{name}-rows.parquet")
    meter.set_validation(folder / "validation-rows.parquet", label="label")
    meter.seal(folder / "test-rows.parquet", folder / "set.sealed", label="label")
    meter.add_test_set(folder / "set.sealed")
    return meter, labels


@cache
def _folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="bench-submission-"))
