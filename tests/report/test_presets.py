"""Every story has a name for people; what they plan is tested with `meter plan --preset`."""

from __future__ import annotations

from easeml_meter.report.presets import PRESETS, TITLES


def test_every_story_has_a_title() -> None:
    assert TITLES.keys() == PRESETS.keys()
    assert len(set(TITLES.values())) == len(TITLES)
