"""Made-up sessions to draw."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from easeml_meter.core.lifecycle import Phase
from easeml_meter.core.signals import NO_READING, Rules, State
from easeml_meter.core.views import SessionView, Signal, Truth
from easeml_meter.promise.numbers.rounding import as_written
from easeml_meter.spec import Band, MeterSpec

START = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
EDGES = (0.02, 0.05, 0.1, 0.2)
SPEC = MeterSpec.uniform(signals=5, tolerance=0.01, edges=EDGES, steps=10, delta=0.01)
LIMITED = SPEC.replace(ceiling=0.4, memory=20)  # with memory, no edge near the ceiling is left out
INCREMENTAL = SPEC.with_tolerances([0.01, 0.02, 0.03, 0.04, 0.05]).replace(protocol="incremental")
MANY_BANDS = MeterSpec(
    bands=tuple(Band(k / 40, (k + 1) / 40, 0.01) for k in range(40)), steps=10, delta=0.01
)

DRAWN = MeterSpec.uniform(signals=1, tolerance=0.01, steps=10, delta=0.01, drawn=0.05)
FIRST_EDGES = (0.0314, 0.0001, 0.0473, 0.0, 0.01571, 0.022)


def names(count: int) -> list[str]:
    kinds = ("baseline", "wider-net", "augmented", "tuned lr", "ensemble")
    return [f"{kinds[step % 5]}-v{step + 1}" for step in range(count)]


def session(
    answers: Sequence[int],
    spec: MeterSpec = SPEC,
    *,
    models: Sequence[str] | None = None,
    meter: str = "sentiment",
    phase: Phase = Phase.ACTIVE,
    retrospective: tuple[Truth | None, ...] = (),
    left: int | None = None,
    losses: Sequence[float] = (),
) -> SessionView:
    """A session in which these answers were told, to models of these validation losses."""
    steps = len(answers)
    models = names(steps) if models is None else models
    total = max(spec.steps, steps) if left is None else max(1, steps + left)

    def signal(index: int) -> Signal:
        remain = total - index - 1
        loss = losses[index] if losses else None
        bounds: tuple[float | None, float | None] = (None, None)
        if loss is not None:
            bounds = Rules(spec).true_loss(answers[index], as_written(loss))
        return Signal(
            spec=spec,
            answer=answers[index],
            step=index + 1,
            generation=1,
            model=models[index],
            tenant=1,
            told_at=START + timedelta(hours=7 * index),
            battery=remain / total,
            steps_left=remain,
            validation_loss=loss,
            true_loss_at_least=bounds[0],
            true_loss_at_most=bounds[1],
        )

    remain = total - steps
    return SessionView(
        meter=meter,
        spec=spec,
        generation=1,
        phase=phase,
        rows=None if phase is Phase.REQUESTED else 86_542,
        labels_needed=86_542,
        signals=tuple(signal(index) for index in range(steps)),
        battery=remain / total,
        steps_left=remain,
        promise=(
            "With probability at least 0.99, in all 10 steps together, each model's test loss is "
            "within 0.01 of its true loss."
        ),
        assumptions=(
            "the test set is an independent random sample from the distribution that matters, and "
            "developers learn nothing of it but the meter's answers",
            "the loss of each example is 0 or 1",
        ),
        retrospective=retrospective,
    )


def released(spec: MeterSpec, losses: Sequence[tuple[float, float] | None]) -> SessionView:
    """A released session whose answers are the right ones for these losses."""
    rules, state = Rules(spec), State()
    answers: list[int] = []
    truths: list[Truth | None] = []
    for pair in losses:
        if pair is None:
            answers.append(rules.unread(state, NO_READING))
            state = rules.after(state, answers[-1])
            truths.append(None)
            continue
        answers.append(rules.answer(state, *pair))
        state = rules.after(state, answers[-1])
        truths.append(Truth(*pair, band=rules.band_of(rules.gap(*pair))))
    measured = [0.1 if pair is None else pair[0] for pair in losses]
    return session(
        answers, spec, phase=Phase.RELEASED, retrospective=tuple(truths), losses=measured
    )


def drawn_session(gaps: Sequence[float], spec: MeterSpec = DRAWN, **options: Any) -> SessionView:
    """A session of models with these gaps; a negative one stands for that answer."""
    edges = [
        FIRST_EDGES[index % len(FIRST_EDGES)] * (spec.drawn or 1) / 0.05
        for index in range(len(gaps))
    ]
    rules = [Rules(spec).drawing(as_written(edge)) for edge in edges]
    answers = [
        int(gap) if gap < 0 else each.band_of(gap) for gap, each in zip(gaps, rules, strict=True)
    ]
    view = session(answers, spec, **options)
    pairs = zip(view.signals, edges, strict=True)
    signals = [replace(each, first_edge=edge if each.band else None) for each, edge in pairs]
    return replace(view, signals=tuple(signals))
