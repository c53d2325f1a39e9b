"""What is asked, answered and promised, in words; the numbers are those of the parts of a meter."""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

from easeml_meter.conditions import Clause, Variable
from easeml_meter.promise.alarm import Alarm
from easeml_meter.promise.condition import Change, Condition
from easeml_meter.promise.gap import Gap
from easeml_meter.promise.meter import Meter
from easeml_meter.promise.numbers.rounding import as_written, at_least, at_most, confidence_of
from easeml_meter.promise.renewals import Window

TOO_FEW = "too few predicted positives"
"""What is said of a model that predicts fewer positives than its precision is counted of."""
BELOW_FLOOR, ABOVE_CEILING, NO_READING = "below the floor", "above the ceiling", "no reading"
CURVE_DISTANCE = (
    "the distance of its true ROC curve from that on the validation set (the largest difference of "
    "a rate, over all thresholds)"
)
"""What a meter of ROC curves tells in bands, as part of a sentence."""


class Words(NamedTuple):
    """How reports speak of a question that is not answered by bands of a gap."""

    tells: str
    """What an answer tells, in a few words."""
    meaning: str
    """The same in a sentence."""
    caption: str
    """Below the drawing of a history."""
    heading: str
    """Above it, in one line."""
    remains: str
    """What stays a promise once the test set is released, after "that"."""


_ALARM = Words(
    tells="ok, or an alarm",
    meaning=(
        "ok means that the true loss is at most the validation loss and a little more; an alarm "
        "promises nothing."
    ),
    caption=(
        "One column per step. ok: the true loss is at most what the answer says; nothing is "
        "promised about an alarm."
    ),
    heading="ok or alarm",
    remains="the true loss of every model that was ok is at most what its answer said",
)


def words_of(meter: Meter) -> Words | None:
    """Return how reports speak of a question; None: of bands of a gap, which they draw."""
    question = meter.question
    if isinstance(question, Alarm):
        return _ALARM
    if isinstance(question, Change):
        return Words(
            tells="between which edges n - o lies",
            meaning=(
                "n - o is the accuracy of a model minus that of the old one: with "
                f"{question.text}, the answer tells between which edges it lies."
            ),
            caption=(
                "One column per step: the accuracy of the model minus that of the old one (n - o). "
                "The solid bar is the band that contains it on the test set. The grey bars are the "
                "tolerance: with them it covers the true difference, as promised. All bands are "
                "drawn at the same height; the numbers on the axis are their edges."
            ),
            heading="height: n - o, accuracy minus the old model's",
            remains="each answer holds of it",
        )
    if isinstance(question, Condition):
        passes = f"A model passes if {question.text} on the test set, with the tolerance to spare"
        return Words(
            tells="each model passes or fails",
            meaning=f"{passes}.",
            caption=f"One column per step. {passes}; nothing is promised about one that fails.",
            heading=f"pass or fail: {question.text}",
            remains="the condition holds of every model that passed",
        )
    return None


def statistic(meter: Meter) -> str:
    """Say what is asked of each model."""
    question, score = meter.question, meter.sample.measured.score
    if isinstance(question, Alarm):
        more = "g" if question.g is None else at_most(question.g[0])
        return f"is the true loss at most the validation loss and {more} more?"
    if not isinstance(question, Gap):
        return question.text
    if meter.renewal.rolls:
        count = len(meter.renewal.batches(1))
        last = "last batch" if count == 1 else f"last {count:,} batches"
        return f"the gap between validation loss and the loss on the {last}"
    if score is not None:
        return score_gap(score.word, curve=score.curve)
    judged = ", with a judge" if meter.sample.estimated else ""
    return f"the gap between validation loss and test loss{judged}"


def score_gap(word: str, *, curve: bool = False) -> str:
    """Say what is asked of a score of the whole test set."""
    if curve:
        return "the distance of a model's ROC curves on validation and test set"
    return f"the gap between validation and test set in {word}"


def answers(meter: Meter) -> tuple[str, ...]:
    """Name every answer that can be given."""
    question, sample = meter.question, meter.sample
    if isinstance(question, Alarm):
        return ("ok", "alarm")
    bands = tuple(f"band {number}" for number in range(1, question.rungs + 1))
    if isinstance(question, Change):
        return (*bands, "too far")
    if not isinstance(question, Gap):
        return ("pass", "fail")
    if question.draws is not None:
        bands = (f"a band {float(question.draws):g} wide, with edges drawn for this answer",)
    instead = {
        BELOW_FLOOR: question.floor is not None,
        ABOVE_CEILING: question.limit is not None and question.floor is None,
        TOO_FEW: sample.measured.unsized,
        NO_READING: sample.may_fail,
    }
    return (*bands, *(answer for answer, can_come in instead.items() if can_come))


def promised(meter: Meter) -> str:
    """Say what holds of every answer, as the end of a sentence."""
    question = meter.question
    if isinstance(question, Gap):
        return _of_window(question) if meter.renewal.rolls else _of_gap(meter, question)
    if isinstance(question, Change):
        return (
            "each model's accuracy minus the old model's, as the test set shows it, is within "
            f"{at_most(question.tolerance)} of the true difference. So the true difference lies "
            "between the lower edge of the reported band minus that tolerance and the upper edge "
            'plus it. Nothing is promised about a model that is "too far".'
        )
    if isinstance(question, Condition):
        meanings = ", and ".join(map(meaning, question.clauses.clauses))
        return f"every model that passes {meanings}. Nothing is promised about a model that fails."
    most = "the loss that its answer names"
    if isinstance(question, Alarm) and question.g is not None:
        most = f"its validation loss and {at_most(question.g[0])} more"
    return (
        f"the true loss of every model that is ok is at most {most}. Nothing is promised about an "
        "alarm."
    )


def meaning(clause: Clause) -> str:
    """Say what is true of a model that passes a clause."""
    side = "above" if clause.above else "below"
    edge = (at_least if clause.above else at_most)(clause.threshold)
    if clause.variable is Variable.ACCURACY:
        return f"has a true accuracy {side} {edge}"
    if clause.variable is Variable.CHANGE:
        if clause.above and not clause.threshold:
            return "is truly more accurate than the old one"
        more = "more" if clause.above else "less"
        return f"has a true accuracy that exceeds the old model's by {more} than {edge}"
    return f"differs from the old model on a true share of rows {side} {edge}"


def curve_promise(tolerance: str) -> str:
    """Say what holds of each curve, as the beginning of a sentence."""
    return (
        "at every threshold, each model's rates of true and false positives on the test set are "
        f"within {tolerance} of its true ones"
    )


def _of_window(question: Gap) -> str:
    return (
        f"each model's loss on its window is within {at_most(question.tolerances[0])} of its true "
        "loss, averaged over the window."
    )


def _of_gap(meter: Meter, question: Gap) -> str:
    sample = meter.sample
    tolerances = sorted(set(question.tolerances))
    many = at_most(tolerances[0])
    if len(tolerances) > 1:
        many += f" to {at_most(tolerances[-1])} (by the reported band)"
    measured, true = "test loss", "true loss"
    if sample.measured.score is not None:
        measured, true = f"{sample.measured.score.word} on the test set", "true one"
    elif sample.estimated:
        measured = "estimated test loss"
    excuse = _excuse(meter, question, tolerances[0])
    # A running maximum may be another model's band: its lower edge says nothing of this one.
    edges = (
        "is at most the upper edge of the reported band plus that tolerance"
        if question.worst
        else "lies between the lower edge of the reported band minus that tolerance and the "
        "upper edge plus it"
    )
    signed = ""
    if question.signed:
        signed = " (by how much its true loss exceeds its validation loss, or 0)"
    mean = " (the mean over clusters of the mean loss of their rows)" if sample.grouped else ""
    if sample.parts is not None:
        mean = " (the weighted sum of the mean losses of its strata)"
    if sample.measured.curve:
        return f"{curve_promise(many)}{excuse}. So {CURVE_DISTANCE} {edges}."
    return (
        f"each model's {measured}{mean} is within {many} of its {true}{excuse}. So its true gap"
        f"{signed} {edges}."
    )


def _excuse(meter: Meter, question: Gap, tolerance: Fraction) -> str:
    """Say which answers are none of a band."""
    asked, excuse = meter.asked, ""
    merges = isinstance(asked, Gap) and asked.merges
    if question.floor is not None:
        top = min(question.floor + tolerance, Fraction(1))
        then = f": then its true one is at most {at_most(top)}" if merges else ""
        excuse = f' (or is reported as "{BELOW_FLOOR}", {at_most(question.floor)}{then})'
    elif question.limit is not None:
        least = max(question.limit - tolerance, Fraction(0))
        then = f": then its true loss is at least {at_least(least)}" if merges else ""
        excuse = f' (or is reported as "{ABOVE_CEILING}", {at_least(question.limit)}{then})'
    if meter.sample.measured.unsized:
        excuse += f' (or is reported as "{TOO_FEW}", which promises nothing)'
    return excuse


def confidence(meter: Meter, number: int = 1) -> str:
    """Return the probability that a test set keeps its promise, rounded down and never 1.

    Of a rolling test set: that all windows do up to the last one that shares its delta with the one
    of this `number`. Every delta is for the first promise that is broken, so they add up.
    """
    deltas = 1
    if meter.renewal.rolls and isinstance(meter.budget.steps, int):
        deltas = -(-number // meter.budget.steps)
    return confidence_of(min(Fraction(1), deltas * as_written(meter.delta)))


def together(meter: Meter, number: int = 1) -> str:
    """Say which answers share the probability of a promise, as part of a sentence.

    A rolling test set goes on without end, so no probability covers all that it will ever answer:
    `number` is that of the window.
    """
    if not meter.renewal.joined:
        return "for all answers of this test set together"
    if not meter.renewal.rolls:
        was = "was" if meter.renewal.stage(number) else "is"
        return f"for all answers of this test set together, before and after it {was} topped up"
    steps = meter.budget.steps
    more = "each further one costs" if steps == 1 else f"{steps:,} further ones cost"
    return f"for {_windows(meter, number)} ({more} another {at_most(meter.delta)})"


def _windows(meter: Meter, number: int) -> str:
    """Name this window, those that share its delta, and all before them.

    Nothing smaller is proved of the later ones alone: once a promise was broken, more models are
    possible than were counted.
    """
    steps = int(meter.budget.steps)
    last = -(-number // steps) * steps
    return "the first window" if last == 1 else f"the first {last:,} windows together"


def promise_of(meter: Meter, number: int = 1) -> str:
    """Say what a meter promises of one of its test sets, or windows, whatever size they have."""
    sure = f"With probability at least {confidence(meter, number)}"
    return f"{sure}, {_planned_together(meter, number)}, {promised(meter)}"


def _planned_together(meter: Meter, number: int) -> str:
    if isinstance(meter.renewal, Window):
        return f"in {_windows(meter, number)}"
    steps = meter.answers(1)
    if steps is None:
        return "in all steps together"
    if meter.renewal.joined:
        first = "its one step" if steps == 1 else f"all {steps:,} steps"
        return f"in {first} and {meter.answers(2):,} more after the top-up together"
    return "in its one step" if steps == 1 else f"in all {steps:,} steps together"
