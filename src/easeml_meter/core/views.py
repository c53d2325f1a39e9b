"""What people are shown: one answer, a session, and after release the whole truth.

All of it is a function of the published answers, except `Retrospective`, which exists only once a
test set has been released.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from easeml_meter.core.lifecycle import Phase
from easeml_meter.core.signals import NO_READING, Rules, name_of, true_gap
from easeml_meter.spec import MeterSpec


@dataclass(frozen=True)
class Signal:
    """What a submission is answered with, and what that promises."""

    spec: MeterSpec
    answer: int
    step: int
    generation: int
    model: str
    tenant: str
    told_at: datetime
    battery: float
    """Share of the capacity left after this answer, from 1 down to 0."""
    steps_left: int
    """Steps still promised whatever the answers will be."""
    steps_expected: int
    """Steps that follow if answers go on as they did."""
    repeated: bool = False
    """An identical submission was answered before: same answer, nothing charged."""

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
        return 1 - self.spec.session_delta

    @property
    def gap(self) -> tuple[float, float] | None:
        """Edges of |validation loss - test loss| as told; None without a reading."""
        return Rules(self.spec).range_of(self.answer)

    @property
    def true_gap(self) -> tuple[float, float] | None:
        """Edges of |validation loss - true loss| as promised; None without a reading."""
        if self.gap is None or self.tolerance is None:
            return None
        return true_gap(self.gap, self.tolerance)

    @property
    def promise(self) -> str:
        """Say in one sentence what is promised."""
        if self.answer == NO_READING:
            return "The model could not be measured on the hidden inputs: nothing is promised."
        if self.true_gap is None:
            return f"The test loss is above the ceiling ({self.spec.ceiling:g}); no more is told."
        lower, upper = self.true_gap
        sure = f"With probability at least {self.confidence:g}, for all answers of this test set"
        if Rules(self.spec).incremental and self.answer > 0:
            return f"{sure} together: no model so far has a true gap above {upper:g}."
        return f"{sure} together: this model's true gap lies between {lower:g} and {upper:g}."


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
