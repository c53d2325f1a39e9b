"""Topped-up test sets as a whole: what developers can tell, and whether the promise holds."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.promise.sums import log_failure
from tests.properties.test_noninterference_in_a_folder import Side, perform
from tests.service.helpers import rows, small_spec, write_predictions

from easeml_meter.core.history import Delivered
from easeml_meter.core.questions.planning import labels_needed, required_labels
from easeml_meter.meter import Meter
from easeml_meter.promise import ledger
from easeml_meter.promise.numbers.rounding import as_written
from easeml_meter.promise.questions import Shown, measured_of
from easeml_meter.spec import MeterSpec

LATER = 1_000
"""Ids of the rows that join begin here: the validation set has others."""


def spec() -> MeterSpec:
    return small_spec(signals=2, edges=[0.5], steps=2, top_up=2, inputs="public")


def top_up(side: Side, labels: np.ndarray) -> tuple[object, str, str]:
    """Let the labeler of one side add rows; return what is shown of it."""
    table = rows(labels, seed=41).set_column(0, "id", pa.array(LATER + np.arange(len(labels))))
    pq.write_table(table, side.folder / "plain.parquet")
    with Meter.open(side.folder / "meter", clock=side.clock) as meter:
        sealed = side.folder / "more.sealed"
        meter.seal(side.folder / "plain.parquet", sealed, label="label", id_column="id")
        meter.add_test_set(sealed)
    return side.run("testset", "list", "--json")


def submitted(side: Side, salt: int, more: int = 0) -> tuple[object, str, str]:
    """Submit the same predictions on one side, for `more` rows than at first."""
    ids = np.concatenate([np.arange(labels_needed(side.spec, 1)), LATER + np.arange(more)])
    guess = np.random.default_rng(salt).integers(0, 2, len(ids))
    table = pa.table({"id": ids, "prediction": guess})
    pq.write_table(table, side.folder / "t.parquet")
    write_predictions(side.folder / "v.parquet", np.zeros(30, dtype=np.int64))
    return side.run("submit", "--test", "t.parquet", "--validation", "v.parquet", "--json")


def looks(sides: list[Side], salt: int) -> None:
    assert sides[0].answers() == sides[1].answers()
    for look in ("status", "history", "report", "audit"):
        shown = [perform(side, ("look", look), salt) for side in sides]
        assert shown[0] == shown[1]
    assert sides[0].files() == sides[1].files()


def hidden() -> list[np.ndarray]:
    """Return the labels of both stages."""
    sizes = (labels_needed(spec(), number) for number in (1, 2))
    return [np.random.default_rng(seed).integers(0, 2, size) for seed, size in enumerate(sizes)]


def shown_alike(*sets: list[np.ndarray]) -> None:
    """Tell the story of two developers whose test sets have these labels."""
    more = len(sets[0][1])
    with tempfile.TemporaryDirectory() as left, tempfile.TemporaryDirectory() as right:
        folders = (Path(left), Path(right))
        sides = [
            Side(folder, first, spec()) for folder, (first, _) in zip(folders, sets, strict=True)
        ]
        for salt in (1, 2, 3):  # the third one is refused: labels are missing
            shown = [submitted(side, salt) for side in sides]
            assert shown[0] == shown[1]
            looks(sides, salt)
        shown = [top_up(side, joining) for side, (_, joining) in zip(sides, sets, strict=True)]
        assert shown[0] == shown[1]
        for salt in (4, 5):
            shown = [submitted(side, salt, more) for side in sides]
            assert shown[0] == shown[1]
            looks(sides, salt)
        assert len(sides[0].answers()) == 4


def test_rows_of_neither_stage_show() -> None:
    others = [labels.copy() for labels in hidden()]
    for labels in others:
        labels[0] ^= 1
    shown_alike(hidden(), others)


def test_answers_show() -> None:
    """The test above can fail: on one side, the first model is right on all rows."""
    first, joining = hidden()
    right = np.random.default_rng(1).integers(0, 2, len(first))
    with pytest.raises(AssertionError):
        shown_alike([first, joining], [right, joining])


def climbing(rng: np.random.Generator, stages: list[Delivered]) -> int:
    """Run a developer who keeps the random changes that answers call worse, through both stages.

    Every model is wrong on half of all that could be asked: what it keeps is worse on the test set
    than in truth.
    """
    hidden = rng.integers(0, 2, stages[1].size).astype(bool)
    edge, broken = stages[0].spec.edges[0], 0
    model = rng.integers(0, 2, hidden.size).astype(bool)
    for on in stages:
        at = on.start(1).at
        while ledger.may(on.meter, at):
            changed = model.copy()
            some = rng.random(hidden.size) < 0.3
            changed[some] = rng.integers(0, 2, int(some.sum())).astype(bool)
            wrong = (changed != hidden)[: on.size].mean()
            broken |= abs(wrong - 0.5) > on.spec.tolerances[0]
            shown = Shown(on.size, as_written(0.5 - edge))
            decided = ledger.decide(on.meter, at, measured_of(shown, as_written(wrong)))
            at = decided.after
            if int(decided.answer) > 1:
                model = changed
    return int(broken)


def test_the_promise_holds_against_a_climber() -> None:
    """With the fewest labels that the plan allows at each stage."""
    meter = MeterSpec.uniform(signals=2, edges=[0.3], tolerance=0.15, steps=4, delta=0.2, top_up=4)
    specs = [meter.of_test_set(number) for number in (1, 2)]
    sizes = [required_labels(each).labels for each in specs]
    stages = [Delivered(specs[stage], sizes[stage], stage) for stage in (0, 1)]
    bound = sum(math.exp(log_failure(each.spec, each.size)) for each in stages)
    assert bound <= meter.delta
    rng = np.random.default_rng(8)
    runs = 2_000
    broken = sum(climbing(rng, stages) for _ in range(runs))
    assert 0 < broken / runs <= bound
