"""The points of the paper's curves: pure computing, no drawing.

Every curve is computed twice: as published (Hoeffding's bound, pairs of model and signal) and
tightened (the exact binomial tail, distinct models).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache

from easeml_meter.lab.meters import Protocol, equal_edges, gap_meter, in_teams
from easeml_meter.promise import compare, solve
from easeml_meter.promise.budgets import Reverts
from easeml_meter.promise.meter import Budget, Meter


class CurveForm(StrEnum):
    """How a curve was computed."""

    PUBLISHED = "as published"
    TIGHTENED = "tightened"


@dataclass(frozen=True)
class Curve:
    """One curve: a feedback rule under the name it has in the paper's legends."""

    name: str
    protocol: Protocol
    nonuniform: bool = False
    """Tolerances eps, 2 eps, .. m eps instead of eps for every band."""
    two_tenants: bool = False
    travels: bool = False
    """Reverts steps 1, 2, .. B, a schedule fixed in advance (the paper's "time travel")."""


@dataclass(frozen=True)
class Case:
    """Where on the curve: the paper's T, delta, eps, m and B."""

    steps: int
    delta: float = 0.01
    tolerance: float = 0.01
    signals: int = 5
    reverts: int = 0


RESAMPLING = Curve("Resampling", Protocol.RESAMPLING)
REGULAR = Curve("Regular Meter", Protocol.REGULAR)
INCREMENTAL = Curve("Incremental Meter", Protocol.INCREMENTAL)
IDEAL = Curve("No Adaptivity", Protocol.INDEPENDENT)
REGULAR_NONUNIFORM = Curve("Regular, Nonuniform", Protocol.REGULAR, nonuniform=True)
INCREMENTAL_NONUNIFORM = Curve("Incremental, Nonuniform", Protocol.INCREMENTAL, nonuniform=True)
REGULAR_TENANTS = Curve("Regular, Two Tenants", Protocol.REGULAR, True, two_tenants=True)
INCREMENTAL_TENANTS = Curve(
    "Incremental, Two Tenants", Protocol.INCREMENTAL, True, two_tenants=True
)
REGULAR_TRAVEL = Curve("Regular, Time Travel", Protocol.REGULAR, True, travels=True)
INCREMENTAL_TRAVEL = Curve("Incremental, Time Travel", Protocol.INCREMENTAL, True, travels=True)

UNIFORM_METERS = (RESAMPLING, REGULAR, INCREMENTAL, IDEAL)
ALL_METERS = (RESAMPLING, REGULAR, REGULAR_NONUNIFORM, INCREMENTAL, INCREMENTAL_NONUNIFORM, IDEAL)
TENANT_METERS = (
    REGULAR_NONUNIFORM,
    REGULAR_TENANTS,
    INCREMENTAL_NONUNIFORM,
    INCREMENTAL_TENANTS,
    IDEAL,
)
TRAVEL_METERS = (
    REGULAR_NONUNIFORM,
    REGULAR_TRAVEL,
    INCREMENTAL_NONUNIFORM,
    INCREMENTAL_TRAVEL,
    IDEAL,
)

HEADLINE = Case(steps=10)
"""T = 10, m = 5, delta = epsilon = 0.01: the setting of sections 4 and 5."""
STEPS = tuple(range(10, 101, 10))
"""Steps at which claims are checked."""
DRAWN = (*range(10, 20, 2), *range(20, 40, 4), *STEPS[3:])
"""Steps at which curves are drawn: closer where they bend; even, for two tenants."""
DELTAS = tuple(hundredths / 100 for hundredths in range(10, 0, -1))


def meter_of(curve: Curve, case: Case) -> Meter:
    """Return the meter behind one point."""
    steps = case.steps
    budget: Budget | int = steps
    numbers = range(1, case.signals + 1)
    tolerances = [case.tolerance * (k if curve.nonuniform else 1) for k in numbers]
    if curve.travels and case.reverts:
        budget = Reverts(steps=steps, reverts=tuple(range(1, case.reverts + 1)))
    meter = gap_meter(
        equal_edges(case.signals),
        tolerances,
        budget=budget,
        delta=case.delta,
        protocol=curve.protocol,
    )
    return in_teams(meter, halves(steps)) if curve.two_tenants else meter


def halves(steps: int) -> tuple[int, int]:
    """Divide the steps between two teams."""
    return steps - steps // 2, steps // 2


def labels_of(meter: Meter, form: CurveForm = CurveForm.PUBLISHED) -> int:
    """Return the labels of a meter; tightened is what a better tail and fewer events gain.

    Both count the paper's own histories, consistent with the promise or not.
    """
    if form is CurveForm.PUBLISHED:
        return compare.published(meter)
    return solve.labels(meter, terms=compare.all_answers)


@cache
def labels(curve: Curve, case: Case, form: CurveForm = CurveForm.PUBLISHED) -> int:
    """Return the labels that one point of a curve stands for."""
    return labels_of(meter_of(curve, case), form)


def ratio(
    first: Curve, second: Curve, setting: Case, form: CurveForm = CurveForm.PUBLISHED
) -> float:
    """Return how many times the labels of the second meter the first one needs."""
    return labels(first, setting, form) / labels(second, setting, form)


@dataclass(frozen=True)
class Point:
    """One point of one curve."""

    series: str
    form: CurveForm
    x: float
    labels: int


@dataclass(frozen=True)
class Panel:
    """One subfigure."""

    title: str
    points: tuple[Point, ...]


@dataclass(frozen=True)
class Curves:
    """One figure of curves."""

    x_title: str
    panels: tuple[Panel, ...]
    log: bool = True
    """A logarithmic axis for the labels."""


def _panel(title: str, meters: Sequence[Curve], at: Iterable[tuple[float, Case]]) -> Panel:
    points = [
        Point(meter.name, form, x, labels(meter, setting, form))
        for x, setting in at
        for meter in meters
        for form in CurveForm
    ]
    return Panel(title, tuple(points))


def uniform() -> Curves:
    """Uniform meters against the baselines (the paper's Figure 8)."""
    return Curves(
        "steps T",
        tuple(
            _panel(
                f"delta = {delta}, epsilon = {tolerance}",
                UNIFORM_METERS,
                [(t, Case(t, delta, tolerance)) for t in DRAWN],
            )
            for tolerance in (0.05, 0.01)
            for delta in (0.05, 0.01)
        ),
    )


def signals() -> Curves:
    """The impact of the number of signals m (Figure 9, and the m that the text names)."""
    return Curves(
        "steps T",
        tuple(
            _panel(f"m = {m}", UNIFORM_METERS, [(t, Case(t, signals=m)) for t in DRAWN])
            for m in (5, 10, 20, 50)
        ),
    )


def nonuniform() -> Curves:
    """Nonuniform tolerances against uniform ones (Figure 10)."""
    return Curves(
        "steps T",
        tuple(
            _panel(f"delta = {delta}", ALL_METERS, [(t, Case(t, delta)) for t in DRAWN])
            for delta in (0.05, 0.01)
        ),
    )


def tenants() -> Curves:
    """Two tenants against one (Figure 11)."""
    title = "delta = 0.01, epsilon = 0.01 to 0.05"
    return Curves("steps T", (_panel(title, TENANT_METERS, [(t, Case(t)) for t in DRAWN]),))


def time_travel() -> Curves:
    """Time travel: steps reverted by a schedule fixed in advance (Figure 12)."""
    return Curves(
        "reverts B",
        tuple(
            _panel(
                f"T = {steps}",
                TRAVEL_METERS,
                [(b, Case(steps, reverts=b)) for b in range(1, steps + 1)],
            )
            for steps in (5, 10)
        ),
        log=False,
    )


def case_study() -> Curves:
    """Eight development steps, at growing reliability (Figure 13)."""
    at = [(round(1 - delta, 2), Case(8, delta)) for delta in DELTAS]
    panel = _panel("T = 8, epsilon = 0.01 (nonuniform: to 0.05)", ALL_METERS, at)
    return Curves("reliability 1 - delta", (panel,))
