"""What a gate finds, against tables made with scipy, and against sums over all results."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from easeml_meter.errors import InvalidInput
from easeml_meter.promise.gains import (
    after_discards,
    cases_for,
    fewest_cases,
    kept,
    least_gain,
    levels,
    need,
    noise,
    planned,
    reach,
    reaches,
)
from easeml_meter.promise.kernel import least_wins

TENTH, TWENTIETH = Fraction(1, 10), Fraction(1, 20)

# Points, by cases: first and second keep of 10, 20 and 100 answers; without an end the first keep,
# and one after 10 discards; one answer.
GAINS = {
    TENTH: """
    50    23.0 30.4 25.2 34.6 30.4 45.9 23.1 27.3 13.6
    100   13.1 17.5 14.5 19.9 17.5 25.7 13.3 15.5 7.9
    200   7.7 10.3 8.6 11.8 10.3 14.9 7.9 9.3 4.8
    300   5.8 7.6 6.4 8.7 7.7 11.0 5.9 7.0 3.6
    500   4.1 5.3 4.5 6.1 5.4 7.6 4.2 4.9 2.6
    1000  2.6 3.4 2.9 3.8 3.4 4.7 2.7 3.1 1.7
    2000  1.7 2.2 1.9 2.5 2.2 3.0 1.7 2.0 1.1
    5000  1.0 1.3 1.1 1.4 1.3 1.7 1.0 1.2 .7
    10000 .7 .9 .8 1.0 .9 1.2 .7 .8 .5
    """,
    TWENTIETH: """
    50    25.2 32.5 27.3 37.8 32.5 48.7 25.2 29.6 16.5
    100   14.5 18.6 15.5 21.4 18.6 27.2 14.5 17.2 9.5
    200   8.6 10.9 9.3 12.5 10.9 15.5 8.7 10.2 5.7
    300   6.4 8.1 7.0 9.2 8.2 11.3 6.5 7.5 4.3
    500   4.5 5.6 4.9 6.4 5.7 7.8 4.6 5.3 3.1
    1000  2.9 3.6 3.1 4.0 3.6 4.9 2.9 3.3 2.0
    2000  1.9 2.3 2.0 2.6 2.3 3.1 1.9 2.2 1.3
    5000  1.1 1.4 1.2 1.5 1.4 1.8 1.1 1.3 .8
    10000 .8 .9 .8 1.0 .9 1.2 .8 .9 .5
    """,
}


@pytest.mark.parametrize("delta", GAINS)
def test_the_table_of_gains(delta: Fraction) -> None:
    stakes = [level for answers in (10, 20, 100) for level in levels(delta, answers)]
    stakes += [levels(delta, None)[0], after_discards(delta, None, 10), levels(delta, 1)[0]]
    for line in GAINS[delta].strip().splitlines():
        cases, *points = map(float, line.split())
        for level, expected in zip(stakes, points, strict=True):
            gain = least_gain(int(cases), level)
            assert gain is not None
            assert 100 * gain == pytest.approx(expected, abs=0.06)  # printed with a tenth


@pytest.mark.parametrize(
    ("answers", "wins", "second", "sizes"),
    [
        (1, 4, None, (32, 74, 188)),
        (10, 7, 10, (60, 142, 376)),
        (20, 8, 12, (67, 163, 427)),
        (100, 10, 17, (85, 210, 556)),
        (None, 7, 11, (60, 146, 381)),
    ],
)
def test_the_least_cases(
    answers: int | None, wins: int, second: int | None, sizes: tuple[int, ...]
) -> None:
    level, next_level = levels(TENTH, answers)
    assert fewest_cases(level) == wins
    assert second is None or fewest_cases(next_level) == second
    assert tuple(cases_for(gain, level) for gain in (0.2, 0.1, 0.05)) == sizes
    assert least_wins(wins, level) == wins
    assert least_wins(wins - 1, level) is None


def test_a_second_keep_costs_more_and_discards_wane() -> None:
    second = levels(TENTH, 20)[1]
    assert second == TENTH / 20 / 19
    assert [cases_for(gain, second) for gain in (0.2, 0.1, 0.05)] == [100, 249, 661]
    assert levels(TENTH, None) == (TENTH / 11, TENTH / 121)
    assert fewest_cases(after_discards(TENTH, None, 10)) == 9
    assert after_discards(TENTH, 20, 10) == TENTH / 20  # the bar stands still
    assert levels(TENTH, 1) == (TENTH, Fraction(0))


def test_a_level_on_the_bar_is_enough() -> None:
    for wins in range(1, 12):
        assert fewest_cases(Fraction(1, 2**wins)) == wins
        assert fewest_cases(Fraction(1, 2**wins) - Fraction(1, 10**9)) == wins + 1


@given(
    cases=st.integers(1, 25),
    level=st.fractions(Fraction(1, 1000), Fraction(1, 4), max_denominator=1000),
    gain=st.floats(0, 0.9),
    losses=st.sampled_from([0.0, 0.02, 0.05]),
)
def test_the_chance_of_a_keep_is_the_sum_over_all_results(
    cases: int, level: Fraction, gain: float, losses: float
) -> None:
    total = 0.0
    for won, lost in product(range(cases + 1), repeat=2):
        bar = least_wins(won + lost, level)
        if won + lost <= cases and bar is not None and won >= bar:
            ways = math.comb(cases, won) * math.comb(cases - won, lost)
            same = max(0.0, 1 - gain - 2 * losses)
            total += ways * (losses + gain) ** won * losses**lost * same ** (cases - won - lost)
    assert kept(cases, level, gain, losses) == pytest.approx(total, abs=1e-7)


def test_what_cannot_be_found() -> None:
    level = levels(TENTH, 20)[0]
    assert kept(100, level, 0.97) == 0  # more than all cases
    assert kept(100, Fraction(0), 0.5) == 0
    assert least_gain(7, level) is None
    assert cases_for(0.0001, level) is None
    assert cases_for(0, level) is None
    assert reach(7, TENTH, 20).half is None
    with pytest.raises(InvalidInput, match="labels: 7 given, too few to show anything in 20 answ"):
        reaches(7, TENTH, 20)
    with pytest.raises(InvalidInput, match="in one answer: 4 at least, 32 for a gain of 20 points"):
        reaches(3, TENTH, 1)
    assert [row.answers for row in reaches(4, TENTH, 1)] == [1]
    assert planned(Fraction(1, 4), None) == (1, 10, 20, 100, None)
    assert planned(TENTH, 20) == (1, 20)
    with pytest.raises(InvalidInput, match=r"delta: 0\.26 given"):
        planned(Fraction(26, 100), None)
    with pytest.raises(InvalidInput, match="steps: 0 given"):
        planned(TENTH, 0)


def test_half_the_gain_takes_more_than_twice_the_cases() -> None:
    row = reach(300, TENTH, 20)
    assert row.first is not None
    assert row.half is not None
    assert least_gain(row.half, levels(TENTH, 20)[0]) == pytest.approx(row.first / 2, rel=0.01)
    assert need(row.first, TENTH, 20).first == pytest.approx(300, abs=8)  # the power has teeth


# --- noise ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cases", "gains"),
    [
        (100, (14.5, 17.6, 20.0, 23.7, 26.0)),
        (300, (6.4, 8.3, 9.7, 12.0, 13.3)),
        (1000, (2.9, 3.9, 4.7, 6.0, 6.7)),
    ],
)
def test_flips_raise_the_least_gain(cases: int, gains: tuple[float, ...]) -> None:
    level = levels(TENTH, 20)[0]
    for flipping, expected in zip((0, 0.05, 0.1, 0.2, 0.27), gains, strict=True):
        ran = noise([[0] * 100, [1] * round(100 * flipping) + [0] * round(100 * (1 - flipping))])
        gain = ran.least_gain(cases, level)
        assert gain is not None
        assert 100 * gain == pytest.approx(expected, abs=0.06)


def test_noise_of_two_runs() -> None:
    ran = noise([[1] * 50 + [0] * 50, [0] * 27 + [1] * 23 + [0] * 50])
    assert (ran.cases, ran.runs, ran.flips) == (100, 2, 27)
    assert ran.interval == pytest.approx((0.1861, 0.3680), abs=1e-4)
    assert ran.luck == pytest.approx(0.102, abs=1e-3)
    assert ran.greedy == pytest.approx(0.4616, abs=1e-4)
    never = noise([[1, 0], [1, 0]])
    assert (never.interval[0], never.luck, never.greedy) == (0, 0, 0)
    always = noise([[1, 0], [0, 1]])
    assert always.interval[1] == 1


def test_more_runs_count_all_pairs() -> None:
    runs = [[1, 1, 0, 0], [1, 0, 0, 0], [1, 0, 1, 0]]
    pairs = [(0, 1), (0, 2), (1, 2)]
    flips = [sum(a != b for a, b in zip(runs[i], runs[j], strict=True)) for i, j in pairs]
    assert noise(runs).flips == sum(flips) / 3
