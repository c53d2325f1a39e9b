"""What to do now, in plain words: by role, and by what the history really shows.

A line that is for one role is shown to that role alone. Where the reader's role is not known, as in
a report that is passed on, it begins with whom it is for.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from easeml_meter.core.lifecycle import Phase
from easeml_meter.core.people import Role
from easeml_meter.core.questions.planning import labels_needed
from easeml_meter.core.signals import (
    ABOVE_CEILING,
    BASELINE,
    BELOW_FLOOR,
    FAIL,
    NO_READING,
    PASS,
    TOO_FAR,
    TOO_FEW,
    TOO_SPREAD,
    Rules,
)
from easeml_meter.core.views import SessionView, Signal, band_words
from easeml_meter.report.words import LOW_BATTERY, validation_words
from easeml_meter.stats.rounding import as_written, at_least, at_most

_READERS = {Role.DEVELOPER: "Developers", Role.LABELER: "Labelers"}

_CARRY_ON = "Carry on: the gap is in the lowest band."
_MAY_CARRY_ON = "Carry on: as far as this answer tells, the gap may be in the lowest band."
_NO_GAP_SEEN = "Carry on: as far as this answer tells, there may be no gap."

Line = tuple[Role | None, str]
"""A sentence, and the role it is for; None: for everybody who sees the answers."""


def advice(view: SessionView, role: Role | None = None) -> tuple[str, ...]:
    """Say what to do now, to one role or to all of them; `backticks` mark commands."""
    return tuple(
        f"{_READERS[reader]}: {line}" if reader and role not in _READERS else _sentence(line)
        for reader, line in _lines(view)
        if reader is None or role not in _READERS or reader is role
    )


def _sentence(line: str) -> str:
    return line[0].upper() + line[1:]


def _lines(view: SessionView) -> Iterator[Line]:
    labels = following = f"{view.labels_needed:,} {view.spec.unit}"
    if view.spec.stages > 1:  # test sets and their top-ups take turns
        following = f"{labels_needed(view.spec, view.generation + 1, view.rows or 0):,} labels"
    if view.phase is Phase.REQUESTED:
        what = "a top-up of" if view.spec.topped_up else "a test set of"
        yield (
            Role.LABELER,
            f"seal {what} at least {labels} (`meter seal`) and deliver it "
            "(`meter testset add`). More labels are welcome.",
        )
        yield Role.DEVELOPER, "until then, submissions are refused, at no cost."
    elif view.phase is Phase.ACTIVE:
        yield from _on_answers(view)
        yield from _on_budget(view, following)
    elif view.spec.window is not None and view.phase is Phase.SPENT:
        if view.signals:
            yield from _on_answers(view)
        yield from _on_the_next_batch(view)
    elif view.spec.top_up is not None and view.phase is Phase.SPENT:
        if view.signals:
            yield from _on_answers(view)
        yield from _on_the_top_up(view)
    else:
        yield from _on_the_end(view, following)


def _on_the_next_batch(view: SessionView) -> Iterator[Line]:
    """Say what a rolling test set waits for."""
    labels = f"{labels_needed(view.spec, 2):,} labels"
    yield None, "This window has given its answers; the next one begins with the next batch."
    yield (
        Role.LABELER,
        f"unless it was delivered, seal a batch of at least {labels} (`meter seal`, `meter testset "
        "add`). The oldest batch leaves the window then, and is released.",
    )
    yield Role.DEVELOPER, "until then, submissions are refused, at no cost."


def _last_planned(view: SessionView) -> bool:
    """Whether no test set follows: one session means as many as there are labels for."""
    return view.spec.sessions > 1 and view.generation >= view.spec.last_number


def _on_the_top_up(view: SessionView) -> Iterator[Line]:
    """Say what a test set waits for that has given its first answers."""
    labels = f"{labels_needed(view.spec, 2, view.rows or 0):,} {view.spec.unit}"
    yield None, "This test set has given its answers, and gives more once fresh labels join it."
    yield (
        Role.LABELER,
        f"unless they were delivered, seal at least {labels}, fresh and independent, that top it "
        f"up to test set {view.generation + 1} (`meter seal`, `meter testset add`). It is released "
        "when that one is spent, too.",
    )
    yield Role.DEVELOPER, "until then, submissions are refused, at no cost."


def _on_the_end(view: SessionView, labels: str) -> Iterator[Line]:
    if view.phase is Phase.ARCHIVED:
        yield None, "This meter is archived: it takes no labels and gives no answers."
    elif view.phase is Phase.RELEASED:
        yield (
            None,
            "This test set is released: its labels are there to train and validate on. It cannot "
            "promise anything any more.",
        )
    else:
        yield None, "This test set gives no more answers; further submissions to it are refused."
        yield Role.LABELER, "release it to the developers: `meter release`."
    if _last_planned(view):
        yield None, f"It was the last of {view.spec.sessions} planned test sets: none follows."
        return
    following = f"test set {view.generation + 1}"
    yield None, f"Further answers come from {following}."
    yield (
        Role.LABELER,
        f"unless it was delivered, seal at least {labels}, fresh and independent, for {following} "
        "(`meter seal`, `meter testset add`).",
    )


def _on_answers(view: SessionView) -> Iterator[Line]:
    if not view.signals:
        yield (
            Role.DEVELOPER,
            "submit a first model: `meter submit`. It is measured on the validation set, too "
            "(`meter validation set`).",
        )
        yield Role.LABELER, "nothing to do: this test set waits for submissions."
        return
    last = view.signals[-1]
    yield from _on_last(last)
    readings = [signal for signal in view.signals if signal.answer > 0 and signal.change is None]
    for reader, line in _on_readings(view, readings):
        # That an earlier model may go on says nothing of one without a reading.
        if readings[-1] is last or line not in (_CARRY_ON, _MAY_CARRY_ON, _NO_GAP_SEEN):
            yield reader, line


def _on_readings(view: SessionView, readings: list[Signal]) -> Iterator[Line]:
    if readings and Rules(view.spec).incremental:
        yield from _on_maximum(view, readings)
    elif readings and view.spec.drawn is not None:
        yield from _on_edges(readings)
    elif readings:
        yield from _on_bands(readings)


def _on_last(last: Signal) -> Iterator[Line]:
    if last.answer == ABOVE_CEILING:
        ceiling = at_least(last.spec.ceiling or 0.0)
        yield (
            None,
            f"The last model's test loss is above the ceiling of {ceiling}, so the meter reports "
            "nothing else about it.",
        )
        if last.spec.above is not None:
            few = last.spec.above
            answers = "1 such answer leaves" if few == 1 else f"{few} such answers leave"
            yield (
                None,
                f"At most {answers} the test set in use; one more ends it for the team.",
            )
        yield Role.DEVELOPER, "submit again once your models are better than that."
    elif last.answer == BELOW_FLOOR and last.spec.corpus is not None:
        floor, word = at_most(last.spec.floor or 0.0), last.spec.corpus.word
        yield (
            None,
            f"The last model's {word} on the test set is below the floor of {floor}, so the meter "
            "reports nothing else about it.",
        )
        yield Role.DEVELOPER, "submit again once your models are better than that."
    elif last.answer == TOO_FEW:
        yield (
            None,
            "The last model predicts too few positives on the test set for a reading of its "
            "precision. That cost a step.",
        )
        yield Role.DEVELOPER, "submit a model that predicts more positives: lower its threshold."
    elif last.answer == TOO_SPREAD:
        most = at_least(last.spec.variance_ceiling or 0.0)
        yield (
            None,
            f"The losses of the last model vary more than {most} on the test set, so the meter "
            "reports nothing else about it.",
        )
        yield Role.DEVELOPER, "submit a model that is seldom far off."
    elif last.answer == NO_READING:
        yield (
            None,
            "The last model could not be measured on the hidden inputs (it crashed, ran out of "
            "time, gave no valid predictions, or let them depend on other rows). That cost a step.",
        )
        yield Role.DEVELOPER, "test the next one on inputs with the same columns first."
    elif last.answer == PASS:
        yield None, f"The last model passed: {last.spec.condition} is promised to hold."
        if last.spec.passes is not None:
            yield None, f"Pass number {last.spec.passes + 1} closes the test set."
        if not last.spec.ladder and last.old is not None:
            yield Role.DEVELOPER, "to compare the next models with it, `meter promote` it."
    elif last.true_change is not None:
        yield from _on_change(*last.true_change, last.old)
    elif last.answer == TOO_FAR:
        yield (
            None,
            f"The last model differs from that of step {last.old} on too many rows to be compared.",
        )
        yield (
            Role.DEVELOPER,
            "submit one that is closer to it, or raise disagreement in a new meter.",
        )
    elif last.answer == BASELINE:
        yield None, "The next models are compared with the last one, which cost nothing."
    elif last.answer == FAIL:
        yield (
            None,
            "The last model failed. It may still be good: nothing is promised about a model that "
            "fails.",
        )


def _on_change(least: float, most: float, old: int | None) -> Iterator[Line]:
    """Advise on n - o: whether the promise leaves its sign open."""
    if least < 0 < most:
        yield None, f"The last model may be better or worse than that of step {old}."
        return
    known = ("no worse" if least == 0 else "better") if least >= 0 else "no better"
    yield None, f"The last model is truly {known} than that of step {old}, as promised."
    if least >= 0:
        yield Role.DEVELOPER, "to compare the next models with it, `meter promote` it."


def _on_bands(readings: list[Signal]) -> Iterator[Line]:
    """Advise on the bands of single models; those without a band say nothing here."""
    now, first = readings[-1], readings[0]
    # Near the ceiling an answer reaches over several bands: the lowest and the highest of them.
    best = min(readings, key=_highest)
    if now.answer == 1:
        yield None, _CARRY_ON if _highest(now) == 1 else _MAY_CARRY_ON
        return
    if now.answer > _highest(first):
        yield None, _climbed(band_words(first), band_words(now))
    elif now.answer > _highest(best):
        yield (
            None,
            f"The meter was at {band_words(best)} at step {best.step:,} and is at "
            f"{band_words(now)} now.",
        )
    elif any(signal.answer < now.answer for signal in readings):
        yield (
            None,
            f"The meter is at {band_words(now)}, and no earlier answer is sure to be a lower one, "
            "so these steps need not have caused the gap.",
        )
    else:
        yield (
            None,
            f"No reported band was below band {now.answer}, so these steps did not cause the gap.",
        )
    yield None, _direction(now)
    yield from _on_validation(climbed=now.answer > _highest(best))


def _highest(signal: Signal) -> int:
    return signal.highest_band or 0


def _on_edges(readings: list[Signal]) -> Iterator[Line]:
    """Advise on gaps between drawn edges: two of them differ if they do not overlap."""
    gaps = [signal.gap or (0.0, 1.0) for signal in readings]
    lower, _ = gaps[-1]
    least = min(upper for _, upper in gaps)
    if lower <= readings[-1].spec.tolerances[0]:
        yield None, _NO_GAP_SEEN
        return
    if lower >= least:
        best = readings[[upper for _, upper in gaps].index(least)]
        yield (
            None,
            f"At step {best.step:,} the gap was at most {at_most(least)}, and it is at least "
            f"{at_least(lower)} now: validation loss and test loss have drifted apart.",
        )
    else:
        yield (
            None,
            f"The gap is at least {at_least(lower)}, and no earlier answer shows a smaller one, so "
            "these steps need not have caused it.",
        )
    yield None, _direction(readings[-1])
    yield from _on_validation(climbed=lower >= least)


def _climbed(first: str, now: str) -> str:
    return (
        f"The meter has climbed from {first} to {now}: validation loss and test loss have drifted "
        "apart."
    )


def _direction(signal: Signal) -> str:
    """Say on which side of the validation loss the test loss lies, where the numbers show it."""
    if signal.spec.curve:
        return (
            "At some threshold the validation set shows a rate that is not the true one: a "
            "threshold chosen there may do less than it seems."
        )
    loss = signal.validation_loss
    side = 0 if loss is None else signal.rules.side(signal.answer, as_written(loss))
    if side > 0:
        return (
            "The test loss is above the validation loss: what looks like progress on the "
            "validation set may not be real."
        )
    if side < 0:
        return (
            f"With a validation loss of {validation_words(signal)}, the test loss can only be "
            "below it: the model is not overfitted, the validation set is harder than the test set."
        )
    return (
        "The gap is a distance. If the test loss is the higher one, progress on the validation set "
        "may not be real; if it is the lower one, the validation set is the harder of the two."
    )


def _on_validation(*, climbed: bool) -> Iterator[Line]:
    if climbed:
        yield (
            Role.DEVELOPER,
            "consider replacing the validation set with fresh examples: "
            "`meter validation replace`. That costs no step and takes effect with the next "
            "submission.",
        )
        return
    yield (
        Role.DEVELOPER,
        "check that the validation set comes from the same source as the test set and is large "
        "enough. If earlier work used it up, replace it: `meter validation replace`.",
    )


def _on_maximum(view: SessionView, readings: list[Signal]) -> Iterator[Line]:
    """Advise on the worst band so far, which says nothing of the models after it."""
    now = readings[-1].answer
    # Only a reset lets the maximum come down, so it began after the last descent.
    first = readings[0]
    for before, after in pairwise(readings):
        if after.answer < before.answer:
            first = after
    if now == 1:
        yield None, _CARRY_ON
        return
    if now > first.answer:
        yield None, _climbed(band_words(first), band_words(readings[-1]))
    else:
        yield None, f"The meter has reported band {now} since step {first.step:,}."
    yield None, "It reports the worst band so far, whatever came after it."
    if now == view.spec.signals:
        yield None, "That is its highest band: further answers can say nothing new about the gap."
    if view.spec.resets:
        yield (
            Role.DEVELOPER,
            "a fresh validation set with a reset starts the maximum again, if a reset is left: "
            "`meter validation replace --reset`.",
        )
    elif now < view.spec.signals:
        yield from _on_validation(climbed=True)
    if now == view.spec.signals:
        yield (
            Role.LABELER,
            "to go on with a fresh test set, you or an admin can retire this one early: "
            "`meter testset retire`.",
        )


def _on_budget(view: SessionView, labels: str) -> Iterator[Line]:
    if view.battery >= LOW_BATTERY:
        return
    if _last_planned(view):
        yield None, "The budget is running low, and this is the last planned test set."
        return
    yield None, f"The budget is running low, and labels take time: the next {labels} are due soon."
