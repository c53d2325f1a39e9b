"""What bands cost: the default ones for a number of labels, and one edge more."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace

from easeml_meter.core.questions.gap import GapQuestion
from easeml_meter.core.questions.kinds import question_of
from easeml_meter.core.questions.planning import Budget, Plan, reachable_tolerance, smallest_size
from easeml_meter.spec import DEFAULT_EDGES, Band, MeterSpec, Protocol, default_edges
from easeml_meter.stats.counting import has_closed_form
from easeml_meter.stats.feedback import possible_bands


def reachable_with_default_bands(spec: MeterSpec, labels: int) -> Plan:
    """Return the smallest tolerance that `labels` support, with the default bands for it.

    Fewer bands never need more labels, so the most that the tolerance leaves room for are taken.
    """
    (tolerance,) = set(spec.tolerances)

    def reached(edges: tuple[float, ...]) -> Plan:
        ends = itertools.pairwise((0.0, *edges, 1.0))
        bands = tuple(Band(*each, tolerance) for each in ends)
        return reachable_tolerance(spec.replace(bands=bands), labels)

    return with_default_edges(reached)


def with_default_edges(reached: Callable[[tuple[float, ...]], Plan]) -> Plan:
    """Return the plan with the most default edges that the tolerance reached with them allows."""
    for first in range(len(DEFAULT_EDGES)):
        edges = DEFAULT_EDGES[first:]
        found = reached(edges)
        if len(edges) <= len(default_edges(found.question.tolerances[0])):
            break
    return found


def with_another_edge(spec: MeterSpec) -> tuple[int, int] | None:
    """Return the labels if a meter had one more edge: away from the others, or close to one.

    Close is less than two tolerances. None where there are none, or they are drawn, cost nothing,
    or are counted step by step, and where strata have sizes that no edge changes.
    """
    if not isinstance(question_of(spec), GapQuestion):
        return None
    if spec.drawn is not None or spec.protocol is not Protocol.REGULAR:
        return None
    if spec.sizes or not has_closed_form(spec):
        return None
    *others, last = spec.bands
    middle = (last.lower + last.upper) / 2
    more = spec.replace(bands=(*others, replace(last, upper=middle), replace(last, lower=middle)))
    close = min(possible_bands(spec), spec.signals) + 1
    budget = Budget.of_meter(more)
    asked = (GapQuestion(more, bands) for bands in (max(2, close - 1), close))
    labels = (question.rounded_up(smallest_size(question, budget)) for question in asked)
    return next(labels), next(labels)
