"""Labels against steps, quickly and nearly: for a drawing that follows every change of a form."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from easeml_meter.core.questions.comparison import Setting, lines
from easeml_meter.promise import solve
from easeml_meter.promise.meter import Meter
from easeml_meter.promise.numbers.bounds import Bound
from easeml_meter.promise.numbers.plain import log_sum
from easeml_meter.promise.numbers.tails import log_tail

_RATIO = 2.0
"""From one size at which a tail is computed to the next; between them it is nearly straight."""
_UNSEEN = 12.0
"""What is smaller by this, in logarithms, moves no line by a visible amount."""


def sketch(setting: Setting, steps: Sequence[int]) -> dict[str, list[float]]:
    """Return the labels of each meter's consistent plan at each of these steps, to within 2%.

    Of a few dozen labels it may miss more.
    """
    budget = math.log(setting.delta)
    rows = [(name, spec.meter) for count in steps for name, spec in lines(setting, count)]
    counts = [[each.log_count for each in solve.terms(meter)] for _, meter in rows]
    # Hoeffding's bound for all that is counted is above; less than a third of it for one model,
    # below.
    scale = 2 * setting.tolerances[0] ** 2
    most = (max(map(log_sum, counts)) + math.log(2) - budget) / scale + 2
    least = max(1.0, max(math.log(2) - budget - 1, 0.1) / scale / 3)
    nodes = np.geomspace(least, most, 2 + math.ceil(math.log(most / least) / math.log(_RATIO)))
    tails = _Tails(nodes)
    found: dict[str, list[float]] = {}
    for (name, meter), logs in zip(rows, counts, strict=True):
        failure = tails.failure(meter, logs, budget)
        size = float(np.interp(-budget, -failure, nodes))
        sets = int(meter.budget.steps) if meter.renewal.anew else 1
        found.setdefault(name, []).append(size * sets)
    return found


class _Tails:
    """Exact tails at the sizes given, each computed once."""

    def __init__(self, nodes: NDArray[np.float64]) -> None:
        self._sizes = [round(node) for node in nodes]
        self._known: dict[float, NDArray[np.float64]] = {}

    def failure(self, meter: Meter, counts: Sequence[float], budget: float) -> NDArray[np.float64]:
        terms: list[NDArray[np.float64]] = []
        for count, tolerance in zip(counts, map(float, meter.question.tolerances), strict=False):
            if tolerance not in self._known:
                rough = count + log_tail(Bound.KL, self._sizes[0], tolerance)
                if terms and rough < budget - _UNSEEN:
                    continue
                values = [log_tail(Bound.EXACT, size, tolerance) for size in self._sizes]
                self._known[tolerance] = np.array(values)
            terms.append(count + self._known[tolerance])
        return np.asarray(np.logaddexp.reduce(terms), dtype=np.float64)
