"""The planner, next to big integers and a plain scan over all error counts j."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from scipy.special import betainc, gammaln

from bench import Benchmark
from easeml_meter.core.questions.comparison import Setting, compare, compare_forms, labels_by_steps
from easeml_meter.core.questions.labels import plan_labels
from easeml_meter.core.questions.planning import plan_of, required_labels, supported_steps
from easeml_meter.promise.numbers import tails
from easeml_meter.server.web.planner import DEFAULTS, answer_to, grid
from easeml_meter.spec import MeterSpec


def benchmarks() -> list[Benchmark]:
    """List them."""
    many, signals, labels = 10**6, 50, 10**6
    headline, large = _spec(steps=10), _spec(steps=1000)
    published = _spec(steps=many, signals=signals, published=True)
    needed = required_labels(large).labels
    return [
        Benchmark(
            name=f"labels, published, {many:,} steps, {signals} signals",
            ours=lambda: required_labels(published).labels,
            reference=lambda: published_labels(published),
            at_most=0.05,
            agree=_nearly,
        ),
        Benchmark(
            name=f"labels, exact, {headline.steps} steps",
            ours=lambda: _fresh(lambda: required_labels(headline).labels),
            reference=lambda: exact_labels(headline),
            at_most=0.05,
            agree=_nearly,
        ),
        Benchmark(
            name=f"labels, exact, {large.steps:,} steps (reference: one scan)",
            ours=lambda: _fresh(lambda: required_labels(large).labels),
            reference=lambda: needed if log_failure(large, needed) <= math.log(0.01) else None,
            at_most=0.01,
        ),
        Benchmark(
            name=f"steps, exact, {labels:,} labels (reference: one scan)",
            ours=lambda: _fresh(lambda: supported_steps(headline, labels).spec.steps),
            reference=lambda: exact_steps(headline, labels),
            at_most=0.2,
        ),
        Benchmark(
            name="the planner's page (reference: every number exactly)",
            ours=lambda: _fresh(lambda: _page(DEFAULTS)),
            reference=lambda: _fresh(lambda: _page_exactly(DEFAULTS)),
            at_most=0.5,
        ),
    ]


def _spec(
    *,
    steps: int,
    signals: int = 5,
    tolerance: float = 0.01,
    published: bool = False,
) -> MeterSpec:
    return MeterSpec.uniform(
        signals=signals, tolerance=tolerance, steps=steps, delta=0.01, published=published
    )


Found = TypeVar("Found")


def _fresh(ask: Callable[[], Found]) -> Found:
    """Ask a planner that has not been asked before."""
    tails.worst_upper_tail.cache_clear()
    plan_of.cache_clear()
    return ask()


def _page(asked: dict[str, str]) -> list[int]:
    found = answer_to(asked)
    return [found.plan.labels, *(row.consistent.labels for row in found.rows)]


def _page_exactly(asked: dict[str, str]) -> list[int]:
    spec = MeterSpec.uniform(tolerance=0.1)
    plan = plan_labels(spec, int(asked["labels"]))
    tolerances = tuple(plan.spec.tolerances[0] * (k + 1) for k in range(plan.spec.signals))
    ceiling = plan.spec.ceiling
    setting = Setting(plan.spec.signals, tolerances, plan.spec.delta, ceiling, plan.spec.edges)
    rows = compare(setting, plan.spec.steps)
    compare_forms(plan.spec.replace(ceiling=None), ceiling)
    labels_by_steps(setting, grid(plan.spec.steps))
    return [plan.labels, *(row.consistent.labels for row in rows)]


def _nearly(ours: int, reference: int) -> bool:
    return abs(ours - reference) <= 1


# --- The plain way ---


def published_labels(spec: MeterSpec) -> int:
    """Count pairs of model and signal with all their digits."""
    m = spec.signals
    pairs = m * (m**spec.steps - 1) // (m - 1)
    excess = math.log(2) + math.log(pairs) - math.log(spec.delta)
    return math.ceil(excess / (2 * spec.tolerances[0] ** 2))


def consistent_models(steps: int) -> int:
    """Count the models of wide bands, of which two are possible at every step."""
    return (1 << steps) - 1


def exact_labels(spec: MeterSpec) -> int:
    """Halve a bracket of n, with a scan over all j at each size."""
    models = consistent_models(spec.steps)
    low, high = 0, published_labels(spec)
    while high - low > 1:
        middle = (low + high) // 2
        holds = models * scan(middle, spec.tolerances[0]) <= spec.delta
        low, high = (low, middle) if holds else (middle, high)
    return high


def exact_steps(spec: MeterSpec, labels: int) -> int:
    """Scan all j once, then take one step after the other."""
    log_tail = math.log(scan(labels, spec.tolerances[0]))
    steps, models = 0, 1
    while math.log(models) + log_tail <= math.log(spec.delta):
        steps, models = steps + 1, 1 + 2 * models
    return steps


def scan(labels: int, tolerance: float) -> float:
    """Give the exact two-sided tail by scipy's incomplete beta function at every j."""
    j = np.arange(math.floor(labels * tolerance) + 1, labels + 1, dtype=np.float64)
    return 2 * float(betainc(j, labels - j + 1, j / labels - tolerance).max(initial=0.0))


def log_failure(spec: MeterSpec, labels: int) -> float:
    """Give the left side of the inequality of a regular meter, from a scan in log space.

    Hundreds of steps ask for tails below the smallest double, so each j takes log P(X = j) and a
    sum of the terms that follow, relative to the first.
    """
    tolerance = spec.tolerances[0]
    worst = -math.inf
    for start in range(math.floor(labels * tolerance) + 1, labels + 1, 10_000):
        j = np.arange(start, min(start + 10_000, labels + 1), dtype=np.float64)
        p = j / labels - tolerance
        rest = labels - j
        log_pmf = gammaln(labels + 1) - gammaln(j + 1) - gammaln(rest + 1)
        log_pmf += j * np.log(p) + rest * np.log1p(-p)
        odds = p / (1 - p)
        term: Any = np.ones_like(j)
        total = np.ones_like(j)
        more = 0
        while bool(np.any(term > 1e-16 * total)):
            term = term * odds * np.maximum(rest - more, 0) / (j + more + 1)
            total += term
            more += 1
        worst = max(worst, float((log_pmf + np.log(total)).max()))
    return math.log(consistent_models(spec.steps)) + math.log(2) + worst
