"""What the paper prints and its own formulas do not give."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from easeml_meter.lab.curves import (
    HEADLINE,
    INCREMENTAL_TENANTS,
    REGULAR,
    REGULAR_NONUNIFORM,
    REGULAR_TENANTS,
    Case,
    labels,
    ratio,
    spec_of,
)
from easeml_meter.lab.paper import PrintedNumber
from easeml_meter.lab.trees import tree
from easeml_meter.lab.verdicts import ClaimVerdict
from easeml_meter.spec import Count, MeterSpec, Protocol
from easeml_meter.stats.counting import log_models, log_sum


@dataclass(frozen=True)
class Misprint:
    """Something printed, and what the formula gives instead."""

    place: str
    printed: str
    formula: str
    why: str


def misprints(numbers: Sequence[PrintedNumber]) -> tuple[Misprint, ...]:
    """List every number that is not what its formula gives, then the slips in the text."""
    found = [
        Misprint(
            place=", ".join(number.places),
            printed=f"{number.printed} ({number.what})",
            formula=number.shown,
            why=number.note,
        )
        for number in numbers
        if number.verdict is not ClaimVerdict.HOLDS
    ]
    return (*found, _improvement_bound(), *_tenant_equations(), _tree_name(), *_references())


def _improvement_bound() -> Misprint:
    by_steps = {steps: ratio(REGULAR, REGULAR_NONUNIFORM, Case(steps)) for steps in (1, 10, 100)}
    values = ", ".join(f"{value:.2f}x at T = {steps}" for steps, value in by_steps.items())
    return Misprint(
        place="5.1",
        printed="the best improvement of the regular meter would be 1.3x regardless of T",
        formula=values,
        why="1 + ln m / ln(2/delta) bounds it, but is reached at T = 1 only; counted as distinct "
        "models, nonuniform tolerances gain a regular meter nothing at any T",
    )


def _tenant_equations() -> list[Misprint]:
    """Take the first lines of Equations 9 and 10 at their word."""
    found = []
    for number, meter in ((9, REGULAR_TENANTS), (10, INCREMENTAL_TENANTS)):
        spec = spec_of(meter, HEADLINE)
        literal = [count - math.log(spec.signals) for count in log_models(spec)]
        size = hoeffding_labels(literal, spec.tolerances, spec.delta)
        found.append(
            Misprint(
                place=f"5.2, Equation {number}",
                printed=f"first line, with the factor 1/m: {size:,} labels at T = 10",
                formula=f"{labels(meter, HEADLINE):,} by its second line",
                why="the count per signal is already the m-th part of the tree (Corollary 1)"
                if meter is REGULAR_TENANTS
                else "the count per signal needs no 1/m (Corollary 2)",
            )
        )
    return found


def _tree_name() -> Misprint:
    drawn, named = tree(2, 2, Protocol.REGULAR), tree(2, 3, Protocol.REGULAR)
    return Misprint(
        place="4.2, Example 1",
        printed="the tree T(2, 3) for m = 2 and T = 2",
        formula=f"T(2, 2), which has {drawn.published} nodes",
        why=f"T(2, 3) has {named.published}",
    )


def _references() -> list[Misprint]:
    forgetful = MeterSpec.uniform(
        signals=5, tolerance=0.01, steps=10, delta=0.01, memory=2, count=Count.ALL
    )
    models = round(math.exp(log_sum(log_models(forgetful))))
    return [
        Misprint(
            place="6.2.1",
            printed="compares Equation 7 with 5, and 8 with 6, to show what nonuniformity gains",
            formula="3 and 4 are the uniform meters",
            why=f"Equation 3 gives {labels(REGULAR, HEADLINE):,} at T = 10, Equation 5 itself "
            f"{labels(REGULAR_NONUNIFORM, HEADLINE):,}",
        ),
        Misprint(
            place="Figure 3 (c)",
            printed="System Y (SemEval 2019)",
            formula="SemEval 2018",
            why="as in Figure 3 (b) and in section 3.3",
        ),
        Misprint(
            place="1, C2 (3)",
            printed='the optimisation "non-adversarial developers"',
            formula="no formula",
            why="named, never defined; for developers who remember only the last 2 signals there "
            f"are {models:,} distinct models at T = 10",
        ),
    ]


def hoeffding_labels(log_counts: Sequence[float], tolerances: Sequence[float], delta: float) -> int:
    """Solve sum of 2 count exp(-2 n eps^2) <= delta for n by bisection, as section 6.1 says.

    For equations taken literally, misprints included; the planner never uses it.
    """

    def holds(size: int) -> bool:
        terms = [
            count + math.log(2) - 2 * size * eps**2
            for count, eps in zip(log_counts, tolerances, strict=True)
        ]
        return log_sum(terms) <= math.log(delta)

    low, high = 0, 1
    while not holds(high):
        high *= 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
