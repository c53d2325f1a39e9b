"""Other ways to count the same meter: all histories, and as the paper has it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

from easeml_meter.promise.budgets import Memory
from easeml_meter.promise.claims import Within, WithinLoosely
from easeml_meter.promise.gap import Gap
from easeml_meter.promise.meter import Meter
from easeml_meter.promise.proofs import runs_of
from easeml_meter.promise.renewals import EveryStep
from easeml_meter.promise.shapes import Climb, Flat, Shape
from easeml_meter.promise.solve import Term, counted, labels


def all_answers(meter: Meter, possible: int | None = None) -> Sequence[Term]:
    """Count all histories that the questions allow, consistent with its promises or not."""
    claims = [(replace(claim, merged=False),) for claim in _claims(meter)]
    return counted(meter, _every(meter), claims)


def as_published(meter: Meter, possible: int | None = None) -> Sequence[Term]:
    """Count pairs of a model and an answer, and take Hoeffding's bound.

    A pair of the worst band so far is a history with one answer more; a developer who looks at no
    answer, or at fresh rows each time, has one model for each step.
    """
    shape, question = _every(meter), meter.question
    if not isinstance(question, Gap):
        raise TypeError("the paper asks for the gap")
    one = question.tolerance[:1] * (len(question.all_edges) + 1)
    eps = question.tolerance if len(question.tolerance) > 1 else one
    loosely = [(WithinLoosely(each),) for each in eps]
    budget = meter.budget
    if isinstance(meter.renewal, EveryStep) or (isinstance(budget, Memory) and budget.memory == 0):
        return [Term(0, math.log(budget.steps), loosely[0])]  # type: ignore[arg-type]
    found = []
    for run in runs_of(budget, meter.renewal):
        more = isinstance(shape, Climb)
        masses = shape.log_mass(run.first + more, run.last + more)
        for band, claim in enumerate(loosely):
            mass = masses.get(band if more else 0, -math.inf)
            found.append(Term(run.stage, mass + math.log(run.times), claim))
    return found


def published(meter: Meter) -> int:
    """Return the labels of a meter as the paper plans it."""
    return labels(meter, terms=as_published)


def _claims(meter: Meter) -> list[Within]:
    return [claim for (claim,) in meter.asked.claims(meter.sample.measured)]  # type: ignore[misc]


def _every(meter: Meter) -> Shape:
    """Return its shape if every answer could always come."""
    shape = meter.shape
    if isinstance(shape, Climb):
        return replace(shape, b=shape.m)
    if isinstance(shape, Flat) and shape.alphabet is not None:
        return replace(shape, b=Fraction(shape.alphabet))
    return shape
