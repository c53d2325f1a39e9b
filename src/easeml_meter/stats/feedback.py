"""Which answers to a model are consistent with every promise so far.

Only the *first* broken promise matters. Before it, every test loss is within its tolerance of the
true loss. So of all answers to a model only those near its true gap can have come, and a history
with any other answer needs no event in the union bound. `possible_bands` is how many bands remain,
wherever the truth lies. With `count = "all"` every band remains. Where the edges of each answer
are drawn, independently of the data, `expected_edges` adds how many are expected: a developer who
knows the edges places a model right at one, and learns something every time; one that is drawn
afterwards is rarely near the truth. Given all that was drawn before, a model has at most
1 + 2 eps / w consistent answers on average, w being the distance of the edges.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from fractions import Fraction
from functools import lru_cache

from easeml_meter.promise.numbers.rounding import as_written, confidence_of
from easeml_meter.spec import Count, MeterSpec, Protocol

CLOSE = Fraction(1, 10**9)
"""The share of a tolerance that is left when a promise breaks, where losses are rounded."""

Range = tuple[Fraction, Fraction]
"""True gaps, the lower end in and the upper end out."""


def broken_from(spec: MeterSpec, tolerance: float) -> float:
    """Return the distance from the true loss from which on a promise counts as broken.

    A loss that is no exact fraction is rounded, by less than what is taken off here. So until then
    what is measured lies within the tolerance, and edges two tolerances apart are far enough.
    """
    return tolerance * float(1 - CLOSE) if spec.rounds else tolerance


@lru_cache(maxsize=1024)  # a ledger asks at every hand-over, a search for tolerances at every try
def possible_bands(spec: MeterSpec) -> int:
    """Return how many bands can be told of one model while no promise is broken.

    It is the largest number of bands that reach the same true gap. Where edges near a ceiling are
    left out, one band and "above the ceiling" are possible there, which are two as well.
    """
    ranges = reaches(spec)
    # The number of half-open ranges around a point is largest at the lower end of one of them: as
    # many as have begun there, but for those that have ended. Anybody may ask for many bands.
    lowers, uppers = sorted(lower for lower, _ in ranges), sorted(upper for _, upper in ranges)
    most = max(bisect_right(lowers, at) - bisect_right(uppers, at) for at in lowers)
    return max(2, most) if spec.merges else most


def reaches(spec: MeterSpec) -> list[Range]:
    """Return, for each band, the true gaps of which it can be told while no promise is broken.

    Band k is told of a true gap g only if some gap in it is within eps_k of g. A regular meter is
    planned as if every band had the first tolerance, which keeps the larger ones, too. Ends are
    rationals, because edges exactly two tolerances apart leave two bands, not three.
    """
    if spec.published or spec.count is Count.ALL:
        return [(Fraction(0), Fraction(2))] * spec.signals
    by_band = spec.protocol is Protocol.INCREMENTAL
    tolerances = spec.tolerances if by_band else spec.tolerances[:1] * spec.signals
    return [
        (max(Fraction(0), as_written(band.lower) - eps), as_written(band.upper) + eps)
        for band, tolerance in zip(spec.bands, tolerances, strict=True)
        for eps in (as_written(tolerance),)
    ]


DRAWS = 10**6
"""A drawn edge is one of so many equally likely ones, evenly spaced from 0 on."""


def expected_edges(spec: MeterSpec) -> Fraction:
    """Return how many drawn edges are expected where they add an answer; 0 if edges are fixed.

    While no promise is broken, a gap lies in a range of two tolerances that is fixed before the
    edges are drawn. Each place for an edge has probability 1/DRAWS, and they are w/DRAWS apart, so
    at most ceil(2 eps DRAWS / w) lie in the range: 2 eps / w edges, and what rounding adds.
    """
    if spec.drawn is None:
        return Fraction(0)
    reach = 2 * as_written(spec.tolerances[0])
    return Fraction(math.ceil(reach / as_written(spec.drawn) * DRAWS), DRAWS)


@lru_cache(maxsize=1024)  # a long history prints the same few figures at every step
def confidence(spec: MeterSpec, number: int = 1) -> str:
    """Return the probability that a session keeps its promise, rounded down and never 1.

    Of a rolling test set: that all windows do up to the last one that shares its delta with the one
    of this `number`. Every delta is for the first promise that is broken, so they add up.
    """
    deltas = 1 if spec.window is None else -(-number // spec.steps)
    return confidence_of(min(Fraction(1), deltas * as_written(spec.delta)))
