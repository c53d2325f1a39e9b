"""Bands: which gaps are told as one signal, and with which tolerance."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from fractions import Fraction

from easeml_meter.checks import finite, settle
from easeml_meter.errors import invalid

SMALLEST_TOLERANCE = 1e-6
"""A smaller one takes more than the 10^12 labels that any meter can have."""
_HALF_POINT = Fraction(1, 200)


def default_edges(tolerance: float, *, costly: bool = False) -> tuple[float, ...]:
    """Return where bands begin if nobody says so: half a tolerance, then as often as it is free.

    Honest models mostly stay below the first edge; a smaller one would promise little more. The
    others are two tolerances apart, which costs no label, unless edges are `costly`: each answer
    is the worst so far, or bands are remembered.
    """
    finite("tolerance", tolerance)
    eps = Fraction(str(tolerance))
    found = [_half_points(eps / 2)]
    while not costly:
        last = found[-1]
        following = _half_points(max(last + 2 * eps, 2 * last))
        if following >= Fraction(1, 2):
            break
        found.append(following)
    return tuple(map(float, found))


def _half_points(value: Fraction) -> Fraction:
    """Round up to half a percentage point."""
    return max(1, math.ceil(value / _HALF_POINT)) * _HALF_POINT


@dataclass(frozen=True, slots=True)
class Band:
    """One signal: gaps in [lower, upper) are told as this band, with this tolerance.

    The last band of a meter also contains its upper edge, 1.
    """

    lower: float
    upper: float
    tolerance: float

    def __post_init__(self) -> None:
        for name in ("lower", "upper", "tolerance"):
            finite(f"band {name}", getattr(self, name))
            settle(self, **{name: float(getattr(self, name))})
        if not 0 <= self.lower < self.upper <= 1:
            raise invalid("band", f"[{self.lower}, {self.upper})", "0 <= lower < upper <= 1 needed")
        if self.tolerance <= 0:
            raise invalid("tolerance", self.tolerance, "it must be a number above 0")
        if self.tolerance < SMALLEST_TOLERANCE:
            raise invalid("tolerance", self.tolerance, f"at least {SMALLEST_TOLERANCE:g}")


def check_bands(bands: tuple[Band, ...]) -> None:
    """Refuse bands that leave a gap out, overlap, or promise more where the gap is larger."""
    if not bands:
        raise invalid("bands", "none", "at least one")
    if not all(isinstance(band, Band) for band in bands):
        raise invalid("bands", bands, "a sequence of Band")
    if bands[0].tolerance >= 1:  # a later band may promise nothing; the first one must
        raise invalid("tolerance", bands[0].tolerance, "the first band's must be below 1")
    if bands[0].lower != 0:
        raise invalid("bands", f"first band starts at {bands[0].lower}", "it must start at 0")
    if bands[-1].upper != 1:
        raise invalid("bands", f"last band ends at {bands[-1].upper}", "it must end at 1")
    for number, (band, following) in enumerate(itertools.pairwise(bands), 1):
        if band.upper != following.lower:
            kind = "gap" if band.upper < following.lower else "overlap"
            given = f"{kind} between {band.upper} and {following.lower}"
            raise invalid("bands", given, f"band {number + 1} must start where band {number} ends")
        if following.tolerance < band.tolerance:
            given = f"{band.tolerance} then {following.tolerance}"
            raise invalid("tolerance", given, "tolerances must not decrease from band to band")
