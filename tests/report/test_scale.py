"""Scales: bands as they are, or even rungs for edges that move."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.report.sessions import DRAWN, SPEC, drawn_session, session

from easeml_meter.core.signals import NO_READING
from easeml_meter.report.palette import band_colours
from easeml_meter.report.scale import MOST, TONES, Scale, answer_colour, band_tone, tone


def test_fixed_bands_are_the_rungs() -> None:
    scale = Scale(SPEC)
    assert scale.edges == (0, 0.02, 0.05, 0.1, 0.2, 1)
    assert scale.colours == band_colours(5)
    assert [scale.place(gap) for gap in (0, 0.01, 0.02, 0.6, 1)] == [0, 0.5, 1, 4.5, 5]


@pytest.mark.parametrize(("drawn", "steps"), [(0.05, 1), (0.3, 2), (0.0101, 3), (1.0, 1)])
def test_drawn_edges_have_few_even_rungs_that_hold_every_answer(drawn: float, steps: int) -> None:
    spec = DRAWN.replace(drawn=drawn)
    for gap in (0.0, 0.07, 0.5, 1.0):
        signals = drawn_session([gap] * steps, spec).signals
        scale = Scale(spec, signals)
        assert 1 <= len(scale.rungs) <= MOST
        assert scale.edges[0] == 0
        highest = max(signal.true_gap[1] for signal in signals if signal.true_gap)
        assert highest <= scale.edges[-1] <= 1
        widths = {round(upper - lower, 9) for lower, upper in scale.rungs[:-1]}
        assert len(widths) <= 1
        assert scale.place(scale.edges[-1]) == len(scale.rungs)


def test_a_gap_has_the_same_colour_on_every_scale() -> None:
    low, high = drawn_session([0.01, 0.9]).signals
    assert answer_colour(low) == band_colours(5)[0]
    assert answer_colour(high) == band_colours(5)[-1]
    strip = Scale(DRAWN, (low, high)).colours
    assert (strip[0], strip[-1]) == (answer_colour(low), answer_colour(high))


def test_the_last_band_has_the_worst_tone() -> None:
    tones = {
        count: [band_tone(band, count) for band in range(1, count + 1)] for count in range(1, 9)
    }
    assert tones[1] == [1]
    assert tones[3] == [1, 2, 5]
    assert tones[5] == [1, 2, 3, 4, 5]
    for count in range(2, 9):
        assert tones[count] == sorted(tones[count])
        assert tones[count][-1] == TONES
        assert tones[count].count(TONES) == 1


def test_a_gap_between_drawn_edges_has_a_tone_and_no_reading_has_none() -> None:
    view = session([1, 3], DRAWN)
    wide = replace(view.signals[1], first_edge=0.05, answer=12)
    assert tone(replace(view.signals[0], first_edge=0.03)) == 1
    assert tone(wide) == TONES
    assert tone(session([NO_READING]).signals[0]) == 0
