"""A submitted command in the sandbox, next to the same command outside on the same stream."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from bench import Benchmark
from easeml_meter.scoring.bundle import Bundle, BundledFile
from easeml_meter.scoring.command import CommandModel
from easeml_meter.scoring.predictor import Limits

FEATURES = 20
BATCH_ROWS = 1 << 16
PROGRAM = b"""
import sys
import numpy as np
import pyarrow as pa

answers = pa.schema([("prediction", pa.int64())])
with pa.ipc.open_stream(sys.stdin.buffer) as inputs:
    with pa.ipc.new_stream(sys.stdout.buffer, answers) as output:
        for batch in inputs:
            total = sum(column.to_numpy() for column in batch.columns)
            output.write_batch(pa.record_batch([(total > 0).astype(np.int64)], schema=answers))
"""


def benchmarks(*, small: bool) -> list[Benchmark]:
    """List the only one."""
    rows = 1000 if small else 10**6
    values = np.random.default_rng(0).normal(size=(FEATURES, rows))
    table = pa.table({f"x{place}": column for place, column in enumerate(values)})
    batches = table.to_batches(BATCH_ROWS)
    return [
        Benchmark(
            name=f"a command in the sandbox, {rows:,} rows (reference: outside)",
            ours=lambda: in_the_sandbox(batches),
            reference=lambda: outside(batches),
            at_most=1.5,
        )
    ]


def in_the_sandbox(batches: list[Any]) -> int:
    """Sum up what the command predicts inside."""
    model = CommandModel(Bundle("python predict.py", (BundledFile("predict.py", PROGRAM),)))
    answers = model.predict(batches[0].schema, batches, Limits(), hidden=True)
    return sum(int(batch.column(0).to_numpy().sum()) for batch in answers)


# --- The plain way ---


def outside(batches: list[Any]) -> int:
    """Sum up what the same command predicts when it is just started."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "predict.py")
        path.write_bytes(PROGRAM)
        command = [sys.executable, str(path)]
        with subprocess.Popen(  # noqa: S603
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as process:
            assert process.stdin
            assert process.stdout
            feeding = threading.Thread(target=_feed, args=(process.stdin, batches))
            feeding.start()
            with pa.ipc.open_stream(process.stdout) as answers:
                total = sum(int(batch.column(0).to_numpy().sum()) for batch in answers)
            feeding.join()
    return total


def _feed(pipe: Any, batches: list[Any]) -> None:
    with pipe, pa.ipc.new_stream(pipe, batches[0].schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
