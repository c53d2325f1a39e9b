"""The tail of an estimate with a judge, beside the question that plans it."""

from __future__ import annotations

import math
from typing import Any

import pytest

from easeml_meter.core.questions.asking import plan_question
from easeml_meter.core.questions.planning import required_labels
from easeml_meter.errors import InvalidInput
from easeml_meter.promise.numbers import differences, judges
from easeml_meter.spec import MeterSpec

ASKED: dict[str, Any] = {"tolerance": 0.05, "steps": 10, "delta": 0.05}


@pytest.mark.parametrize(("error", "known"), [(0.02, 425), (0.05, 681), (0.2, 1_757)])
def test_a_meter_needs_what_the_question_needs(error: float, known: int) -> None:
    """Near the best sizes known, which do without the margin of the search."""
    spec = MeterSpec.uniform(judge_error=error, pool=100_000, **ASKED)
    plan = required_labels(spec)
    assert plan.size == plan_question(judge_error=error, pool=100_000, **ASKED).size
    assert known <= plan.size <= 1.04 * known
    assert "the judge was fixed before the labels were drawn" in plan.assumptions
    assert "estimated test loss is within 0.05" in plan.promise


def test_the_tail_is_none_at_no_labels_and_small_with_enough() -> None:
    assert judges.log_judged_tail(0, 0.05, 0.1, 1_000) == 0
    assert judges.log_judged_tail(10, 1.0, 0.1, 1_000) == -math.inf
    size = judges.enough(0.05, 0.1, 100_000, 10)
    assert judges.log_judged_tail(size, 0.05, 0.1, 100_000) <= -10
    with pytest.raises(InvalidInput, match="at least"):
        judges.enough(0.05, 0.1, 100, 10)


@pytest.mark.parametrize(
    "options",
    [
        {"judge_error": 1.0},
        {"pool": None},
        {"judge_error": None},
        {"loss": "brier"},
        {"ceiling": 0.1},
        {"window": 4},
        {"published": True},
        {"protocol": "resampling"},
        {"pool": 0},
        {"rows": 0},
    ],
)
def test_what_no_theorem_covers_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        MeterSpec.uniform(**(ASKED | {"judge_error": 0.1, "pool": 10_000} | options))


def test_a_plan_that_would_take_minutes_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Anybody may ask a server for a plan; each tolerance of an incremental meter is a tail."""
    asked: dict[str, Any] = {"steps": 10, "delta": 0.01, "judge_error": 0.01, "pool": 10**9}
    many: dict[str, Any] = {"tolerance": [0.001, 0.0011, 0.0012], "edges": [0.2, 0.5]}
    monkeypatch.setattr(differences, "log_reading_tail", pytest.fail)
    with pytest.raises(InvalidInput, match=r"too much to plan at once.*take one tolerance"):
        required_labels(MeterSpec.uniform(protocol="incremental", **many, **asked))
    monkeypatch.undo()
    few: dict[str, Any] = {"tolerance": [0.05, 0.1], "edges": [0.5]}
    spec = MeterSpec.uniform(protocol="incremental", **few, **asked)
    assert required_labels(spec).size < required_labels(spec.replace(protocol="regular")).size
