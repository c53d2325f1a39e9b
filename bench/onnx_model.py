"""An ONNX model run in its sandbox, next to onnxruntime on matrices that are ready in memory."""

from __future__ import annotations

import math
import os
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bench import Benchmark
from easeml_meter.scoring.classes import Classes
from easeml_meter.scoring.losses import ZeroOne
from easeml_meter.scoring.onnx_model import OnnxModel
from easeml_meter.scoring.outputs import Expected
from easeml_meter.scoring.predictor import Limits

FEATURES = 20
TREES = 100
DEPTH = 6
BATCH_ROWS = 1 << 16
LIMITS = Limits()


def benchmarks(*, small: bool) -> list[Benchmark]:
    """List them; the small one takes half a second."""
    rows, trees = (1000, 3) if small else (10**6, TREES)
    content = boosted(trees)
    model = OnnxModel.of(content, Expected(rows, ZeroOne(), Classes.of([0, 1])))
    return [
        Benchmark(
            name=f"ONNX: {trees} boosted trees on {rows:,} x {FEATURES}",
            ours=lambda: predicted(model, rows),
            reference=lambda: bare(content, rows),
            at_most=math.inf if small else 1.3,
            agree=np.array_equal,
        )
    ]


def predicted(model: OnnxModel, rows: int) -> NDArray[Any]:
    """Run the model as the meter does, from columns to checked answers."""
    batches = in_memory(rows)
    answers = model.predict(batches[0].schema, batches, LIMITS, hidden=True)
    return np.concatenate([batch.column(0).to_numpy() for batch in answers])


# --- The plain way ---


def bare(content: bytes, rows: int) -> NDArray[Any]:
    """Run the model in this process, on matrices of the right type."""
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = LIMITS.threads
    session = ort.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    given = matrices(rows)
    return np.concatenate([session.run(["label"], {"X": matrix})[0] for matrix in given])


# --- Data ---


@cache
def boosted(trees: int) -> bytes:
    """Train gradient boosting, with trees of the depth that XGBoost takes by default."""
    from skl2onnx import to_onnx
    from sklearn.ensemble import GradientBoostingClassifier

    rows = np.random.default_rng(0).normal(size=(2000, FEATURES)).astype(np.float32)
    labels = (rows[:, 0] * rows[:, 1] + rows[:, 2] > 0).astype(np.int64)
    model = GradientBoostingClassifier(n_estimators=trees, max_depth=DEPTH, random_state=0)
    exported = to_onnx(model.fit(rows, labels), rows[:1], options={"zipmap": False})
    content: bytes = exported.SerializeToString()
    return content


@cache
def in_memory(rows: int) -> list[Any]:
    """Make a table of float64 columns."""
    random = np.random.default_rng(rows)
    columns = {f"x{place}": random.normal(size=rows) for place in range(FEATURES)}
    batches: list[Any] = pa.table(columns).to_batches(max_chunksize=BATCH_ROWS)
    return batches


@cache
def matrices(rows: int) -> list[NDArray[np.float32]]:
    """Make the same, as the model takes it."""
    return [
        np.stack([column.to_numpy() for column in batch.columns], axis=1).astype(np.float32)
        for batch in in_memory(rows)
    ]
