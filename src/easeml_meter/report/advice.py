"""What to do now, in plain words: by role, and by what the history really shows.

One table has what is said, to whom, and the step that it calls for, which a page has a button for.
A line that is for one role is shown to that role alone. Where the reader's role is not known, as in
a report that is passed on, it begins with whom it is for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction

from easeml_meter.core.history import MeterState
from easeml_meter.core.lifecycle import Phase
from easeml_meter.core.model import LabelOrder
from easeml_meter.core.people import Role
from easeml_meter.core.questions.planning import labels_needed
from easeml_meter.core.signals import PASS
from easeml_meter.core.views import SessionView, Signal, band_words
from easeml_meter.promise.numbers.rounding import at_least, at_most
from easeml_meter.report.words import LOW_BATTERY, validation_words

_READERS = {Role.DEVELOPER: "Developers", Role.LABELER: "Labelers"}

Case = tuple[str, Mapping[str, object]]
"""A key of the table, and the facts that its words name."""


class StepPlace(StrEnum):
    """Where a step is taken."""

    NOWHERE = "nowhere"
    VALIDATION = "validation"
    SUBMIT = "submit"
    LABELS = "labels"
    MANAGE = "manage"


@dataclass(frozen=True)
class NextStep:
    """What to do now."""

    title: str
    words: str
    place: StepPlace = StepPlace.NOWHERE
    command: str = ""
    """The same in a terminal."""


_SUBMIT = "meter submit --test test.csv --validation validation.csv --model NAME"
_REPLACE = "meter validation replace FILE --label COLUMN"
_SEAL = "meter seal FILE --label COLUMN --out labels.sealed\nmeter testset add labels.sealed"
_REFUSED = "Until then, submissions are refused, at no cost."
_STEPS = {
    "archived": NextStep(
        "This meter is archived",
        "It was given up before its first answer. It takes no labels and gives no answers.",
    ),
    "manage": NextStep(
        "Manage this meter",
        "Admins give seats and watch the audit trail. They see no answers.",
        StepPlace.MANAGE,
    ),
    # Developers
    "hand in": NextStep(
        "Hand in the validation set",
        "Every submission is measured on it, too, so it comes before the first one. It costs "
        "no answer.",
        StepPlace.VALIDATION,
        "meter validation set FILE --label COLUMN",
    ),
    "first": NextStep(
        "Submit a first model",
        "The check is free. The first answer shows where you start.",
        StepPlace.SUBMIT,
        _SUBMIT,
    ),
    "another": NextStep(
        "Submit the next model",
        "The answers so far call for nothing else. The check is free.",
        StepPlace.SUBMIT,
        _SUBMIT,
    ),
    "by runner": NextStep(
        "Hand your model to a runner",
        "The test inputs are hidden from developers. A runner predicts on them and on the "
        "validation set, and submits both; the answer is shown here.",
    ),
    "a model": NextStep(
        "Submit a model",
        "The test inputs are hidden from developers, so the model itself is sent, and runs on them "
        "here.",
        StepPlace.SUBMIT,
        "meter submit --onnx model.onnx --model NAME",
    ),
    "replace": NextStep(
        "Check the validation set",
        "The answers show a gap between validation and test set. A fresh validation set costs no "
        "answer and takes effect with the next submission.",
        StepPlace.VALIDATION,
        _REPLACE,
    ),
    # Runners
    "run": NextStep(
        "Run a model and submit its predictions",
        "Fetch the test inputs and the validation set, run the developers' model on both, and "
        "submit the predictions. The developers see the answer; you do not.",
        StepPlace.SUBMIT,
        f"meter testset inputs --out inputs.parquet\n{_SUBMIT}",
    ),
    "wait for validation": NextStep(
        "Wait for the validation set", "Developers hand it in before the first submission."
    ),
    # Both
    "wait for labels": NextStep(
        "Wait for {labels} labels",
        "A submission waits for them, and is answered when the labelers have given them. Others "
        "are refused until then, at no cost.",
    ),
    "wait for batch": NextStep(
        "Wait for the batch of window {number}",
        f"The labelers deliver {{labels}} labels. {_REFUSED}",
    ),
    "wait for top-up": NextStep(
        "Wait for more labels in test set {before}",
        f"The labelers deliver {{labels}} {{unit}}. {_REFUSED}",
    ),
    "wait for test set": NextStep(
        "Wait for test set {number}", f"The labelers deliver {{labels}} {{unit}}. {_REFUSED}"
    ),
    # Labelers
    "give labels": NextStep(
        "Give {labels} labels",
        "A submission waits for them. Each step asks for as many, of rows on which two models "
        "differ and of random others.",
        StepPlace.LABELS,
        "meter testset wanted --out wanted.csv\nmeter testset label wanted.csv --label label",
    ),
    "batch": NextStep(
        "Deliver the batch for window {number}",
        "{labels} labels are needed, in one file or in parts. When they join the window, its "
        "oldest batch is released to the developers.",
        StepPlace.LABELS,
        _SEAL,
    ),
    "release": NextStep(
        "Release {what} {spent}",
        "It gives no more answers. Released, its labels are there for the developers to learn "
        "from, with the test loss of every step.",
        StepPlace.LABELS,
        "meter release",
    ),
    "inputs": NextStep(
        "Deliver inputs for test set {number}",
        "{labels} inputs with ids are needed, without labels: those are asked for when a "
        "submission needs them.",
        StepPlace.LABELS,
        "meter seal FILE --id COLUMN --out inputs.sealed\nmeter testset add inputs.sealed",
    ),
    "top up": NextStep(
        "Top up test set {before}",
        "{labels} labels are needed, {how}. They are encrypted before they leave your machine.",
        StepPlace.LABELS,
        _SEAL,
    ),
    "deliver": NextStep(
        "Deliver labels for test set {number}",
        "{labels} labels are needed, {how}. They are encrypted before they leave your machine.",
        StepPlace.LABELS,
        _SEAL,
    ),
    "retire": NextStep(
        "Consider a fresh test set",
        "The meter is at its highest band, so its further answers say nothing new about the gap. "
        "You can retire this test set early.",
        StepPlace.LABELS,
        "meter testset retire",
    ),
    "nothing": NextStep("Nothing to do", "The test set answers submissions until it is spent."),
}


# What is said in each case, line by line; it begins with whom it is for, if not for everybody.
_LINES = {
    # The test set
    "requested": (
        "Labelers: seal {what} at least {labels} (`meter seal`) and deliver it (`meter testset "
        "add`). More labels are welcome.\n"
        "Developers: until then, submissions are refused, at no cost."
    ),
    "wait for batch": (
        "This window has given its answers; the next one begins with the next batch.\n"
        "Labelers: unless it was delivered, seal a batch of at least {labels} (`meter seal`, "
        "`meter testset add`). The oldest batch leaves the window then, and is released.\n"
        "Developers: until then, submissions are refused, at no cost."
    ),
    "wait for top-up": (
        "This test set has given its answers, and gives more once fresh labels join it.\n"
        "Labelers: unless they were delivered, seal at least {labels}, fresh and independent, "
        "that top it up to test set {number} (`meter seal`, `meter testset add`). It is released "
        "when that one is spent, too.\n"
        "Developers: until then, submissions are refused, at no cost."
    ),
    "archived": "This meter is archived: it takes no labels and gives no answers.",
    "released": (
        "This test set is released: its labels are there to train and validate on. It cannot "
        "promise anything any more."
    ),
    "spent": (
        "This test set gives no more answers; further submissions to it are refused.\n"
        "Labelers: release it to the developers: `meter release`."
    ),
    "next": (
        "Further answers come from test set {number}.\n"
        "Labelers: unless it was delivered, seal at least {labels}, fresh and independent, for "
        "test set {number} (`meter seal`, `meter testset add`)."
    ),
    "low": "The budget is running low, and labels take time: the next {labels} are due soon.",
    # The last answer, by its name
    "no answers": (
        "Developers: submit a first model: `meter submit`. It is measured on the validation set, "
        "too (`meter validation set`).\n"
        "Labelers: nothing to do: this test set waits for submissions."
    ),
    "above-ceiling": (
        "The last model's test loss is above the ceiling of {ceiling}, so the meter reports "
        "nothing else about it."
    ),
    "better": "Developers: submit again once your models are better than that.",
    "below-floor": (
        "The last model's {word} on the test set is below the floor of {floor}, so the meter "
        "reports nothing else about it.\n"
        "Developers: submit again once your models are better than that."
    ),
    "too-few": (
        "The last model predicts too few positives on the test set for a reading of its "
        "precision. That cost a step.\n"
        "Developers: submit a model that predicts more positives: lower its threshold."
    ),
    "no-reading": (
        "The last model could not be measured on the hidden inputs (it crashed, ran out of time, "
        "gave no valid predictions, or let them depend on other rows). That cost a step.\n"
        "Developers: test the next one on inputs with the same columns first."
    ),
    "ok": "The last model is ok: carry on.",
    "alarm": (
        "The test set does not vouch for the last model: it may be overfitted, or unlucky. ok now "
        "means a little less, as said above; the models that were ok remain as promised.\n"
        "Developers: go back to the last model that was ok, and rely less on the validation set."
    ),
    "pass": "The last model passed: {condition} is promised to hold.",
    "closes": "Pass number {number} closes the test set.",
    "promote": "Developers: to compare the next models with it, `meter promote` it.",
    "too-far": (
        "The last model is too far from that of step {old} to be compared.\n"
        "Developers: submit one that is closer to it, or raise disagreement in a new meter."
    ),
    "baseline": "The next models are compared with the last one, which cost nothing.",
    "fail": (
        "The last model failed. It may still be good: nothing is promised about a model that fails."
    ),
    "either": "The last model may be better or worse than that of step {old}.",
    "known": "The last model is truly {known} than that of step {old}, as promised.",
    # All readings of the gap
    "carry on": "Carry on: the gap is in the lowest band.",
    "may carry on": "Carry on: as far as this answer tells, the gap may be in the lowest band.",
    "no gap seen": "Carry on: as far as this answer tells, there may be no gap.",
    "climbed": (
        "The meter has climbed from {first} to {now}: validation loss and test loss have drifted "
        "apart."
    ),
    "was lower": "The meter was at {best} at step {step} and is at {now} now.",
    "may be no lower": (
        "The meter is at {now}, and no earlier answer is sure to be a lower one, so these steps "
        "need not have caused the gap."
    ),
    "never lower": (
        "No reported band was below {now}, so the answers do not show that these steps caused the "
        "gap."
    ),
    "drifted": (
        "At step {step} the gap was at most {least}, and it is at least {now} now: validation "
        "loss and test loss have drifted apart."
    ),
    "may not have drifted": (
        "The gap is at least {now}, and no earlier answer shows a smaller one, so these steps "
        "need not have caused it."
    ),
    "since": "The meter has reported band {band} since step {step}.",
    "worst": "It reports the worst band so far, whatever came after it.",
    "highest": "That is its highest band: further answers can say nothing new about the gap.",
    "retire": (
        "Labelers: to go on with a fresh test set, you or an admin can retire this one early: "
        "`meter testset retire`."
    ),
    "curve": (
        "At some threshold the validation set shows a rate that is not the true one: a threshold "
        "chosen there may do less than it seems."
    ),
    "test loss above": (
        "The test loss is above the validation loss: what looks like progress on the validation "
        "set may not be real."
    ),
    "test loss below": (
        "With a validation loss of {loss}, the test loss can only be below it: the model is not "
        "overfitted, the validation set is harder than the test set."
    ),
    "distance": (
        "The gap is a distance. If the test loss is the higher one, progress on the validation "
        "set may not be real; if it is the lower one, the validation set is the harder of the "
        "two."
    ),
    "replace": (
        "Developers: consider replacing the validation set with fresh examples: `meter "
        "validation replace`. That costs no step and takes effect with the next submission."
    ),
    "check": (
        "Developers: check that the validation set comes from the same source as the test set "
        "and is large enough. If earlier work used it up, replace it: `meter validation replace`."
    ),
    "shared": (
        "Developers: all teams share the validation set and are counted apart, so nobody may "
        "replace it because of an answer. Look for what else the answers may come from."
    ),
}
_CALLED_FOR = {
    ("no answers", Role.DEVELOPER): "first",
    ("replace", Role.DEVELOPER): "replace",
    ("check", Role.DEVELOPER): "replace",
    ("retire", Role.LABELER): "retire",
}
"""The steps that cases call for."""


def advice(view: SessionView, role: Role | None = None) -> tuple[str, ...]:
    """Say what to do now, to one role or to all of them; `backticks` mark commands."""
    said = (
        line.format(**facts)
        for key, facts in _cases(view)
        for line in _LINES.get(key, "").splitlines()
    )
    return tuple(line for each in said if (line := _told(role, each)))


def _told(role: Role | None, line: str) -> str:
    """Return a line as a role is told it; nothing, if it is for another role."""
    reader = next((each for each, name in _READERS.items() if line.startswith(f"{name}: ")), None)
    if reader is None or role not in _READERS:
        return line
    rest = line.partition(": ")[2]
    return rest[0].upper() + rest[1:] if reader is role else ""


def _cases(view: SessionView) -> Iterator[Case]:
    spec, number, rows = view.spec, view.generation + 1, view.rows or 0
    labels = following = f"{view.labels_needed:,} {spec.meter.sample.handed_in}"
    renewal = spec.meter.renewal
    if renewal.joined and not renewal.rolls:  # test sets and their top-ups take turns
        following = f"{labels_needed(spec, number, rows):,} labels"
    joined = renewal.joins(number)
    goes_on = view.phase is Phase.SPENT and joined
    if view.phase is Phase.ACTIVE or (goes_on and view.signals):
        yield from _of_answers(view)
    if view.phase is Phase.REQUESTED:
        what = "a top-up of" if renewal.stage(view.generation) else "a test set of"
        yield "requested", {"what": what, "labels": labels}
    elif view.phase is Phase.ACTIVE:
        if view.battery < LOW_BATTERY:
            yield "low", {"labels": following}
    elif goes_on and spec.meter.renewal.rolls:
        yield "wait for batch", {"labels": f"{labels_needed(spec, 2):,} labels"}
    elif goes_on:
        asked = f"{labels_needed(spec, 2, rows):,} {spec.meter.sample.handed_in}"
        yield "wait for top-up", {"labels": asked, "number": number}
    else:
        yield str(view.phase), {}
        yield "next", {"number": number, "labels": following}


def _of_answers(view: SessionView) -> Iterator[Case]:
    if not view.signals:
        yield "no answers", {}
        return
    last = view.signals[-1]
    yield from _of_last(last)
    readings = [signal for signal in view.signals if signal.answer > 0 and signal.change is None]
    if not readings:
        return
    of_all = _of_bands
    if view.spec.meter.question.climbs_only:
        of_all = _of_maximum
    elif not view.spec.meter.question.numbered:
        of_all = _of_edges
    for key, facts in of_all(readings):
        # That an earlier model may go on says nothing of one without a reading.
        if readings[-1] is last or key not in ("carry on", "may carry on", "no gap seen"):
            apart = view.spec.meter.budget.apart > 1 and key in ("replace", "check")
            yield ("shared", {}) if apart else (key, facts)


def _of_last(last: Signal) -> Iterator[Case]:
    meter = last.spec.meter
    limit, score = meter.question.limit or Fraction(0), meter.sample.measured.score
    yield (
        last.name,
        {
            "ceiling": at_least(limit),
            "floor": at_most(1 - limit),
            "word": "" if score is None else score.word,
            "condition": meter.question.text,
            "old": last.old,
        },
    )
    if last.name == "above-ceiling":
        yield "better", {}
    elif last.answer == PASS:
        if meter.budget.last_pass is not None:
            yield "closes", {"number": meter.budget.last_pass}
        if meter.question.promotes and last.old is not None:
            yield "promote", {}
    elif last.true_change is not None:
        least, most = last.true_change
        if least < 0 < most:
            yield "either", {"old": last.old}
            return
        known = ("no worse" if least == 0 else "better") if least >= 0 else "no better"
        yield "known", {"known": known, "old": last.old}
        if least >= 0:
            yield "promote", {}


def _of_bands(readings: list[Signal]) -> Iterator[Case]:
    """Look at the bands of single models; those without a band say nothing here."""
    now, first = readings[-1], readings[0]
    # Near the ceiling an answer reaches over several bands: the lowest and the highest of them.
    best = min(readings, key=_highest)
    if now.answer == 1:
        yield "carry on" if _highest(now) == 1 else "may carry on", {}
        return
    if now.answer > _highest(first):
        yield "climbed", {"first": band_words(first), "now": band_words(now)}
    elif now.answer > _highest(best):
        step = f"{best.step:,}"
        yield "was lower", {"best": band_words(best), "step": step, "now": band_words(now)}
    elif any(signal.answer < now.answer for signal in readings):
        yield "may be no lower", {"now": band_words(now)}
    else:
        yield "never lower", {"now": f"band {now.answer}"}
    yield _direction(now)
    yield "replace" if now.answer > _highest(best) else "check", {}


def _highest(signal: Signal) -> int:
    return signal.highest_band or 0


def _of_edges(readings: list[Signal]) -> Iterator[Case]:
    """Look at gaps between drawn edges: two of them differ if they do not overlap."""
    gaps = [signal.gap or (0.0, 1.0) for signal in readings]
    lower, _ = gaps[-1]
    uppers = [upper for _, upper in gaps]
    least = min(uppers)
    if lower <= readings[-1].spec.meter.question.tolerances[0]:
        yield "no gap seen", {}
        return
    step = f"{readings[uppers.index(least)].step:,}"
    facts = {"step": step, "least": at_most(least), "now": at_least(lower)}
    yield "drifted" if lower >= least else "may not have drifted", facts
    yield _direction(readings[-1])
    yield "replace" if lower >= least else "check", {}


def _of_maximum(readings: list[Signal]) -> Iterator[Case]:
    """Look at the worst band so far, which says nothing of the models after it."""
    now, spec = readings[-1].answer, readings[-1].spec
    first = readings[0]
    if now == 1:
        yield "carry on", {}
        return
    if now > first.answer:
        yield "climbed", {"first": band_words(first), "now": band_words(readings[-1])}
    else:
        yield "since", {"band": now, "step": f"{first.step:,}"}
    yield "worst", {}
    if now == spec.meter.question.rungs:
        yield "highest", {}
        yield "retire", {}
    else:
        yield "replace", {}


def _direction(signal: Signal) -> Case:
    """Say on which side of the validation loss the test loss lies, where the numbers show it."""
    if signal.spec.meter.sample.measured.curve:
        return "curve", {}
    if signal.side > 0:
        return "test loss above", {}
    if signal.side < 0:
        return "test loss below", {"loss": validation_words(signal)}
    return "distance", {}


# --- The one step of each role ---


def next_step(
    state: MeterState, role: Role, view: SessionView | None, order: LabelOrder | None = None
) -> NextStep:
    """Say what somebody in a role does next at a meter; `view` is for those who see answers.

    `order` is for the labels on demand that a step waits for.
    """
    latest, spec, spent = state.generations[-1], state.spec, state.releasable
    number, labels = latest.number, latest.labels_needed
    what = "window" if spec.meter.renewal.rolls and len(state.generations) > 1 else "test set"
    how = "in one file or in parts; more are welcome"
    if spec.meter.sample.parts is not None:
        strata = spec.meter.sample.parts.rows(labels).items()
        how = f"in one file: {', '.join(f'{rows:,} of {name}' for name, rows in strata)}"
    facts: dict[str, object] = {
        "number": number,
        "before": number - 1,
        "spent": spent.number if spent else "",
        "labels": f"{labels if order is None else order.labels:,}",
        "unit": spec.meter.sample.handed_in,
        "what": what,
        "how": how,
    }
    step = _STEPS[_key(state, role, view, order)]
    return replace(step, title=step.title.format(**facts), words=step.words.format(**facts))


def _key(state: MeterState, role: Role, view: SessionView | None, order: LabelOrder | None) -> str:
    latest, spec = state.generations[-1], state.spec
    rolls = spec.meter.renewal.rolls and latest.number > 1
    if state.archived:
        return "archived"
    if role not in (Role.LABELER, Role.DEVELOPER, Role.RUNNER):
        return "manage"
    if order is not None:
        return "give labels" if role is Role.LABELER else "wait for labels"
    if role is Role.LABELER:
        if latest.phase is Phase.REQUESTED and rolls:
            return "batch"
        if state.releasable is not None:
            return "release"
        if latest.phase is Phase.REQUESTED and spec.meter.sample.orders_labels:
            return "inputs"
        if latest.phase is Phase.REQUESTED:
            return "top up" if state.joins(latest) else "deliver"
        return _advised(view, role) or "nothing"
    if role is Role.DEVELOPER and state.validation is None:
        return "hand in"
    if latest.phase is not Phase.ACTIVE:
        if rolls:
            return "wait for batch"
        return "wait for top-up" if state.joins(latest) else "wait for test set"
    if role is Role.RUNNER:
        return "wait for validation" if state.validation is None else "run"
    step = _advised(view, role) or "another"
    if _STEPS[step].place is StepPlace.SUBMIT and not spec.meter.sample.public:
        return "a model" if spec.meter.sample.models else "by runner"
    return step


def _advised(view: SessionView | None, role: Role) -> str:
    cases = () if view is None else _cases(view)
    return next((_CALLED_FOR[key, role] for key, _ in cases if (key, role) in _CALLED_FOR), "")
