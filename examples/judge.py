"""A judge that is right in 95 % of the cases, and 1,000 labels.

A meter promises the error of every model within 5 points. Labels alone would be too few for
that; a large language model has judged 100,000 further inputs, and its words stand in for labels
there. When the test set is sealed, the meter checks once that the judge errs on at most 7 % of the
labels. A poor judge is not worth it, and the plan says so. The truth is known here: the world is
made up.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from easeml_meter import Meter, MeterSpec, plan_question

LABELS, POOL, STEPS = 1_000, 100_000, 10
ASKED: dict[str, Any] = {"pool": POOL, "steps": STEPS, "tolerance": 0.05, "delta": 0.05}
Classes = NDArray[np.int64]


def other(random: np.random.Generator, truth: Classes, error: float) -> Classes:
    """Predict the truth, but for a share of errors."""
    return np.where(random.random(len(truth)) < error, (truth + 1) % 3, truth)


def main(folder: Path) -> None:
    """Plan with judges good and poor, then ask with the good one."""
    random = np.random.default_rng(11)
    for error in (0.07, 0.2):
        plan = plan_question(judge_error=error, **ASKED)
        print(f"judge error {error:g}: {plan.size:,} labels; {plan.notes[0]}")

    spec = MeterSpec.uniform(
        judge_error=0.07,
        rows=LABELS,
        classes=(0, 1, 2),
        inputs="public",
        **ASKED,
    )
    meter = Meter.create(folder / "meter", spec, name="judge")
    truth = random.integers(0, 3, LABELS + POOL)
    known = [int(each) if i < LABELS else None for i, each in enumerate(truth)]
    rows = {
        "x": random.normal(size=len(truth)),
        "label": known,
        "judge": other(random, truth, 0.05),
    }
    pq.write_table(pa.table(rows), folder / "hidden.parquet")
    own = random.integers(0, 3, 500)
    pq.write_table(pa.table({"x": random.normal(size=500), "label": own}), folder / "own.parquet")
    meter.set_validation(folder / "own.parquet", label="label")
    meter.seal(folder / "hidden.parquet", folder / "test.sealed", label="label", judge="judge")
    meter.add_test_set(folder / "test.sealed")

    kept = 0
    for step, error in enumerate(np.linspace(0.4, 0.1, STEPS), 1):
        # From the sixth on, the team has learnt its validation set by heart.
        shown = other(random, own, error if step < 6 else 0.01)
        test = pa.table({"prediction": other(random, truth, error)})
        signal = meter.submit(test, pa.table({"prediction": shown}), model=f"model {step}")
        least, most = signal.true_loss_at_least or 0.0, signal.true_loss_at_most
        kept += least <= error <= (1.0 if most is None else most)
        gap = signal.gap or (0.0, 1.0)
        print(f"step {step}: gap {gap[0]:g} to {gap[1]:g}, true error {error:.3f}")
    print(f"promises kept: {kept} of {STEPS}")
    meter.release()
    print(f"problems found by the audit: {len(meter.audit().problems)}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as name:
            main(Path(name))
