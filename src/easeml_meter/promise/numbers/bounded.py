"""Tails for losses that may be any number in [0, 1], in log space.

They hold for one fixed model, on both sides, at the worst true loss p; a ceiling c restricts the
bad event to test losses of at most c.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from easeml_meter.promise.numbers.binomial import Floats, tail_and_ratio
from easeml_meter.promise.numbers.plain import (
    RELATIVE_MARGIN,
    log_kl,
    log_sum,
    worst_true_loss,
)

SEARCH_MARGIN = 0.01
"""Nats by which the convex-order tail is raised, because its worst p is searched, not proved."""
_TRIES = 17
_RIPPLES = 0.02
_FAR = np.array([0.0, *(sign * 2.0**-k for k in range(-2, 8) for sign in (-1, 1))])
_NEAR = np.arange(-64.0, 65.0)
"""Where p is tried first, in tolerances and in eighths of a loss from the worst p of kl."""


def log_convex(labels: int, tolerance: float, ceiling: float | None) -> float:
    """Return the convex-order tail, never above kl.

    For losses in [0,1] of mean p, E phi(sum) <= E phi(Bin(n, p)) for every convex phi (Hoeffding
    1963). With phi(s) = (s - a)_+ and Markov's inequality,

        P(mean >= p + eps) <= min over whole a of E(Bin(n, p) - a)_+ / (n (p + eps) - a).

    This is at most e times the binomial tail. It falls with n: for real a, the mean of n + 1 losses
    is below that of n in convex order, and between whole numbers the ratio is monotone.

    It is not proved that the worst p lies near that of kl, or near the end of the range that a
    ceiling leaves. It is searched up to four tolerances away, and over eight whole losses, since
    the bound ripples with n p, and the result is raised by `SEARCH_MARGIN`.
    """
    if ceiling is None:
        sides = [math.log(2) + _worst_convex(labels, tolerance, 0.0, 1 - tolerance)]
    else:
        sides = [
            _worst_convex(labels, tolerance, 0.0, ceiling - tolerance),
            _worst_convex(labels, tolerance, max(0.0, 1 - ceiling - tolerance), 1 - tolerance),
        ]
    searched = log_sum(sides)
    searched += SEARCH_MARGIN + RELATIVE_MARGIN * (1 + abs(searched))
    return min(log_kl(labels, tolerance, ceiling), searched)


# All meters with a tolerance ask for the same sizes, when they are compared or planned again.
@lru_cache(maxsize=10_000)
def _worst_convex(labels: int, tolerance: float, lowest: float, highest: float) -> float:
    """Return the largest bound of the upper side that is found over true losses in this range."""
    if highest <= 0:
        return -math.inf
    nearest = min(max(worst_true_loss(tolerance), lowest), highest)
    tried = nearest + tolerance * _FAR
    spacing = 1 / (8 * labels)
    if tolerance >= _RIPPLES or labels * tolerance <= 20:  # else the ripples are below 0.001
        tried = np.concatenate([tried, nearest + spacing * _NEAR])
    found = -math.inf
    for _ in range(3):
        tried = np.clip(tried, lowest, highest)
        tried = np.unique(tried[tried > 0])
        values = _log_convex_at(labels, tolerance, tried)
        found = max(found, float(values.max()))
        best = tried[np.argsort(values)[-4:]]
        tried = (best[:, None] + spacing * np.linspace(-1, 1, 17)).ravel()
        spacing /= 8
    return found


def _log_convex_at(labels: int, tolerance: float, true_loss: Floats) -> Floats:
    mean = labels * true_loss
    beyond = mean + labels * tolerance
    # E(B | B > a) rises with a, and the best a is where it passes n (p + eps): cut down to that.
    first, last = np.floor(mean), np.minimum(np.ceil(beyond), labels) - 1
    while True:
        step = np.maximum(1.0, np.ceil((last - first) / (_TRIES - 1)))
        tries = first[:, None] + step[:, None] * np.arange(_TRIES)
        tries = np.minimum(tries, last[:, None])
        values = _log_ratio(labels, tries, mean[:, None], beyond[:, None])
        best = np.take_along_axis(tries, values.argmin(axis=1)[:, None], axis=1)[:, 0]
        if (step == 1).all():
            lowest: Floats = values.min(axis=1)
            return lowest
        first, last = np.maximum(first, best - step), np.minimum(last, best + step)


def _log_ratio(labels: int, a: Floats, mean: Floats, beyond: Floats) -> Floats:
    """Return log E(B - a)_+ / (beyond - a) for a >= E B.

    With j = a + 1, E(B - np; B >= j) = j (1 - p) P(B = j), by de Moivre.
    """
    shape = a.shape
    a, mean, beyond = (each.ravel() for each in np.broadcast_arrays(a, mean, beyond))
    log_pmf, ratio = tail_and_ratio(labels, a + 1, mean)
    excess = (a + 1) * (1 - mean / labels) - (a - mean) * ratio
    found: Floats = (log_pmf + np.log(excess) - np.log(beyond - a)).reshape(shape)
    return found
