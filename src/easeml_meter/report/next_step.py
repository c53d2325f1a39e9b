"""The one next step at a meter, by role and state: what a page has a button for.

Which step the answers call for is decided by the advice alone: it names a command, and here is what
a page says in its place.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from easeml_meter.core.history import MeterState
from easeml_meter.core.lifecycle import Phase
from easeml_meter.core.model import LabelOrder
from easeml_meter.core.people import Role
from easeml_meter.core.views import SessionView
from easeml_meter.report.advice import advice


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
_FIRST = NextStep(
    "Submit a first model",
    "The check is free. The first answer shows where you start.",
    StepPlace.SUBMIT,
    _SUBMIT,
)
_ANOTHER = NextStep(
    "Submit the next model",
    "The answers so far call for nothing else. The check is free.",
    StepPlace.SUBMIT,
    _SUBMIT,
)
_BY_RUNNER = NextStep(
    "Hand your model to a runner",
    "The test inputs are hidden from developers. A runner predicts on them and on the validation "
    "set, and submits both; the answer is shown here.",
)
_A_MODEL = NextStep(
    "Submit a model",
    "The test inputs are hidden from developers, so the model itself is sent, and runs on them "
    "here.",
    StepPlace.SUBMIT,
    "meter submit --onnx model.onnx --model NAME",
)
_BY_COMMAND = {
    "meter submit": _FIRST,
    "meter validation replace": NextStep(
        "Check the validation set",
        "The answers show a gap between validation and test set. A fresh validation set costs no "
        "answer and takes effect with the next submission.",
        StepPlace.VALIDATION,
        _REPLACE,
    ),
    "meter validation replace --reset": NextStep(
        "Replace the validation set",
        "With a reset, the worst band so far starts again. Later answers then cost more.",
        StepPlace.VALIDATION,
        f"{_REPLACE} --reset",
    ),
    "meter testset retire": NextStep(
        "Consider a fresh test set",
        "The meter is at its highest band, so its further answers say nothing new about the gap. "
        "You can retire this test set early.",
        StepPlace.LABELS,
        "meter testset retire",
    ),
}


def next_step(
    state: MeterState, role: Role, view: SessionView | None, order: LabelOrder | None = None
) -> NextStep:
    """Say what somebody in a role does next at a meter; `view` is for those who see answers.

    `order` is for the labels on demand that a step waits for.
    """
    if state.archived:
        return NextStep(
            "This meter is archived",
            "It was given up before its first answer. It takes no labels and gives no answers.",
        )
    if order is not None and role in (Role.LABELER, Role.DEVELOPER, Role.RUNNER):
        return _of_order(order, role)
    if role is Role.LABELER:
        return _of_labelers(state, view)
    if role is Role.DEVELOPER:
        return _of_developers(state, view)
    if role is Role.RUNNER:
        return _of_runners(state)
    return NextStep(
        "Manage this meter",
        "Admins give seats and watch the audit trail. They see no answers.",
        StepPlace.MANAGE,
    )


def _of_order(order: LabelOrder, role: Role) -> NextStep:
    if role is Role.LABELER:
        return NextStep(
            f"Give {order.labels:,} labels",
            "A submission waits for them. Each step asks for as many, of rows on which two models "
            "differ and of random others.",
            StepPlace.LABELS,
            "meter testset wanted --out wanted.csv\nmeter testset label wanted.csv --label label",
        )
    return NextStep(
        f"Wait for {order.labels:,} labels",
        "A submission waits for them, and is answered when the labelers have given them. Others "
        "are refused until then, at no cost.",
    )


def _of_developers(state: MeterState, view: SessionView | None) -> NextStep:
    if state.validation is None:
        return NextStep(
            "Hand in the validation set",
            "Every submission is measured on it, too, so it comes before the first one. It costs "
            "no answer.",
            StepPlace.VALIDATION,
            "meter validation set FILE --label COLUMN",
        )
    if state.generations[-1].phase is not Phase.ACTIVE:
        return _waiting(state)
    step = _advised(view, Role.DEVELOPER) or _ANOTHER
    if step.place is StepPlace.SUBMIT and state.spec.inputs == "hidden":
        return _A_MODEL if state.spec.models else _BY_RUNNER
    return step


def _of_labelers(state: MeterState, view: SessionView | None) -> NextStep:
    rolling = state.spec.window is not None and len(state.generations) > 1
    latest = state.generations[-1]
    if rolling and latest.phase is Phase.REQUESTED:
        return NextStep(
            f"Deliver the batch for window {latest.number}",
            f"{latest.labels_needed:,} labels are needed, in one file or in parts. When they join "
            "the window, its oldest batch is released to the developers.",
            StepPlace.LABELS,
            "meter seal FILE --label COLUMN --out labels.sealed\nmeter testset add labels.sealed",
        )
    spent = state.releasable
    if spent is not None:
        return NextStep(
            f"Release {'window' if rolling else 'test set'} {spent.number}",
            "It gives no more answers. Released, its labels are there for the developers to learn "
            "from, with the test loss of every step.",
            StepPlace.LABELS,
            "meter release",
        )
    if latest.phase is Phase.REQUESTED and state.spec.on_demand:
        return NextStep(
            f"Deliver inputs for test set {latest.number}",
            f"{latest.labels_needed:,} inputs with ids are needed, without labels: those are asked "
            "for when a submission needs them.",
            StepPlace.LABELS,
            "meter seal FILE --id COLUMN --out inputs.sealed\nmeter testset add inputs.sealed",
        )
    if latest.phase is Phase.REQUESTED:
        topped = f"Top up test set {latest.number - 1}" if state.joins(latest) else ""
        how = "in one file or in parts; more are welcome"
        if state.spec.stratified:
            strata = state.spec.stratum_rows(latest.labels_needed).items()
            named = ", ".join(f"{rows:,} of {name}" for name, rows in strata)
            how = f"in one file: {named}"
        return NextStep(
            topped or f"Deliver labels for test set {latest.number}",
            f"{latest.labels_needed:,} labels are needed, {how}. They are encrypted before they "
            "leave your machine.",
            StepPlace.LABELS,
            "meter seal FILE --label COLUMN --out labels.sealed\nmeter testset add labels.sealed",
        )
    nothing = NextStep("Nothing to do", "The test set answers submissions until it is spent.")
    return _advised(view, Role.LABELER) or nothing


def _of_runners(state: MeterState) -> NextStep:
    if state.generations[-1].phase is not Phase.ACTIVE:
        return _waiting(state)
    if state.validation is None:
        return NextStep(
            "Wait for the validation set", "Developers hand it in before the first submission."
        )
    return NextStep(
        "Run a model and submit its predictions",
        "Fetch the test inputs and the validation set, run the developers' model on both, and "
        "submit the predictions. The developers see the answer; you do not.",
        StepPlace.SUBMIT,
        f"meter testset inputs --out inputs.parquet\n{_SUBMIT}",
    )


def _waiting(state: MeterState) -> NextStep:
    latest = state.generations[-1]
    if latest.phase is not Phase.REQUESTED:
        return NextStep("This meter is finished", "Its last planned test set is spent.")
    if state.spec.window is not None and latest.number > 1:
        return NextStep(
            f"Wait for the batch of window {latest.number}",
            f"The labelers deliver {latest.labels_needed:,} labels. Until then, submissions are "
            "refused, at no cost.",
        )
    topped = f"Wait for more labels in test set {latest.number - 1}" if state.joins(latest) else ""
    return NextStep(
        topped or f"Wait for test set {latest.number}",
        f"The labelers deliver {latest.labels_needed:,} {state.spec.unit}. Until then, submissions "
        "are refused, at no cost.",
    )


def _advised(view: SessionView | None, role: Role) -> NextStep | None:
    """Return the step whose command the advice names first."""
    lines = advice(view, role) if view is not None else ()
    named = (command for line in lines for command in re.findall("`([^`]*)`", line))
    return next((_BY_COMMAND[each] for each in named if each in _BY_COMMAND), None)
