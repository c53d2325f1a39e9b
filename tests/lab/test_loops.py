"""Rules that keep or discard, in loops: against exact sums, the kernel, and the promise."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from tests.cli.running import Captured, run

from easeml_meter.errors import InvalidInput
from easeml_meter.lab.loops import (
    DELTA,
    GAINS,
    RULES,
    STRENGTHS,
    Bonferroni,
    Each,
    Gate,
    Higher,
    Once,
    Pace,
    World,
    attacked,
    edits,
    kept_edits,
    log_luck,
    pace_chances,
    side_by_side,
)
from easeml_meter.promise.gains import kept
from easeml_meter.promise.kernel import Stake, least_wins

IMAGE = Path("docs/images/gate.svg")


@pytest.mark.parametrize("level", [Fraction(1, 20), Fraction(1, 200), Fraction(1, 10**6)])
def test_an_edit_is_kept_at_its_bar_and_not_one_below(level: Fraction) -> None:
    rule = Each(1, 1)
    rule.log_level = math.log(level)
    for disputed in range(150):
        bar = least_wins(disputed, level)
        if bar is None:
            assert not rule.chance(np.array([disputed]), np.array([disputed]))[0]
        else:
            chances = rule.chance(np.array([bar, bar - 1]), np.array([disputed] * 2))
            assert [bool(each) for each in chances] == [True, False]
    assert log_luck(np.array([0]), np.array([0]))[0] == 0


def test_the_gate_stakes_what_the_kernel_says() -> None:
    rng = np.random.default_rng(3)
    gate, stakes = Gate(12, 50), [Stake(Fraction(1, 10))] * 50
    for asked in range(12):
        levels = [stake.level(12) for stake in stakes]
        expected = [math.log(level.numerator) - math.log(level.denominator) for level in levels]
        assert gate.log_level == pytest.approx(expected, rel=1e-12)
        said = rng.random(50) < 0.3
        gate.told(asked, said)
        stakes = [
            stake.after(level, bool(yes))
            for stake, level, yes in zip(stakes, levels, said, strict=True)
        ]
    assert Bonferroni(12, 1).log_level == pytest.approx(math.log(DELTA / 12))


def test_pace_is_every_order_of_wins_and_losses() -> None:
    chances = pace_chances(14)
    for wins, losses in ((7, 0), (8, 0), (8, 1), (10, 2), (10, 4), (0, 3)):
        reached = 0
        orders = list(combinations(range(wins + losses), wins))
        for order in orders:
            stake = best = 1.0
            for place in range(wins + losses):
                stake *= 1.5 if place in order else 0.5
                best = max(best, stake)
            reached += best >= 20
        assert chances[wins, losses] == pytest.approx(reached / len(orders))
    assert (chances[7, 0], chances[8, 0]) == (0, 1)  # 1.5^7 < 20 < 1.5^8


@pytest.mark.parametrize(("gain", "rule"), [(0.0, Each), (0.05, Bonferroni), (0.1, Bonferroni)])
def test_rules_keep_as_often_as_the_exact_sum_says(gain: float, rule: type[Each]) -> None:
    world = World(100, 20, 4_000)
    rng = np.random.default_rng(5)
    wins, disputed, real = edits(world, gain, rng)
    found = kept_edits(rule, wins, disputed, rng.random(wins.shape))
    level = Fraction(1, 20) if rule is Each else Fraction(1, 200)
    expected = kept(100, level, gain, 0.02 if gain else 0.05)
    chosen = found[real] if gain else found
    assert chosen.mean() == pytest.approx(expected, abs=4 * math.sqrt(0.25 / chosen.size))
    assert real.sum() == (4_000 if gain else 0)


def test_one_mcnemar_test_keeps_one_edit_at_most() -> None:
    wins, disputed = np.array([[8, 4], [9, 20], [5, 3]]), np.array([[8, 8], [9, 20], [10, 6]])
    found = kept_edits(Once, wins, disputed, np.zeros(wins.shape))
    assert found.tolist() == [[False, False], [True, True], [False, False]]
    assert kept_edits(Higher, wins, disputed, np.zeros(wins.shape)).sum() == 3  # a tie is no more


def test_the_same_seed_plays_the_same_loops() -> None:
    first = side_by_side(World(60, 5, 40))
    assert side_by_side(World(60, 5, 40)) == first
    assert side_by_side(World(60, 5, 40, 8)) != first
    assert [each.rule for each in first] == [*RULES]


def test_each_edit_alone_is_no_promise_for_a_loop() -> None:
    found = {each.rule: each for each in side_by_side(World(100, 20, 300))}
    assert found["keep what scores higher"].useless > 0.4
    assert found["keep what scores higher"].loops == 1
    assert found["p < 0.05 each"].loops > 0.25
    assert found["meter gate"].loops < 0.1
    assert found["meter gate"].real[0.1] > found["meter gate"].real[0.02]


def test_an_attack_breaks_plain_bonferroni_and_not_the_gate() -> None:
    world = World(300, 20, 250)
    assert attacked(Bonferroni, world, 0.5) > 0.3
    assert max(attacked(Gate, world, strength) for strength in STRENGTHS) < 0.05
    assert attacked(Higher, world, 0.5) == 1
    assert attacked(Once, world, 0.5) > 0.7
    assert attacked(Pace, world, 0.5) > 0.2


@pytest.mark.parametrize(
    "wrong", [{"cases": 9}, {"answers": 1}, {"loops": 0}, {"seed": -1}], ids=str
)
def test_worlds_that_cannot_be_played(wrong: dict[str, int]) -> None:
    with pytest.raises(InvalidInput):
        World(**{"cases": 100, "answers": 10, **wrong})


@pytest.mark.verify
@pytest.mark.parametrize("answers", [10, 20, 50, 100])
@pytest.mark.parametrize("cases", [50, 100, 300, 1_000])
def test_the_promise_holds_in_all_loops(cases: int, answers: int) -> None:
    found = {each.rule: each for each in side_by_side(World(cases, answers, 1_000))}
    gate, plain = found["meter gate"], found["plain Bonferroni"]
    assert max(gate.loops, gate.attacked) < 0.1 + 3 * math.sqrt(0.09 / 1_000)
    assert gate.attacked < 0.03
    assert found["keep what scores higher"].loops > 0.98
    for gain in GAINS:  # what the share after a keep costs where one edit is real
        assert gate.real[gain] > plain.real[gain] - 0.05
    if cases >= 300 and answers >= 50:
        assert plain.attacked > 0.5


@pytest.mark.verify
def test_the_picture_is_what_the_command_draws(capsys: Captured, tmp_path: Path) -> None:
    chart = tmp_path / "gate.svg"
    arguments = ["--labels", "1000", "--steps", "50", "--chart", str(chart)]
    assert run(capsys, "lab", "gate", *arguments)[0] == 0
    again = "meter lab gate --labels 1000 --steps 50 --chart docs/images/gate.svg"
    assert chart.read_text("utf-8") == IMAGE.read_text("utf-8"), again
