"""An agent that tries 200 changes, and keeps those that the ladder lets through.

The meter asks "better": each model is compared with the last one that passed. The agent sees one
bit for each try, keep or discard, and what it keeps is truly better, for all tries together. Five
passes leave the test set in use. The truth is known here, because the world is made up.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from easeml_meter import Meter, MeterSpec
from easeml_meter.errors import Spent

TRIES = 200
SPEC = MeterSpec(
    bands=(),
    question="better",
    tolerance=0.05,
    disagreement=0.15,
    passes=5,
    steps=TRIES,
    delta=0.05,
    inputs="public",
    classes=(0, 1),
)


def main(folder: Path, tries: int = TRIES) -> None:
    """Let the agent work until it has no try, or the test set no answer left."""
    random = np.random.default_rng(3)
    meter = Meter.create(folder / "meter", SPEC, name="agent")
    rows, visible = meter.plan.labels, 200
    print(f"{rows:,} labels for {TRIES} tries")
    labels = random.integers(0, 2, rows + visible)
    table = pa.table({"x": random.normal(size=rows + visible), "label": labels})
    pq.write_table(table.slice(0, rows), folder / "hidden.parquet")
    pq.write_table(table.slice(rows), folder / "validation.parquet")
    meter.set_validation(folder / "validation.parquet", label="label")
    meter.seal(folder / "hidden.parquet", folder / "test.sealed", label="label")
    meter.add_test_set(folder / "test.sealed")

    kept, accuracy, climbed = random.random(rows + visible) < 0.55, 0.55, [0.55]
    for step in range(tries + 1):
        share, good = random.choice([0.05, 0.12]), random.choice([0.3, 0.5, 0.8, 0.99])
        changed = random.random(rows + visible) < (share if step else 0)
        tried = np.where(changed, random.random(rows + visible) < good, kept)
        guess = np.where(tried, labels, 1 - labels)
        test, validation = (pa.table({"prediction": part}) for part in (guess[:rows], guess[rows:]))
        try:
            signal = meter.submit(test, validation, model=f"try {step}", baseline=step == 0)
        except Spent as spent:
            print(f"stopped after {step} tries: {spent}")
            break
        if signal.passed:
            accuracy, kept = (1 - share) * accuracy + share * good, tried
            climbed.append(accuracy)
    steps = " -> ".join(f"{each:.3f}" for each in climbed)
    print(f"kept {len(climbed) - 1} of the tries; true accuracy {steps}")
    view = meter.status()
    print(f"fails: {sum(each.passed is False for each in view.signals)}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as name:
            main(Path(name))
