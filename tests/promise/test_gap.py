"""From losses to bands: which edge belongs to which, drawn ones, the worst so far, near a ceiling;
and where a reading leaves the true loss."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from easeml_meter.errors import InvalidInput
from easeml_meter.promise import ledger
from easeml_meter.promise.gap import Gap
from easeml_meter.promise.levels import ends_of, level_of_all, log_first_tail
from easeml_meter.promise.meter import Meter
from easeml_meter.promise.numbers import plain
from easeml_meter.promise.questions import Measured, Shown
from easeml_meter.promise.schema import exact

TENTHS = "edges = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9]"
TENTH, HALF = Fraction(1, 10), Fraction(1, 2)


def asked(more: str, tolerance: str = "0.1") -> Gap:
    meter = Meter.loads(f'question = {{ask = "gap", tolerance = {tolerance}, {more}}}')
    assert isinstance(meter.asked, Gap)
    return meter.asked


def told(
    gap: Gap, validation: object, test: object, so_far: int = 0, edge: Fraction | None = None
) -> str:
    shown = Shown(1000, exact(validation), None, edge)
    return gap.answer(so_far, Measured(shown, exact(test)), Fraction(0))


@pytest.mark.parametrize(
    ("validation", "test", "band"),
    [
        (0.3, 0.6, "4"),
        (0.6, 0.3, "4"),
        (0.4, 0.7, "4"),  # 0.7 - 0.4 is 0.29999999999999993 in doubles
        (0.5, 0.8, "4"),  # 0.8 - 0.5 is 0.30000000000000004
        (0.0, Fraction(3 * 10**20 - 1, 10**21), "3"),
        (0, 0, "1"),
        (0, 1, "10"),
        (1, 0, "10"),
        (0.1, 0.99, "9"),
    ],
)
def test_a_gap_on_an_edge_belongs_to_the_band_above(
    validation: object, test: object, band: str
) -> None:
    assert told(asked(TENTHS), validation, test) == band


@given(
    validation=st.integers(0, 10_000),
    test=st.integers(0, 10_000),
    edges=st.lists(st.integers(1, 999), min_size=1, max_size=8, unique=True).map(sorted),
)
def test_bands_are_half_open_whatever_the_edges(
    validation: int, test: int, edges: list[int]
) -> None:
    gap = Gap(tolerance=TENTH, edges=tuple(Fraction(edge, 1000) for edge in edges))  # type: ignore[arg-type]
    band = 1 + sum(abs(validation - test) >= 10 * edge for edge in edges)
    assert told(gap, Fraction(validation, 10_000), Fraction(test, 10_000)) == str(band)


def test_only_a_worse_model_has_a_signed_gap() -> None:
    gap = asked("edges = [0.1], signed = true")
    assert [told(gap, 0.5, test) for test in (0.1, 0.59, 0.6)] == ["1", "1", "2"]


def test_the_worst_band_so_far_stays() -> None:
    gap = asked("edges = [0.1, 0.2], worst = true")
    assert [told(gap, 0.5, 0.6, so_far) for so_far in (0, 1, 2)] == ["2", "2", "3"]


@pytest.mark.parametrize("first", [Fraction(0), Fraction(1, 8), Fraction(1, 4) - TENTH**6])
def test_a_drawn_band_holds_its_gap(first: Fraction) -> None:
    gap = asked("drawn = 0.25")
    for test in (0, 0.1, 0.125, 0.25, 0.6, 0.999, 1):
        answer = told(gap, 0, test, edge=first)
        lower, upper = gap.range_of(answer, Shown(9, Fraction(0), None, first)) or (2, 2)
        assert lower <= exact(test) < upper or upper == exact(test) == 1
        assert upper - lower <= Fraction(1, 4)
        assert 1 <= int(answer) <= gap.bands


@pytest.mark.parametrize("loss", [Fraction(-1, 8), Fraction(17, 16)])
@pytest.mark.parametrize("test", [Fraction(0), TENTH, Fraction(1)])
def test_a_broken_validation_loss_is_refused_whatever_the_test_loss_is(
    loss: Fraction, test: Fraction
) -> None:
    with pytest.raises(InvalidInput, match="validation loss"):
        told(asked("edges = [0.1], ceiling = 0.2"), loss, test)


def test_a_broken_test_loss_is_refused_without_being_shown() -> None:
    with pytest.raises(InvalidInput, match="hidden") as refused:
        told(asked("edges = [0.1]"), HALF, Fraction(17, 16))
    assert "1.0625" not in str(refused.value)


def test_an_edge_near_the_ceiling_is_left_out_on_both_sides() -> None:
    """Left out on the upper side alone, the same edge would still cut the lower side."""
    gap = asked("edges = [0.005, 0.03], ceiling = 0.1", "0.01")
    loss = Fraction(775, 10_000)  # only .0775 + .005 is within two tolerances of the ceiling
    near = [Fraction(k, 10_000) for k in range(625, 826)]
    assert {told(gap, loss, test) for test in near} == {"1"}
    assert told(gap, loss, 0.1) == "1"
    assert told(gap, loss, Fraction(1001, 10_000)) == "above-ceiling"


def test_a_ceiling_merges_nothing_where_answers_are_forgotten() -> None:
    """Then windows of answers are counted, and "above" is one of them that promises nothing."""
    text = 'question = {ask = "gap", tolerance = 0.01, edges = [0.005, 0.03], ceiling = 0.1}'
    meter = Meter.loads(text + "\nbudget = {steps = 5, memory = 2}")
    assert isinstance(meter.asked, Gap)
    loss = Fraction(775, 10_000)
    assert {told(meter.asked, loss, loss + k * TENTH**3) for k in range(7)} == {"1", "2"}
    assert ledger.promises(meter, "above-ceiling", Shown(9, loss)) == ()


@pytest.mark.parametrize(
    ("more", "validation", "answer", "side"),
    [
        ("edges = [0.3]", 0.2, "2", 1),
        ("edges = [0.3]", 0.8, "2", -1),
        ("edges = [0.3]", 0.5, "2", 0),
        ("edges = [0.3]", 0.2, "1", 0),
        ("edges = [0.3], signed = true", 0.5, "2", 1),
        ("edges = [0.3], ceiling = 0.9", 0.65, "2", -1),
    ],
)
def test_losses_leave_room_on_one_side(
    more: str, validation: float, answer: str, side: int
) -> None:
    assert asked(more).side(answer, Shown(9, exact(validation))) == side


# --- where the true loss is: the tolerance, and the exact interval at the size delivered ---


def regular(steps: int, delta: str, edges: str, tolerance: str = "0.09") -> Meter:
    question = f'{{ask = "gap", tolerance = {tolerance}, edges = {edges}}}'
    return Meter.loads(
        f"question = {question}\nbudget = {{steps = {steps}}}\nmeter = {{delta = {delta}}}"
    )


@pytest.mark.parametrize(
    ("loss", "least", "most"),
    [
        (".02", 0.0173, 0.0229),
        (".05", 0.0458, 0.0545),
        (".1", 0.0941, 0.1061),
        (".2", 0.1921, 0.2081),
    ],
)
def test_the_papers_meter_promises_more_than_its_tolerance(
    loss: str, least: float, most: float
) -> None:
    """n = 48,986, T = 10, delta = .01: .10 is good to .0061."""
    meter = regular(10, "0.01", "[0.02, 0.05, 0.1, 0.2]", "0.01")
    low, high = ends_of(meter, 48_986)(exact(loss), exact(loss), TENTH**2)
    assert round(float(low), 4) == pytest.approx(least, abs=1.01e-4)
    assert round(float(high), 4) == pytest.approx(most, abs=1.01e-4)
    low, high = ends_of(meter, 48_986)(HALF, HALF, TENTH**2)
    assert (round(float(low), 4), round(float(high), 4)) == (0.49, 0.51)


def test_more_rows_than_planned_promise_more() -> None:
    """At the size delivered, not at the one planned: 1,000 rows where 504 were."""
    meter = regular(10, "0.1", "[0.1, 0.3]")
    low, high = ends_of(meter, 1000)(Fraction(1, 5), Fraction(1, 5), exact("0.09"))
    assert (round(float(low), 3), round(float(high), 3)) == (0.154, 0.253)


@pytest.mark.parametrize(
    "more",
    [
        'sample = {loss = "recall[a]"}',  # its interval would tell how many are positive
        'sample = {loss = "precision[a]"}',
        'sample = {loss = "f1[a]"}',
        'sample = {loss = "brier"}',
        'sample = {cluster = "user"}',
        "sample = {judge_error = 0.1, pool = 1000}",
    ],
)
def test_no_exact_interval_where_it_would_tell_a_hidden_count_or_no_lemma_has_it(more: str) -> None:
    meter = Meter.loads('question = {ask = "gap", tolerance = 0.1, edges = [0.3]}\n' + more)
    assert ends_of(meter, 500)(HALF, HALF, TENTH) == (HALF - TENTH, HALF + TENTH)


@pytest.mark.parametrize("rows", [30, 61])
@pytest.mark.parametrize(
    "more",
    [
        "",
        "signed = true",
        "worst = true",
        "drawn = 0.5",
    ],
)
def test_the_printed_numbers_are_true_at_the_worst_truth(more: str, rows: int) -> None:
    """The exact chance, over all test losses, that the numbers of an answer are false."""
    if "drawn" not in more:
        more = f"edges = [0.2, 0.5]{more and ', '}{more}"
    # A tolerance that takes nearly nothing at so few rows: the exact interval has all of the level.
    text = f'question = {{ask = "gap", tolerance = 0.48, {more}}}\nbudget = {{steps = 2}}'
    meter = Meter.loads(text)
    level = float(level_of_all(meter))
    assert log_first_tail(meter, rows) < math.log(level)
    edge = Fraction(3, 25) if "drawn" in more else None
    question = meter.asked
    assert isinstance(question, Gap)
    worst = 0.0
    for validation in (Fraction(0), Fraction(3, 10), Fraction(7, 10)):
        shown = Shown(rows, validation, None, edge)
        answers = [
            question.answer(0, Measured(shown, Fraction(errors, rows)), Fraction(0))
            for errors in range(rows + 1)
        ]
        promised = {each: ledger.promises(meter, each, shown) for each in set(answers)}
        for truth in {Fraction(k, 40) for k in range(41)} | _near_ends(promised):
            false = 0.0
            for errors, answer in enumerate(answers):
                if not all(_holds(each, truth, validation, question) for each in promised[answer]):
                    false += math.exp(plain.log_density(rows, errors, float(truth)))
            worst = max(worst, false)
    assert level / 20 < worst <= level * (1 + 1e-9)


def _near_ends(promised: Any) -> set[Fraction]:
    ends = {
        end
        for promises in promised.values()
        for each in promises
        if each.of == "true loss"
        for end in (each.at_least, each.at_most)
        if end is not None
    }
    near = Fraction(1, 10**9)
    return {end + side * near for end in ends for side in (-1, 1) if 0 <= end + side * near <= 1}


def _holds(promise: Any, truth: Fraction, validation: Fraction, question: Gap) -> bool:
    value = truth
    if promise.of == "true gap":
        value = max(Fraction(0), truth - validation) if question.signed else abs(truth - validation)
    least, most = promise.at_least or Fraction(0), promise.at_most or Fraction(1)
    return least <= value <= most
