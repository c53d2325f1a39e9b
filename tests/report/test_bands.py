"""Bands are drawn with what is promised of them."""

from __future__ import annotations

import re

import pytest
from tests.service.helpers import small_spec

from easeml_meter.report.bands import bands_svg
from easeml_meter.spec import MeterSpec


def test_edges_and_tolerance_are_written_outward() -> None:
    spec = MeterSpec.uniform(tolerance=0.0123456, edges=(0.05, 0.1), steps=10, delta=0.1)
    drawn = bands_svg(spec)
    assert re.findall("<text[^>]*>([^<]*)<", drawn) == ["± 1.3 %", "0 %", "5 %", "10 %", "100 %"]
    assert "edges at 5 %, 10 %, and the tolerance 1.3 %" in drawn
    assert [f"fill-{tone}" in drawn for tone in (1, 2, 3, 5)] == [True, True, False, True]
    assert "style" not in drawn


def test_the_reach_of_an_edge_is_as_wide_as_its_tolerance() -> None:
    wide = bands_svg(MeterSpec.uniform(tolerance=0.1, edges=(0.5,), steps=1, delta=0.1))
    (reach,) = re.findall('class="reach" [^>]*x="([0-9.]+)" y="46" width="([0-9.]+)"', wide)
    assert reach == ("144", "72")  # from 0.4 to 0.6 of 360


def test_each_band_may_have_a_tolerance_of_its_own() -> None:
    spec = MeterSpec.uniform(tolerance=[0.01, 0.02], edges=(0.1,), steps=1, delta=0.1)
    assert re.findall("± ([^<]*)<", bands_svg(spec)) == ["1 %", "2 %"]


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (small_spec(signals=1, edges=[], drawn=0.2), "edges move"),
        (MeterSpec.uniform(signals=13, tolerance=0.01, steps=1, delta=0.1), ""),
        (MeterSpec.uniform(signals=1, tolerance=0.01, steps=1, delta=0.1), "edges at none"),
    ],
)
def test_other_meters(spec: MeterSpec, words: str) -> None:
    drawn = bands_svg(spec)
    assert words in drawn
    assert bool(drawn) is bool(words)
