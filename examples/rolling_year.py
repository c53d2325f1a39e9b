"""A year on a rolling test set, in a world that drifts.

Every week a batch of labels joins, one model is answered, and the oldest batch is released. What
separates the classes turns slowly, so the model and the validation set grow old. When the meter
shows a gap, the team trains on a batch that was released, and takes the newest one as validation
set. The truth is known here, because the world is made up: each answer is compared with the true
loss, averaged over the weeks of its window.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from easeml_meter import Meter, MeterSpec

WEEKS, WINDOW = 52, 13
NOISE, TURN = 0.05, np.pi / 180
SPEC = MeterSpec.uniform(
    tolerance=0.05,
    edges=[0.1, 0.2],
    steps=WEEKS,
    delta=0.01,
    window=WINDOW,
    inputs="public",
    classes=(0, 1),
)


class World:
    """Points around zero; a line through it separates the classes, and turns week by week."""

    def __init__(self) -> None:
        self.random, self.drawn = np.random.default_rng(5), 0

    def draw(self, week: int, rows: int) -> pa.Table:
        """Draw labelled rows of a week."""
        points = self.random.normal(size=(rows, 2))
        label = classes(points, TURN * week) ^ (self.random.random(rows) < NOISE)
        first, self.drawn = self.drawn, self.drawn + rows
        ids = np.arange(first, self.drawn)
        return pa.table({"id": ids, "x": points[:, 0], "y": points[:, 1], "label": label * 1})

    @staticmethod
    def loss(angle: float, week: int) -> float:
        """Return how often a line at some angle is wrong in a week."""
        apart = abs((angle - TURN * week + np.pi) % (2 * np.pi) - np.pi) / np.pi
        return NOISE + (1 - 2 * NOISE) * apart


def classes(points: np.ndarray, angle: float) -> np.ndarray:
    """Tell on which side of a line points lie."""
    return points @ [np.cos(angle), np.sin(angle)] > 0


def points_of(table: pa.Table) -> np.ndarray:
    return np.column_stack([table["x"], table["y"]])


def predictions(table: pa.Table, angle: float) -> pa.Table:
    """Predict the class of each row."""
    guess = classes(points_of(table), angle) * 1
    return pa.table({"id": table["id"], "prediction": guess})


def trained(table: pa.Table) -> float:
    """Find the line with the fewest errors."""
    angles = np.linspace(0, 2 * np.pi, 721)
    wrong = [(classes(points_of(table), each) != table["label"]).mean() for each in angles]
    return float(angles[int(np.argmin(wrong))])


def main(folder: Path, weeks: int = WEEKS) -> None:
    """Live through some weeks of the year."""
    world, meter = World(), Meter.create(folder / "meter", SPEC, name="year")
    batch = meter.plan.labels
    first = pa.concat_tables([world.draw(week, batch) for week in range(WINDOW)])
    print(f"{first.num_rows:,} labels to begin with, then {batch} a week")
    seen, validation = (
        pa.concat_tables([world.draw(week, 80) for week in range(WINDOW)]) for _ in range(2)
    )
    meter.set_validation(validation, label="label", id_column="id")
    angle, since, right = trained(seen), 0, 0
    for week in range(weeks):
        new = first if week == 0 else world.draw(WINDOW - 1 + week, batch)
        meter.seal(new, folder / f"{week}.sealed", label="label", id_column="id")
        meter.add_test_set(folder / f"{week}.sealed")
        meter.export_inputs(folder / f"{week}.parquet")
        hidden = pq.read_table(folder / f"{week}.parquet")
        signal = meter.submit(
            predictions(hidden, angle), predictions(validation, angle), model=f"week {since}"
        )
        loss = np.mean([world.loss(angle, week + each) for each in range(WINDOW)])
        lower, upper = signal.true_gap or (0.0, 1.0)
        kept = lower <= abs(loss - (signal.validation_loss or 0.0)) <= upper
        right += int(kept)
        print(
            f"week {week + 1}: band {signal.answer}, validation {signal.validation_loss:.3f}, "
            f"truth {loss:.3f} over the window{'' if kept else ': the promise is broken'}"
        )
        *_, older, newest = [0, 0, *(each.number for each in meter.batches())]
        if signal.answer > 1 and older:
            seen, validation = (
                pq.read_table(meter.fetch_batch(each, folder / f"{week}-{each}.parquet"))
                for each in (older, newest)
            )
            meter.replace_validation(validation, label="label", id_column="id")
            angle, since = trained(seen), week + 1
            print(f"  trained on batch {older} and validated on batch {newest}, both released")
    print(f"{right} of {weeks} answers were right; battery {meter.status().battery:.0%}")
    print(f"batches released: {len(meter.batches())}")
    print(f"problems found by the audit: {len(meter.audit().problems)}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]), *map(int, sys.argv[2:]))
    else:
        with tempfile.TemporaryDirectory() as name:
            main(Path(name))
