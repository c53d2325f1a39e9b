"""Rolling test sets: golden batches, and the best of all developers with released labels."""

from __future__ import annotations

import itertools
import json
import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from tests.promise import sums

from easeml_meter.core.questions.bands import Bands
from easeml_meter.core.questions.planning import Budget, required_size
from easeml_meter.core.questions.rolling import Rolling
from easeml_meter.errors import InvalidInput
from easeml_meter.promise.numbers.bounds import Bound
from easeml_meter.promise.numbers.tails import log_tail
from easeml_meter.promise.solve import smallest

GOLDEN = {
    row["name"]: row["n"]
    for row in json.loads((Path(__file__).parents[2] / "data/golden-2.json").read_text("utf-8"))
}


@pytest.mark.parametrize(
    ("name", "window", "drawn", "batch"),
    [
        (
            "G window n, W=52, b=2, S=52, eps=delta=.01 (k = 3,989 per step)",
            52, None, 3_989,
        ),
        (
            "G window n, W=52, dither .2, S=52, eps=delta=.01 (k = 1,116 per step)",
            52, 0.2, 1_116,
        ),
        (
            "G window n, W=13, b=2, S=52, eps=delta=.01 (k = 5,746 per step)",
            13, None, 5_746,
        ),
    ],
)  # fmt: skip
def test_golden_windows_and_batches(
    name: str, window: int, drawn: float | None, batch: int
) -> None:
    question = Rolling(Bands(0.01, drawn=drawn), window)
    assert required_size(question, Budget(52, 0.01)).size == batch
    nats = sums.log_count(question, 52) - math.log(0.01)
    labels = smallest(lambda n: nats + log_tail(Bound.EXACT, n, 0.01), 400_000)
    assert labels == GOLDEN[name]


@pytest.mark.parametrize(
    ("tolerance", "window", "drawn", "submissions", "batch"),
    [
        (0.02, 52, None, 1, 998),
        (0.02, 52, 0.2, 1, 383),
        (0.05, 52, None, 1, 160),
        (0.05, 4, None, 1, 451),
        (0.05, 52, 0.25, 1, 91),
        (0.01, 26, 0.05, 1, 2_891),
        (0.05, 13, None, 5, 801),
        (0.05, 13, 0.25, 5, 454),
    ],
)
def test_other_batches(
    tolerance: float, window: int, drawn: float | None, submissions: int, batch: int
) -> None:
    question = Rolling(Bands(tolerance, drawn=drawn), window, submissions)
    assert required_size(question, Budget(52, 0.01)).size == batch


def test_no_developer_with_released_labels_beats_the_count() -> None:
    """Three batches of two examples of three kinds, W = 2: the second step, every strategy.

    The first answer is about batches 1 and 2, and batch 1 is released before the second model is
    chosen. It is measured on batches 2 and 3.
    """
    tolerance, width = Fraction(1, 3), Fraction(2, 3)
    batches = list(itertools.product(range(3), repeat=2))
    pairs = list(itertools.product(batches, repeat=2))
    models = list(itertools.product((0, 1), repeat=3))

    def loss(model: tuple[int, ...], rows: tuple[int, ...]) -> Fraction:
        return Fraction(sum(model[row] for row in rows), len(rows))

    def is_wrong(model: tuple[int, ...], rows: tuple[int, ...]) -> bool:
        return abs(loss(model, rows) - Fraction(sum(model), 3)) > tolerance

    # How often the second model is wrong, given its window's first batch.
    later = np.array(
        [
            [sum(is_wrong(m, second + third) for third in batches) for second in batches]
            for m in models
        ]
    )
    best = 0
    for model, claimed in itertools.product(models, (Fraction(k, 6) for k in range(7))):
        total = 0
        for first in batches:
            answers: dict[int, list[int]] = {}
            for index, second in enumerate(batches):
                if not is_wrong(model, first + second):
                    gap = abs(claimed - loss(model, first + second))
                    answers.setdefault(gap // width, []).append(index)
            total += sum(int(later[:, told].sum(axis=1).max()) for told in answers.values())
        best = max(best, total)
    one = max(sum(is_wrong(m, a + b) for a, b in pairs) for m in models) / len(pairs)
    found = best / len(batches) ** 3
    question = Rolling(Bands(float(tolerance), 2, (float(width),)), 2)
    assert one < found <= 2 * one
    assert 2 * one <= math.exp(sums.log_count(question, 1) + sums.log_tail(question, 2))


def test_drift_inside_a_window_keeps_the_tail() -> None:
    rng = np.random.default_rng(3)
    question = Rolling(Bands(0.05), 8)
    bound = math.exp(sums.log_tail(question, 25))
    for _ in range(20):
        rates = rng.uniform(0, 1, 8) if rng.random() < 0.7 else np.full(8, 0.5)
        seen = rng.binomial(25, rates, (50_000, 8)).sum(axis=1) / 200
        assert (np.abs(seen - rates.mean()) > 0.05).mean() <= bound


def test_a_plan_says_what_the_first_step_needs() -> None:
    plan = required_size(Rolling(Bands(0.05), 52), Budget(52, 0.01))
    assert plan.notes == ("the first step needs 52 batches, 8,320 labels",)
    assert "averaged over the window" in plan.promise
    assert any("another delta" in line for line in plan.assumptions)
    assert plan.to_dict()["unit"] == "labels a batch"


def test_windows_are_checked() -> None:
    with pytest.raises(InvalidInput, match="window"):
        Rolling(Bands(0.05), 0)
    with pytest.raises(InvalidInput, match="window"):
        Rolling(Bands(0.05), 10**6, 2)
