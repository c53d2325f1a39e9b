"""Every meter has somebody who plays against it as it is, or is refused by name."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from easeml_meter.errors import InvalidInput
from easeml_meter.lab.simulation import voting
from easeml_meter.lab.simulation.coverage import coverage, experiment, find_limit
from easeml_meter.lab.simulation.opponents import broken_windows, opponent_of, opponents_of
from easeml_meter.promise.meter import Meter
from easeml_meter.promise.solve import labels, log_failure
from easeml_meter.spec import MeterSpec


def meter(**options: Any) -> Meter:
    usual: dict[str, Any] = {"tolerance": 0.1, "edges": [0.3], "steps": 4, "delta": 0.1}
    return MeterSpec.uniform(**usual | options).meter


PLAYED = {
    "prober": MeterSpec(
        bands=(), question="n - o at 0 +/- 0.1", disagreement=0.3, steps=4, delta=0.1
    ).meter,
    "voter": meter(loss="f1[1]"),
    "roller": meter(window=4),
}


@pytest.mark.parametrize("name", PLAYED)
def test_the_size_played_is_the_one_planned_for_the_question(name: str) -> None:
    setting = experiment(PLAYED[name])
    assert (setting.developer, setting.labels) == (name, labels(PLAYED[name]))
    found = coverage(setting, 300)
    assert found.verdict == "promise holds"
    assert found.to_json()["world"] is None
    assert coverage(experiment(PLAYED[name], labels=setting.labels // 12), 300).rate > 0.2


def test_a_judge_is_played_with_its_pool() -> None:
    judged = meter(judge_error=0.2, pool=4_000)
    assert coverage(experiment(judged), 50).rate == 0
    assert coverage(experiment(judged, labels=30), 50).rate > 0.2


def test_the_limit_of_a_reading_and_of_a_claim() -> None:
    """A claim is tested at a level: no size is too small to be safe."""
    claim = MeterSpec(bands=(), question="n > 0.5 +/- 0.1", steps=4, delta=0.1).meter
    assert find_limit(claim, runs=500).labels == 1
    found = find_limit(PLAYED["prober"], runs=500)
    assert found.planned == labels(PLAYED["prober"])
    assert 1 < found.ratio < 4


@pytest.mark.parametrize(
    ("wish", "message"),
    [
        (meter(window=4, drawn=0.4), "window: 4 given, not played with drawn"),
        (
            meter(judge_error=0.2, pool=400, protocol="incremental"),
            "judge_error: 0.2 given, not played with the incremental protocol",
        ),
    ],
)
def test_what_nobody_plays_is_refused_by_name(wish: Meter, message: str) -> None:
    """It once was played as an ordinary meter, and that one's coverage was reported."""
    with pytest.raises(InvalidInput, match=message):
        experiment(wish)
    with pytest.raises(InvalidInput, match=message):
        find_limit(wish)


def test_a_question_that_is_new_to_the_lab_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """And not played as if it were the gap."""
    alarm = MeterSpec(bands=(), question="alarm", labels=500, steps=4, delta=0.1).meter
    with pytest.raises(InvalidInput, match="nobody plays it in the lab yet"):
        experiment(alarm)
    monkeypatch.setattr(voting, "PLAYED", ())
    with pytest.raises(InvalidInput, match="not played with this score in the lab"):
        experiment(PLAYED["voter"])


def test_developers_of_the_gap_do_not_play_other_questions() -> None:
    with pytest.raises(InvalidInput, match="against this question, only prober plays"):
        experiment(PLAYED["prober"], "threshold")
    with pytest.raises(InvalidInput, match="prober plays in a world of its own: leave it out"):
        experiment(PLAYED["prober"], world="coins")
    assert opponent_of(meter()) is None
    assert {"threshold", "independent"} < set(opponents_of(meter()))


ROLLING = MeterSpec.uniform(signals=2, edges=[0.3], tolerance=0.15, steps=12, delta=0.2, window=3)
every_pace = pytest.mark.parametrize("submissions", [1, 2])


def share(rolling: Meter, batch: int, runs: int) -> float:
    return float(broken_windows(rolling, batch, runs, np.random.default_rng(8)).mean())


@every_pace
def test_the_promise_holds_against_a_climber(submissions: int) -> None:
    """With the fewest labels that the plan allows."""
    rolling = ROLLING.replace(submissions=submissions).meter
    batch = labels(rolling)
    bound = math.exp(log_failure(rolling, batch))
    assert share(rolling, batch, 400) <= bound <= rolling.delta


@every_pace
def test_with_too_few_labels_the_climber_wins(submissions: int) -> None:
    rolling = ROLLING.replace(submissions=submissions).meter
    assert share(rolling, labels(rolling) // 4, 400) > 2 * rolling.delta
