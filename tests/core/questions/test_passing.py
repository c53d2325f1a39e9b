"""Conditions: read as ease.ml/ci's, planned to the label."""

from __future__ import annotations

import json
import math
import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from tests.promise import sums
from tests.service.helpers import condition_spec

from easeml_meter.conditions import Comparison
from easeml_meter.core.questions.passing import PassFail
from easeml_meter.core.questions.planning import Budget, assumptions_of, plan_of, required_size
from easeml_meter.core.signals import FAIL, PASS, answer_named, name_of
from easeml_meter.core.views import Read, read_of
from easeml_meter.errors import InvalidInput
from easeml_meter.promise import ledger
from easeml_meter.promise.numbers import differences, passing
from easeml_meter.promise.questions import Shown, measured_of
from easeml_meter.promise.solve import smallest
from easeml_meter.spec import MeterSpec

GOLDEN = {
    row["name"]: row
    for row in json.loads((Path(__file__).parents[2] / "data/golden-2.json").read_text("utf-8"))
}
LEVELS = [
    ("C n>0.8+/-.01 pass/fail T=32 delta=0.0001", "n > 0.8 +/- 0.01", 32, 1e-4),
    ("C n>0.95+/-.01 pass/fail T=32 delta=0.0001", "n > 0.95 +/- 0.01", 32, 1e-4),
    ("C n>0.8+/-.01 pass/fail T=10 delta=0.01", "n > 0.8 +/- 0.01", 10, 0.01),
]


@pytest.mark.parametrize(("name", "text", "steps", "delta"), LEVELS)
def test_a_level_needs_the_golden_number_of_labels(
    name: str, text: str, steps: int, delta: float
) -> None:
    """With the sharp count, 2^(T-1), and with the count of the table, 2^T - 1."""
    question = PassFail.parse(text)
    sharp = re.search(r"2\^\(T-1\): ([\d,]+)", GOLDEN[name]["note"])
    assert sharp is not None
    assert required_size(question, Budget(steps, delta)).size == int(sharp[1].replace(",", ""))
    every = math.log(2**steps - 1) - math.log(delta)
    size = smallest(lambda n: every + sums.log_tail(question, n), sums.enough(question, every))
    assert size == GOLDEN[name]["n"]


@pytest.mark.parametrize(
    ("text", "passes", "before"),
    [("n > 0.8 +/- 0.01", 3, 54_135), ("n > 0.95 +/- 0.01", 3, 15_304)],
)
def test_few_passes_need_fewer_labels(text: str, passes: int, before: int) -> None:
    """`before` is without the sharper count, at the first size that holds."""
    found = required_size(PassFail.parse(text, passes=passes), Budget(32, 1e-4)).size
    assert 0.98 * before < found < before


def test_below_is_the_mirror_image_of_above() -> None:
    below, above = PassFail.parse("n < 0.3 +/- 0.02"), PassFail.parse("n > 0.7 +/- 0.02")
    for size in (100, 101, 5000):
        tails = [sums.log_tail(each, size) for each in (below, above)]
        assert tails[0] == tails[1]


def test_a_condition_costs_what_its_worst_clause_costs() -> None:
    """A model that passes wrongly passes one clause that is false of it: tails do not add up."""
    both = PassFail.parse("n > 0.8 +/- 0.01 /\\ d < 0.1 +/- 0.02")
    alone = PassFail.parse("n > 0.8 +/- 0.01")
    assert required_size(both, Budget(10, 0.01)).size == required_size(alone, Budget(10, 0.01)).size


def test_the_promise_says_what_a_pass_means() -> None:
    plan = required_size(PassFail.parse("n > 0.8 +/- 0.01", passes=0), Budget(10, 0.01))
    assert plan.promise == (
        "With probability at least 0.99, in all 10 steps together, every model that passes has a "
        "true accuracy above 0.8. Nothing is promised about a model that fails."
    )
    assert "the first pass closes the test set" in plan.assumptions
    assert plan.to_dict()["answers"] == ["pass", "fail"]


def test_a_disagreement_counts_rows_on_which_exactly_one_is_right() -> None:
    """With three classes, a model that differs on half of the rows may pass."""
    spec = condition_spec(question="n - o > 0 +/- 0.05", disagreement=0.1)
    differing = Comparison(rows=100, gained=8, lost=0, differing=50)
    assert answered(spec, Fraction(42, 100), differing) == "pass"
    counted = "a model fails if exactly one of it and the old one is right on more than 0.1 of the"
    assert any(counted in line for line in assumptions_of(spec))
    bought = assumptions_of(spec.replace(on_demand=True))
    assert any("predict different things count towards" in line for line in bought)


def test_the_count_of_passes_is_checked() -> None:
    with pytest.raises(InvalidInput, match="passes"):
        PassFail.parse("n > 0.8 +/- 0.01", passes=-1)
    assert sums.log_count(PassFail.parse("n > 0.8 +/- 0.01", passes=3), 32) == passing.log_models(
        32, 3
    )


CHANGES = [
    ("C n-o>.02+/-.01, d<=.1, pass/fail T=32 delta=0.0001", 32, 1e-4),
    ("C n-o>.02+/-.01, d<=.1, pass/fail T=10 delta=0.01", 10, 0.01),
]
CHANGE = PassFail.parse("n - o > 0.02 +/- 0.01", disagreement=0.1)


@pytest.mark.parametrize(("name", "steps", "delta"), CHANGES)
def test_a_difference_needs_the_golden_number_of_labels(
    name: str, steps: int, delta: float
) -> None:
    """To half a percent, with the count of the table: the last size whose own tail is too large."""
    golden = GOLDEN[name]["n"]
    allowed = math.log(delta) - math.log(2**steps - 1)
    # The tail is largest just before one more row is needed, at 33, 66 and 99 of a hundred.
    sizes = [n for n in range(golden - 700, golden + 700) if n % 100 in (33, 66, 99)]
    clause = Fraction(2, 100), Fraction(1, 100), Fraction(1, 10)
    last = max(n for n in sizes if differences.log_pass_tail(n, *clause) > allowed)
    assert last + 1 == pytest.approx(golden, rel=0.005)
    planned = smallest(lambda n: sums.log_tail(CHANGE, n) - allowed, sums.enough(CHANGE, -allowed))
    assert last < planned <= 1.005 * last


def test_ease_ml_ci_side_by_side() -> None:
    """Its labels by its formulas, for T = 32 and full adaptivity, and ours for the same promise."""

    def bennett(models: float, delta: float, share: float, eps: float) -> int:
        u = eps / share
        exponent = share * ((1 + u) * math.log1p(u) - u)
        return math.ceil((models + math.log(4 / delta)) / exponent)

    def hoeffding(models: float, delta: float, eps: float) -> int:
        return math.ceil((models + math.log(1 / delta)) / (2 * eps**2))

    every = 32 * math.log(2)
    assert bennett(math.log(32), 1e-4, 0.1, 0.01) == 29_048
    assert bennett(every, 1e-4, 0.1, 0.01) == 67_706
    assert hoeffding(every + math.log(2), 0.01, 0.1 / 2) == 5_496
    assert hoeffding(every, 1e-4, 0.01) == 156_956

    def ours(text: str, steps: int = 32, delta: float = 1e-4, **options: Any) -> int:
        return required_size(PassFail.parse(text, **options), Budget(steps, delta)).size

    assert ours("n - o > 0.02 +/- 0.01", disagreement=0.1) <= 54_700
    assert ours("n - o > 0.02 +/- 0.01", disagreement=0.1, passes=3) <= 32_700
    assert ours("n - o > 0.1 +/- 0.1", delta=0.01) < 5_496
    assert ours("n > 0.95 +/- 0.01") == 24_752
    page = (Path(__file__).parents[3] / "docs/questions/pass-or-fail.md").read_text("utf-8")
    for text, limit in (
        ("n > 0.8 +/- 0.01", None),
        ("n > 0.95 +/- 0.01", None),
        ("n - o > 0.02 +/- 0.01", 0.1),
    ):
        found = [ours(text, disagreement=limit, passes=passes) for passes in (None, 3)]
        assert " | {:,} | {:,} |".format(*found) in page
    # What is fixed beforehand, or ends with the first pass, is one model a step.
    first = ours("n - o > 0.02 +/- 0.01", disagreement=0.1, passes=0)
    assert first == ours("n - o > 0.02 +/- 0.01", 1, 1e-4 / 32, disagreement=0.1)
    assert f"| 29,048 | {first:,} |" in page
    small = [ours("n - o > 0.1 +/- 0.1", delta=0.01, passes=passes) for passes in (None, 3)]
    assert "| 5,496 | {:,} | {:,} |".format(*small) in page


def test_a_clause_about_disagreement_limits_the_difference() -> None:
    """Whatever passes "d < 0.11 +/- 0.01" differs on less than 0.1 of the rows."""
    both = PassFail.parse("n - o > 0.02 +/- 0.01 /\\ d < 0.11 +/- 0.01")
    assert both.most == CHANGE.most
    alone, limit = (sums.log_tail(each, 20_000) for each in (CHANGE, PassFail(both.clauses[1:])))
    assert sums.log_tail(both, 20_000) == max(alone, limit)


def test_differences_are_checked() -> None:
    with pytest.raises(InvalidInput, match='only with "n - o"'):
        PassFail.parse("n > 0.8 +/- 0.01", disagreement=0.1)
    with pytest.raises(InvalidInput, match="too small to pass"):
        PassFail.parse("n - o > 0.1 +/- 0.01", disagreement=0.11)
    for share in (0, 1, math.nan):
        with pytest.raises(InvalidInput, match="disagreement"):
            PassFail.parse("n - o > 0.1 +/- 0.01", disagreement=share)


def test_better_means_better() -> None:
    ladder = PassFail.parse("better", tolerance=0.05)
    assert ladder == PassFail.parse("n - o > 0 +/- 0.05")
    with pytest.raises(InvalidInput, match="needs one"):
        PassFail.parse("better")
    with pytest.raises(InvalidInput, match="has its own"):
        PassFail.parse("n - o > 0 +/- 0.05", tolerance=0.05)
    promise = required_size(ladder, Budget(3, 0.05)).promise
    assert "every model that passes is truly more accurate than the old one." in promise
    low = PassFail.parse("n - o < 0.02 +/- 0.01", disagreement=0.1)
    high = PassFail.parse("n - o > -0.02 +/- 0.01", disagreement=0.1)
    assert sums.log_tail(low, 5_000) == sums.log_tail(high, 5_000)


def answered(spec: MeterSpec, wrong: Fraction, beside: Comparison | None = None) -> str:
    """What is told of a model on a test set of the planned size, or of the rows compared."""
    meter = spec.meter
    size = plan_of(spec).labels if beside is None else beside.rows
    rows = measured_of(Shown(size), wrong, beside)
    return ledger.decide(meter, ledger.start(meter), rows).answer


def test_a_model_passes_with_the_tolerance_to_spare() -> None:
    """On a set of the planned size, as many rows as the margin says, and one more."""
    spec = condition_spec(question="n > 0.5 +/- 0.2")
    size = plan_of(spec).labels
    enough = 7 * size // 10 + 1
    assert answered(spec, 1 - Fraction(enough, size)) == "pass"
    assert answered(spec, 1 - Fraction(enough - 1, size)) == "fail"
    assert (answered(spec, Fraction(1)), answered(spec, Fraction(0))) == ("fail", "pass")


def test_every_clause_has_to_hold() -> None:
    spec = condition_spec(question="n > 0.5 +/- 0.1 /\\ n < 0.9 +/- 0.1")
    told = [answered(spec, 1 - Fraction(n, 20)) for n in (10, 14, 20)]
    assert told == ["fail", "pass", "fail"]


def test_what_cannot_be_measured_fails() -> None:
    """A third answer would cost labels, and "fail" promises nothing anyway."""
    meter = condition_spec().meter
    decided = ledger.decide(meter, ledger.start(meter), measured_of(Shown(100), None))
    assert (decided.answer, decided.promises) == ("fail", ())


def test_answers_are_named_and_read() -> None:
    assert (name_of(PASS), name_of(FAIL)) == ("pass", "fail")
    assert (answer_named("pass"), answer_named("fail")) == (PASS, FAIL)


def test_a_pass_bounds_the_true_loss() -> None:
    meter = condition_spec(question="n > 0.5 +/- 0.1 /\\ n < 0.9 +/- 0.1").meter
    passed, failed = (read_of(meter, each, Shown(9, Fraction(0))) for each in ("pass", "fail"))
    assert (passed.true_loss_at_least, passed.true_loss_at_most) == (0.1, 0.5)
    assert failed == Read()


def test_a_meter_gives_the_promised_answers_and_no_more() -> None:
    meter = condition_spec(steps=4).meter
    for answers in (["fail"] * 4, ["pass"] * 4, ["pass", "fail", "fail", "pass"]):
        assert ledger.may(meter, ledger.fold(meter, answers[:3]))
        assert not ledger.may(meter, ledger.fold(meter, answers))


def test_one_pass_too_many_closes_the_test_set() -> None:
    meter = condition_spec(steps=4, passes=1).meter
    assert ledger.left(meter, ledger.start(meter)) == 2  # whatever the answers are
    assert ledger.may(meter, ledger.fold(meter, ["pass", "fail"]))
    closed = ledger.fold(meter, ["pass", "pass"])
    assert not ledger.may(meter, closed)
    assert (ledger.left(meter, closed), ledger.battery(meter, closed)) == (0, 0.0)


def test_teams_apart_have_answers_of_their_own_and_nothing_to_hand_over() -> None:
    meter = condition_spec(steps=4, tenants=(2, 2)).meter
    assert not ledger.may(meter, ledger.fold(meter, ["fail", "pass"], team=2))
    with pytest.raises(InvalidInput, match="use up delta"):
        ledger.check_handover(meter, (1, 2))


def test_teams_are_counted_apart() -> None:
    """Two trees of two answers, where one of four needs more labels."""
    apart = plan_of(condition_spec(steps=4, tenants=(2, 2)))
    shared = plan_of(condition_spec(steps=4, tenants=(2, 2), handover=True))
    assert apart.labels < shared.labels
    assert apart.log_models == pytest.approx(math.log(2 * 2))
    assert shared.log_models == pytest.approx(math.log(2**3))


def test_an_answer_of_another_question_is_no_answer() -> None:
    meter = condition_spec().meter
    with pytest.raises(InvalidInput, match="one of fail, pass"):
        ledger.step(meter, ledger.start(meter), "1")
