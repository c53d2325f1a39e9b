"""A fraud model by its F1: 3 % of the payments are fraud, and accuracy says nothing.

A meter promises the F1 of every version within 0.05, as long as it is at least 0.7. What counts are
the frauds in the test set, so the plan says how many of them are needed, and how many payments to
draw for that. Whether there are enough shows when the test set is sealed; a second draw would need
a plan for two. The team then raises the threshold of its model step by step, by looking at the
validation set too often. The truth is known here, because the world is made up.
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

from easeml_meter import Meter, MeterSpec, Signal, plan_question

SHARE, STEPS = 0.03, 8
ASKED: dict[str, Any] = {"steps": STEPS, "tolerance": 0.05, "delta": 0.05, "floor": 0.7}
Texts = NDArray[np.str_]


def payments(random: np.random.Generator, rows: int) -> tuple[Texts, NDArray[np.float64]]:
    """Return labels, and how suspicious each payment looks to the team's model."""
    fraud = random.random(rows) < SHARE
    return np.where(fraud, "fraud", "fine"), random.normal(fraud * 3.4, 1.0)


def called(suspicion: NDArray[np.float64], threshold: float) -> pa.Table:
    """Predict fraud above a threshold."""
    return pa.table({"prediction": np.where(suspicion > threshold, "fraud", "fine")})


def f1(labels: Texts, predicted: pa.Table) -> float:
    """Return the F1 of fraud."""
    positive = labels == "fraud"
    named = predicted["prediction"].to_numpy() == "fraud"
    return float(2 * np.count_nonzero(positive & named) / (positive.sum() + named.sum()))


def told(signal: Signal) -> str:
    """Say what an answer tells of the gap in F1 between validation and test set."""
    if signal.gap is None:
        return signal.name
    return f"gap {signal.gap[0]:g} to {signal.gap[1]:g}"


def main(folder: Path) -> None:
    """Plan, seal and ask."""
    random = np.random.default_rng(3)
    plan = plan_question(metric="f1", prevalence=SHARE, **ASKED)
    print(f"{plan.size:,} frauds needed, so {plan.rows:,} payments are drawn")
    spec = MeterSpec.uniform(
        loss="f1[fraud]", classes=("fraud", "fine"), rows=plan.rows, inputs="public", **ASKED
    )
    meter = Meter.create(folder / "meter", spec, name="fraud")
    labels, seen = payments(random, spec.rows or 0)
    known, own = payments(random, 4_000)
    pq.write_table(pa.table({"suspicion": seen, "label": labels}), folder / "hidden.parquet")
    pq.write_table(pa.table({"suspicion": own, "label": known}), folder / "validation.parquet")
    meter.set_validation(folder / "validation.parquet", label="label")
    meter.seal(folder / "hidden.parquet", folder / "test.sealed", label="label")
    meter.add_test_set(folder / "test.sealed")

    world, looks = payments(random, 1_000_000)
    kept = 0
    for step in range(STEPS):
        threshold = 1.6 + 0.25 * step
        test, validation = called(seen, threshold), called(own, threshold)
        if step >= STEPS - 2:  # a version that has learnt the validation set by heart
            validation = pa.table({"prediction": np.where(own > 1.0, known, "fine")})
        signal = meter.submit(test, validation, model=f"threshold {threshold:g}")
        truth, claimed = f1(world, called(looks, threshold)), f1(known, validation)
        print(f"step {signal.step}: {told(signal)}; F1 claimed {claimed:.3f}, truly {truth:.3f}")
        least, most = signal.true_loss_at_least or 0.0, signal.true_loss_at_most
        kept += least <= 1 - truth <= (1.0 if most is None else most)
    print(f"promises kept: {kept} of {STEPS}")
    meter.release()
    print(f"problems found by the audit: {len(meter.audit().problems)}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as name:
            main(Path(name))
