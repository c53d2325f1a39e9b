"""A week of candidates, and labels only where they differ from the deployed model.

A team asks of ten candidates whether each is better than the deployed model by more than 2 points.
The test set has inputs and no labels. Each candidate waits until the labelers have given the labels
that it needs, always the same number, so that the bill tells nothing. The truth is known here: the
world is made up.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from easeml_meter import Meter, MeterSpec, Waiting

STEPS, CHANGED, WRONG = 10, 0.04, 1 / 3
Classes = NDArray[np.int64]


def changed(random: np.random.Generator, old: Classes, truth: Classes, right: float) -> Classes:
    """Change some predictions; a share `right` of them is then right."""
    rows = random.random(len(old)) < CHANGED
    better = np.where(random.random(len(old)) < right, truth, (truth + 1) % 10)
    return np.where(rows, better, old)


def main(folder: Path) -> None:
    """Buy labels, step by step."""
    random = np.random.default_rng(5)
    spec = MeterSpec(
        bands=(),
        question="n - o > 0.02 +/- 0.01",
        disagreement=0.05,
        steps=STEPS,
        delta=0.01,
        on_demand=True,
        classes=tuple(range(10)),
        inputs="public",
    )
    meter = Meter.create(folder / "meter", spec, name="on demand")
    size = meter.plan.labels
    print(f"{size:,} inputs; {meter.plan.to_dict()['notes'][0]}")
    truth = random.integers(0, 10, size)
    ids = [f"row {number}" for number in range(size)]
    own = random.integers(0, 10, 300)
    validation = pa.table({"x": random.normal(size=300), "label": own})
    meter.set_validation(validation, label="label")
    inputs = pa.table({"id": ids, "x": random.normal(size=size)})
    meter.seal(inputs, folder / "test.sealed", id_column="id", columns=["x"])
    meter.add_test_set(folder / "test.sealed")

    # The deployed model is wrong in every third case; a right change is then often a gain.
    old = np.where(random.random(size) < WRONG, (truth + 1) % 10, truth)
    shown = pa.table({"prediction": own})
    meter.submit(pa.table({"id": ids, "prediction": old}), shown, model="deployed", baseline=True)
    bought, kept = 0, 0
    for step in range(1, STEPS + 1):
        good = step % 3 == 0
        # A good candidate mends errors of the deployed one; the others change things at random.
        mended = np.where((old != truth) & (random.random(size) < 3 * CHANGED), truth, old)
        new = mended if good else changed(random, old, truth, 0.6)
        files = pa.table({"id": ids, "prediction": new}), shown
        try:
            meter.submit(*files, model=f"candidate {step}")
        except Waiting as waits:
            print(f"step {step}: {waits}")
        asked = meter.wanted()
        if asked is not None:  # what the labelers do
            known = {each: str(truth[int(each.split()[1])]) for each in asked.ids}
            labels = pa.table({"id": list(known), "label": list(known.values())})
            bought += meter.give_labels(labels, label="label").labels
        signal = meter.submit(*files, model=f"candidate {step}")
        # How accurate either is on all that could be drawn: nobody else knows that.
        gain = 3 * CHANGED * WRONG if good else CHANGED * (0.6 - (1 - WRONG))
        kept += int(gain > 0.02 or not signal.passed)
        print(f"step {step}: {signal.name}, truly {gain:+.3f}, {bought:,} labels so far")
    print(f"promises kept: {kept} of {STEPS}")
    meter.release()
    print(f"problems found by the audit: {len(meter.audit().problems)}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as name:
            main(Path(name))
