"""A month of nightly builds: is tonight's model better than the deployed one?

A meter asks "n - o > 0 +/- 0.05". The first submission is the deployed model. Every night a new one
is submitted; one that passes is deployed and promoted, so that the next nights compare with it.
"Pass" means truly better, for all nights together. Most nights change nothing, and some make the
model worse. The truth is known here, because the world is made up, and printed at the end.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from easeml_meter import Meter, MeterSpec

NIGHTS = 30
SPEC = MeterSpec(
    bands=(),
    question="n - o > 0 +/- 0.05",
    disagreement=0.2,
    passes=6,
    steps=NIGHTS,
    delta=0.05,
    inputs="public",
    classes=(0, 1),
)
Flags = NDArray[np.bool_]


def predictions(labels: NDArray[np.int64], right: Flags) -> pa.Table:
    """Predict the label where a model is right, and the other class elsewhere."""
    return pa.table({"prediction": np.where(right, labels, 1 - labels)})


def main(folder: Path) -> None:
    """Run the month."""
    random = np.random.default_rng(7)
    meter = Meter.create(folder / "meter", SPEC, name="nightly")
    rows, visible = meter.plan.labels, 200
    print(f"{rows:,} labels for {NIGHTS} nights")
    labels = random.integers(0, 2, rows + visible)
    table = pa.table({"x": random.normal(size=rows + visible), "label": labels})
    pq.write_table(table.slice(0, rows), folder / "hidden.parquet")
    pq.write_table(table.slice(rows), folder / "validation.parquet")
    meter.set_validation(folder / "validation.parquet", label="label")
    meter.seal(folder / "hidden.parquet", folder / "test.sealed", label="label")
    meter.add_test_set(folder / "test.sealed")

    accuracy = {"deployed": 0.6}
    deployed, right = "deployed", random.random(rows + visible) < accuracy["deployed"]
    for night in range(NIGHTS + 1):
        name, now = f"night-{night}", right
        if night == 0:
            name = deployed
        else:
            # Some rows are guessed anew: better on good nights, worse on bad ones.
            share, good = random.choice([0.02, 0.1, 0.15]), random.choice([0.3, 0.6, 0.99])
            changed = random.random(rows + visible) < share
            now = np.where(changed, random.random(rows + visible) < good, right)
            accuracy[name] = (1 - share) * accuracy[deployed] + share * good
        test = predictions(labels[:rows], now[:rows])
        validation = predictions(labels[rows:], now[rows:])
        signal = meter.submit(test, validation, model=name, baseline=night == 0)
        if signal.passed:
            meter.promote(name)
            print(f"{name}: pass, deployed; truly {accuracy[deployed]:.3f} -> {accuracy[name]:.3f}")
            deployed, right = name, now
        elif night:
            print(f"{name}: {signal.name}")
    print(f"deployed at the end: {deployed}, {meter.status().steps_left} answers left")
    print(f"problems found by the audit: {len(meter.audit().problems)}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as name:
            main(Path(name))
