"""The drawing of labels against steps, for the command line and the planner's page."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from easeml_meter.core.questions.comparison import Setting, labels_by_steps, lines
from easeml_meter.core.questions.sketch import sketch
from easeml_meter.report.labels import labels_svg

SETTING = Setting(3, (0.05, 0.1, 0.15), 0.01, 0.1)
STEPS = [1, 3, 10, 30, 100]
FORMS = labels_by_steps(SETTING, STEPS)
SVG = "{http://www.w3.org/2000/svg}"


def strokes(drawn: str) -> list[ElementTree.Element]:
    """Every line of a meter, in the panels and in the legend."""
    root = ElementTree.fromstring(drawn)  # noqa: S314  # our own
    return [path for path in root.iter(f"{SVG}path") if "m-line-" in path.get("class", "")]


def test_every_meter_of_the_paper_has_a_line_in_every_panel() -> None:
    drawn = strokes(labels_svg(STEPS, FORMS, 10))
    names = [path.findtext(f"{SVG}title") for path in drawn]
    assert set(names) == {name for name, _ in lines(SETTING, 10)}
    assert len(FORMS) == 3
    assert all(names.count(name) == 3 + 1 for name in names), "three panels and the legend"


def test_more_labels_are_higher_and_more_steps_further_right() -> None:
    panel = strokes(labels_svg(STEPS, {"": sketch(SETTING, STEPS)}, 10, 500))[:6]
    ends = {}
    for path in panel:
        points = [
            tuple(map(float, each.split())) for each in re.split("[ML]", path.get("d", ""))[1:]
        ]
        assert [x for x, _ in points] == sorted({x for x, _ in points})
        assert [y for _, y in points] == sorted((y for _, y in points), reverse=True)
        ends[path.findtext(f"{SVG}title")] = points[-1][1]
    order = ["resampling (baseline)", "regular, uniform", "incremental, uniform"]
    assert sorted(order, key=ends.__getitem__) == order


@pytest.mark.parametrize(("chosen", "sign"), [(None, "10 steps"), (500, "your meter")])
def test_what_was_asked_for_is_marked(chosen: int | None, sign: str) -> None:
    drawn = labels_svg(STEPS, FORMS, 10, chosen)
    assert f">{sign}</text>" in drawn
    assert drawn.count("<circle") == (0 if chosen is None else 4)
    assert ("Your meter: 500 labels for 10 answers." in drawn) == (chosen is not None)


def test_one_step_and_equal_labels_can_be_drawn() -> None:
    same = {name: [10.0] for name, _ in lines(SETTING, 1)}
    assert "nan" not in labels_svg([1], {"": same}, 1, 10)


def test_a_strict_policy_lets_it_through() -> None:
    drawn = labels_svg(STEPS, FORMS, 10)
    assert "style" not in drawn
    assert "script" not in drawn
