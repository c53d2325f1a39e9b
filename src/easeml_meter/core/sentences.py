"""What an answer promises, as a sentence."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from easeml_meter.core.signals import (
    BASELINE,
    BELOW_FLOOR,
    FAIL,
    NO_READING,
    OK,
    TOO_FAR,
    TOO_FEW,
)
from easeml_meter.promise.condition import Condition
from easeml_meter.promise.numbers.rounding import as_written, at_least, at_most
from easeml_meter.promise.words import meaning

if TYPE_CHECKING:
    from easeml_meter.core.views import Signal

_SILENT = {
    NO_READING: "The model could not be measured on the hidden inputs: nothing is promised.",
    TOO_FEW: "Too few rows are predicted positive on the test set: nothing is promised.",
    BASELINE: "Other models are compared with this one; nothing is promised about it.",
    FAIL: "Nothing is promised about a model that fails.",
}


def sentence(signal: Signal, sure: str) -> str:
    """Say what an answer promises; `sure` is its probability, as the begin of a sentence."""
    if signal.answer in _SILENT:
        return _SILENT[signal.answer]
    question = signal.spec.meter.question
    if question.vouches:
        return _vouched(signal, sure)
    if isinstance(question, Condition):
        old = "" if signal.old is None else f" The old model is that of step {signal.old:,}."
        clauses = ", and ".join(map(meaning, question.clauses.clauses))
        return f"{sure}: this model {clauses}.{old}"
    if question.reads == "n - o":
        return _change(signal, sure)
    return _gap(signal, sure) if signal.true_gap is not None else _beyond(signal, sure)


def _vouched(signal: Signal, sure: str) -> str:
    if signal.answer != OK or signal.true_loss_at_most is None:
        return "The test set does not vouch for this model: nothing is promised about it."
    most, g = at_most(signal.true_loss_at_most), at_most(signal.g or 0.0)
    return f"{sure}: this model's true loss is at most {most}, its validation loss and {g} more."


def _change(signal: Signal, sure: str) -> str:
    meter = signal.spec.meter
    if signal.answer == TOO_FAR or signal.true_change is None:
        what = "exactly one of the two is right"
        if meter.sample.orders_labels:
            what = "the two predict different things"
        return (
            f"This model is too far from that of step {signal.old}: on more than "
            f"{at_least(meter.question.most_apart)} of the rows {what}; nothing else is reported, "
            "and nothing is promised."
        )
    least, most = signal.true_change
    return (
        f"{sure}: this model's true accuracy minus that of step {signal.old:,} lies "
        f"between {at_least(least)} and {at_most(most)}."
    )


def _beyond(signal: Signal, sure: str) -> str:
    """Above the ceiling, or below the floor of a score."""
    meter, least = signal.spec.meter, signal.true_loss_at_least
    limit, score = meter.question.limit or Fraction(0), meter.sample.measured.score
    if signal.answer == BELOW_FLOOR and score is not None:
        word = score.word
        told = f"The {word} on the test set is below the floor ({at_most(1 - limit)})"
        if least is None:
            return f"{told}; nothing else is reported."
        most = at_most(1 - as_written(least))
        return f"{told}. {sure}: this model's true {word} is at most {most}."
    told = f"The test loss is above the ceiling ({at_least(limit)})"
    if least is None:
        return f"{told}; nothing else is reported."
    return f"{told}. {sure}: this model's true loss is at least {at_least(least)}."


def _gap(signal: Signal, sure: str) -> str:
    meter, (lower, upper) = signal.spec.meter, signal.true_gap or (0.0, 1.0)
    question = meter.question
    if meter.sample.measured.curve:
        return f"{sure}: {_curve(lower, upper, of_worst=question.climbs_only)}"
    gap = "true gap"
    if meter.renewal.rolls:
        window = len(meter.renewal.batches(1))
        batches = "1 batch" if window == 1 else f"{window:,} batches"
        gap += f", averaged over its window of {batches},"
    if question.climbs_only or (question.one_sided and lower == 0):
        return f"{sure}: this model's {gap} is at most {at_most(upper)}."
    edges = f"{at_least(lower)} and {at_most(upper)}"
    return f"{sure}: this model's {gap} lies between {edges}."


def _curve(lower: float, upper: float, *, of_worst: bool) -> str:
    within = (
        "at every threshold, this model's true rates of true and false positives are within "
        f"{at_most(upper)} of those on the validation set"
    )
    # The worst band so far may be another model's: its lower edge says nothing of this one.
    if of_worst or lower <= 0:
        return f"{within}."
    return f"{within}; the largest difference is at least {at_least(lower)}."
