"""The count of a topped-up test set, against the best of all strategies in worlds of six examples.

Four of the examples answer first; then all six do. The adversary chooses its models, validation
losses, and when to top up, from the answers so far.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache
from typing import Any

import pytest
from tests.promise import sums
from tests.promise.adversary import EXAMPLES, Adversary
from tests.promise.test_consistent import meter

from easeml_meter.core.questions.planning import required_labels
from easeml_meter.errors import InvalidInput
from easeml_meter.promise.numbers.plain import log_sum
from easeml_meter.spec import MeterSpec

FIRST = 4


class Beginning(Adversary):
    """Measures models on the first few examples of the same worlds."""

    def __init__(self, spec: MeterSpec) -> None:
        super().__init__(spec)
        self.losses = [Fraction(errors, FIRST) for errors in range(FIRST + 1)]
        seen = 2**FIRST - 1
        # What a model says of the other examples plays no part yet.
        self.with_loss = [
            [
                sum(1 << each for each in self.worlds if ((model ^ each) & seen).bit_count() == k)
                for k in range(FIRST + 1)
            ]
            for model in range(2**FIRST)
        ]


def best(spec: MeterSpec, *, late_only: bool = False) -> float:
    """Return the probability that the best strategy breaks a promise.

    `late_only` counts promises of the second stage alone.
    """
    one, two = Beginning(spec), Adversary(spec.of_test_set(2))
    steps, more = spec.steps, spec.top_up or 0

    @cache
    def last(spared: int) -> int:
        return max((spared & wrong).bit_count() for wrong in two.endings(0))

    @cache
    def most(told: int, later: int, spared: int) -> int:
        """`told` answers of the first stage, `later` ones of the second; edges have no memory."""
        if not later and told == steps:
            return most(steps, 1, spared)
        if later == more:
            return last(spared)
        found = 0
        if not later:
            found = most(steps, 1, spared)  # top up now
        stage, models = (two, two.worlds) if later else (one, range(2**FIRST))
        after = (told, later + 1) if later else (told + 1, 0)
        first = told == 0 and not later
        for model in models if not first else (0,):
            for question in stage.questions(0, model):
                reached = 0
                for _, right, wrong in question:
                    if later or not late_only:
                        reached += (spared & wrong).bit_count()
                    reached += most(*after, spared & right) if spared & right else 0
                found = max(found, reached)
        return found

    return most(0, 0, (1 << 2**EXAMPLES) - 1) / len(two.worlds)


def parts(spec: MeterSpec) -> tuple[float, float]:
    """Return both sums of the inequality, with the tails of these worlds."""
    stages = (spec, Beginning(spec)), (spec.of_test_set(2), Adversary(spec))
    first, second = (
        math.exp(sums.log_models(each)[0]) * found.tails()[0] for each, found in stages
    )
    return first, second


@pytest.mark.parametrize("stages", [(1, 1), (1, 2), (2, 1), (2, 2), (3, 1)], ids=str)
@pytest.mark.parametrize(
    ("edges", "options"),
    [((8,), {}), ((8,), {"gap": "signed"}), ((2, 4), {}), ((8,), {"ceiling": 0.5})],
    ids=["regular", "signed", "close edges", "ceiling"],
)
def test_both_sums_together_bound_the_best_strategy(
    edges: tuple[int, ...], options: dict[str, Any], stages: tuple[int, int]
) -> None:
    steps, more = stages
    spec = meter(edges, 8, steps=steps, top_up=more, **options)
    assert best(spec) <= sum(parts(spec)) * (1 + 1e-12)


def test_the_best_strategy_reaches_the_bound_at_a_ceiling() -> None:
    spec = meter((8,), 8, steps=1, top_up=2, ceiling=0.5)
    assert best(spec) == pytest.approx(sum(parts(spec)))


@pytest.mark.parametrize("stages", [(1, 2), (2, 1)], ids=str)
def test_the_histories_of_the_first_stage_have_to_be_counted(stages: tuple[int, int]) -> None:
    """Counted as if it were fresh, the second stage would promise more than holds."""
    steps, more = stages
    spec = meter((8,), 8, steps=steps, top_up=more)
    late = best(spec, late_only=True)
    fresh = math.exp(sums.log_models(spec.replace(steps=more, top_up=None))[0])
    tail = Adversary(spec).tails()[0]
    assert fresh * tail < late <= parts(spec)[1] * (1 + 1e-12)


@pytest.mark.parametrize("stages", [(2, 1), (3, 4), (10, 10)], ids=str)
@pytest.mark.parametrize(
    "options",
    [{}, {"count": "all"}, {"drawn": 0.2}, {"models": True}, {"ceiling": 0.3}],
    ids=lambda options: next(iter(options), "plain"),
)
def test_both_stages_count_what_one_test_set_of_all_steps_does(
    options: dict[str, Any], stages: tuple[int, int]
) -> None:
    steps, more = stages
    spec = MeterSpec.uniform(tolerance=0.01, steps=steps, delta=0.01, top_up=more, **options)
    counts = [sums.log_models(spec.of_test_set(number))[0] for number in (1, 2)]
    at_once = spec.replace(steps=steps + more, top_up=None)
    (every,) = sums.log_models(at_once)
    assert log_sum(counts) == pytest.approx(every, abs=1e-12)


def test_the_figures_of_the_documentation() -> None:
    spec = MeterSpec.uniform(tolerance=0.01, steps=10, delta=0.01, top_up=10)
    plan = required_labels(spec)
    assert plan.labels == 52_301
    assert plan.top_up == {"steps": 10, "labels": 85_798, "more_labels": 33_497}
    assert 0.0099 < plan.failure_probability <= 0.01
    assert "in all 10 steps and 10 more after the top-up together" in plan.promise
    at_once = spec.replace(steps=20, top_up=None)
    assert required_labels(at_once).labels == 82_432
    # The second stage alone, at the first size that keeps it.
    second = spec.of_test_set(2)
    assert (second.steps, second.topped_up, second.session_delta) == (10, 10, 0.005)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"protocol": "incremental"}, "incremental"),
        ({"tenants": (2, 2)}, "tenants"),
        ({"memory": 1}, "memory"),
        ({"reverts": (1,)}, "reverts"),
        ({"window": 3}, "window"),
        ({"clusters": True}, "clusters"),
        ({"published": True}, "published"),
        ({"loss": "recall[1]", "rows": 9}, "loss"),
    ],
)
def test_what_no_proof_covers_is_refused(options: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidInput, match=f"top up.*not with.*{named}"):
        MeterSpec.uniform(tolerance=0.25, steps=4, delta=0.2, top_up=2, **options)


@pytest.mark.parametrize("given", [0, -1, 1.5, True, "2"])
def test_a_top_up_is_a_whole_number_of_steps(given: Any) -> None:
    with pytest.raises(InvalidInput, match="top up"):
        MeterSpec.uniform(tolerance=0.25, steps=4, delta=0.2, top_up=given)


def test_a_file_is_of_both_stages() -> None:
    spec = MeterSpec.uniform(tolerance=0.25, steps=4, delta=0.2, top_up=2)
    assert MeterSpec.from_mapping(spec.to_mapping()) == spec
    assert spec.of_test_set(2).to_mapping() == spec.to_mapping()
