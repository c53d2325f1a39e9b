"""Every mode, by one test each: what it plans, how it is counted, its file, and its refusals."""

from __future__ import annotations

import math
import subprocess
import sys
import time
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import msgspec
import pytest
from tests.promise import worlds
from tests.promise.test_meter import EXAMPLES as FILES
from tests.promise.test_meter import FAIR, GRID, world

from easeml_meter.errors import InvalidInput
from easeml_meter.promise import proofs, solve
from easeml_meter.promise.alarm import Alarm
from easeml_meter.promise.budgets import Memory, Reverts, Steps
from easeml_meter.promise.closing import Closing
from easeml_meter.promise.condition import Change, Condition
from easeml_meter.promise.gap import Gap
from easeml_meter.promise.meter import Meter
from easeml_meter.promise.numbers.plain import log_sum
from easeml_meter.promise.renewals import EveryStep, Fresh, TopUp, Window
from easeml_meter.promise.samples import Clusters, Judge, OnDemand, Rows, Strata
from easeml_meter.promise.shapes import Flat, heaviest, log_of
from easeml_meter.promise.teams import Teams

gap: Any = Gap
change: Any = Change
condition: Any = Condition
strata: Any = Strata
judge: Any = Judge
"""Numbers are written as decimals here, as every part of a meter takes them."""
GAP = gap(tolerance=0.05, edges=(0.1, 0.2))
N_ABOVE = condition(ask="n > 0.8 +/- 0.05")
TWO: dict[str, Any] = {"strata": ("a", "b"), "weights": (0.3, 0.7)}
MODES: dict[str, tuple[Meter, int]] = {
    "gap": (Meter(question=GAP), 1_538),
    "worst so far": (
        Meter(question=msgspec.structs.replace(GAP, worst=True)),
        1_206,
    ),
    "drawn edges": (Meter(question=gap(tolerance=0.05, drawn=0.25)), 1_036),
    "ceiling": (Meter(question=gap(tolerance=0.05, edges=(0.1, 0.2), ceiling=0.2)), 1_028),
    "condition": (Meter(question=N_ABOVE), 768),
    "change": (Meter(question=change(ask="n - o at 0 +/- 0.05", disagreement=0.1)), 1_023),
    "first pass closes": (Meter(question=N_ABOVE, budget=Closing(passes=1)), 342),
    "teams": (Meter(question=GAP, budget=Teams(teams=(5, 5))), 1_014),
    "teams of a condition": (Meter(question=N_ABOVE, budget=Teams(teams=(5, 5))), 468),
    "hand-over": (Meter(question=GAP, budget=Teams(teams=(5, 5), handover=True)), 1_538),
    "reverts": (Meter(question=GAP, budget=Reverts(steps=10, reverts=(3, 7))), 1_301),
    "memory": (Meter(question=GAP, budget=Memory(steps=100, memory=2)), 1_509),
    "every step": (Meter(question=GAP, renewal=EveryStep()), 6_830),
    "window": (Meter(question=GAP, renewal=Window(window=4, answers=2)), 428),
    "top-up": (Meter(question=GAP, renewal=TopUp(then=10)), 1_669),
    "clusters": (Meter(question=GAP, sample=Clusters(cluster="user")), 1_705),
    "strata": (Meter(question=GAP, sample=strata(stratum="s", **TWO)), 1_540),
    "judge": (Meter(question=GAP, sample=judge(judge_error=0.1, pool=10**5)), 974),
    "labels on demand": (
        Meter(question=condition(ask="n - o > 0 +/- 0.05", disagreement=0.1), sample=OnDemand()),
        420,
    ),
    "F1": (Meter(question=GAP, sample=Rows(loss="f1[a]")), 1_910),
    "Brier": (Meter(question=GAP, sample=Rows(loss="brier")), 1_705),
}
every = pytest.mark.parametrize("name", MODES)
CLOSED = [
    name
    for name, (meter, _) in MODES.items()
    if isinstance(meter.budget, Steps | Closing) and type(meter.renewal) is Fresh
]


@every
def test_a_mode_needs_what_it_needed(name: str) -> None:
    meter, labels = MODES[name]
    assert solve.labels(meter) == labels


@every
def test_a_plan_keeps_delta_and_a_hundredth_less_does_not(name: str) -> None:
    meter, labels = MODES[name]
    goal = math.log(float(meter.delta) / (1 + isinstance(meter.renewal, TopUp)))
    assert solve.log_failure(meter, labels) <= goal + 1e-9
    assert solve.log_failure(meter, labels * 99 // 100) > goal


@every
def test_labels_and_answers_agree(name: str) -> None:
    meter, labels = MODES[name]
    if isinstance(meter.budget, Teams):
        with pytest.raises(InvalidInput, match="they fix the steps"):
            solve.steps(meter, labels)
    else:
        assert solve.steps(meter, labels) >= solve._steps_of(meter)


@pytest.mark.parametrize("name", CLOSED)
@pytest.mark.parametrize("steps", [1, 2, 5, 12])
def test_what_is_counted_is_the_recursion_over_the_rules_own_cells(name: str, steps: int) -> None:
    meter = solve.with_steps(MODES[name][0], steps)
    budget = meter.budget
    assert isinstance(budget, Steps | Closing)
    counted = log_sum(list(proofs.log_counts(meter.shape, budget, meter.renewal).values()))
    assert counted == pytest.approx(log_of(heaviest(meter.shape, budget, steps)), abs=1e-9)


@every
def test_a_file_goes_there_and_back(name: str) -> None:
    meter, _ = MODES[name]
    assert Meter.loads(meter.dumps()) == meter


def test_a_rule_with_one_answer_more_is_seen() -> None:
    """A regular meter that is counted with one answer fewer: its answers lie in no cell."""
    assert worlds.solve(world("reading", 2), FAIR, 2, GRID)
    few = Flat(Fraction(1), 1)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Gap, "shape", lambda *_: few)
        with pytest.raises(AssertionError):
            worlds.solve(world("reading", 2), FAIR, 2, GRID)


@pytest.mark.parametrize("worst", [False, True])
def test_a_ceiling_that_merges_nothing_counts_its_silent_answer(worst: bool) -> None:
    """Above the ceiling nothing is promised, and it may be told of any truth."""
    question = gap(tolerance=0.05, edges=(0.1, 0.2), ceiling=0.2, worst=worst)
    budget = Steps(steps=10) if worst else Memory(steps=10, memory=10)
    plain = msgspec.structs.replace(question, ceiling=None)
    limited, free = (Meter(question=each, budget=budget).shape for each in (question, plain))
    if worst:
        assert limited == free.with_silent(1)
    else:
        assert isinstance(limited, Flat)
        assert isinstance(free, Flat)
        assert limited.b == free.b + 1
    with pytest.raises(InvalidInput, match="drawn edges under a limit"):
        gap(tolerance=0.05, drawn=0.2, ceiling=0.1)


def test_a_thousand_million_steps_are_planned_in_a_moment() -> None:
    for question in (GAP, gap(tolerance=0.05, drawn=0.25), N_ABOVE):
        meter = Meter(question=question, budget=Steps(steps=10**9))
        begun = time.process_time()
        counted = solve.log_count(meter)
        assert time.process_time() - begun < 0.05
        assert counted > 10**6


def test_levels_and_wins_are_planned_without_numpy() -> None:
    """Alarm and gate: numpy alone takes as long to import as a command may take."""
    text = (
        "import sys; from easeml_meter.promise import solve; from easeml_meter.promise.meter "
        "import Meter; meter = Meter.loads(sys.argv[1]); solve.labels(meter); "
        "assert 'numpy' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", text, FILES["alarm"]], check=True)


@pytest.mark.parametrize(
    ("meter", "words"),
    [
        (lambda: Meter(question=Alarm(), sample=Clusters(cluster="c")), "no lemma for alarm on"),
        (lambda: Meter(question=GAP, budget=Closing(fails=2)), "no lemma for gap with closing"),
        (
            lambda: Meter(question=GAP, budget=Teams(teams=(2, 2)), renewal=TopUp(then=2)),
            "no lemma for teams with topup",
        ),
    ],
)
def test_what_no_table_has_is_refused_with_what_is_nearest(
    meter: Callable[[], Meter], words: str
) -> None:
    with pytest.raises(InvalidInput, match=words) as refused:
        meter()
    assert "proved" in str(refused.value)


def test_work_is_refused_before_anything_is_summed() -> None:
    many = " /\\ ".join(f"n - o > 0.0{k} +/- 0.02" for k in range(1, 9))
    meter = Meter(question=condition(ask=many), budget=Steps(steps=1_000))
    begun = time.process_time()
    with pytest.raises(InvalidInput, match="too much to plan at once"):
        solve.labels(meter)
    assert time.process_time() - begun < 0.5


def test_a_claim_of_its_own_is_planned_by_one_row() -> None:
    """A mode is a module: its claim, and its row of TAILS."""

    class Coins(Gap, frozen=True, kw_only=True):
        def claims(self, loss: object) -> Any:
            return ((Fair(),),)

    class Fair:
        pass

    coins: Any = Coins

    row = proofs.Tail(
        "Tails", lambda claim, sample, n: -n / 100, lambda claim, sample, nats: int(100 * nats) + 1
    )
    with pytest.MonkeyPatch.context() as patched:
        patched.setitem(proofs.TAILS, (Fair, Rows), row)
        meter = Meter(question=coins(tolerance=0.05, edges=(0.1,)))
        nats = solve.log_count(meter) - math.log(0.1)
        assert solve.labels(meter) == math.ceil(100 * nats)
    with pytest.raises(InvalidInput, match="no lemma for coins on plain rows"):
        Meter(question=coins(tolerance=0.05, edges=(0.1,)))
