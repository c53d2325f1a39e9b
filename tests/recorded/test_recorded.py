"""What was recorded comes again: the same labels, answers, steps left and released losses.

A difference in `answers/` or `plans.json` is a broken promise, not a file to write anew.
"""

from __future__ import annotations

import json

import pytest
from tests.recorded import replay
from tests.recorded.replay import ANSWERS, NAMES, PLANS, SHOWN, Replay


def again(data: replay.Json) -> replay.Json:
    """Return it as a file gives it back, where lists are lists, with twelve digits of a number.

    Sums of a tail differ in the last digit between machines whose vectors have other widths.
    """
    return json.loads(json.dumps(data), parse_float=lambda text: float(f"{float(text):.12g}"))


@pytest.mark.parametrize("name", NAMES)
def test_a_meter_answers_and_shows_what_was_recorded(name: str) -> None:
    found = Replay(name)
    assert again(found.answers) == again(replay.read(ANSWERS / f"{name}.json"))
    assert again(found.shown) == again(replay.read(SHOWN / f"{name}.json"))


@pytest.mark.parametrize("name", NAMES)
def test_a_meter_that_was_restored_goes_on_as_recorded(name: str) -> None:
    found = Replay(name, restored=True)
    assert again(found.answers) == again(replay.read(ANSWERS / f"{name}.json"))
    shown = again(replay.read(SHOWN / f"{name}.json"))
    assert again(found.shown) == {each: shown[each] for each in found.shown}
    assert {*shown} - {*found.shown} == {"audit"}  # it says, too, that the meter was restored


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: plan["name"])
def test_a_plan_asks_for_the_labels_that_were_recorded(plan: replay.Json) -> None:
    wanted = {each: plan[each] for each in ("labels", "then_in_all") if each in plan}
    assert replay.planned(plan["settings"]) == wanted


def test_the_help_of_all_commands_is_as_recorded() -> None:
    assert replay.help_of_all() == (SHOWN / "help.txt").read_text("utf-8")


def test_the_document_of_the_api_is_as_recorded() -> None:
    assert again(replay.document()) == again(replay.read(SHOWN / "openapi.json"))


def test_everything_was_recorded() -> None:
    """Fourteen meters, each whole, and the plans of 76 settings and three top-ups."""
    assert len(NAMES) == 14
    assert len(PLANS) == 79
    assert sum("then_in_all" in plan for plan in PLANS) == 3
    for name in NAMES:
        told = replay.read(replay.METERS / f"{name}.json")
        done = [each["do"] for each in told["story"]]
        assert {"deliver", "submit", "restore", "release"} <= {*done}
        assert len(replay.read(ANSWERS / f"{name}.json")) == 1 + len(done)
