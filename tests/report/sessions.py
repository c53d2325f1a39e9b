"""Made-up sessions to draw."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Any

from easeml_meter.core.lifecycle import Phase
from easeml_meter.core.signals import answer_named
from easeml_meter.core.views import Read, SessionView, Signal, Truth
from easeml_meter.promise.gap import Gap
from easeml_meter.promise.numbers.rounding import as_written
from easeml_meter.promise.questions import Shown, measured_of
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
    meter, told = spec.meter, 0
    assert isinstance(meter.asked, Gap)
    answers: list[int] = []
    truths: list[Truth | None] = []
    for pair in losses:
        validation, test = (0.1, None) if pair is None else map(as_written, pair)
        rows = measured_of(Shown(1, as_written(validation)), test)
        answer = meter.asked.answer(told, rows, Fraction(0))
        told = meter.shape.after(told, answer)
        answers.append(answer_named(answer))
        truths.append(None if pair is None else Truth(*pair, band=meter.asked.band(rows)))
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
    asked = spec.meter.asked
    assert isinstance(asked, Gap)
    answers = [
        int(gap)
        if gap < 0
        else asked.band(measured_of(Shown(1, Fraction(0), None, as_written(edge)), as_written(gap)))
        for gap, edge in zip(gaps, edges, strict=True)
    ]
    view = session(answers, spec, **options)
    pairs = zip(view.signals, edges, strict=True)
    signals = [replace(each, first_edge=edge if each.band else None) for each, edge in pairs]
    return replace(view, signals=tuple(signals))


def over(signal: Signal, edges: tuple[float, float]) -> Signal:
    """The same answer, had it told these edges: near a ceiling, of several bands."""
    return replace(signal, read=Read(gap=edges, tolerance=0.01, true_gap=edges))
