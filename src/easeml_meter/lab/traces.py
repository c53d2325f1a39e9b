"""Development traces: what a meter would have told at each step of a development history."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec.structs import replace

from easeml_meter.lab.meters import Protocol, gap_meter, gap_of
from easeml_meter.promise import ledger, solve
from easeml_meter.promise.meter import Meter
from easeml_meter.promise.numbers.rounding import as_written
from easeml_meter.promise.questions import Measured, Shown

STEPS = 8
DELTA = 0.1
"""Eight steps and delta = 0.1, as in the paper's two traces."""


@dataclass(frozen=True)
class TracedStep:
    """One submission: what the developer changed, and what came of it."""

    change: str
    validation_loss: float
    test_loss: float
    true_loss: float | None = None
    """Known only where data can be made at will."""

    @property
    def gap(self) -> float:
        """The empirical overfitting, |validation loss - test loss|."""
        return abs(self.validation_loss - self.test_loss)


@dataclass(frozen=True)
class Trace:
    """A development history, with the meter it is measured by."""

    title: str
    story: str
    labels: int
    """Size of the hidden test set."""
    meter: Meter
    """The regular meter; the incremental one has the same bands."""
    steps: tuple[TracedStep, ...]


@dataclass(frozen=True)
class TracedReading:
    """What a meter tells at one step."""

    step: int
    answer: int
    lower: float
    upper: float
    tolerance: float
    below: float
    """Where the range begins that this very model's gap lies in: 0 for an incremental meter."""


def with_tolerance(edges: tuple[float, ...], labels: int) -> Meter:
    """Return the meter with these band edges, at the smallest tolerance the labels can promise."""
    return solve.tolerance(gap_meter(edges, [0.1], budget=STEPS, delta=DELTA), labels)


def planned(edges: tuple[float, ...], tolerance: float) -> tuple[Meter, int]:
    """Return the meter with these band edges and this tolerance, and the labels it needs."""
    meter = gap_meter(edges, [tolerance], budget=STEPS, delta=DELTA)
    return meter, solve.labels(meter)


def meter_for(trace: Trace, protocol: Protocol) -> Meter:
    """Return the trace's meter as regular or incremental, each as exact as its labels allow."""
    if protocol is Protocol.REGULAR:
        return trace.meter
    question = replace(gap_of(trace.meter), worst=True)
    other = replace(trace.meter, question=question)
    return solve.tolerance(other, trace.labels)


def readings(trace: Trace, protocol: Protocol) -> tuple[TracedReading, ...]:
    """Run the meter's own rules over a history.

    Raises:
        InvalidInput: its labels are too few for so many steps.
    """
    meter = meter_for(trace, protocol)
    ledger.check_size(meter, trace.labels)
    at, told = ledger.start(meter), []
    for number, step in enumerate(trace.steps, 1):
        shown = Shown(trace.labels, as_written(step.validation_loss))
        decided = ledger.decide(meter, at, Measured(shown, as_written(step.test_loss)))
        at, answer = decided.after, int(decided.answer)
        low, high = map(float, meter.question.ends[answer - 1 : answer + 1])
        eps = float(meter.question.tolerances[answer - 1])
        below = 0.0 if meter.question.climbs_only else low
        told.append(TracedReading(number, answer, low, high, eps, below))
    return tuple(told)
