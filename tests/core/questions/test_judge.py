"""A judge and few labels: near the best sizes known, and valid for every law tried."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.promise import sums

from easeml_meter.core.questions.asking import plan_question
from easeml_meter.core.questions.assumptions import gap_assumptions
from easeml_meter.core.questions.bands import Bands
from easeml_meter.core.questions.gap import GapQuestion
from easeml_meter.core.questions.judge import Judge, labels_alone
from easeml_meter.core.questions.planning import Budget, required_size
from easeml_meter.errors import InvalidInput
from easeml_meter.promise.assumptions import DRAWN_EDGES


@pytest.mark.parametrize(
    ("tolerance", "budget", "pool", "error", "best"),
    [
        (0.05, Budget(10, 0.05), 10**5, 0.02, 425),
        (0.05, Budget(10, 0.05), 10**5, 0.05, 681),
        (0.05, Budget(10, 0.05), 10**5, 0.1, 1_045),
        (0.05, Budget(100, 0.05), 10**5, 0.05, 9_406),
        (0.01, Budget(10, 0.01), 10**7, 0.05, 12_425),
        (0.02, Budget(10, 0.05), 10**6, 0.1, 5_345),
    ],
)
def test_the_labels_are_close_to_the_best_division(
    tolerance: float, budget: Budget, pool: int, error: float, best: int
) -> None:
    """`best` is the first size that holds for any division; the plan holds from there on."""
    plan = required_size(Judge(Bands(tolerance), error, pool), budget)
    assert best <= plan.size <= 1.04 * best


def test_a_poor_judge_does_not_pay_and_the_plan_says_so() -> None:
    budget = Budget(10, 0.05)
    poor = required_size(Judge(Bands(0.05), 0.2, 10**5), budget)
    assert poor.notes == ("the judge does not pay: without it, 1,669 labels are enough",)
    good = required_size(Judge(Bands(0.05), 0.05, 10**5), budget)
    assert good.notes == ("without the judge, 1,669 labels are needed",)
    assert labels_alone(0.05, math.log(1023 / 0.05)) == 1_669


@pytest.mark.parametrize("seed", range(12))
def test_no_law_is_misread_more_often(seed: int) -> None:
    """Model, judge and truth with random chances; broken only where the judge passes its check."""
    rng = np.random.default_rng(seed)
    pool, labels, tolerance, error = 800, 60, 0.2, 0.15
    wrong = float(rng.uniform(0.02, 0.2))  # the judge
    # Given that the judge is right or wrong: whether the model agrees with the judge.
    apart = rng.uniform(0, 1, 2)
    if seed < 4:
        apart = np.array([rng.uniform(0, 1), float(seed % 2)])
    loss = (1 - wrong) * apart[0] + wrong * (1 - apart[1])
    trials = 100_000
    judged = (1 - wrong) * apart[0] + wrong * apart[1]
    first = rng.binomial(pool, judged, trials) / pool
    errs = rng.binomial(labels, wrong, trials)
    differs = rng.binomial(errs, apart[1])
    correction = ((errs - differs) - differs) / labels
    broken = (np.abs(first + correction - loss) > tolerance) & (errs <= labels * error)
    bound = math.exp(sums.log_tail(Judge(Bands(tolerance), error, pool), labels))
    assert broken.mean() <= bound


def test_a_pool_that_is_too_small_is_refused() -> None:
    with pytest.raises(InvalidInput, match="too small: at least"):
        required_size(Judge(Bands(0.05), 0.05, 1_000), Budget(10, 0.01))


def test_judges_are_checked() -> None:
    for error in (0, 1, math.inf):
        with pytest.raises(InvalidInput, match="judge error"):
            Judge(Bands(0.05), error, 10**5)
    with pytest.raises(InvalidInput, match="pool"):
        Judge(Bands(0.05), 0.1, 0)
    asked = Judge(Bands(0.05), 0.1, 10**5)
    assert any("fixed before" in line for line in asked.assumptions)
    assert asked.answers == Bands(0.05).answers


@pytest.mark.parametrize("drawn", [None, 0.2])
def test_a_judge_rests_on_what_its_meter_rests_on(drawn: float | None) -> None:
    """But for how often it is drawn, which the plan says of several tries, and for how long."""
    asked = Judge(Bands(0.05, drawn=drawn), 0.1, 10**5)
    meter = gap_assumptions(
        asked.bands.spec().replace(judge_error=0.1, pool=10**5, steps=10, delta=0.05)
    )
    missing = [line for line in meter if line not in asked.assumptions]
    assert [line.split(" ")[:4] for line in missing] == [
        ["a", "test", "set", "is"],
        ["delta", "applies", "to", "one"],
    ]
    assert (DRAWN_EDGES in asked.assumptions) is (drawn is not None)


@pytest.mark.parametrize(("tolerance", "size"), [(0.001, 30_451_484), (0.003, 3_189_535)])
def test_a_judge_is_planned_as_its_meter_is(tolerance: float, size: int) -> None:
    """The question was refused as too much work, which the closed form is not."""
    asked, budget = Judge(Bands(tolerance), 0.2, 10**12), Budget(100, 0.01)
    meter = GapQuestion(asked.bands.spec().replace(judge_error=0.2, pool=10**12, steps=100))
    assert required_size(asked, budget).size == size == required_size(meter, budget).size


def test_a_tolerance_that_takes_long_to_find_is_refused_at_once() -> None:
    """Anybody may ask a server for a plan: a hundred bytes took it 16 seconds."""
    asked = {"judge_error": 0.2, "pool": 10**6, "steps": 1000, "signals": 50}
    with pytest.raises(InvalidInput, match="too much to plan at once"):
        plan_question(**asked, labels=600_000)
