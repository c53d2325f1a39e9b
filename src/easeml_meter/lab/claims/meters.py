"""Claims about the uniform meters: section 6.1, Figures 8 and 9."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable

from easeml_meter.lab.curves import (
    IDEAL,
    INCREMENTAL,
    REGULAR,
    RESAMPLING,
    STEPS,
    UNIFORM_METERS,
    Case,
    Curve,
    labels,
    ratio,
)
from easeml_meter.lab.verdicts import (
    CLOSE,
    MUCH,
    SLIGHT,
    Claim,
    ClaimFinding,
    close,
    graded,
)

FOUR_PANELS = tuple(itertools.product((0.05, 0.01), (0.05, 0.01)))
"""Delta and epsilon of the four subfigures."""


def rising(values: Iterable[float]) -> bool:
    """Whether each value is larger than the one before."""
    return all(later > first for first, later in itertools.pairwise(values))


def _rises_with_steps() -> ClaimFinding:
    curves = [
        [labels(meter, Case(t, delta, eps)) for t in STEPS]
        for delta, eps in FOUR_PANELS
        for meter in UNIFORM_METERS
    ]
    count = sum(rising(curve) for curve in curves)
    found = f"{count} of {len(curves)} curves rise at every step from T = 10 to T = 100"
    return ClaimFinding(graded(count == len(curves), count > len(curves) / 2), found)


def _growth(meter: Curve, delta: float, eps: float) -> float:
    first, last = (labels(meter, Case(t, delta, eps)) for t in (STEPS[0], STEPS[-1]))
    return last / first


def _speeds_differ() -> ClaimFinding:
    slower = [
        _growth(fast, *panel) / _growth(slow, *panel)
        for panel in FOUR_PANELS
        for fast, slow in ((RESAMPLING, REGULAR), (REGULAR, INCREMENTAL))
    ]
    grown = ", ".join(f"{meter.name} {_growth(meter, 0.01, 0.01):.1f}x" for meter in UNIFORM_METERS)
    found = (
        f"from T = 10 to 100 (delta = epsilon = 0.01): {grown}; over all subfigures the faster one "
        f"grows at least {min(slower):.2f} times as much"
    )
    return ClaimFinding(graded(min(slower) >= MUCH, min(slower) > 1), found)


def _orders_of_growth() -> ClaimFinding:
    """n/f(T) must neither grow nor vanish as T goes from 10 to a million."""
    orders: dict[Curve, Callable[[float], float]] = {
        RESAMPLING: lambda t: t * math.log(t),
        REGULAR: float,
        INCREMENTAL: math.log,
        IDEAL: math.log,
    }
    steps = [10**power for power in range(1, 7)]
    good, said = [], []
    for meter, order in orders.items():
        shares = [labels(meter, Case(t)) / order(t) for t in steps]
        good.append(rising(reversed(shares)) and shares[-1] > shares[0] / 10)
        said.append(f"{meter.name} {shares[-1] / shares[0]:.2f}")
    found = "labels over T ln T, T, ln T, ln T at T = 1,000,000, relative to T = 10: "
    falling = "; all fall on the way" if all(good) else "; not all fall on the way"
    return ClaimFinding(graded(all(good), any(good)), found + ", ".join(said) + falling)


def _gap_to_ideal() -> ClaimFinding:
    ratios = [
        ratio(INCREMENTAL, IDEAL, Case(t, delta, eps)) for t in STEPS for delta, eps in FOUR_PANELS
    ]
    found = f"Incremental Meter is {min(ratios):.2f} to {max(ratios):.2f} times No Adaptivity"
    return ClaimFinding(graded(min(ratios) >= 1 + SLIGHT, min(ratios) > 1), found)


def _delta_matters_little() -> ClaimFinding:
    changes = {
        (meter.name, t): labels(meter, Case(t, 0.01, eps)) / labels(meter, Case(t, 0.05, eps))
        for meter in UNIFORM_METERS
        for t in STEPS
        for eps in (0.05, 0.01)
    }
    meter, steps = max(changes, key=lambda key: changes[key])
    most, least = changes[meter, steps] - 1, min(changes.values()) - 1
    found = f"{least:.1%} to {most:.1%} more labels (most: {meter}, T = {steps})"
    return ClaimFinding(graded(most <= SLIGHT, most <= 3 * SLIGHT), found)


def _epsilon_matters() -> ClaimFinding:
    ratios = [
        labels(meter, Case(t, delta, 0.01)) / labels(meter, Case(t, delta, 0.05))
        for meter in UNIFORM_METERS
        for t in STEPS
        for delta in (0.05, 0.01)
    ]
    found = f"{min(ratios):.2f}x to {max(ratios):.2f}x over all curves"
    return ClaimFinding(graded(all(close(r, 25) for r in ratios), close(max(ratios), 25)), found)


def _order_of_magnitude() -> ClaimFinding:
    best = {
        meter: max(
            ratio(RESAMPLING, meter, Case(t, *panel)) for t in STEPS for panel in FOUR_PANELS
        )
        for meter in (REGULAR, INCREMENTAL)
    }
    found = ", ".join(f"{meter.name} up to {factor:.1f}x" for meter, factor in best.items())
    verdict = graded(max(best.values()) >= 10, max(best.values()) >= 5)
    return ClaimFinding(verdict, f"fewer labels than Resampling: {found}")


UNIFORM = (
    Claim(
        "6.1", "As T increases, the samples required by each approach increase.", _rises_with_steps
    ),
    Claim(
        "6.1",
        "Regular and Incremental Meter grow much more slowly than Resampling, and Incremental "
        "much more slowly than Regular.",
        _speeds_differ,
    ),
    Claim(
        "6.1",
        "Resampling, Regular Meter, Incremental Meter are O(T ln T), O(T), O(ln T); so is No "
        "Adaptivity, O(ln T).",
        _orders_of_growth,
    ),
    Claim(
        "6.1",
        "There is still a visible gap between Incremental Meter and No Adaptivity.",
        _gap_to_ideal,
    ),
    Claim(
        "6.1",
        "From delta = 0.05 to 0.01 the sample complexity only slightly increases.",
        _delta_matters_little,
    ),
    Claim(
        "6.1",
        "From epsilon = 0.05 to 0.01 it increases by around 25x, for all approaches.",
        _epsilon_matters,
    ),
    Claim(
        "1 and 8",
        "Test sets can be an order of magnitude smaller than with Resampling.",
        _order_of_magnitude,
    ),
)


def _rises_with_signals() -> ClaimFinding:
    curves = [
        [labels(meter, Case(t, signals=m)) for m in (5, 10, 20, 50)]
        for meter in (REGULAR, INCREMENTAL)
        for t in STEPS
    ]
    at_ten = {
        meter.name: [labels(meter, Case(10, signals=m)) for m in (5, 10)]
        for meter in (REGULAR, INCREMENTAL)
    }
    said = "; ".join(f"{name} {a:,} to {b:,}" for name, (a, b) in at_ten.items())
    good = [rising(curve) for curve in curves]
    return ClaimFinding(graded(all(good), any(good)), f"at T = 10, from m = 5 to 10: {said}")


def _log_pairs(meter: Curve, signals: int, steps: int) -> float:
    """Return ln |T(m, T)| for any m, however large."""
    if meter is REGULAR:
        return steps * math.log(signals) + math.log(signals / (signals - 1))
    return math.lgamma(signals + steps + 1) - math.lgamma(signals + 1) - math.lgamma(steps + 1)


def _slope(meter: Curve, low: int, high: int, steps: int) -> float:
    """Return by how much ln |T(m, T)| rises per unit of ln m, relative to T."""
    rise = _log_pairs(meter, high, steps) - _log_pairs(meter, low, steps)
    return rise / math.log(high / low) / steps


def _same_rate_in_signals() -> ClaimFinding:
    steps = STEPS[-1]
    drawn = {meter: _slope(meter, 5, 10, steps) for meter in (REGULAR, INCREMENTAL)}
    limit = {meter: _slope(meter, 10**8, 10**9, steps) for meter in (REGULAR, INCREMENTAL)}
    asymptotic = all(abs(slope - 1) <= CLOSE for slope in limit.values())
    already = abs(drawn[INCREMENTAL] / drawn[REGULAR] - 1) <= CLOSE
    found = (
        f"rise of ln |T(m, T)| per unit of ln m, as a share of T, at T = {steps}: Regular "
        f"{drawn[REGULAR]:.2f} and Incremental {drawn[INCREMENTAL]:.2f} from m = 5 to 10, "
        f"{limit[REGULAR]:.2f} and {limit[INCREMENTAL]:.2f} near m = 1,000,000,000"
    )
    if asymptotic and not already:
        found += ": the same rate in the limit, not where the curves are drawn"
    return ClaimFinding(graded(asymptotic and already, asymptotic), found)


SIGNALS = (
    Claim("6.1", "The sample complexity of both meters increases with m.", _rises_with_signals),
    Claim("6.1", "Both meters grow at the same rate, O(ln m).", _same_rate_in_signals),
)
