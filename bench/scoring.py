"""Scoring 0-1 predictions from a Parquet file, next to reading it and comparing in memory.

Joining predictions by their ids is compared with reading the same columns of the same file.
"""

from __future__ import annotations

import math
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bench import Benchmark, folder
from easeml_meter.scoring.classes import Classes
from easeml_meter.scoring.ids import CommittedIds
from easeml_meter.scoring.losses import ZeroOne
from easeml_meter.scoring.outputs import Expected
from easeml_meter.scoring.predictions import Predictions
from easeml_meter.scoring.score import score
from easeml_meter.tables.opening import open_raw
from easeml_meter.tables.spelling import OrderDigest

CLASSES = 10
GROUP_ROWS = 1 << 20
MOST_MEGABYTES = 600
MOST_JOINED_MEGABYTES = 650

SIZES = (10**5, 10**6, 10**7)
JOINED = 5 * 10**6


def benchmarks() -> list[Benchmark]:
    """List them."""
    memory = Benchmark(
        name=f"score {SIZES[-1]:,} rows, as a process, within {MOST_MEGABYTES} MB",
        ours=lambda: in_a_process("errors", written(SIZES[-1])) <= MOST_MEGABYTES,
        reference=lambda: in_a_process("plain_errors", written(SIZES[-1])) > 0,
        at_most=2.5,
    )
    return [*map(scoring, SIZES), memory, *joining(JOINED)]


def joining(rows: int) -> list[Benchmark]:
    """Compare joining ids, in order and shuffled, with reading them; and watch the memory."""
    found = []
    for order, at_most in (("in order", 3.0), ("shuffled", 8.0)):
        path = with_ids(rows, shuffled=order == "shuffled")
        found.append(
            Benchmark(
                name=f"join {rows:,} rows by ids {order}",
                ours=partial(joined, path),
                reference=partial(read, path),
                at_most=at_most,
            )
        )
    path = with_ids(rows, shuffled=True)
    memory = Benchmark(
        name=f"join {rows:,} shuffled rows, as a process, within {MOST_JOINED_MEGABYTES} MB",
        ours=lambda: in_a_process("joined", path) <= MOST_JOINED_MEGABYTES,
        reference=lambda: in_a_process("read", path) > 0,
        at_most=8.0,
    )
    return [*found, memory]


def joined(path: Path) -> int:
    """Open predictions as the meter does, and join them to ids in a file; return the rows."""
    with pq.ParquetFile(path.with_name("ids.parquet")) as file:
        rows = file.metadata.num_rows

        def ids() -> Iterator[Any]:
            return (batch.column(0) for batch in file.iter_batches(1 << 17))

        committed = CommittedIds("the test set", "id", _order_digest(path), ids)
        expected = Expected(rows, ZeroOne(), Classes.of(range(CLASSES)))
        found = Predictions.open(path, expected=expected, ids=committed)
    return found.joined.matched or 0


def read(path: Path) -> int:
    """Read the same columns without a look at them, and digest the file, as the meter does."""
    table = open_raw(path, texts=["id"])
    table.digest()
    return sum(batch.num_rows for batch in table.batches(["prediction", "id"]))


def scoring(rows: int) -> Benchmark:
    """Compare both ways at one size, with the labels in a plain Parquet file."""
    path = written(rows)
    return Benchmark(
        name=f"score {rows:,} rows",
        ours=lambda: errors(path),
        reference=lambda: plain_errors(path),
        at_most=2.5 if rows >= 10**6 else math.inf,  # below, it is about milliseconds
    )


def errors(path: Path) -> int:
    """Count the errors as the meter does, with every check."""
    with pq.ParquetFile(path.with_name(f"labels-{path.name}")) as file:
        expected = Expected(file.metadata.num_rows, ZeroOne(), Classes.of(range(CLASSES)))
        groups = (file.read_row_group(group).column(0) for group in range(file.num_row_groups))
        predictions = Predictions.open(path, expected=expected)
        return int(score(predictions, groups).sums.losses)


# --- The plain way ---


def plain_errors(path: Path) -> int:
    """Read both whole files and compare."""
    read = (pq.read_table(each) for each in (path, path.with_name(f"labels-{path.name}")))
    predictions, labels = (table.column(0).to_numpy() for table in read)
    return int(np.count_nonzero(predictions != labels))


# --- Data ---


@cache
def written(rows: int) -> Path:
    """Write predictions that are right nine times out of ten, and the labels."""
    random = np.random.default_rng(rows)
    labels = random.integers(0, CLASSES, rows)
    wrong = random.random(rows) < 0.1
    predictions = np.where(wrong, random.integers(0, CLASSES, rows), labels)
    path = folder() / f"predictions-{rows}.parquet"
    pq.write_table(pa.table({"prediction": predictions}), path)
    labels_path = path.with_name(f"labels-{path.name}")
    pq.write_table(pa.table({"label": labels}), labels_path, row_group_size=GROUP_ROWS)
    return path


@cache
def with_ids(rows: int, *, shuffled: bool) -> Path:
    """Write predictions with ids, in the order of the set or in another one, and the set's ids."""
    place = folder() / f"{rows} {'shuffled' if shuffled else 'in order'}"
    place.mkdir()
    random = np.random.default_rng(rows)
    ids = pc.binary_join_element_wise("row-", pa.array(np.arange(rows)).cast(pa.string()), "")
    table = pa.table({"id": ids, "prediction": random.integers(0, CLASSES, rows)})
    order = OrderDigest()
    order.update(ids)
    (place / "order").write_text(order.hexdigest())
    pq.write_table(table.select(["id"]), place / "ids.parquet", row_group_size=1 << 17)
    if shuffled:
        table = table.take(random.permutation(rows))
    pq.write_table(table, place / "predictions.parquet")
    return place / "predictions.parquet"


def _order_digest(path: Path) -> str:
    return path.with_name("order").read_text()


def in_a_process(way: str, path: Path) -> float:
    """Score in a process of its own, one way or the other, and give its peak in megabytes."""
    root = Path(__file__).parent.parent
    command = [sys.executable, "-m", "bench.scoring", way, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=root)  # noqa: S603
    return float(done.stdout)


def _peak_megabytes() -> float:
    # Not getrusage: a child's ru_maxrss starts with what its parent held.
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return int(found[1]) / 1024 if found else 0.0


WAYS = {"errors": errors, "plain_errors": plain_errors, "joined": joined, "read": read}


if __name__ == "__main__":
    WAYS[sys.argv[1]](Path(sys.argv[2]))
    print(_peak_megabytes())
