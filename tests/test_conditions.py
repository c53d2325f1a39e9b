"""Conditions: read as ease.ml/ci's."""

from __future__ import annotations

from fractions import Fraction

import pytest

from easeml_meter.conditions import (
    LONGEST,
    Clause,
    Condition,
    Difference,
    Variable,
    parse_question,
)
from easeml_meter.errors import InvalidInput


@pytest.mark.parametrize("text", ["n > 0.8 +/- 0.01", "n>.8+/-.01", "  n  >  8e-1 +/- 1e-2 "])
def test_a_clause_is_read(text: str) -> None:
    assert Clause.parse(text) == Clause(Variable.ACCURACY, True, 0.8, 0.01)
    assert str(Clause.parse(text)) == "n > 0.8 +/- 0.01"


def test_a_question_of_any_length_is_read_or_refused_at_once() -> None:
    """Nine thousand spaces, which anybody may send, kept a server busy for a quarter of an hour."""
    many = " " * (LONGEST - 40)
    assert parse_question(f"n{many}> 0.8 +/- 0.01") == Condition.parse("n > 0.8 +/- 0.01")
    assert parse_question(f"n - o at{many}0 +/- 0.1") == Difference((0.0,), 0.1)
    for text in (f"n - o at {many}x", f"n{many}x", f"n > 0.8{many}x"):
        with pytest.raises(InvalidInput, match="such as"):
            parse_question(text)
    for start in ("n", "n - o at 0"):
        with pytest.raises(InvalidInput, match="at most 2,000 characters"):
            parse_question(start + " " * 9_000 + "x")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("n - 1.1 * o > 0.01 +/- 0.01", "no coefficients: a row then counts neither -1, 0 nor 1"),
        ("n - 1.1o > 0.01 +/- 0.01", "no coefficients"),
        ("2 n > 0.01 +/- 0.01", "no coefficients"),
        ("o > 0.8 +/- 0.01", "nothing is asked of the old model alone"),
        ("o - n < 0.01 +/- 0.01", "write it the other way round, as n - o"),
        ("n + d > 0.8 +/- 0.01", "no sums"),
        ("n > 0.8 +/- 0.01 \\/ d < 0.1 +/- 0.01", "no or"),
    ],
)
def test_what_ease_ml_ci_has_and_this_has_not_is_refused_with_why(text: str, why: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        Condition.parse(text)
    assert f"given, {why}" in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_condition_is_written_as_it_is_read() -> None:
    text = "n > 0.8 +/- 0.01 /\\ d < 0.1 +/- 0.01"
    assert str(Condition.parse(text)) == text
    assert [clause.above for clause in Condition.parse(text).clauses] == [True, False]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "n > 0.8",
        "n >= 0.8 +/- 0.01",
        "x > 0.8 +/- 0.01",
        "n - 1.1 * o > 0.01 +/- 0.01",
        "o - n > 0.01 +/- 0.01",
        "n - o > 0.995 +/- 0.01",
        "n > 0.8 +/- 0.01 /\\",
        "n > 0.8 +/- 0.01 \\/ d < 0.1 +/- 0.01",
        "n > 1.2.3 +/- 0.01",
        "n > 0.8 +/- -0.01",
        "n > nan +/- 0.01",
        "n > 0.8 +/- 0",
        "n > 0.99 +/- 0.01",
        "n > 0 +/- 0.01",
        "n < 0.01 +/- 0.01",
        "n > 80 +/- 0.01",
        " /\\ ".join(["n > 0.8 +/- 0.01"] * 21),
    ],
)
def test_what_is_no_condition_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        Condition.parse(text)


@pytest.mark.parametrize(
    ("text", "value", "holds"),
    [
        ("n > 0.8 +/- 0.01", "0.81", False),
        ("n > 0.8 +/- 0.01", "0.8101", True),
        ("n < 0.8 +/- 0.01", "0.79", False),
        ("n < 0.8 +/- 0.01", "0.7899", True),
        ("n - o > 0.1 +/- 0.2", "0.3", False),
        ("n - o < -0.1 +/- 0.2", "-0.3001", True),
        ("n - o < -0.1 +/- 0.2", "-0.3", False),
        ("d < 0.1 +/- 0.01", "0.09", False),
    ],
)
def test_a_clause_holds_only_with_its_tolerance_to_spare(
    text: str, value: str, holds: bool
) -> None:
    """Compared without rounding: 0.8 + 0.01 as doubles is not 0.81."""
    assert Clause.parse(text).holds(Fraction(value)) is holds
