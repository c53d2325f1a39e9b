"""The scale that gaps are drawn on, and the colour of each answer.

Where bands are fixed they are the rungs of the scale, equally high whatever their width. Drawn
edges move from answer to answer, so their scale has even rungs, as wide as the edges are apart, or
a few times that; an answer then lies across rungs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from easeml_meter.core.views import Signal
from easeml_meter.promise.numbers.rounding import as_written
from easeml_meter.report.palette import band_colours, colour_between
from easeml_meter.spec import MeterSpec

MOST = 12
_FEWEST = 4
"""Rungs of a scale with drawn edges."""
TONES = 5
_REDDEST = 4
"""Widths of a band, of at most a tenth, at which a gap is certainly as bad as it looks."""


@dataclass(frozen=True)
class Scale:
    """Rungs from 0 up, each from one edge to the next."""

    spec: MeterSpec
    signals: Sequence[Signal] = ()
    """The answers that must be on it."""

    @cached_property
    def edges(self) -> tuple[float, ...]:
        """Where the rungs begin, and where the last one ends."""
        question = self.spec.meter.question
        apart = question.draws
        if apart is None:  # nothing is read off a verdict
            return tuple(map(float, question.ends or (0, 1)))
        highest = max((each.true_gap[1] for each in self.signals if each.true_gap), default=0.0)
        wanted = max(math.ceil(as_written(highest) / apart), _FEWEST)
        count = min(wanted, math.ceil(1 / apart))
        step = apart * math.ceil(count / MOST)
        rungs = math.ceil(count * apart / step)
        return tuple(min(float(k * step), 1.0) for k in range(rungs + 1))

    @property
    def rungs(self) -> tuple[tuple[float, float], ...]:
        """The rungs, the lowest first."""
        return tuple(pairwise(self.edges))

    @property
    def colours(self) -> tuple[str, ...]:
        """A colour for each rung, from green to red."""
        question = self.spec.meter.question
        if question.reads == "n - o":
            return band_colours(question.rungs)[::-1]
        if question.numbered:
            return band_colours(max(1, question.rungs))
        return tuple(_drawn_colour(self.spec, lower) for lower, _ in self.rungs)

    def shows(self, signal: Signal) -> bool:
        """Whether an answer tells a range on this scale: a gap or a difference, as the scale is."""
        change = self.spec.meter.question.reads == "n - o"
        return (signal.change if change else signal.gap) is not None

    def place(self, gap: float) -> float:
        """Return how many rungs below a gap there are, with its share of its own rung."""
        index = next((k for k, rung in enumerate(self.rungs) if gap < rung[1]), len(self.rungs) - 1)
        lower, upper = self.rungs[index]
        return index + min(1.0, (gap - lower) / (upper - lower))


def answer_colour(signal: Signal) -> str:
    """Return the colour of an answer that tells a band."""
    if signal.change is not None:  # the more, the better
        return band_colours(signal.spec.meter.question.rungs)[-signal.answer]
    if signal.spec.meter.question.numbered or signal.gap is None:
        return band_colours(signal.spec.meter.question.rungs)[signal.answer - 1]
    return _drawn_colour(signal.spec, signal.gap[0])


def tone(signal: Signal) -> int:
    """Return the tone of an answer for pages with tones of their own: 1 to 5, the worst; 0: none.

    The last band always has the worst tone; fewer than five bands take the others from the low end.
    """
    if signal.band is None:
        return 1 if signal.passed else 0
    if not signal.spec.meter.question.numbered and signal.gap is not None:
        return 1 + int((TONES - 1) * _badness(signal.spec, signal.gap[0]))
    count = signal.spec.meter.question.rungs
    return band_tone(count + 1 - signal.band if signal.change else signal.band, count)


def band_tone(band: int, count: int) -> int:
    """Return the tone of one of `count` bands."""
    if count == 1:
        return 1
    if band == count:
        return TONES
    return band if count <= TONES else 1 + (TONES - 1) * (band - 1) // (count - 1)


def _drawn_colour(spec: MeterSpec, lower: float) -> str:
    """Return the colour of a gap that is at least this large: the same on every scale."""
    return colour_between(_badness(spec, lower))


def _badness(spec: MeterSpec, lower: float) -> float:
    """Return how bad a gap between drawn edges is at least, from 0 to 1."""
    return min(1.0, lower / (_REDDEST * min(float(spec.meter.question.draws or 1), 0.1)))
