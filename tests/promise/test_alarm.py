"""g of an alarm: its table, the chances of honest models, and the rule at its edges."""

from __future__ import annotations

import random
from fractions import Fraction

import pytest
from scipy.stats import beta, binom

from easeml_meter.promise import ledger
from easeml_meter.promise.alarm import Alarm, chance_of_ok, labels_for, least_margin, offer
from easeml_meter.promise.closing import Closing
from easeml_meter.promise.kernel import ALARM_SHARES, Alarms, most_errors
from easeml_meter.promise.meter import Meter
from easeml_meter.promise.numbers import plain
from easeml_meter.promise.questions import Measured, Shown
from easeml_meter.promise.samples import Rows

TEN, FIFTH = Fraction(1, 10), Fraction(1, 5)


def levels(steps: int, delta: Fraction = TEN) -> tuple[Fraction, ...]:
    """After no alarm, one and two."""
    return tuple(
        Alarms(alarms, tuple(range(1, alarms + 1))).level(delta, ALARM_SHARES, steps)
        for alarms in range(3)
    )


def points(found: tuple[Fraction | None, ...]) -> tuple[float | None, ...]:
    return tuple(None if g is None else float(g * 100) for g in found)


TABLE = {
    50: (34.4, 44.5, 47.5, 46.2, 50.4, 49.4, 55.8, 36.7, 46.1, 48.8),
    100: (24.1, 31.0, 33.2, 32.2, 35.3, 34.6, 39.3, 25.6, 32.1, 34.2),
    200: (16.6, 21.7, 23.2, 22.5, 24.7, 24.2, 27.5, 17.7, 22.5, 23.9),
    300: (13.6, 17.6, 18.8, 18.2, 19.9, 19.6, 22.2, 14.4, 18.2, 19.3),
    500: (10.5, 13.5, 14.4, 14.0, 15.3, 15.0, 17.0, 11.1, 14.0, 14.8),
    1_000: (7.4, 9.5, 10.1, 9.8, 10.7, 10.5, 11.8, 7.8, 9.8, 10.3),
    2_000: (5.2, 6.7, 7.1, 6.9, 7.5, 7.3, 8.3, 5.5, 6.9, 7.3),
    5_000: (3.3, 4.2, 4.5, 4.3, 4.7, 4.6, 5.2, 3.5, 4.3, 4.6),
    10_000: (2.3, 3.0, 3.1, 3.1, 3.3, 3.3, 3.7, 2.5, 3.1, 3.2),
}
"""g_0; g_1, g_2 at 10, 20 and 100 answers, 90 % sure; all three at 10 answers, 95 % sure."""


@pytest.mark.parametrize("labels", TABLE)
def test_g_is_that_of_the_table(labels: int) -> None:
    first, *rest = TABLE[labels]
    for steps, pair in zip((10, 20, 100), (rest[:2], rest[2:4], rest[4:6]), strict=True):
        assert points(offer(labels, levels(steps)).margins) == pytest.approx((first, *pair))
    assert points(offer(labels, levels(10, Fraction(1, 20))).margins) == pytest.approx(rest[6:])


@pytest.mark.parametrize(
    ("loss", "expected"),
    [("1/20", (6.0, 7.9, 8.6)), ("1/10", (8.0, 10.5, 11.2)), ("1/2", (12.8, 16.3, 17.2))],
)
def test_another_loss_is_planned_for(loss: str, expected: tuple[float, ...]) -> None:
    assert points(offer(500, levels(10), Fraction(loss)).margins) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("rows", "expected"),
    [(100, (13.1, 16.4, 17.2)), (500, (9.2, 12.2, 13.1)), (2_000, (8.1, 11.0, 11.9))],
)
def test_a_larger_validation_set_brings_g_down(rows: int, expected: tuple[float, ...]) -> None:
    assert points(offer(500, levels(10), FIFTH, rows).margins) == pytest.approx(expected)


def test_labels_for_a_g_before_and_after_an_alarm() -> None:
    assert labels_for(TEN / 2, levels(10)[0]) == 2_116
    assert labels_for(TEN / 2, levels(10)[1], 1) == 3_459


def test_a_g_that_the_validation_noise_exceeds_takes_no_number_of_labels() -> None:
    assert labels_for(TEN / 2, levels(10)[0], validation_rows=50) is None


def test_the_chance_of_ok_is_what_a_sum_over_both_sets_says() -> None:
    """Every pair of errors on validation and test set, with the bar of the kernel."""
    n, rows, level, g = 60, 30, Fraction(1, 20), Fraction(22, 100)
    total = 0.0
    for wrong in range(rows + 1):
        claim = min(Fraction(wrong, rows) + g, 1 - Fraction(1, n))
        bar = most_errors(n, claim, level)
        if bar is not None:
            total += binom.pmf(wrong, rows, 0.2) * binom.cdf(bar, n, 0.2)
    assert chance_of_ok(n, rows, FIFTH, g, level) == pytest.approx(total, abs=1e-6)


@pytest.mark.parametrize("labels", [30, 77, 500])
def test_g_is_the_least_thousandth_that_is_ok_often_enough(labels: int) -> None:
    level, rows = levels(10)[0], labels // 2
    g = least_margin(labels, rows, 0, level, FIFTH)
    assert g is not None
    less = g - Fraction(1, 1000)
    assert chance_of_ok(labels, rows, FIFTH, g, level) >= 0.99
    assert chance_of_ok(labels, rows, FIFTH, less, level) < 0.99


def test_too_few_rows_have_no_g() -> None:
    assert [least_margin(n, max(1, n // 2), 0, levels(20)[0], FIFTH) for n in (3, 8)] == [None] * 2
    assert least_margin(9, 4, 0, levels(20)[0], FIFTH) is not None


@pytest.mark.parametrize("n", [40, 500, 48_986])
@pytest.mark.parametrize("share", [0.02, 0.1, 0.5])
@pytest.mark.parametrize("level", [0.05, 1e-6])
def test_plain_ends_are_those_of_the_beta_distribution(n: int, share: float, level: float) -> None:
    errors = int(n * share)
    expected = beta.isf(level, errors + 1, n - errors)
    assert plain.upper_end(n, errors, level) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(("n", "j", "p"), [(20, 15, 0.4), (500, 300, 0.5), (10**6, 501_000, 0.5)])
def test_plain_tails_are_scipy_s(n: int, j: int, p: float) -> None:
    assert plain.log_upper(n, j, p) == pytest.approx(binom.logsf(j - 1, n, p), rel=1e-9)
    assert plain.at_most(n, j, p) == pytest.approx(binom.cdf(j, n, p), rel=1e-9)


def test_teams_that_do_nothing_wrong_are_not_closed() -> None:
    """Twenty models at an error of 20 % whose errors are correlated by a half, many loops."""
    rng = random.Random(15)  # noqa: S311  the same each time
    rows, visible, loops, answers = 500, 250, 100, 20
    meter = Meter(
        question=Alarm(), budget=Closing(alarms=3, steps=answers), sample=Rows(labels=rows)
    )
    heard = closed = 0

    def errors(hard: list[bool]) -> int:
        """A row errs as it does for all models with the root of a half, else anew."""
        return sum(each if rng.random() < 0.5**0.5 else rng.random() < 0.2 for each in hard)

    for _ in range(loops):
        hidden, seen = ([rng.random() < 0.2 for _ in range(n)] for n in (rows, visible))
        at = ledger.start(meter)
        for _ in range(answers):
            shown = Shown(rows, Fraction(errors(seen), visible), visible)
            wrong = errors(hidden)
            at = ledger.decide(meter, at, Measured(shown, Fraction(wrong, rows), wrong)).after
            if not ledger.may(meter, at):
                break
        alarms = ledger.alarms(at)
        heard += alarms > 0
        closed += alarms == 3
    assert heard <= 20
    assert closed <= 3
    assert heard >= 3, "a model at the planned error is not always ok"
