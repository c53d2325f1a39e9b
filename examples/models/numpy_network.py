"""A neural network in numpy with its weights, run in the sandbox: `python numpy_network.py`."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
from rich.console import Console
from setting import meter_with_sets
from sklearn.datasets import make_moons
from sklearn.neural_network import MLPClassifier

from easeml_meter import Command, MeterSpec

HERE = Path(__file__).parent


def main(folder: Path) -> None:
    """Train on 200 points; the model answers with one logit per class."""
    points, moons = make_moons(2000, noise=0.25, random_state=0)
    spec = MeterSpec.uniform(
        signals=3, edges=[0.05, 0.15], tolerance=0.1, steps=4, delta=0.05, models=True
    )
    rows = pa.table({"x": points[200:, 0], "y": points[200:, 1], "moon": moons[200:]})
    meter = meter_with_sets(folder, spec.replace(classes=(0, 1)), rows, "moon")

    network = MLPClassifier((8,), activation="tanh", max_iter=2000, random_state=0)
    network.fit(points[:200], moons[:200])
    (first, second), (first_bias, second_bias) = network.coefs_, network.intercepts_
    source = folder / "source"
    source.mkdir()
    shutil.copy(HERE / "commands" / "network.py", source)
    both = {"second": np.hstack([-second, second]), "second_bias": np.r_[-second_bias, second_bias]}
    np.savez(source / "weights.npz", first=first, first_bias=first_bias, **both)
    submitted = Command.of("python network.py", [source / "weights.npz"], source)
    Console().print(meter.submit_any(submitted, model="8 tanh units"))


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(tempfile.mkdtemp(prefix="network-")))
