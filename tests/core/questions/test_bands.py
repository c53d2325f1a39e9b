"""Bands of any score."""

from __future__ import annotations

from fractions import Fraction

import pytest

from easeml_meter.core.questions.bands import Bands
from easeml_meter.errors import InvalidInput
from easeml_meter.promise.samples import parse_loss
from easeml_meter.promise.shapes import Flat


def test_two_bands_are_consistent_where_bands_are_wide() -> None:
    assert Bands(0.01).gap().possible == 2
    assert Bands(0.01, 4, (0.02, 0.04, 0.06)).gap().possible == 2
    assert Bands(0.01, 4, (0.01, 0.02, 0.03)).gap().possible == 3


def test_drawn_edges_are_counted_on_average() -> None:
    assert Bands(0.01, drawn=0.2).gap().shape(parse_loss("0-1")) == Flat(Fraction(11, 10))
    assert len(Bands(0.01, drawn=0.2).answers) == 1
    assert Bands(0.01).answers[0] == "band 1"


def test_bands_are_checked() -> None:
    with pytest.raises(InvalidInput, match="tolerance"):
        Bands(0)
    with pytest.raises(InvalidInput, match="edges"):
        Bands(0.01, 3, (0.5,))
