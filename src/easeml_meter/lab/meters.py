"""The meters of the paper: its four protocols, by the words of its legends."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from fractions import Fraction

from msgspec.structs import replace

from easeml_meter.promise.budgets import Memory, Steps
from easeml_meter.promise.gap import Gap
from easeml_meter.promise.meter import Budget, Meter
from easeml_meter.promise.renewals import EveryStep, Fresh
from easeml_meter.promise.schema import Exacts, exact
from easeml_meter.promise.teams import Teams


class Protocol(StrEnum):
    """How answers come about; the last two are baselines."""

    REGULAR = "regular"
    INCREMENTAL = "incremental"
    RESAMPLING = "resampling"
    INDEPENDENT = "independent"


def equal_edges(bands: int) -> tuple[Fraction, ...]:
    """Return the inner edges of so many bands of one width."""
    return tuple(Fraction(band, bands) for band in range(1, bands))


def gap_meter(
    edges: Sequence[float | Fraction],
    tolerances: Sequence[float],
    *,
    budget: Budget | int,
    delta: float,
    protocol: Protocol = Protocol.REGULAR,
) -> Meter:
    """Return the meter of these bands and tolerances; a number is a budget of so many steps."""
    question = Gap(
        tolerance=Exacts(map(exact, tolerances if len({*tolerances}) > 1 else tolerances[:1])),
        edges=tuple(map(exact, edges)),
        worst=protocol is Protocol.INCREMENTAL,
    )
    if isinstance(budget, int):
        alone = protocol is Protocol.INDEPENDENT
        budget = Memory(steps=budget, memory=0) if alone else Steps(steps=budget)
    renewal = EveryStep() if protocol is Protocol.RESAMPLING else Fresh()
    return Meter(question=question, budget=budget, renewal=renewal, delta=exact(delta))


def gap_of(meter: Meter) -> Gap:
    """Return the question of a meter that asks for the gap."""
    if not isinstance(meter.asked, Gap):
        raise TypeError(f"{meter.question} is no gap")
    return meter.asked


def with_tolerances(meter: Meter, tolerances: Sequence[float]) -> Meter:
    """Return the meter with other tolerances on the same bands."""
    other = Exacts(map(exact, tolerances))
    return replace(meter, question=replace(gap_of(meter), tolerance=other))


def in_teams(meter: Meter, answers: Sequence[int], *, handover: bool = False) -> Meter:
    """Return the meter with so many answers for each team."""
    return replace(meter, budget=Teams(teams=tuple(answers), handover=handover))


def teams_of(meter: Meter) -> int:
    """Return how many teams there are; 0 where nobody speaks of teams."""
    return len(meter.budget.teams)


def as_one(meter: Meter) -> Meter:
    """Return the meter as if its teams were one developer."""
    if not isinstance(meter.budget, Teams):
        return meter
    return replace(meter, budget=replace(meter.budget, handover=True).of(1))
