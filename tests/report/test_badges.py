from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import pytest
from tests.report.parsing import boxes, drawing, nodes, texts
from tests.report.sessions import LIMITED, SPEC, session

from easeml_meter.core.lifecycle import Phase
from easeml_meter.core.signals import ABOVE_CEILING, NO_READING
from easeml_meter.core.views import SessionView
from easeml_meter.report.badges import badge_json, badge_svg, battery_svg
from easeml_meter.report.palette import band_colours


@pytest.mark.parametrize("share", [0, 0.003, 0.2, 0.64, 1])
def test_the_battery_says_its_share(share: float) -> None:
    root = drawing(battery_svg(share))
    (words,) = texts(root)
    assert words.endswith("%")
    assert (root[0].text or "") == f"Battery: {words} of the capacity left"
    track, *charge = [boxes(path.get("d") or "")[0] for path in nodes(root, "path")]
    assert len(charge) == (share > 0)
    for bar in charge:
        assert 0 < bar[2] <= track[2]


def test_a_share_out_of_range_is_drawn_at_the_end() -> None:
    assert battery_svg(1.2) == battery_svg(1)
    assert battery_svg(-1) == battery_svg(0)


@pytest.mark.parametrize(
    ("answers", "words"),
    [
        ([], "no answers yet"),
        ([1, 2], "band 2, 8 steps left"),
        ([1] * 9, "band 1, 1 step left"),
        ([1] * 10, "band 1, spent"),
        ([1, ABOVE_CEILING], "above ceiling, 8 steps left"),
        ([1, NO_READING], "no reading, 8 steps left"),
    ],
)
def test_the_badge_says_the_last_answer(answers: list[int], words: str) -> None:
    root = drawing(badge_svg(session(answers, LIMITED)))
    assert texts(root) == ["meter", words]
    assert root[0].text == f"meter: {words}"
    badge = json.loads(badge_json(session(answers, LIMITED)))
    assert (badge["schemaVersion"], badge["label"], badge["message"]) == (1, "meter", words)


def test_the_badge_has_the_colour_of_the_band() -> None:
    for band, colour in enumerate(band_colours(5), 1):
        fills = [node.get("fill") for node in nodes(drawing(badge_svg(session([band]))), "path")]
        badge = json.loads(badge_json(session([band])))
        assert fills == [badge["labelColor"], badge["color"]] == [fills[0], colour]


@pytest.mark.parametrize("badge", [badge_svg, badge_json])
def test_the_badge_tells_the_last_answer_and_what_is_left_alone(
    badge: Callable[[SessionView], str],
) -> None:
    view = session([1, 5, 2])
    other = session([4, 3, 2], models=["a", "b", "c"], meter="other")
    assert badge(view) == badge(other)
    assert badge(replace(view, promise="x", battery=0.1)) == badge(view)


def test_the_badge_of_a_test_set_that_was_retired_has_no_steps_left() -> None:
    view = replace(session([1, 2], phase=Phase.SPENT), steps_left=0)
    assert json.loads(badge_json(view))["message"] == "band 2, spent"


def test_the_badge_of_a_window_that_gave_its_answers_waits_for_a_batch() -> None:
    spec = SPEC.replace(window=4, submissions=2)
    view = session([1, 2], spec, left=0)
    assert json.loads(badge_json(view))["message"] == "band 2, next batch due"


def test_the_badge_counts_the_answers_of_the_batch_that_has_come_since() -> None:
    """A window shows the answers of those before it, after the last of which none was left."""
    view = replace(session([1, 2], SPEC.replace(window=4, submissions=2), left=0), steps_left=2)
    assert json.loads(badge_json(view))["message"] == "band 2, 2 steps left"
