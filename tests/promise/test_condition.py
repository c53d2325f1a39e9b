"""Conditions at a level: bars of public numbers alone, as planned where so many rows are."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Sequence
from fractions import Fraction

import pytest

from easeml_meter.conditions import Comparison
from easeml_meter.promise import ledger, solve
from easeml_meter.promise.condition import Condition
from easeml_meter.promise.kernel import bar_better_by, bar_not_worse, bars_of_change, least_wins
from easeml_meter.promise.meter import Meter
from easeml_meter.promise.numbers.plain import log_density
from easeml_meter.promise.questions import Shown, measured_of

CLAUSES = {
    "n > 0.8 +/- 0.05": "",
    "n < 0.8 +/- 0.05": "",
    "n - o > 0.02 +/- 0.05": ", disagreement = 0.2",
    "n - o > -0.02 +/- 0.05": ", disagreement = 0.2",
    "n - o < -0.02 +/- 0.05": ", disagreement = 0.3",
    "n - o > 0 +/- 0.05": ", disagreement = 0.3",
    "d < 0.2 +/- 0.05": "",
}


def meter(ask: str, more: str = "", steps: int = 6) -> Meter:
    return Meter.loads(f'question = {{ask = "{ask}"{more}}}\nbudget = {{steps = {steps}}}')


def answer(on: Meter, errors: int, rows: int, beside: Comparison) -> str:
    measured = measured_of(Shown(rows), Fraction(errors, rows), beside)
    return ledger.decide(on, ledger.start(on), measured).answer


@pytest.mark.parametrize("ask", CLAUSES)
def test_at_the_planned_size_what_shows_the_margin_passes_and_one_row_less_fails(ask: str) -> None:
    on = meter(ask, CLAUSES[ask])
    assert isinstance(on.question, Condition)
    (clause,) = on.question.clauses.clauses
    size = solve.labels(on)
    needed = math.floor(size * clause.needed) + 1
    for count, passes in ((needed, True), (needed - 1, False)):
        beside, errors = Comparison(size), 0
        if ask.startswith("n - o"):
            apart = math.floor(size * (on.question.disagreement or 1))
            apart -= (apart + count) % 2
            won, lost = (apart + count) // 2, (apart - count) // 2
            wins, losses = (won, lost) if clause.above else (lost, won)
            beside = Comparison(size, wins, losses, apart)
        elif ask.startswith("d"):
            beside = Comparison(size, 0, 0, size - count)
        else:
            errors = size - count if clause.above else count
        assert (answer(on, errors, size, beside) == "pass") == passes


@pytest.mark.parametrize("ask", CLAUSES)
@pytest.mark.parametrize("rows", [800, 1500, 3000])
def test_at_larger_sizes_what_shows_the_margin_still_passes(ask: str, rows: int) -> None:
    on = meter(ask, CLAUSES[ask])
    if rows < solve.labels(on) or not isinstance(on.question, Condition):
        return
    (clause,) = on.question.clauses.clauses
    bar = on.question.bars(rows, ledger.level(on, ledger.start(on))).clauses[0]
    assert isinstance(bar, int)
    assert bar <= math.floor(rows * clause.needed) + 1


@pytest.mark.parametrize(
    ("cases", "change", "level"),
    [
        (61, Fraction(0), Fraction(1, 20)),
        (60, Fraction(-1, 50), Fraction(1, 20)),
        (200, Fraction(1, 50), Fraction(1, 100)),
        (300, Fraction(-1, 10), Fraction(1, 1000)),
        (300, Fraction(1, 10), Fraction(1, 8)),
        (37, Fraction(3, 10), Fraction(1, 10)),
        (2500, Fraction(0), Fraction(1, 200)),
        (2500, Fraction(-1, 50), Fraction(1, 200)),
        (2500, Fraction(1, 50), Fraction(1, 100)),
    ],
)
def test_every_bar_of_a_change_is_that_of_one_look(
    cases: int, change: Fraction, level: Fraction
) -> None:
    bars = bars_of_change(cases, change, level)
    some: Sequence[int] = range(cases + 1)
    if cases > 1000:
        some = random.Random(3).sample(range(cases + 1), 60)  # noqa: S311
    for disputed in some:
        alone = least_wins(disputed, level)
        if change:
            one = bar_not_worse if change < 0 else bar_better_by
            alone = one(cases, disputed, abs(change), level)
        assert bars[disputed] == (None if alone is None or alone > disputed else alone)


@pytest.mark.parametrize("change", [Fraction(0), Fraction(-1, 10), Fraction(1, 10)])
@pytest.mark.parametrize("rows", [12, 25])
def test_a_false_change_passes_at_most_at_its_level(change: Fraction, rows: int) -> None:
    """The exact chance over all comparisons, at every law on the edge of the claim."""
    level = Fraction(1, 8)
    bars, worst = bars_of_change(rows, change, level), 0.0
    for more in (Fraction(k, 40) for k in range(41)):
        less = more - change
        if not 0 <= less <= 1 - more:
            continue
        total = 0.0
        for apart in range(rows + 1):
            share = float(more / (more + less)) if more + less else 0.0
            chance = math.exp(log_density(rows, apart, float(more + less)))
            bar = bars[apart]
            if bar is not None:
                total += chance * sum(
                    math.exp(log_density(apart, wins, share)) for wins in range(bar, apart + 1)
                )
        worst = max(worst, total)
    assert 0 < worst <= level


@pytest.mark.parametrize("ask", ["n - o > 0.02 +/- 0.05", "n - o > 0 +/- 0.05"])
@pytest.mark.parametrize("limit", [None, 0.2])
def test_what_hidden_rows_say_moves_no_bar(ask: str, limit: float | None) -> None:
    """Bars are found before a row is read: what is measured is compared with them, and no more."""
    on = meter(ask, "" if limit is None else f", disagreement = {limit}")
    at = ledger.start(on)
    assert isinstance(on.question, Condition)
    bars = on.question.bars(400, ledger.level(on, at))
    ledger.askable(on, at, Shown(400))
    for wins, losses in itertools.product((0, 20, 40, 60), repeat=2):
        answer(on, 100, 400, Comparison(400, wins, losses, wins + losses))
        assert on.question.bars(400, ledger.level(on, at)) is bars


def test_a_conjunction_needs_every_clause_at_the_one_level() -> None:
    """A false one has a false clause, and must pass that: no part of the level is split."""
    both = meter(r"n > 0.3 +/- 0.1 /\\ n < 0.9 +/- 0.05")
    alone = meter("n > 0.3 +/- 0.1")
    at = ledger.start(both)
    assert ledger.level(both, at) == ledger.level(alone, at) == Fraction(1, 10) / 2**5
    size = 400
    told = [answer(both, size - right, size, Comparison(size)) for right in (120, 250, 400)]
    assert told == ["fail", "pass", "fail"]
