"""A season of releases: three questions on one test set and one budget.

Every week brings a candidate, and the first question is whether it is better than the last one
that was kept. One that is kept is asked whether it is good enough to ship, above 80 %. Before it is
shipped, a reading of the gap says whether the validation set is worn out; in this story it is, from
the fifth week on. Each question is asked because of the answers before, its price is known before
it is asked, and all answers together are right with probability 95 %. The truth is known here,
because the world is made up, and printed beside every answer.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from easeml_meter import Meter, MeterSpec, Signal

SHIP = "n > 0.8 +/- 0.05"
SPEC = MeterSpec.uniform(
    tolerance=0.05,
    edges=[0.1],
    steps=10,
    delta=0.05,
    also=("better", SHIP),
    disagreement=0.2,
    inputs="public",
    classes=(0, 1),
)
OWN = 400
"""Rows of the validation set."""
FIXED = [0.0, 0.35, 0.03, 0.35, 0.04, 0.45, 0.02]
"""The share of its errors that each week's candidate has fixed."""
BROKEN = 0.01
"""The share of what was right that every candidate breaks."""
Flags = NDArray[np.bool_]


class Team:
    """A team and its meter."""

    def __init__(self, folder: Path, random: np.random.Generator) -> None:
        """Make the meter, its validation set and its test set."""
        self.meter, self.random = Meter.create(folder / "meter", SPEC, name="season"), random
        self.rows = self.meter.plan.labels
        print(f"{self.rows:,} labels for {SPEC.steps} answers, whatever is asked")
        self.labels = random.integers(0, 2, self.rows + OWN)
        table = pa.table({"x": random.normal(size=len(self.labels)), "label": self.labels})
        pq.write_table(table.slice(0, self.rows), folder / "hidden.parquet")
        pq.write_table(table.slice(self.rows), folder / "validation.parquet")
        self.meter.set_validation(folder / "validation.parquet", label="label")
        self.meter.seal(folder / "hidden.parquet", folder / "test.sealed", label="label")
        self.meter.add_test_set(folder / "test.sealed")

    def ask(self, question: str, right: Flags, accuracy: float, week: int) -> Signal:
        """Look at the price, then ask."""
        price = next(each for each in self.meter.status().prices if each.question == question)
        shown = right.copy()
        if week >= 5:  # the validation set is learnt by heart
            shown[self.rows :] |= self.random.random(OWN) < 0.9
        told = pa.table({"prediction": np.where(shown, self.labels, 1 - self.labels)})
        test, validation = told.slice(0, self.rows), told.slice(self.rows)
        signal = self.meter.submit(test, validation, model=f"week-{week}", ask=question)
        said = signal.name if signal.gap is None else f"gap {signal.gap[0]:g} to {signal.gap[1]:g}"
        cost = f"{price.nats:.1f} nats, {price.answers} left"
        print(f"week {week}: {question} ({cost})? {said}; true accuracy {accuracy:.3f}")
        return signal


def main(folder: Path) -> None:
    """Live through the season."""
    random = np.random.default_rng(3)
    team = Team(folder, random)
    right, accuracy = random.random(team.rows + OWN) < 0.6, 0.6
    for week, fixed in enumerate(FIXED):
        draw = random.random(len(right))
        candidate = np.where(right, draw >= BROKEN, draw < fixed)
        truly = accuracy * (1 - BROKEN) + (1 - accuracy) * fixed
        this = (candidate, truly, week)
        # The first submission is the old model of the first comparison.
        if week and not team.ask("better", *this).passed:
            continue
        if not week or team.ask(SHIP, *this).passed:
            team.ask("gap", *this)
        right, accuracy = candidate, truly
    left = ", ".join(f"{each.answers} of {each.question}" for each in team.meter.status().prices)
    print(f"answers left: {left}")
    team.meter.retire()
    team.meter.release()
    print(f"problems found by the audit: {len(team.meter.audit().problems)}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as name:
            main(Path(name))
