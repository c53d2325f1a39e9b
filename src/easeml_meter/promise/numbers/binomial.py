"""Tails of the binomial distribution in full double precision, however deep and however large n.

`labels`, `successes` and `mean` may be arrays of one shape; `mean` is n p, below the successes.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(48)
_NODES, _WEIGHTS = (_NODES + 1) / 2, _WEIGHTS / 2


def log_density(labels: int | Floats, j: Floats, mean: Floats) -> Floats:
    """Return log P(X = j) for X ~ Bin(n, mean/n), where j > 0 (Loader 2000)."""
    rest = labels - j
    distance = j - mean
    with np.errstate(divide="ignore", invalid="ignore"):
        deviance = j * np.log1p(-distance / j) + np.where(
            rest > 0, rest * np.log1p(distance / rest), 0.0
        )
        scale = np.where(rest > 0, 0.5 * np.log(labels / (2 * math.pi * j * rest)), 0.0)
    every = np.atleast_1d(np.asarray(labels, dtype=np.float64))
    correction = _stirling(every) - _stirling(j) - _stirling(rest)
    return deviance + scale + np.where(rest > 0, correction, 0.0)


def tail_and_ratio(labels: int | Floats, j: Floats, mean: Floats) -> tuple[Floats, Floats]:
    """Return log P(X = j) and P(X >= j) / P(X = j) for X ~ Bin(n, mean/n), where j > mean."""
    return log_density(labels, j, mean), tail_ratio(labels, j, mean)


_STIRLING_SMALL = np.array(
    [0.0]
    + [
        math.lgamma(k + 1) - (k + 0.5) * math.log(k) + k - 0.5 * math.log(2 * math.pi)
        for k in range(1, 16)
    ]
)


def _stirling(k: Floats) -> Floats:
    """Return log k! minus Stirling's formula (Loader 2000), for whole k; zero for k = 0."""
    large = np.maximum(k, 16.0)
    square = large * large
    series = (1 / 12 - (1 / 360 - (1 / 1260 - (1 / 1680) / square) / square) / square) / large
    small = _STIRLING_SMALL[np.minimum(k, 15.0).astype(np.intp)]
    return np.where(k < 16, small, series)


def tail_ratio(labels: int | Floats, j: Floats, mean: Floats) -> Floats:
    """Return P(X >= j) / P(X = j), by quadrature of the incomplete beta integral.

    With t = p exp(-u) the integral becomes j times the integral over u > 0 of exp(e(u)), where
    e(u) = -j u + (n - j) log((1 - p exp(-u)) / (1 - p)) is concave and falls from e(0) = 0. On
    [0, reach] with e(reach) about -40, 48 Gauss-Legendre nodes give full double precision
    whatever n is; a continued fraction or the series need ever more terms as eps falls.
    """
    p = mean / labels
    odds = p / (1 - p)
    rest = labels - j
    slope = (j - mean) / (1 - p)
    curvature = rest * odds / (1 - p)
    reach = 80 / (slope + np.sqrt(slope * slope + 80 * curvature))
    depth = j * reach - rest * np.log1p(-odds * np.expm1(-reach))
    reach *= np.maximum(1.0, 40 / depth)
    u = reach[:, None] * _NODES
    exponent = rest[:, None] * np.log1p(-odds[:, None] * np.expm1(-u)) - j[:, None] * u
    return j * reach * (np.exp(exponent) @ _WEIGHTS)
