"""A scikit-learn model, exported to ONNX and submitted: `python onnx_from_scikit_learn.py`."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
from rich.console import Console
from setting import meter_with_sets
from skl2onnx import to_onnx
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from easeml_meter import MeterSpec, OnnxFile


def main(folder: Path) -> None:
    """Train on a third of the digits; the rest is split into hidden and visible rows."""
    images, digits = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(digits))
    images, digits = images[order].astype(np.float32), digits[order]
    train, rest = slice(0, 600), slice(600, None)
    pixels = {f"pixel_{i}": images[rest, i] for i in range(images.shape[1])}
    spec = MeterSpec.uniform(
        signals=3, edges=[0.03, 0.1], tolerance=0.09, steps=5, delta=0.05, models=True
    )
    spec = spec.replace(classes=tuple(range(10)))
    meter = meter_with_sets(folder, spec, pa.table({**pixels, "digit": digits[rest]}), "digit")

    pipeline = make_pipeline(StandardScaler(), LogisticRegression(max_iter=500))
    pipeline.fit(images[train], digits[train])
    # zipmap=False: class scores as plain numbers, not as a list of dictionaries.
    exported = to_onnx(pipeline, images[:1], options={"zipmap": False})
    (folder / "digits.onnx").write_bytes(exported.SerializeToString())
    Console().print(meter.submit_any(OnnxFile(folder / "digits.onnx"), model="logistic"))


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(tempfile.mkdtemp(prefix="onnx-")))
