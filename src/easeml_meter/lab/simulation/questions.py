"""Where a developer puts its validation loss so that the answer tells the most about the test loss.

The developer owns the validation set, so the validation loss it reports can be anything in [0, 1],
and with it the edges of the bands cut the test loss anywhere. A question is such a place, together
with what each answer then says about how far the test loss is from its true value. It is found by
asking the meter's own rules, so it works under any protocol.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist

from easeml_meter.core.signals import Rules, State

_POINTS = 32
QUANTILES = tuple(NormalDist().inv_cdf((i + 0.5) / _POINTS) for i in range(_POINTS))
"""Deviations of a test loss from its true value, in standard deviations, all equally likely."""
_MOST_EDGES = 8


@dataclass(frozen=True)
class SimulatedQuestion:
    """A validation loss, and what is learnt from each answer."""

    validation: float
    told: dict[int, float]
    """For each answer, the mean deviation of the test loss."""
    kept: dict[int, tuple[float, ...]]
    """For each answer, the deviations still possible."""

    @classmethod
    def of(cls, validation: float, groups: Mapping[int, Sequence[float]]) -> SimulatedQuestion:
        """Return a question from the deviations that lead to each answer."""
        told = {answer: math.fsum(group) / len(group) for answer, group in groups.items()}
        return cls(validation, told, {answer: tuple(group) for answer, group in groups.items()})


def best_question(
    rules: Rules,
    state: State,
    loss: float,
    deviation: float,
    *,
    possible: tuple[float, ...] = QUANTILES,
    rare: float = 0.5,
) -> SimulatedQuestion:
    """Find the question whose answer tells the most about a model of this true loss.

    The most is the largest mean square of what is learnt: that is what a combination of many models
    gains. Less than one half for `rare` pays if unusual signals are dear: then at most that share
    of the deviations still possible gets one.
    """
    best, best_value = SimulatedQuestion(loss, {}, {}), -math.inf
    usual = rules.answers(state)[0]
    most = len(possible) if rare >= 0.5 else round(rare * len(possible))
    for validation in _places(rules, loss, deviation, possible, rare):
        groups: dict[int, list[float]] = {}
        for z in possible:
            test = min(1.0, max(0.0, loss + z * deviation))
            answer = rules.answer(state, validation, test)
            groups.setdefault(answer, []).append(z)
        if sum(len(group) for answer, group in groups.items() if 0 < answer != usual) > most:
            continue
        found = SimulatedQuestion.of(validation, groups)
        value = math.fsum(len(groups[answer]) * mean**2 for answer, mean in found.told.items())
        if value > best_value + 1e-9:
            best, best_value = found, value
    return best


def understood(
    validation: float,
    gap: tuple[float, float] | None,
    loss: float,
    deviation: float,
    *,
    answer: int,
) -> SimulatedQuestion:
    """Return what was told once its drawn edges are known, which nobody could know before."""
    tests = {z: min(1.0, max(0.0, loss + z * deviation)) for z in QUANTILES}
    left: list[float] = []
    if answer > 0 and gap is not None:
        low, high = gap
        left = [z for z, test in tests.items() if low <= abs(test - validation) < high]
    return SimulatedQuestion.of(validation, {answer: left} if left else {})


def _places(
    rules: Rules, loss: float, deviation: float, possible: tuple[float, ...], rare: float
) -> Iterator[float]:
    """Yield validation losses that put an edge of the bands where it cuts off such a share.

    If any share will do, also at the quarters: a ceiling or a second edge may cut in the middle.
    """
    yield loss
    inner = [band.lower for band in rules.spec.bands[1:]]
    edges = inner[:: math.ceil(len(inner) / _MOST_EDGES)] if inner else []
    shares = (rare, 1 - rare) if rare < 0.5 else (0.5, 0.25, 0.75)
    for share in shares:
        index = round(share * len(possible))
        if 0 < index < len(possible):
            cut = loss + deviation * (possible[index - 1] + possible[index]) / 2
            places = [cut + side * edge for edge in edges for side in (1, -1)]
            yield from (place for place in places if 0 <= place <= 1)
