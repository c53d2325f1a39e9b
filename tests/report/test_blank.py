"""The picture of a meter before its first answer."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from easeml_meter.report.blank import blank_svg
from easeml_meter.spec import MeterSpec


def spec_with(steps: int = 3, **options: object) -> MeterSpec:
    given: dict[str, object] = {"tolerance": 0.05, "edges": (0.1, 0.2)} | options
    return MeterSpec.uniform(steps=steps, delta=0.05, **given)  # type: ignore[arg-type]


def texts(drawn: str) -> list[str]:
    return re.findall(r"<text[^>]*>([^<]*)</text>", drawn)


def test_every_band_has_a_row_the_worst_on_top() -> None:
    drawn = blank_svg(spec_with())
    assert texts(drawn) == [
        "3: 20 to 100 %",
        "2: 10 to 20 %",
        "1: 0 to 10 %",
        "3 answers, tolerance 5 %",
    ]
    assert drawn.count('class="slot"') == 9
    assert drawn.index("fill-5") < drawn.index("fill-1")


def test_other_losses_are_no_percentages() -> None:
    assert "1: 0 to 0.1" in texts(blank_svg(spec_with(loss="brier")))


def test_a_condition_has_two_answers() -> None:
    spec = MeterSpec(bands=(), steps=1, delta=0.05, question="n > 0.8 +/- 0.05")
    assert texts(blank_svg(spec)) == ["fail", "pass", "1 answer"]


def test_drawn_edges_have_no_numbers() -> None:
    drawn = blank_svg(spec_with(edges=None, signals=1, drawn=0.05))
    assert texts(drawn)[-1] == "3 answers, tolerance 5 %; edges move"
    assert not any(re.match(r"\d+:", each) for each in texts(drawn))


@pytest.mark.parametrize("bands", [1, 8, 9, 20])
def test_many_bands_and_answers_stay_one_picture(bands: int) -> None:
    drawn = blank_svg(spec_with(1_000, signals=bands, edges=None))
    ElementTree.fromstring(drawn)  # noqa: S314 - we made it
    assert len(texts(drawn)) <= 9
    assert ("bands between are not drawn" in drawn) == (bands > 8)
