"""Drawn edges: bands whose edges the meter draws for every answer, independently of the data.

A developer who knows the edges places a model right at one, and learns something every time. An
edge that is drawn afterwards is rarely near the truth, so most answers are no news. What fixed
edges cost for certain, drawn ones cost in expectation: given all that was drawn before, a model has
at most 1 + 2 eps / w consistent answers on average, w being the distance of the edges.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from easeml_meter.spec import MeterSpec
from easeml_meter.stats.feedback import CLOSE
from easeml_meter.stats.rounding import as_written

Logs = NDArray[np.float64]

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
    wider = 1 + CLOSE if spec.rounds else 1
    reach = 2 * as_written(spec.tolerances[0]) * wider
    return Fraction(math.ceil(reach / as_written(spec.drawn) * DRAWS), DRAWS)


def log_few(ratio: int | Fraction, terms: int, most: int) -> float:
    """Return the logarithm of the sum of C(t, j) ratio^(t-j) over t < terms and j <= most.

    These are the histories in which one answer, always possible, comes at most `most` times before
    the last model. They are the coefficients up to z^most of the sum of (ratio + z)^t, which is
    put together by doubling `terms`, in logarithms and without a subtraction.
    """
    step = np.full(most + 1, -np.inf)
    step[:2] = [math.log(ratio), 0.0][: most + 1]
    one = np.full(most + 1, -np.inf)
    one[0] = 0.0
    total, power = np.full(most + 1, -np.inf), one
    for bit in f"{terms:b}":
        total, power = np.logaddexp(total, _product(total, power)), _product(power, power)
        if bit == "1":
            total, power = np.logaddexp(total, power), _product(power, step)
    return float(np.logaddexp.reduce(total))


def _product(first: Logs, second: Logs) -> Logs:
    """Multiply two power series, given by logarithms, up to the last power that both have."""
    found = np.full(len(first), -np.inf)
    for shift, coefficient in enumerate(first):
        found[shift:] = np.logaddexp(found[shift:], coefficient + second[: len(second) - shift])
    return found
