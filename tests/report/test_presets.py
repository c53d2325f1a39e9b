"""Every story has a name for people; what they plan is tested with `meter plan --preset`."""

from __future__ import annotations

from easeml_meter.report.presets import PRESETS, TITLES


def test_every_story_has_a_title() -> None:
    assert TITLES.keys() == PRESETS.keys()
    assert len(set(TITLES.values())) == len(TITLES)


def test_no_story_ends_with_its_first_bad_model() -> None:
    assert all(each.get("protocol", "regular") == "regular" for each in PRESETS.values())
