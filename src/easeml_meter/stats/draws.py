"""Drawn edges: bands whose edges the meter draws for every answer, independently of the data.

A developer who knows the edges places a model right at one, and learns something every time. An
edge that is drawn afterwards is rarely near the truth, so most answers are no news. What fixed
edges cost for certain, drawn ones cost in expectation: given all that was drawn before, a model has
at most 1 + 2 eps / w consistent answers on average, w being the distance of the edges.
"""

from __future__ import annotations

import math
from fractions import Fraction

from easeml_meter.spec import MeterSpec
from easeml_meter.stats.feedback import CLOSE
from easeml_meter.stats.rounding import as_written

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
