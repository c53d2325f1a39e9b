"""After release: does each answer agree with the losses that are now known?

Checked is what can be known: the validation and the test loss of every step, and so whether the
answer told was the right one. The true loss stays unknown, so that it lies within the tolerance
of the test loss remains a promise.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from fractions import Fraction
from itertools import zip_longest

from easeml_meter.core.signals import (
    ALARM,
    FAIL,
    NO_READING,
    OK,
    PASS,
    TOO_FAR,
    TOO_FEW,
    answer_named,
)
from easeml_meter.core.views import SessionView, Signal, Truth
from easeml_meter.promise.gap import Gap
from easeml_meter.promise.numbers.rounding import as_written, at_least, at_most
from easeml_meter.report.words import steps_words, told_words


@dataclass(frozen=True)
class Check:
    """One answer beside what is now known."""

    signal: Signal
    truth: Truth | None
    due: int | None
    """The answer that the losses call for; None where nothing is known."""

    @property
    def right(self) -> bool | None:
        """Whether the answer was the right one; None where that cannot be known."""
        return None if self.due is None else self.due == self.signal.answer

    @property
    def gap(self) -> float | None:
        """The gap between validation loss and test loss."""
        if self.truth is None:
            return None
        truth = self.truth
        above = as_written(truth.test_loss) - as_written(truth.validation_loss)
        one_sided = self.signal.spec.meter.question.one_sided
        return float(max(Fraction(0), above) if one_sided else abs(above))

    @property
    def true_loss(self) -> tuple[float, float] | None:
        """Where the true loss was promised to be: test loss and tolerance; None without one."""
        if self.signal.passed and self.truth is not None:
            return self.signal.true_loss_at_least or 0.0, self.signal.true_loss_at_most or 1.0
        tolerance = None if self.signal.change else self.signal.tolerance
        if self.truth is None or tolerance is None:
            return None
        loss, eps = as_written(self.truth.test_loss), as_written(tolerance)
        least, most = max(loss - eps, Fraction(0)), min(loss + eps, Fraction(1))
        return float(at_least(least, digits=15)), float(at_most(most, digits=15))

    @property
    def words(self) -> str:
        """Say how it turned out."""
        if self.due is None:
            return "nothing to check"
        if self.right:
            return "yes"
        return f"NO: should be {told_words(self.signal, self.due)}"


def checks(view: SessionView) -> tuple[Check, ...]:
    """Check every answer of a released test set; nothing before release."""
    if not view.retrospective:
        return ()
    tops: dict[int, int] = defaultdict(lambda: 1)
    found = []
    truths = view.retrospective[: len(view.signals)]
    for signal, truth, top in zip_longest(view.signals, truths, view.brought):
        # A hand-over joins the worst bands so far: those of other teams count from then on.
        worst = max(tops[signal.tenant], top or 1)
        found.append(Check(signal, truth, _due(signal, truth, worst)))
        tops[signal.tenant] = signal.band or worst
    return tuple(found)


def _due(signal: Signal, truth: Truth | None, worst: int) -> int | None:
    """Return the answer that the rules call for; `truth.band` was found by exact arithmetic."""
    if truth is None or signal.answer == NO_READING:
        return None
    if signal.spec.meter.question.vouches:  # an alarm claims nothing, so nothing is wrong with one
        claimed = signal.answer == OK and truth.passed is not None
        return (OK if truth.passed else ALARM) if claimed else None
    if truth.passed is not None:
        return PASS if truth.passed else FAIL
    if truth.change is not None:
        return truth.band or TOO_FAR
    if truth.too_few:
        return TOO_FEW
    if truth.band is None:
        return None
    question = signal.spec.meter.question
    if not isinstance(question, Gap):
        return None
    if question.limit is not None and as_written(truth.test_loss) > question.limit:
        return answer_named(question.beyond)
    return max(worst, truth.band) if question.worst else truth.band


def summary(found: tuple[Check, ...]) -> str:
    """Say in a sentence how the answers stand against what is known."""
    known = [check for check in found if check.right is not None]
    if not known:
        return "No step has losses to check an answer against."
    wrong = [f"{check.signal.step:,}" for check in known if not check.right]
    if not wrong:
        return f"In all {steps_words(len(known))} with losses, the answer was right."
    some = ", ".join(wrong[:20]) + (", …" if len(wrong) > 20 else "")
    return (
        f"In {len(wrong):,} of {steps_words(len(known))} with losses, the answer is not the one "
        f"that these losses call for: step {some}."
    )
