"""The planner of all questions."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest
from tests.promise import sums
from tests.service.helpers import condition_spec

from easeml_meter.core.questions.bands import Bands, InBands
from easeml_meter.core.questions.gap import GapQuestion
from easeml_meter.core.questions.judge import Judge
from easeml_meter.core.questions.metrics import Metric
from easeml_meter.core.questions.passing import PassFail
from easeml_meter.core.questions.planning import (
    Budget,
    following,
    least_tolerance,
    most_steps,
    plan_of,
    reachable_tolerance,
    required_labels,
    required_size,
    supported_steps,
)
from easeml_meter.core.questions.question import Question
from easeml_meter.core.questions.rolling import Rolling
from easeml_meter.errors import InvalidInput
from easeml_meter.promise import ledger
from easeml_meter.promise.gap import Gap
from easeml_meter.spec import MeterSpec

QUESTION = PassFail.parse("n > 0.8 +/- 0.02")


def test_a_plan_is_the_smallest_size_that_holds_from_there_on() -> None:
    budget = Budget(7, 0.05)
    plan = required_size(QUESTION, budget)
    assert plan.failure_probability <= 0.05
    failures = [sums.log_failed(QUESTION, 7, plan.size + more) for more in range(-1, 2_000)]
    assert max(failures[1:]) <= math.log(0.05) < failures[0]


def test_labels_carry_the_steps_that_need_them() -> None:
    for steps in (1, 2, 9, 40):
        size = required_size(QUESTION, Budget(steps, 0.01)).size
        assert most_steps(QUESTION, size, Budget(1, 0.01)).budget.steps == steps


def test_tries_divide_delta() -> None:
    """The best of three tries is as good as the luckiest of them, so each gets a third."""
    three = required_size(QUESTION, Budget(10, 0.03, tries=3))
    assert three.size == required_size(QUESTION, Budget(10, 0.01)).size
    assert three.promise.startswith("With probability at least 0.97,")
    assert "sealing is tried at most 3 times" in three.assumptions


@pytest.mark.parametrize(
    "change",
    [
        {"steps": 0},
        {"steps": 10**10},
        {"delta": 0},
        {"delta": 1},
        {"delta": math.nan},
        {"tries": 0},
    ],
)
def test_budgets_are_checked(change: dict[str, float]) -> None:
    with pytest.raises(InvalidInput, match=next(iter(change))):
        dataclasses.replace(Budget(1, 0.01), **change)  # type: ignore[arg-type]


def test_too_few_labels_are_refused_with_the_number_needed() -> None:
    with pytest.raises(InvalidInput, match=r"too few for one step: [\d,]+ needed"):
        most_steps(QUESTION, 10, Budget(1, 0.01))
    with pytest.raises(InvalidInput, match="10\\^15"):
        most_steps(QUESTION, 0, Budget(1, 0.01))
    with pytest.raises(InvalidInput, match="over 10\\^15"):
        required_size(PassFail.parse("n > 0.5 +/- 0.000001"), Budget(10**9, 0.01))


def test_the_tolerance_reached_is_the_one_that_needs_these_labels() -> None:
    budget = Budget(10, 0.05)
    plan = least_tolerance(Metric("f1", Bands(0.1, 2, (0.2,))), 2_073, budget)
    assert plan.question.tolerance == pytest.approx(0.05, rel=1e-3)
    assert required_size(plan.question, budget).size <= 2_073
    with pytest.raises(InvalidInput, match="at any tolerance"):
        least_tolerance(Metric("f1", Bands(0.1)), 1, Budget(10, 1e-12))


TENTHS = tuple(k / 10 for k in range(1, 10))


def _in_bands(bands: Bands) -> list[Question]:
    return [
        GapQuestion(bands.spec()),
        Metric("accuracy", bands),
        Metric("f1", bands),
        Judge(bands, 0.1, 10**6),
        Rolling(bands, 4),
    ]


@pytest.mark.parametrize("number", range(5))
@pytest.mark.parametrize("size", [60, 2_000])
def test_no_smaller_tolerance_holds_at_fixed_edges(number: int, size: int) -> None:
    """A larger tolerance reaches over more bands, so one may hold below others that do not."""
    budget = Budget(50, 0.01)
    found = least_tolerance(_in_bands(Bands(0.1, 10, TENTHS))[number], size, budget)
    least = found.question.tolerance or 0.0
    assert found.failure_probability <= 0.01
    for tolerance in (least * k / 24 for k in range(3, 24)):
        smaller = _in_bands(Bands(tolerance, 10, TENTHS))[number]
        assert sums.log_failed(smaller, 50, size) > math.log(0.01)


def test_every_kind_with_bands_finds_what_the_gap_finds() -> None:
    budget = Budget(50, 0.01)
    asked = _in_bands(Bands(0.1, 10, TENTHS))
    gap, accuracy = (least_tolerance(each, 8_000, budget).question for each in asked[:2])
    assert gap.tolerance == accuracy.tolerance == 0.0480561
    assert all(isinstance(each, InBands) for each in asked[1:])


def _possible(question: Question) -> int:
    gap = question.composed(1, 0.1).question
    assert isinstance(gap, Gap)
    return gap.possible


@pytest.mark.parametrize("number", range(2))
def test_six_digits_that_reach_over_another_band_are_not_taken(number: int) -> None:
    """Rounded up, the tolerance would be more than half the distance of two edges."""
    budget, size = Budget(10, 0.01), 2_003
    wide = _in_bands(Bands(0.1, 2, (0.5,)))[number]
    rounded = least_tolerance(wide, size, budget).question.tolerance or 0.0
    low, exact = rounded * (1 - 2e-5), rounded
    while exact - low > 1e-12:
        middle = (low + exact) / 2
        failure = sums.log_failed(wide.with_tolerances([middle] * 2), 10, size)
        low, exact = (low, middle) if failure <= math.log(0.01) else (middle, exact)
    apart = 2 * exact * (1 + 3e-7)
    narrow = _in_bands(Bands(0.1, 3, (0.3, 0.3 + apart)))[number]
    assert _possible(narrow.with_tolerances([rounded] * 3)) == 3
    found = least_tolerance(narrow, size, budget).question
    assert exact <= (found.tolerance or 0.0) <= apart / 2 < rounded
    assert _possible(found) == 2


def test_a_question_that_has_its_own_tolerance_is_not_asked_for_one() -> None:
    with pytest.raises(InvalidInput, match="it has its own tolerance") as refused:
        reachable_tolerance(condition_spec(), 100)
    assert "plan_question" not in str(refused.value)


def _strata(**options: object) -> MeterSpec:
    given = {"tolerance": 0.02, "steps": 10, "delta": 0.01, "stratum": "region"}
    strata = {"strata": ("a", "b"), "weights": (0.123, 0.877)}
    return MeterSpec.uniform(**given | strata | options)  # type: ignore[arg-type]


def test_labels_are_rounded_down_to_whole_strata() -> None:
    for plan in (supported_steps(_strata(), 6_500), reachable_tolerance(_strata(), 6_500)):
        assert plan.labels == 6_000
        assert plan.spec.stratum_rows(plan.labels) == {"a": 738, "b": 5_262}
        assert required_labels(plan.spec).labels <= 6_000
    with pytest.raises(InvalidInput, match="650 given, too few: test sets have 1,000 or more"):
        reachable_tolerance(_strata(), 650)
    with pytest.raises(InvalidInput, match="4999 given, too few for one step: 5,000 needed"):
        supported_steps(_strata(), 4_999)


def test_strata_with_sizes_have_no_other_size() -> None:
    sized = _strata(sizes=(2_000, 7_000), tolerance=0.05)
    for answer in (supported_steps, reachable_tolerance):
        assert answer(sized, 9_500).labels == answer(sized, 9_000).labels == 9_000
        with pytest.raises(InvalidInput, match=r"8999 given, too few.* 9,000"):
            answer(sized, 8_999)


def test_steps_of_teams_are_fixed_whatever_is_asked() -> None:
    with pytest.raises(InvalidInput, match=r"^tenants: \[3, 3\] given, they fix the steps"):
        supported_steps(condition_spec(steps=6, tenants=(3, 3)), 14)


@pytest.mark.parametrize(
    ("labels", "points", "edges"),
    [
        (200, 21.0, (0.07, 0.35)),
        (500, 13.4, (0.045, 0.225, 0.45)),
        (1_000, 9.8, (0.035, 0.16, 0.32)),
        (2_000, 6.9, (0.025, 0.115, 0.23, 0.46)),
        (5_000, 4.3, (0.015, 0.075, 0.15, 0.3)),
    ],
)
def test_default_edges_promise_what_the_labels_allow(
    labels: int, points: float, edges: tuple[float, ...]
) -> None:
    wish = MeterSpec.uniform(tolerance=0.1)
    found = reachable_tolerance(wish, labels).spec
    assert found.edges == edges  # they are looked for again, and free
    assert math.ceil(1000 * (edges[0] + found.tolerances[0])) == round(10 * points)
    one = reachable_tolerance(wish.with_edges([0.2]), labels).spec
    assert found.tolerances[0] == one.tolerances[0]
    kept = reachable_tolerance(wish, labels, keep_edges=True).spec
    assert kept.edges == wish.edges == (0.05, 0.25)


@pytest.mark.parametrize("options", [{"protocol": "incremental"}, {"memory": 2}], ids=str)
def test_where_every_edge_costs_there_is_one(options: dict[str, Any]) -> None:
    wish = MeterSpec.uniform(tolerance=0.1, **options)
    found = reachable_tolerance(wish, 500).spec
    assert len(found.edges) == 1
    assert found.has_default_edges


def test_a_plan_follows_the_rows_where_nothing_else_depends_on_them() -> None:
    plain = MeterSpec.uniform(tolerance=0.2, steps=4, delta=0.1)
    for spec in (plain, plain.replace(drawn=0.5), plain.replace(clusters=True)):
        planned = plan_of(spec).labels
        fewer, same, more = (following(spec, planned + each) for each in (-1, 0, 50))
        assert fewer.tolerances[0] > same.tolerances[0] > more.tolerances[0]
        assert same is spec
        assert (fewer.edges, more.steps, more.delta) == (spec.edges, 4, 0.1)
        for each, rows in ((fewer, planned - 1), (more, planned + 50)):
            ledger.check_size(each.meter, rows)  # which refuses what the promise does not cover
    for options in ({"tenants": (2, 2)}, {"ceiling": 0.5}):
        spec = plain.replace(**options)
        planned = plan_of(spec).labels
        assert following(spec, planned + 50) is spec
        assert following(spec, planned - 1).tolerances[0] > 0.2
    strata: dict[str, Any] = {"stratum": "s", "strata": ("a", "b"), "weights": (0.5, 0.5)}
    for others in ({"window": 2}, {"top_up": 2}, strata):
        assert following(plain.replace(**others), 10) == plain.replace(**others)
    with pytest.raises(InvalidInput, match="1 given, too few for 4 steps at any tolerance"):
        following(plain.replace(delta=1e-12), 1)
