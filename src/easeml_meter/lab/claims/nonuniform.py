"""Claims about nonuniform tolerances: sections 5.1 and 6.2.1, Figure 10."""

from __future__ import annotations

import math

from easeml_meter.core.questions.planning import required_labels
from easeml_meter.lab.curves import (
    HEADLINE,
    IDEAL,
    INCREMENTAL,
    INCREMENTAL_NONUNIFORM,
    REGULAR,
    REGULAR_NONUNIFORM,
    STEPS,
    Case,
    Curve,
    CurveForm,
    labels,
    ratio,
    spec_of,
)
from easeml_meter.lab.verdicts import SIGNIFICANT, SLIGHT, Claim, ClaimFinding, close, graded

TWO_PANELS = (0.05, 0.01)
"""Delta of the two subfigures of Figure 10."""


def _ratios(first: Curve, second: Curve) -> list[float]:
    return [ratio(first, second, Case(t, delta)) for delta in TWO_PANELS for t in STEPS]


def _regular_gains_little() -> ClaimFinding:
    gains = _ratios(REGULAR, REGULAR_NONUNIFORM)
    tight = max(
        ratio(REGULAR, REGULAR_NONUNIFORM, Case(t, delta), CurveForm.TIGHTENED)
        for delta in TWO_PANELS
        for t in STEPS
    )
    found = f"{min(gains):.3f}x to {max(gains):.3f}x; counted as distinct models {tight:.3f}x"
    return ClaimFinding(graded(1 < max(gains) <= 1 + SLIGHT, max(gains) <= SIGNIFICANT), found)


def _regular_gain_is_bounded() -> ClaimFinding:
    bound = 1 + math.log(HEADLINE.signals) / math.log(2 / HEADLINE.delta)
    gains = {t: ratio(REGULAR, REGULAR_NONUNIFORM, Case(t)) for t in range(1, STEPS[-1] + 1)}
    largest = max(gains, key=lambda t: gains[t])
    valid = max(gains.values()) <= bound * 1.0001  # labels are whole numbers
    reached = any(close(gains[t], bound) for t in STEPS)
    found = (
        f"the bound is {bound:.3f}; largest gain over T = 1 to 100: {gains[largest]:.3f}x at "
        f"T = {largest}; {gains[10]:.3f}x at T = 10"
    )
    if valid and not reached:
        found += ". A true bound, but far from every T that is drawn"
    return ClaimFinding(graded(valid and reached, valid), found)


def _regular_gain_can_be_boosted() -> ClaimFinding:
    usual = ratio(REGULAR, REGULAR_NONUNIFORM, HEADLINE)
    by_signals = ratio(REGULAR, REGULAR_NONUNIFORM, Case(10, signals=50))
    by_delta = ratio(REGULAR, REGULAR_NONUNIFORM, Case(10, delta=0.1))
    boosted = [by_signals >= usual * (1 + SLIGHT), by_delta >= usual * (1 + SLIGHT)]
    found = (
        f"at T = 10 {usual:.3f}x becomes {by_signals:.3f}x with m = 50 and {by_delta:.3f}x with "
        "delta = 0.1"
    )
    return ClaimFinding(graded(all(boosted), min(by_signals, by_delta) > usual), found)


def _incremental_gains_much() -> ClaimFinding:
    gains = _ratios(INCREMENTAL, INCREMENTAL_NONUNIFORM)
    found = f"{min(gains):.2f}x to {max(gains):.2f}x"
    return ClaimFinding(graded(min(gains) >= SIGNIFICANT, max(gains) >= SIGNIFICANT), found)


def _incremental_orders() -> ClaimFinding:
    """Return how many labels a factor of e in T costs, in units of 1 / (2 eps^2)."""
    unit = math.log(10) / (2 * HEADLINE.tolerance**2)
    slopes = [
        (labels(meter, Case(10**6)) - labels(meter, Case(10**5))) / unit
        for meter in (INCREMENTAL, INCREMENTAL_NONUNIFORM)
    ]
    found = f"slope in ln T: uniform {slopes[0]:.2f} (m = 5), nonuniform {slopes[1]:.2f}"
    good = close(slopes[0], HEADLINE.signals) and close(slopes[1], 1)
    return ClaimFinding(graded(good, slopes[0] > slopes[1]), found)


def _near_the_ideal() -> ClaimFinding:
    ratios = _ratios(INCREMENTAL_NONUNIFORM, IDEAL)
    found = f"{min(ratios):.4f} to {max(ratios):.4f} times No Adaptivity"
    return ClaimFinding(graded(all(close(r, 1) for r in ratios), close(min(ratios), 1)), found)


def _other_tolerances() -> ClaimFinding:
    """Spread the tolerances by s: eps_k = eps_1 (1 + s (k - 1)); the paper's own is s = 1."""
    worst = {}
    for spread in (2.0, 1.0, 0.5, 0.2, 0.1, 0.05):
        tolerances = [0.01 * (1 + spread * k) for k in range(5)]
        worst[spread] = max(
            required_labels(
                spec_of(INCREMENTAL_NONUNIFORM, Case(t)).with_tolerances(tolerances)
            ).labels
            / labels(IDEAL, Case(t))
            for t in STEPS
        )
    good = [spread for spread, factor in worst.items() if close(factor, 1)]
    bad = {spread: factor for spread, factor in worst.items() if spread not in good}
    listed = "; ".join(
        f"up to {factor:.2f}x at {spread:.0%} (0.01 to {0.01 * (1 + 4 * spread):.3g})"
        for spread, factor in bad.items()
    )
    found = (
        "close to No Adaptivity while the tolerances grow by "
        f"{min(good):.0%} of eps_1 per band or more" + (f"; not below: {listed}" if bad else "")
    )
    return ClaimFinding(graded(not bad, 1.0 in good), found)


NONUNIFORM = (
    Claim(
        "6.2.1",
        "The nonuniform regular meter slightly improves over Regular Meter, but not much.",
        _regular_gains_little,
    ),
    Claim(
        "5.1",
        "Nonuniform tolerances improve a regular meter by at most 1 + ln m / ln(2/delta): the best "
        "would be 1.3x for m = 5 and delta = 0.01, regardless of T.",
        _regular_gain_is_bounded,
    ),
    Claim(
        "5.1",
        "One can increase either m or delta to boost that improvement of the regular meter.",
        _regular_gain_can_be_boosted,
    ),
    Claim(
        "6.2.1",
        "The nonuniform incremental meter significantly improves over the uniform one.",
        _incremental_gains_much,
    ),
    Claim(
        "6.2.1",
        "The uniform incremental meter is O(m ln T), the nonuniform one O(ln T).",
        _incremental_orders,
    ),
    Claim("6.2.1", "The nonuniform incremental meter is close to No Adaptivity.", _near_the_ideal),
    Claim(
        "6.2.1",
        "With other settings of the tolerances the observations on nonuniform meters remain valid.",
        _other_tolerances,
    ),
)
