"""Every number that the paper prints, and the misprints among them."""

from __future__ import annotations

import math

import pytest

from easeml_meter.lab.curves import HEADLINE, REGULAR_TENANTS, labels, meter_of
from easeml_meter.lab.numbers import (
    NUMBERS,
    ClaimVerdict,
    Number,
    hoeffding_labels,
    misprints,
    of_number,
    read_number,
)
from easeml_meter.promise.compare import as_published


def numbers(printed: str) -> list[Number]:
    return [number for number in NUMBERS if number.printed == printed]


@pytest.mark.parametrize(
    ("text", "value", "digit"),
    [("380K", 380_000, 1000), ("3.5x", 3.5, 0.1), ("26,492", 26_492, 1), ("1.75x", 1.75, 0.01)],
)
def test_printed_numbers_are_read(text: str, value: float, digit: float) -> None:
    assert read_number(text) == pytest.approx((value, digit))


@pytest.mark.parametrize("text", ["", "K", "many", "3.5.1x", "1e5"])
def test_other_words_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a printed number"):
        read_number(text)


@pytest.mark.parametrize(
    ("text", "computed", "about", "verdict"),
    [
        ("108K", 108_080, False, ClaimVerdict.HOLDS),
        ("108K", 108_499.9, False, ClaimVerdict.HOLDS),
        ("108K", 108_500, False, ClaimVerdict.ROUGHLY),
        ("108K", 107_499, False, ClaimVerdict.ROUGHLY),
        ("108K", 102_599, False, ClaimVerdict.FAILS),
        ("200K", 203_008, True, ClaimVerdict.HOLDS),
        ("200K", 203_008, False, ClaimVerdict.ROUGHLY),
        ("200K", 189_999, True, ClaimVerdict.FAILS),
        ("2.64x", 2.6321, False, ClaimVerdict.ROUGHLY),
        ("2.63x", 2.6321, False, ClaimVerdict.HOLDS),
        ("1.4x", 1.58, False, ClaimVerdict.FAILS),
    ],
)
def test_a_number_is_judged_by_rounding(
    text: str, computed: float, about: bool, verdict: ClaimVerdict
) -> None:
    assert of_number(text, computed, about=about) is verdict


def test_every_number_of_the_text_is_there() -> None:
    printed = {number.printed for number in NUMBERS}
    text = (
        "185 26,492 38K 380K 108K 3.5x 66K 5.8x 100K 1.3x 1.75x 71K 1.4x 2x 76K 1.32x 2.64x 50K "
        "80K 25x 200K 300K 2.5x 8x 1.6x 3x 25K 37K 2 3 4"
    )
    assert set(text.split()) <= printed
    assert all(number.places for number in NUMBERS)


@pytest.mark.parametrize(
    ("printed", "computed", "verdict"),
    [
        ("185", math.ceil(math.log(2 / 0.05) / 0.02), ClaimVerdict.HOLDS),
        ("26,492", math.ceil(math.log(2 / 0.01) / 0.0002), ClaimVerdict.HOLDS),
        ("380K", 380_050, ClaimVerdict.HOLDS),
        ("108K", 108_080, ClaimVerdict.HOLDS),
        ("3.5x", 380_050 / 108_080, ClaimVerdict.HOLDS),
        ("66K", 66_527, ClaimVerdict.ROUGHLY),
        ("5.8x", 380_050 / 66_527, ClaimVerdict.ROUGHLY),
        ("100K", 100_033, ClaimVerdict.HOLDS),
        ("1.3x", 1 + math.log(5) / math.log(200), ClaimVerdict.HOLDS),
        ("1.75x", 66_527 / 38_005, ClaimVerdict.HOLDS),
        ("71K", 63_261, ClaimVerdict.FAILS),
        ("1.4x", 100_033 / 63_261, ClaimVerdict.FAILS),
        ("76K", 75_892, ClaimVerdict.HOLDS),
        ("1.32x", 100_033 / 75_892, ClaimVerdict.HOLDS),
        ("2.64x", 100_033 / 38_005, ClaimVerdict.ROUGHLY),
        ("50K", 50_776, ClaimVerdict.ROUGHLY),
        ("80K", 80_472, ClaimVerdict.HOLDS),
        ("200K", 203_008, ClaimVerdict.HOLDS),
        ("300K", 295_112, ClaimVerdict.HOLDS),
        ("2.5x", 203_008 / 80_472, ClaimVerdict.HOLDS),
        ("8x", 203_008 / 25_376, ClaimVerdict.HOLDS),
        ("1.6x", 91_985 / 62_289, ClaimVerdict.FAILS),
        ("3x", 72_425 / 25_376, ClaimVerdict.HOLDS),
        ("25K", 25_376, ClaimVerdict.HOLDS),
        ("37K", 36_889, ClaimVerdict.HOLDS),
        ("millions", 4_951_800, ClaimVerdict.HOLDS),
    ],
)
def test_computed_values(printed: str, computed: float, verdict: ClaimVerdict) -> None:
    [number] = numbers(printed)
    assert number.computed == pytest.approx(computed, rel=1e-12)
    assert number.verdict is verdict


def test_tightened_values() -> None:
    [regular] = numbers("108K")
    assert regular.tightened == pytest.approx(86_542, rel=0.001)
    [bound] = numbers("1.3x")
    assert bound.tightened == pytest.approx(1)  # nonuniform tolerances buy a regular meter nothing


def test_the_two_tenant_misprint_is_explained() -> None:
    [number] = numbers("71K")
    assert "71,308" in number.note  # every signal at the smallest tolerance


def test_known_misprints_are_found() -> None:
    found = {(misprint.printed.split()[0], misprint.formula) for misprint in misprints()}
    assert {
        ("71K", "63,261"),
        ("1.4x", "1.58x"),
        ("2.64x", "2.63x"),
        ("5.8x", "5.71x"),
        ("1.6x", "1.48x"),
    } <= found
    assert not any(printed in ("380K", "108K", "76K") for printed, _ in found)
    [bound] = [each for each in misprints() if "regardless of T" in each.printed]
    assert bound.formula == "1.30x at T = 1, 1.08x at T = 10, 1.01x at T = 100"


def test_the_first_lines_of_the_tenant_equations_are_taken_literally() -> None:
    # Dominated by the smallest tolerance: 2 tenants, 781 (or 5) pairs each, a fifth of them.
    regular = math.ceil(math.log(2 * 2 * 781 / 5 / 0.01) / 0.0002)
    incremental = math.ceil(math.log(2 * 2 * 5 / 5 / 0.01) / 0.0002)
    listed = " ".join(each.printed for each in misprints() if "Equation" in each.place)
    assert f"{regular:,}" in listed
    assert f"{incremental:,}" in listed


def test_bisection_agrees_with_the_planner() -> None:
    meter = meter_of(REGULAR_TENANTS, HEADLINE)
    pairs = [each.log_count for each in as_published(meter)]
    found = hoeffding_labels(pairs, [*map(float, meter.question.tolerances)], HEADLINE.delta)
    assert found == labels(REGULAR_TENANTS, HEADLINE)
