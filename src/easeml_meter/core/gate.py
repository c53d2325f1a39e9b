"""The gate: whether a model passes, by what was told of it. It asks nothing new, so it is free."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from easeml_meter.checks import finite
from easeml_meter.core.signals import BASELINE, name_of
from easeml_meter.core.views import SessionView, Signal, band_words
from easeml_meter.errors import WrongPhase, invalid
from easeml_meter.promise.numbers.rounding import at_most
from easeml_meter.spec import MeterSpec

CLOSED = 6
"""What the command line exits with if the model does not pass."""


@dataclass(frozen=True)
class Gate:
    """What a model must have been told to pass; an answer without a reading never passes.

    At a meter that asks a condition, it must have passed that.
    """

    fail_above: int | None = None
    """The highest band that passes."""
    most_loss: float | None = None
    """The highest true loss, as promised, that passes."""

    def __post_init__(self) -> None:
        if self.fail_above is not None and self.fail_above < 1:
            raise invalid("fail-above", self.fail_above, "the number of a band, 1 or more")
        if self.most_loss is not None:
            finite("most-loss", self.most_loss)

    def check(self, spec: MeterSpec) -> None:
        """Refuse a gate that a meter cannot have, before anything is submitted.

        Raises:
            InvalidInput: nothing is asked, there is no such band, or bands have no numbers that
                mean anything.
        """
        question = spec.meter.question
        if question.reads == "n - o":
            needed = 'a condition, such as "n - o > 0 +/- 0.01": a reading of n - o is no gate'
            raise invalid("gate", question.text, needed)
        if question.verdict:
            if self.fail_above is not None:
                needed = "--most-loss, or nothing: this meter has no bands"
                raise invalid("fail-above", self.fail_above, needed)
            return
        if self.fail_above is None and self.most_loss is None:
            raise invalid("gate", "nothing", "give --fail-above BAND or --most-loss LOSS")
        if self.fail_above is not None and not question.numbered:
            needed = "--most-loss: the meter draws the edges, so a band's number says nothing"
            raise invalid("fail-above", self.fail_above, needed)
        if self.fail_above is not None and self.fail_above > question.rungs:
            needed = f"the number of a band, at most {question.rungs}"
            raise invalid("fail-above", self.fail_above, needed)

    def judge(self, signal: Signal) -> GateVerdict:
        """Say whether an answer passes."""
        self.check(signal.spec)
        reasons = []
        if signal.passed is False:
            asked = signal.spec.meter.question
            reasons.append("an alarm" if asked.vouches else f"{asked.text} was not passed")
        elif signal.answer == BASELINE:
            line = "other models are compared with it, so it was not measured itself"
            reasons.append(f"{line}: submit the candidate, under another name")
        elif signal.band is None and not signal.passed:
            reasons.append(f"there is no band to go by ({name_of(signal.answer)})")
        elif self.fail_above is not None and (signal.band or 0) > self.fail_above:
            reasons.append(f"band {signal.band} is above band {self.fail_above}")
        elif self.fail_above is not None and (signal.highest_band or 0) > self.fail_above:
            # Near the ceiling an answer leaves open in which of several bands the gap lies.
            reasons.append(f"band {signal.highest_band} is possible, above band {self.fail_above}")
        # Where an answer has failed already, that says enough.
        if self.most_loss is not None and (signal.band is not None or not reasons):
            promised = signal.true_loss_at_most
            if promised is None or promised > self.most_loss:
                bound = "unknown" if promised is None else f"at most {at_most(promised)}"
                reasons.append(f"the true loss is {bound}, not at most {self.most_loss:g}")
        return GateVerdict(signal, tuple(reasons))


@dataclass(frozen=True)
class GateVerdict:
    """Whether a model passes, and why not."""

    signal: Signal
    reasons: tuple[str, ...]
    """Why it does not pass; none: it passes."""

    @property
    def passed(self) -> bool:
        """Whether the gate is open."""
        return not self.reasons

    @property
    def note(self) -> str:
        """What has to be known about the answer; often nothing."""
        if not self.signal.spec.meter.question.climbs_only:
            return ""
        worst = "An incremental meter tells the worst band so far, which may be an earlier model's"
        return f"{worst}: only a fresh test set judges this one alone."

    @property
    def sentence(self) -> str:
        """Say it to people."""
        signal, asked = self.signal, self.signal.spec.meter.question
        told = f"model {signal.model}: step {signal.step} of test set {signal.generation}"
        if self.passed:
            if signal.passed:
                told += f", {'ok' if asked.vouches else asked.text}"
            elif asked.numbered:
                told += f", {band_words(signal)} of {asked.rungs}"
            return f"passed: {told}"
        return f"failed: {told}: {'; '.join(self.reasons)}"

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON has it, with the answer it goes by."""
        return {
            "passed": self.passed,
            "reasons": list(self.reasons),
            "sentence": self.sentence,
            "note": self.note,
            "signal": self.signal.to_dict(),
        }


def last_told(history: Sequence[SessionView], model: str) -> Signal:
    """Return the newest answer to a model of this name.

    Raises:
        WrongPhase: nothing was told of it yet.
    """
    for view in reversed(history):
        for signal in reversed(view.signals):
            if signal.model == model:
                return signal
    raise WrongPhase(f"model {model[:80]!r}: nothing was told of it yet: submit it first")
