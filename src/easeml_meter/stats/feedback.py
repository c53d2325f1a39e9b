"""Which answers to a model are consistent with every promise so far.

Only the *first* broken promise matters. Before it, every test loss is within its tolerance of the
true loss. So of all answers to a model only those near its true gap can have come, and a history
with any other answer needs no event in the union bound. `possible_bands` is how many bands remain,
wherever the truth lies. With `count = "all"` every band remains. Where the edges of each answer
are drawn, `draws` adds how many are expected.
"""

from __future__ import annotations

from bisect import bisect_right
from fractions import Fraction
from functools import lru_cache

from easeml_meter.spec import Count, MeterSpec, Protocol
from easeml_meter.stats.rounding import as_written

CLOSE = Fraction(1, 10**9)
"""Edges this close to two tolerances apart count as closer, if losses are not exact fractions."""

Range = tuple[Fraction, Fraction]
"""True gaps, the lower end in and the upper end out."""


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
    wider = 1 + CLOSE if spec.rounds else 1
    by_band = spec.protocol is Protocol.INCREMENTAL
    tolerances = spec.tolerances if by_band else spec.tolerances[:1] * spec.signals
    return [
        (max(Fraction(0), as_written(band.lower) - eps), as_written(band.upper) + eps)
        for band, tolerance in zip(spec.bands, tolerances, strict=True)
        for eps in (as_written(tolerance) * wider,)
    ]
