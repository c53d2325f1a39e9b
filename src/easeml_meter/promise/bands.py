"""Bands: where one ends and the next begins, and how many of them one truth can be told as."""

from __future__ import annotations

import itertools
import math
from bisect import bisect_right
from collections.abc import Sequence
from fractions import Fraction

HALF_POINT = Fraction(1, 200)
DRAWS = 10**6
"""A drawn edge is one of so many equally likely ones, evenly spaced from 0 on."""


def default_edges(tolerance: Fraction) -> tuple[Fraction, ...]:
    """Return where bands begin for a tolerance: half of it, then two more of them, or double.

    All lie two tolerances apart or more, so that no truth is left with a third band; and above the
    first one, so that models that do not overfit stay in the lowest band.
    """
    found = [_rounded(tolerance / 2)]
    while True:
        edge = _rounded(max(found[-1] + 2 * tolerance, 2 * found[-1]))
        if edge >= Fraction(1, 2):
            return tuple(found)
        found.append(edge)


def _rounded(value: Fraction) -> Fraction:
    return math.ceil(value / HALF_POINT) * HALF_POINT


def most_bands(edges: Sequence[Fraction], tolerances: Sequence[Fraction]) -> int:
    """Return b: the most bands whose ranges, widened by their tolerances, share one gap.

    A promise counts as broken from eps (1 - 1e-9) on, so edges exactly two tolerances apart leave
    two bands, whatever is rounded in a loss.
    """
    ends = itertools.pairwise((Fraction(0), *edges, Fraction(1)))
    eps = tolerances if len(tolerances) > 1 else tuple(tolerances) * (len(edges) + 1)
    reach = [
        (max(Fraction(0), low - e), high + e) for (low, high), e in zip(ends, eps, strict=True)
    ]
    lows, highs = sorted(low for low, _ in reach), sorted(high for _, high in reach)
    # The number of half-open ranges around a point is largest where one of them begins.
    return max(bisect_right(lows, at) - bisect_right(highs, at) for at in lows)


def expected_edges(tolerance: Fraction, apart: Fraction) -> Fraction:
    """Return rho: how many drawn edges lie within two tolerances, on average and rounded up."""
    return Fraction(math.ceil(2 * tolerance / apart * DRAWS), DRAWS)


def band_of(edges: Sequence[Fraction], value: Fraction) -> int:
    """Return the number of a band, from 1: the lower edge in, the upper one out."""
    return 1 + bisect_right(edges, value)
