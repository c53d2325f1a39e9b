"""The sums of the inequality one by one, for tests that add them up in another way."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from easeml_meter.core.questions.kinds import question_of
from easeml_meter.core.questions.question import Question
from easeml_meter.promise import compare, proofs, solve
from easeml_meter.promise.claims import Within
from easeml_meter.promise.gap import Gap
from easeml_meter.promise.numbers.plain import log_sum
from easeml_meter.promise.shapes import Climb, Flat
from easeml_meter.spec import Count, MeterSpec


def log_geometric(ratio: Fraction | int, terms: int) -> float:
    """Return ln of 1 + ratio + .. + ratio^(terms - 1)."""
    return Flat(Fraction(ratio)).log_mass(0, terms - 1)[0]


def possible_bands(spec: MeterSpec) -> int:
    """Return how many bands one truth can be told as."""
    question = spec.meter.question
    assert isinstance(question, Gap)
    if spec.published or spec.count is Count.ALL:
        return spec.signals
    return max(2, question.possible) if spec.merges else question.possible


def log_models(
    spec: MeterSpec, steps: int | None = None, possible: int | None = None
) -> list[float]:
    """Return ln of the histories at each height, as if so many bands were possible."""
    spec = spec if steps is None else spec.replace(steps=steps)
    meter = spec.meter
    if spec.published:
        terms = compare.as_published(meter)
        bands = 1 if len(terms) == 1 else spec.signals
        return [log_sum([each.log_count for each in terms[band::bands]]) for band in range(bands)]
    shape = compare._every(meter) if spec.count is Count.ALL else meter.shape_of(possible)
    counts = proofs.log_counts(shape, meter.budget, meter.renewal)
    stage, tops = int(bool(spec.topped_up)), shape.m if isinstance(shape, Climb) else 1
    return [counts.get((stage, top), -math.inf) for top in range(tops)]


def models(spec: MeterSpec, steps: int, possible: int | None = None) -> list[int]:
    """Return the histories at each height, exactly where they are few."""
    return [round(math.exp(count)) for count in log_models(spec, steps, possible)]


def log_weighed(spec: MeterSpec, log_tails: Sequence[float]) -> float:
    """Return ln of all that is counted, each weighed with the tail of its height."""
    pairs = zip(log_models(spec), log_tails, strict=False)
    return log_sum([count + tail for count, tail in pairs])


def log_failure(spec: MeterSpec, labels: int, steps: int | None = None) -> float:
    """Return ln of the left side of the inequality, at this size or a larger one."""
    spec = spec if steps is None else spec.replace(steps=steps)
    stage, terms = int(bool(spec.topped_up)), question_of(spec).terms
    return solve.log_failure(spec.meter, labels, stage, terms)


def log_tail(question: Question, size: int) -> float:
    """Return ln of the tail of one answer, of this size or a larger one."""
    meter = question.composed(1, 0.1)
    return solve.log_failure(meter, size, 0, question.terms) - solve.log_count(meter)


def log_count(question: Question, steps: int) -> float:
    """Return ln of how many models can be the first that breaks the promise."""
    return solve.log_count(question.composed(steps, 0.1), 0, question.terms)


def log_strata_tail(spec: MeterSpec, labels: int, tolerance: float) -> float:
    """Return ln of the tail of the weighted sum over strata."""
    claim = Within(Fraction(repr(tolerance)))
    return proofs.log_tail((claim,), spec.meter.sample, spec.meter.renewal, labels)


def log_failed(question: Question, steps: int, size: int) -> float:
    """Return ln of the left side of the inequality of a question asked so many times."""
    return solve.log_failure(question.composed(steps, 0.1), size, 0, question.terms)


def enough(question: Question, nats: float) -> int:
    """Return a size from which on the tail of one answer is below -nats, in closed form."""
    meter = question.composed(1, 0.1)
    (term, *_) = question.terms(meter, None)
    return proofs.enough(term.clauses, meter.sample, meter.renewal, nats)
