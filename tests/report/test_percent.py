"""Pages say a promise in percent, and never more than the sentence with fractions says."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any

import pytest

from easeml_meter.core.questions.planning import plan_of
from easeml_meter.report.percent import in_percent
from easeml_meter.spec import MeterSpec

METERS: dict[str, dict[str, Any]] = {
    "plain": {},
    "bands": {"tolerance": [0.05, 0.1, 0.15]},
    "ceiling": {"ceiling": 0.4},
    "signed": {"gap": "signed"},
    "drawn": {"signals": 1, "edges": [], "drawn": 0.3},
}
EVERY_FRACTION = re.compile(r"(?<![\w.])0\.\d+")


def spec_of(**more: Any) -> MeterSpec:
    settings: dict[str, Any] = {"signals": 3, "tolerance": 0.1, "steps": 4, "delta": 0.05}
    return MeterSpec.uniform(**(settings | {"edges": [0.15, 0.45]} | more))


@pytest.mark.parametrize("name", METERS)
def test_no_fraction_is_left_in_the_promise_of_a_meter(name: str) -> None:
    spec = spec_of(**METERS[name])
    plan = plan_of(spec)
    said = in_percent(plan.promise, spec)
    assert said.startswith("With 95 % certainty, in all")
    assert "step" not in said
    assert "loss" not in said
    assert not EVERY_FRACTION.search(said), said
    before = [100 * Fraction(each) for each in EVERY_FRACTION.findall(plan.promise)]
    after = re.findall(r"(\d+(?:\.\d+)?)(?= (?:%|percentage)| to \d)", said)
    assert list(map(Fraction, after)) == before


@pytest.mark.parametrize(
    ("exact", "said"),
    [
        ("this model's true gap is at most 0.0123456.", "is at most 1.3 %."),
        ("gap lies between 0.0123456 and 1.", "lies between 1.2 and 100 %."),
        ("step 3 lies between -0.0123456 and 0.01.", "lies between -1.3 and 1 %."),
        ("its true loss is at least 0.2999996)", "true error is at least 29.9 %)"),
        ("test loss is within 0.01 of its true loss", "error is within 1 percentage point of its"),
        ("is within 1e-05 to 0.02 (by", "is within 0.1 to 2 percentage points (by"),
        ("has a true accuracy above 0.800006", "has a true accuracy above 80 %"),
        ("exceeds the old model's by more than 0.02", "by more than 2 percentage points"),
        ("on more than 0.1 of the rows fails", "on more than 10 % of the rows fails"),
        ('as "above the ceiling", 0.4: then', '"above the ceiling", 40 %: then'),
        ("above the ceiling (0.4). With", "above the ceiling (40 %). With"),
        ("sealing is tried at most 3 times", "sealing is tried at most 3 times"),
        ('to "n > 0.8 +/- 0.05": every', 'to "n > 0.8 +/- 0.05": every'),
        (
            "`meter plan --steps 4 --at-most 0.1` at most 0.1",
            "--steps 4 --at-most 0.1` at most 10 %",
        ),
    ],
)
def test_figures_are_rounded_outwards(exact: str, said: str) -> None:
    assert said in in_percent(exact, spec_of())


def test_a_loss_that_is_no_share_keeps_its_figures() -> None:
    spec = spec_of(loss="absolute")
    exact = "With probability at least 0.975, in its one step, the test loss is within 0.1 of"
    told = "With 97.5 % certainty, in its one answer, the test loss is within 0.1 of"
    assert in_percent(exact, spec) == told
