"""Figures that were computed elsewhere: tolerances, bars and exact intervals at a level."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from easeml_meter.promise.kernel import least_wins, most_errors
from easeml_meter.promise.numbers import plain
from easeml_meter.promise.numbers.tails import worst_upper_tail

Row = dict[str, Any]
ROWS: list[Row] = json.loads(Path("tests/data/golden-3.json").read_text("utf-8"))


def having(key: str) -> pytest.MarkDecorator:
    rows = [row for row in ROWS if key in row]
    return pytest.mark.parametrize("row", rows, ids=lambda row: f"{row['name']}, {sorted(row)}")


def exactly(value: float) -> Fraction:
    return Fraction(repr(value))


@having("tolerance")
def test_a_tolerance_uses_its_part_of_delta(row: Row) -> None:
    """What it uses of delta, and what one of a ten-thousandth less would."""
    sides = 2 if row["name"].startswith(("regular", "no adaptivity")) else 1
    for less, used in ((0.0, row["use"]), (1e-4, row["use_below"])):
        tail = worst_upper_tail(row["n"], round(row["tolerance"] - less, 4), 0, row["n"])
        found = math.exp(tail + math.log(sides * int(row["count"]))) / row["delta"]
        assert found == pytest.approx(used[0], abs=2e-6)


@having("most_errors")
def test_the_most_errors_at_a_level(row: Row) -> None:
    assert most_errors(row["n"], exactly(row["claim"]), exactly(row["level"])) == row["most_errors"]


@having("least_wins")
def test_the_least_wins_at_a_level(row: Row) -> None:
    assert least_wins(row["discordant"], exactly(row["level"])) == row["least_wins"]


@having("lower")
def test_exact_intervals_at_a_level(row: Row) -> None:
    n, errors = row["n"], row["errors"]
    assert plain.upper_end(n, errors, row["alpha"]) == pytest.approx(row["upper"], abs=1e-6)
    assert 1 - plain.upper_end(n, n - errors, row["alpha"]) == pytest.approx(row["lower"], abs=1e-6)


def test_every_row_is_used() -> None:
    kinds = ("tolerance", "most_errors", "least_wins", "lower")
    assert [sum(kind in row for kind in kinds) for row in ROWS] == [1] * 70
