"""Conditions: read as ease.ml/ci's, planned to the label."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import pytest

from easeml_meter.core.questions.passing import Clause, PassFail, Variable
from easeml_meter.core.questions.planning import Budget, required_size
from easeml_meter.errors import InvalidInput
from easeml_meter.stats import passing
from easeml_meter.stats.planning import smallest

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
    size = smallest(lambda n: every + question.log_tail_from(n), question.enough(every))
    assert size == GOLDEN[name]["n"]


@pytest.mark.parametrize(
    ("text", "passes", "before"),
    [("n > 0.8 +/- 0.01", 3, 54_135), ("n > 0.95 +/- 0.01", 3, 15_304)],
)
def test_few_passes_need_fewer_labels(text: str, passes: int, before: int) -> None:
    """`before` is without the sharper count, at the first size that holds."""
    found = required_size(PassFail.parse(text, passes=passes), Budget(32, 1e-4)).size
    assert 0.98 * before < found < before


@pytest.mark.parametrize("text", ["n > 0.8 +/- 0.01", "n>.8+/-.01", "  n  >  8e-1 +/- 1e-2 "])
def test_a_clause_is_read(text: str) -> None:
    assert Clause.parse(text) == Clause(Variable.ACCURACY, True, 0.8, 0.01)
    assert str(Clause.parse(text)) == "n > 0.8 +/- 0.01"


def test_a_condition_is_written_as_it_is_read() -> None:
    text = "n > 0.8 +/- 0.01 /\\ d < 0.1 +/- 0.01"
    assert str(PassFail.parse(text)) == text
    assert [clause.above for clause in PassFail.parse(text).clauses] == [True, False]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "n > 0.8",
        "n >= 0.8 +/- 0.01",
        "x > 0.8 +/- 0.01",
        "n - 1.1 * o > 0.01 +/- 0.01",
        "n > 0.8 +/- 0.01 /\\",
        "n > 0.8 +/- 0.01 \\/ d < 0.1 +/- 0.01",
        "n > 1.2.3 +/- 0.01",
        "n > 0.8 +/- -0.01",
        "n > nan +/- 0.01",
        "n > 0.8 +/- 0",
        "n > 0.99 +/- 0.01",
        "n > 0 +/- 0.01",
        "n < 0.01 +/- 0.01",
        "n > 80 +/- 0.01",
        " /\\ ".join(["n > 0.8 +/- 0.01"] * 21),
    ],
)
def test_what_is_no_condition_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        PassFail.parse(text)


def test_below_is_the_mirror_image_of_above() -> None:
    below, above = Clause.parse("n < 0.3 +/- 0.02"), Clause.parse("n > 0.7 +/- 0.02")
    for size in (100, 101, 5000):
        assert below.log_tail(size, onwards=True) == above.log_tail(size, onwards=True)


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
    assert plan.to_json()["answers"] == ["pass", "fail"]


def test_the_count_of_passes_is_checked() -> None:
    with pytest.raises(InvalidInput, match="passes"):
        PassFail.parse("n > 0.8 +/- 0.01", passes=-1)
    assert PassFail.parse("n > 0.8 +/- 0.01", passes=3).log_models(32) == passing.log_models(32, 3)
