"""The meter in words: names made safe to show, answers, gaps, losses, histories."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from itertools import groupby, pairwise

from easeml_meter.core.questions.planning import labels_needed
from easeml_meter.core.signals import (
    name_of,
)
from easeml_meter.core.views import SessionView, Signal, band_words, together
from easeml_meter.promise.numbers.rounding import (
    as_written,
    at_least,
    at_most,
    percent_at_least,
    percent_at_most,
)
from easeml_meter.promise.words import statistic, words_of
from easeml_meter.spec import MeterSpec

_JOINERS = "\u200c\u200d"
_MOST_RUNS = 30
"""A history with more changes than this is told by counts: nobody listens to the end."""
_HARDER = ", or a test loss below the validation loss"
_WIDE_DRAWN = 0.01
"""Rounding to four digits adds at most a hundredth of bands as wide as this."""
LOW_BATTERY = 0.25


def shown(text: str, limit: int = 60, *, ellipsis: str = "…", unprintable: str = "\ufffd") -> str:
    """Make somebody else's text safe to show, and shorten it in the middle.

    What could move the cursor, break XML or turn the reading direction is replaced.
    """
    if len(text) > limit:
        tail = (limit - len(ellipsis)) // 2
        text = text[: limit - len(ellipsis) - tail] + ellipsis + text[len(text) - tail :]
    return "".join(unprintable if _is_control(char) else char for char in text)


def _is_control(char: str) -> bool:
    kind = unicodedata.category(char)
    return kind in ("Cc", "Cs", "Co", "Cn", "Zl", "Zp") or (kind == "Cf" and char not in _JOINERS)


def answer_words(answer: int) -> str:
    """Return an answer as people say it."""
    return f"band {answer}" if answer > 0 else name_of(answer).replace("-", " ")


def told_words(signal: Signal, answer: int | None = None) -> str:
    """Return what a signal told, or another answer with its edges, as people say it.

    A band whose edges were drawn has no number that means anything: its edges are told. Six digits
    of them do not fit beside a meter, so wide bands show four, rounded outwards.
    """
    answer = signal.answer if answer is None else answer
    if signal.spec.meter.question.reads == "n - o" and answer > 0:
        return f"n - o {change_words(signal.edges_of(answer) or (-1.0, 1.0))}"
    if answer == signal.answer > 0 and signal.told_edges is not None:
        return band_words(signal)
    wide = signal.spec.meter.question.draws
    if answer < 1 or wide is None:
        return answer_words(answer)
    digits = 4 if wide >= _WIDE_DRAWN else 6
    return f"gap {gap_words(signal.edges_of(answer), digits)}"


def page_words(signal: Signal) -> str:
    """Return what a signal told as pages say it: a gap in the unit of the losses beside it."""
    if signal.spec.meter.question.numbered or signal.band is None or signal.gap is None:
        return told_words(signal)
    return f"gap {range_words(signal.spec, signal.gap)}"


def short_words(signal: Signal) -> str:
    """Return an answer without its edges, for a table that has them beside it."""
    if signal.change is not None:
        return told_words(signal)
    drawn = signal.band is not None and not signal.spec.meter.question.numbered
    return "band" if drawn else told_words(signal)


def change_words(edges: tuple[float, float]) -> str:
    """Return the edges that a difference lies between; the outer ones say nothing."""
    low, high = at_least(edges[0]), at_most(edges[1])
    if edges[0] <= -1:
        return f"below {high}"
    return f"{low} or more" if edges[1] >= 1 else f"{low} to {high}"


def gap_words(edges: tuple[float | Fraction, float | Fraction] | None, digits: int = 6) -> str:
    """Return the edges of a gap, rounded outwards."""
    if edges is None:
        return "unknown"
    return f"{at_least(edges[0], digits)} to {at_most(edges[1], digits)}"


def gap_name(spec: MeterSpec) -> str:
    """Return what the meter's gap is."""
    if spec.meter.question.one_sided:
        return "gap (test loss minus validation loss)"
    if spec.meter.sample.measured.curve:
        return "distance of the ROC curves on validation and test set"
    return "gap between validation and test loss"


def is_error(spec: MeterSpec) -> bool:
    """Whether the loss is the share of wrong predictions, which people know in percent."""
    return spec.meter.sample.loss == "0-1"


def loss_name(spec: MeterSpec) -> str:
    """Return what people call the loss."""
    if spec.meter.sample.measured.curve:
        return "distance"
    return "error" if is_error(spec) else "loss"


def loss_words(
    spec: MeterSpec, loss: float | Fraction, rounded: Callable[[Fraction, int], str] = at_most
) -> str:
    """Return a loss with a few digits, rounded up unless said otherwise; an error in percent."""
    value = as_written(loss)
    return f"{_PERCENT[rounded](value)} %" if is_error(spec) else rounded(value, 4)


def validation_words(signal: Signal) -> str:
    """Return the validation loss of an answer, rounded to the nearest."""
    loss = signal.validation_loss
    return "unknown" if loss is None else measured_words(signal.spec, loss)


def measured_words(spec: MeterSpec, loss: float) -> str:
    """Return a loss that was measured, and not promised, rounded to the nearest."""
    return loss_words(spec, loss, _nearest)


def _nearest(value: Fraction, digits: int) -> str:
    return f"{float(value):.{digits}g}"


_PERCENT: dict[Callable[[Fraction, int], str], Callable[[Fraction], str]] = {
    at_most: percent_at_most,
    at_least: percent_at_least,
    _nearest: lambda value: f"{round(1000 * value) / 10:.12g}",
}
"""How shares are rounded in percent where other losses are rounded so."""


def true_loss_words(signal: Signal) -> str:
    """Return between which losses an answer promises the true loss to lie, for a table."""
    most = 1.0 if signal.true_loss_at_most is None else signal.true_loss_at_most
    return range_words(signal.spec, (signal.true_loss_at_least or 0.0, most))


def range_words(spec: MeterSpec, edges: tuple[float | Fraction, float | Fraction]) -> str:
    """Return losses or gaps from one edge to another, rounded outwards; of an error in percent."""
    least = loss_words(spec, edges[0], at_least).removesuffix(" %")
    return f"{least} to {loss_words(spec, edges[1])}"


def loss_sentence(signal: Signal, *, alone: bool = False) -> str:
    """Say what was measured on the validation set, and what that promises of the true loss.

    `alone`: no promise stands beside it that says what the probability is for.
    """
    spec, name = signal.spec, loss_name(signal.spec)
    if signal.validation_loss is None:
        return ""
    measured = f"Validation {name} {validation_words(signal)}"
    measured += score_words(spec, signal.validation_loss, _nearest)
    if spec.meter.sample.measured.curve:  # it is no distance away from itself, which is no news
        measured = "From the ROC curve on the validation set"
    ends = []
    if signal.true_loss_at_most is not None and signal.true_loss_at_most < 1:
        most = signal.true_loss_at_most
        score = score_words(spec, most, at_least, "at least ")
        ends.append(f"at most {loss_words(spec, most)}{score}")
    if signal.true_loss_at_least:
        least = signal.true_loss_at_least
        score = score_words(spec, least, at_most, "at most ")
        ends.append(f"at least {loss_words(spec, least, at_least)}{score}")
    if not ends and spec.meter.question.reads != "gap":
        return f"{measured}."
    if not ends and spec.meter.sample.measured.curve:
        return f"This answer gives no upper bound on the true {name}."
    if not ends:
        return f"{measured}. This answer gives no upper bound on the true {name}."
    sharing = f" {signal.together}" if alone else ""
    average = "" if not spec.meter.renewal.rolls else ", averaged over the window,"
    said = f"true {name}{average} {' and '.join(ends)}"
    return f"{measured}: {said}, {sure_words(spec, signal.generation)}{sharing}."


def score_words(
    spec: MeterSpec, loss: float, rounded: Callable[[Fraction, int], str], side: str = ""
) -> str:
    """Return, in brackets, the score that a loss is 1 minus of; nothing for other losses."""
    measured = spec.meter.sample.measured
    if measured.score is None or measured.curve:
        return ""
    return f" ({measured.score.word} {side}{rounded(1 - as_written(loss), 4)})"


def sure_words(spec: MeterSpec, number: int = 1) -> str:
    """Return the probability that all promises of a test set hold, in percent."""
    return f"{(100 * Decimal(spec.meter.confidence(number))).normalize():f} % sure"


def told_gap_words(signal: Signal) -> str:
    """Return the edges of the gap told; a signed one may lie anywhere below its upper edge."""
    if signal.gap is not None and signal.spec.meter.question.one_sided and signal.gap[0] == 0:
        return f"at most {at_most(signal.gap[1])}"
    return gap_words(signal.gap)


def share_words(share: float) -> str:
    """Return a share in percent; 0 % and 100 % are said only where they are exact."""
    if not 0 < share < 1:
        return "100 %" if share >= 1 else "0 %"
    return f"{min(99, max(1, round(100 * share)))} %"


def steps_words(steps: int) -> str:
    """Count steps."""
    return "1 step" if steps == 1 else f"{steps:,} steps"


def left_words(spec: MeterSpec, promised: int) -> str:
    """Say what is left; of a rolling test set, in this window."""
    if spec.meter.renewal.rolls:
        if not promised:
            return "the next answer comes with the next batch"
        return f"{'1 answer' if promised == 1 else f'{promised:,} answers'} in this window"
    return f"{steps_words(promised)} promised"


def when(moment: datetime) -> str:
    """Return a moment in UTC; one without a zone is taken to be in UTC already."""
    aware = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    return aware.replace(tzinfo=None).isoformat(timespec="seconds") + "Z"


def ago(moment: datetime, now: datetime) -> str:
    """Say how long ago something was; after a month, on which day."""
    seconds = int((now - moment).total_seconds())
    if seconds > 30 * 86_400:
        return f"{moment.day} {moment:%b %Y}"
    for length, unit in ((86_400, "day"), (3_600, "hour"), (60, "minute")):
        count = seconds // length
        if count > 0:
            return f"{count} {unit}{'' if count == 1 else 's'} ago"
    return "just now"


def named_set(view: SessionView) -> str:
    """Name a test set, or a window of a rolling one, by its number."""
    return f"{view.spec.meter.renewal.noun} {view.generation}"


def needed_words(view: SessionView) -> str:
    """Say how many labels were asked for, after how many there are."""
    if view.spec.meter.renewal.rolls:
        return f"in this window, {labels_needed(view.spec, 2):,} in each new batch"
    to = " to top it up" if view.spec.meter.renewal.stage(view.generation) else ""
    return f"in this test set, {view.labels_needed:,} needed{to}"


def standing_words(view: SessionView) -> str:
    """Say where a test set stands."""
    if not view.signals:
        return f"{named_set(view)}: no answers yet"
    return f"{named_set(view)}: {told_words(view.signals[-1])}"


def history_words(view: SessionView) -> str:
    """Return what was told, step by step or, where it changes often, by counts."""
    if not view.signals:
        return "No answers yet."
    runs = [(words, list(run)) for words, run in groupby(view.signals, told_words)]
    if len(runs) > _MOST_RUNS:
        counts = Counter(map(_counted, sorted(view.signals, key=_usual_first)))
        parts = [f"{words} in {count:,}" for words, count in counts.items()]
        last = view.signals[-1]
        end = f"The last, at step {last.step:,}: {told_words(last)}."
        return f"{steps_words(len(view.signals))}: {', '.join(parts)}. {end}"
    return " ".join(f"{_span(run[0].step, run[-1].step)}: {words}." for words, run in runs)


def meaning_words(view: SessionView) -> str:
    """Say what the numbers of the bands stand for, or that they have none."""
    words = words_of(view.spec.meter)
    if words is not None:
        return words.meaning
    question = view.spec.meter.question
    if question.draws is not None:
        return (
            f"Every answer has bands of its own, {at_most(question.draws)} wide, whose edges the "
            f"meter drew; the tolerance is {at_most(question.tolerances[0])}."
        )
    ranges = zip(pairwise(question.ends), question.tolerances, strict=True)
    bands = [
        f"{number} is a gap from {gap_words(band)}, tolerance {at_most(eps)}"
        for number, (band, eps) in enumerate(ranges, 1)
    ]
    bands[0] += _HARDER if question.one_sided else ""
    worst = " The meter reports the worst band so far." if question.climbs_only else ""
    return f"Band {'; band '.join(bands)}.{worst}"


def prediction_columns(spec: MeterSpec) -> tuple[str, str]:
    """Return the column that a file of predictions has, and what may stand in its place."""
    loss = spec.meter.sample.measured
    if loss.reported:
        return "score", ""
    each = "probability_CLASS for each class"
    if loss.top > 1:
        return "prediction", f"prediction_1 to prediction_{loss.top}, or {each}"
    of_classes = loss.name in ("0-1", "brier")
    return "prediction", each if of_classes else ""


def settings_words(spec: MeterSpec) -> list[tuple[str, str, str]]:
    """Return the settings that people ask for: a name, its value in words, and a note."""
    meter, sample, renewal = spec.meter, spec.meter.sample, spec.meter.renewal
    answers = f"{meter.answers():,}"
    found = [("Answers", answers, "promised for each test set"), *_asked_words(spec)]
    if renewal.rolls:
        count = len(renewal.batches(1))
        batches = f"{count:,} batches" if count > 1 else "1 batch"
        found[0] = ("Answers", answers, "for each window, without end")
        found.insert(1, ("Window", batches, "a new batch joins, the oldest is released"))
    elif renewal.joined:
        more = f"{labels_needed(spec, 2):,} {sample.handed_in} more, drawn afresh, have joined it"
        found.insert(1, ("Top-up", f"{meter.answers(2):,}", f"after {more}"))
    sharing = together(spec).replace("this test set", "a test set")
    found.append(("Confidence", sure_words(spec), sharing))
    limit = meter.question.limit
    if limit is not None and sample.measured.score is not None:
        note = "nothing else is told of scores below it"
        found.append(("Floor", at_most(1 - limit), note))
    elif limit is not None:
        ceiling = loss_words(spec, limit, at_least)
        found.append(("Ceiling", ceiling, "nothing else is told of test losses above it"))
    found.append(("Loss", sample.loss, _loss_note(spec)))
    if sample.parts is not None:
        pairs = zip(sample.parts.names, sample.parts.weights, strict=True)
        named = ", ".join(f"{name} {float(weight):g}" for name, weight in pairs)
        found.append(("Strata", named, f"by {sample.parts.column}; what each counts in the loss"))
    if sample.classes:
        found.append(("Classes", ", ".join(map(str, sample.classes)), ""))
    public = sample.public
    note = "developers may fetch them" if public else "only runners and models see them"
    return [*found, ("Inputs", "public" if public else "hidden", note)]


def _loss_note(spec: MeterSpec) -> str:
    measured = spec.meter.sample.measured
    if measured.curve:
        return "how far a rate is from that on the validation set, at the worst threshold"
    if measured.score is not None:
        return f"1 minus the {measured.score.word}"
    return "so pages say error" if is_error(spec) else ""


def _asked_words(spec: MeterSpec) -> list[tuple[str, str, str]]:
    words = words_of(spec.meter)
    if words is not None:
        return [("Question", statistic(spec.meter), words.tells)]
    asked = spec.meter.question
    least, most = min(asked.tolerances), max(asked.tolerances)
    tolerance = loss_words(spec, most) if least == most else range_words(spec, (least, most))
    if asked.draws is not None:
        bands = (f"{loss_words(spec, asked.draws)} wide", "edges drawn for each answer")
    else:
        edges = (loss_words(spec, each).removesuffix(" %") for each in asked.ends[:-1])
        bands = (f"{', '.join(edges)}, {loss_words(spec, 1)}", "edges of the gap")
    worst = asked.climbs_only
    return [
        ("Bands", *bands),
        ("Tolerance", tolerance, "between test loss and true loss"),
        ("Each answer tells", f"the {'worst band so far' if worst else 'band of this model'}", ""),
    ]


def _counted(signal: Signal) -> str:
    """Return an answer as it is counted: bands with drawn edges, hardly ever the same, together."""
    if signal.told_edges is not None:
        return told_words(signal)
    drawn = signal.band is not None and not signal.spec.meter.question.numbered
    return "a gap" if drawn else answer_words(signal.answer)


def _usual_first(signal: Signal) -> tuple[bool, int, int]:
    return signal.answer < 0, abs(signal.answer), signal.highest_band or 0


def _span(first: int, last: int) -> str:
    return f"Step {first:,}" if first == last else f"Steps {first:,} to {last:,}"


def sharing_words(view: SessionView) -> tuple[str, ...]:
    """Say with whom a history is shared, and which hand-overs wait for a team to agree."""
    teams = " and ".join(map(str, view.sharing))
    shared = f"By hand-over, teams {teams} share one history and what is left of the budget."
    asked = (
        f"Hand-over from team {each.giver} to team {each.receiver}: {each.sentence} {each.standing}"
        for each in view.handovers
    )
    return (*((shared,) if view.sharing else ()), *asked)
