"""What people are shown: one answer, a session, and after release the whole truth.

All of it is a function of the published answers, except `Retrospective`, which exists only once a
test set has been released.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from easeml_meter.core.lifecycle import Phase
from easeml_meter.core.signals import NO_READING, Rules, answer_named, name_of, true_gap
from easeml_meter.spec import Gap, MeterSpec
from easeml_meter.stats.rounding import at_least, at_most, confidence


@dataclass(frozen=True)
class Signal:
    """What a submission is answered with, and what that promises."""

    spec: MeterSpec
    answer: int
    step: int
    generation: int
    model: str
    tenant: int
    told_at: datetime
    battery: float
    """Share of the capacity left after this answer, from 1 down to 0."""
    steps_left: int
    """Steps still promised whatever the answers will be."""
    steps_expected: int
    """Steps that follow if answers go on as they did."""
    repeated: bool = False
    """An identical submission was answered before: same answer, nothing charged."""
    validation_loss: float | None = None
    """The loss on the validation set; None where it was not measured."""
    true_loss_at_least: float | None = None
    true_loss_at_most: float | None = None
    """What this answer promises of the true loss; None for nothing."""

    @property
    def name(self) -> str:
        """The answer by name: a band's number, or above-ceiling, reverted, no-reading."""
        return name_of(self.answer)

    @property
    def band(self) -> int | None:
        """The number of the band told, 1..m; None for an answer without one."""
        return self.answer if self.answer > 0 else None

    @property
    def tolerance(self) -> float | None:
        """How far the test loss may be from the true loss; None without a reading."""
        return Rules(self.spec).tolerance(self.answer)

    @property
    def confidence(self) -> float:
        """Probability that every promise of this session holds."""
        return float(confidence(self.spec))

    @property
    def gap(self) -> tuple[float, float] | None:
        """Edges of the gap between validation and test loss as told; None without a reading."""
        return Rules(self.spec).range_of(self.answer)

    @property
    def true_gap(self) -> tuple[float, float] | None:
        """Edges of the gap between validation and true loss as promised; None without a reading."""
        if self.gap is None or self.tolerance is None:
            return None
        return true_gap(self.gap, self.tolerance)

    @property
    def promise(self) -> str:
        """Say in one sentence what is promised."""
        if self.answer == NO_READING:
            return "The model could not be measured on the hidden inputs: nothing is promised."
        if self.true_gap is None:
            ceiling = at_least(self.spec.ceiling or 0.0)
            return f"The test loss is above the ceiling ({ceiling}); nothing else is reported."
        lower, upper = self.true_gap
        sure = (
            f"With probability at least {confidence(self.spec)}, for all answers of this test set"
        )
        told_upper_end = Rules(self.spec).incremental and self.answer > 0
        if told_upper_end or (self.spec.gap is Gap.SIGNED and lower == 0):
            return f"{sure} together: this model's true gap is at most {at_most(upper)}."
        edges = f"{at_least(lower)} and {at_most(upper)}"
        return f"{sure} together: this model's true gap lies between {edges}."


@dataclass(frozen=True)
class Truth:
    """One step as it really was; known only after release."""

    validation_loss: float
    test_loss: float
    band: int
    """The band of the gap itself, whatever was told."""


@dataclass(frozen=True)
class SessionView:
    """One test set's history as a developer may see it."""

    meter: str
    spec: MeterSpec
    generation: int
    phase: Phase
    rows: int | None
    labels_needed: int
    signals: tuple[Signal, ...]
    battery: float
    steps_left: int
    steps_expected: int
    promise: str
    assumptions: tuple[str, ...]
    retrospective: tuple[Truth | None, ...] = ()
    """After release: one for each signal (None where a model could not be measured)."""
    submitters: tuple[str, ...] = field(default=(), compare=False)
    """Ids of the users who submitted each step, where there are accounts; not in the JSON."""


def signal_json(signal: Signal) -> dict[str, Any]:
    """Give an answer as JSON has it: the same from the command line and from the server."""
    return {
        "answer": signal.name,
        "band": signal.band,
        "gap": signal.gap,
        "tolerance": signal.tolerance,
        "true_gap": signal.true_gap,
        "validation_loss": signal.validation_loss,
        "true_loss_at_least": signal.true_loss_at_least,
        "true_loss_at_most": signal.true_loss_at_most,
        "confidence": signal.confidence,
        "promise": signal.promise,
        "model": signal.model,
        "step": signal.step,
        "generation": signal.generation,
        "tenant": signal.tenant,
        "told_at": signal.told_at.isoformat(),
        "repeated": signal.repeated,
        "battery": signal.battery,
        "steps_left": signal.steps_left,
        "steps_expected": signal.steps_expected,
    }


def view_json(view: SessionView) -> dict[str, Any]:
    """Give a session as JSON has it."""
    return {
        "meter": view.meter,
        "generation": view.generation,
        "phase": str(view.phase),
        "rows": view.rows,
        "labels_needed": view.labels_needed,
        "battery": view.battery,
        "steps_left": view.steps_left,
        "steps_expected": view.steps_expected,
        "promise": view.promise,
        "assumptions": list(view.assumptions),
        "signals": [signal_json(signal) for signal in view.signals],
        "retrospective": [truth and vars(truth) for truth in view.retrospective],
    }


def signal_from_json(
    data: Mapping[str, Any], spec: MeterSpec, kind: type[Signal] = Signal
) -> Signal:
    """Read what `signal_json` gave; the specification says the rest."""
    return kind(
        spec=spec,
        answer=answer_named(data["answer"]),
        tenant=int(data["tenant"]),  # a server of the version before sends text
        told_at=datetime.fromisoformat(data["told_at"]),
        **{name: data[name] for name in _PLAIN},
        # A server of a version before sends none of these.
        validation_loss=data.get("validation_loss"),
        true_loss_at_least=data.get("true_loss_at_least"),
        true_loss_at_most=data.get("true_loss_at_most"),
    )


_PLAIN = (
    "step",
    "generation",
    "model",
    "battery",
    "steps_left",
    "steps_expected",
    "repeated",
)


def view_from_json(
    data: Mapping[str, Any], spec: MeterSpec, kind: type[Signal] = Signal
) -> SessionView:
    """Read what `view_json` gave."""
    return SessionView(
        meter=data["meter"],
        spec=spec,
        generation=data["generation"],
        phase=Phase(data["phase"]),
        rows=data["rows"],
        labels_needed=data["labels_needed"],
        signals=tuple(signal_from_json(each, spec, kind) for each in data["signals"]),
        battery=data["battery"],
        steps_left=data["steps_left"],
        steps_expected=data["steps_expected"],
        promise=data["promise"],
        assumptions=tuple(data["assumptions"]),
        retrospective=tuple(each and Truth(**each) for each in data["retrospective"]),
    )
