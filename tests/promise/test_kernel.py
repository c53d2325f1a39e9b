"""The kernel against `vectors.json`: 65 cases made with fractions alone, most at their bars."""

from __future__ import annotations

import itertools
import json
import math
import random
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from easeml_meter.promise import kernel
from easeml_meter.promise.kernel import (
    HALF,
    Alarms,
    Stake,
    alarm_shares,
    bar_better_by,
    bar_not_worse,
    bet_sizes,
    bets_pay,
    e_value,
    least_wins,
    most_errors,
    waited,
)

CASES = json.loads(Path("tests/data/vectors.json").read_text())["cases"]
Case = dict[str, Any]


def cases(*mechanisms: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(
        "case",
        [pytest.param(case, id=case["name"]) for case in CASES if case["mechanism"] in mechanisms],
    )


def number(text: str | None) -> Fraction | None:
    return None if text is None else Fraction(text)


def tail(cases: int, wins: int, share: Fraction) -> Fraction:
    """P(Bin(cases, share) >= wins), by the book."""
    return sum(
        (
            math.comb(cases, w) * share**w * (1 - share) ** (cases - w)
            for w in range(max(wins, 0), cases + 1)
        ),
        Fraction(0),
    )


def test_there_are_65_cases_of_278_steps() -> None:
    assert len(CASES) == 65
    assert sum(len(case["steps"]) for case in CASES) == 278


@cases("gate")
def test_a_gate_keeps_and_pays_as_the_vectors_say(case: Case) -> None:
    settings = case["settings"]
    looks, rows = settings["schedule"].get("looks"), settings["n"]
    stake = Stake(Fraction(settings["delta"]))
    for step in case["steps"]:
        if "event" in step:  # a look is voided: nothing moves
            assert stake.share == number(step["share_after"])
            continue
        level = stake.level(looks)
        assert (stake.share, level) == (number(step["share"]), number(step["level"]))
        bar = least_wins(step["k"], level)
        assert bar == step["wins_needed"]
        kept = bar is not None and step["w"] >= bar
        assert kept == (step["answer"] == "keep")
        stake = stake.after(level, kept)
        assert stake.share == number(step["share_after"])
    level = stake.level(looks)
    spent = level == 0 or level * 2**rows < 1
    assert (case["end"] == "spent") == spent
    assert number(case["next_level"]) == (None if spent else level)


@cases("alarm")
def test_alarms_ring_and_pay_as_the_vectors_say(case: Case) -> None:
    settings = case["settings"]
    steps, rows = settings["schedule"].get("looks"), settings["n"]
    delta, shares = Fraction(settings["delta"]), [Fraction(x) for x in settings["weights"]]
    state = Alarms()
    for step in case["steps"]:
        claim = Fraction(step["v"]) + Fraction(settings["gap"])
        level = state.level(delta, shares, steps)
        bar = most_errors(rows, claim, level) if claim <= 1 - Fraction(1, rows) else None
        if step["answer"] == "refused":
            assert bar is None
            continue
        assert (level, bar) == (number(step["level"]), step["errors_allowed"])
        state = state.after(step["errors"] <= bar)
        assert (step["answer"] == "ok") == (step["errors"] <= bar)
        assert len(state.rung) == step["alarms_after"]
    closed = len(state.rung) == len(shares)
    spent = steps is not None and state.asked == steps
    assert case["end"] == ("closed" if closed else "spent" if spent else "open")
    assert (closed or spent) == (state.level(delta, shares, steps) == 0)


@cases("not_worse", "at_least", "bar")
def test_margins_and_bars_as_the_vectors_say(case: Case) -> None:
    settings = case["settings"]
    rows, level = settings["n"], Fraction(settings["level"])
    for step in case["steps"]:
        if case["mechanism"] == "bar":
            bar = least_wins(rows, level, Fraction(settings["bar"]))
            assert bar == step["right_needed"]
            assert (bar is not None and step["right"] >= bar) == (step["answer"] == "yes")
            continue
        rule = bar_not_worse if case["mechanism"] == "not_worse" else bar_better_by
        bar = rule(rows, step["k"], Fraction(settings["c"]), level)
        assert bar == step["wins_needed"]
        assert (bar is not None and step["w"] >= bar) == (step["answer"] == "yes")


@cases("bet")
@pytest.mark.parametrize("trusted", [True, False])
def test_bets_pay_as_the_vectors_say(
    case: Case, trusted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = case["settings"]
    differences = [Fraction(text) for text in case["differences"]]
    margin, level = Fraction(settings["margin"]), Fraction(settings["level"])
    sizes = bet_sizes(len(differences), margin)
    assert list(sizes) == [Fraction(text) for text in settings["sizes"]]
    step = case["steps"][0]
    if step["e_value"] is not None:
        assert e_value(differences, sizes, margin) == Fraction(step["e_value"])
    if not trusted:  # fractions decide
        monkeypatch.setattr(kernel, "_ERROR", math.inf)
    pays = bets_pay([float(x) for x in differences], lambda: differences, level, margin)
    assert pays == (step["answer"] == "yes")


SHARES = (HALF, Fraction(1, 6), Fraction(18, 100), Fraction(129, 158), Fraction(1, 40))


@pytest.mark.parametrize("share", SHARES)
def test_a_bar_is_the_least_number_that_is_rare(share: Fraction) -> None:
    levels = [Fraction(1, 10), Fraction(1, 200), Fraction(3, 64), Fraction(1, 10**9)]
    for n, level in itertools.product(range(41), levels):
        tails = [tail(n, w, share) for w in range(n + 1)]
        expected = next((w for w, chance in enumerate(tails) if chance <= level), None)
        assert least_wins(n, level, share) == expected


@given(st.integers(1, 60), st.data())
def test_a_tail_that_equals_the_level_is_rare(n: int, data: st.DataObject) -> None:
    """Where the floats cannot tell, whole numbers do: the level is the tail, or a hair below it."""
    share = Fraction(data.draw(st.integers(1, 19)), 20)
    bar = data.draw(st.integers(1, n))
    level = tail(n, bar, share)
    assert least_wins(n, level, share) == bar
    assert least_wins(n, level * (1 - Fraction(1, 10**40)), share) == (bar + 1 if bar < n else None)


def test_the_error_of_the_floats_is_within_its_bound() -> None:
    rng = random.Random(7)  # noqa: S311
    for _ in range(60):
        n = rng.choice([10, 100, 1_000, 3_000])
        share = Fraction(rng.randint(1, 99), 100)
        wins = min(n, int(n * share) + 1 + rng.randint(0, 3 * math.isqrt(n)))
        log_tail, error = kernel._log_tail(n, wins, share)
        whole = kernel._sum_from(n, wins, share)
        exact = math.log(whole) - n * math.log(share.denominator)
        assert abs(log_tail - exact) <= error + 1e-15 * n * math.log(share.denominator)


@pytest.mark.parametrize("cases", [300, 2_000])
@pytest.mark.parametrize("share", SHARES)
def test_bars_with_floats_are_those_with_whole_numbers(
    cases: int, share: Fraction, monkeypatch: pytest.MonkeyPatch
) -> None:
    levels = [Fraction(1, 10), Fraction(7, 1330), Fraction(1, 10**7)]
    found = [least_wins(cases, level, share) for level in levels]
    monkeypatch.setattr(kernel, "_ERROR", math.inf)
    assert found == [least_wins(cases, level, share) for level in levels]


def test_a_bar_of_the_paper_s_size_is_one_that_scipy_finds() -> None:
    level, errors = 1e-6, most_errors(48_986, Fraction(1, 10), Fraction(1, 10**6))
    assert errors is not None
    assert binom.cdf(errors, 48_986, 0.1) <= level < binom.cdf(errors + 1, 48_986, 0.1)


@given(st.integers(1, 12), st.lists(st.booleans(), max_size=12))
def test_shares_add_up_whatever_is_answered(looks: int, answers: list[bool]) -> None:
    """(P) of the page of mathematics, with equality: a claim pays what it staked, and no more."""
    for planned in (looks, None):
        stake = Stake(Fraction(1, 10))
        for yes in answers:
            level = stake.level(planned)
            assert 0 <= level <= stake.share
            if level == 0:
                break
            after_yes, after_no = stake.after(level, True), stake.after(level, False)
            assert after_no.share + after_yes.share == stake.share
            stake = after_yes if yes else after_no


@pytest.mark.parametrize("alarms", [1, 2, 3, 4])
@pytest.mark.parametrize("steps", [1, 2, 5, 12, None])
def test_alarm_levels_add_up_to_delta(alarms: int, steps: int | None) -> None:
    """The largest sum of levels of false claims on one consistent path of answers, by recursion."""
    delta, shares = Fraction(1, 10), alarm_shares(alarms)

    def worst(state: Alarms, left: int) -> Fraction:
        level = state.level(delta, shares, steps)
        if left == 0 or level == 0:
            return Fraction(0)
        alarm = worst(state.after(False), left - 1)
        return max(level + alarm, worst(state.after(True), left - 1) + alarm)

    assert worst(Alarms(), 8 if steps is None else steps) <= delta
    if steps is not None and alarms <= steps:
        assert worst(Alarms(), steps) == delta


def test_waits_without_an_end_share_one() -> None:
    assert sum(waited(u) for u in range(1, 10_000)) == 1 - Fraction(10, 10_009)
