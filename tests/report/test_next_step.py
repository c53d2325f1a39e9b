from __future__ import annotations

from dataclasses import replace

import pytest
from tests.report.sessions import INCREMENTAL, SPEC, session

from easeml_meter.core.history import MeterState
from easeml_meter.core.lifecycle import Phase
from easeml_meter.core.model import MeterRecord, TestSet, ValidationSet
from easeml_meter.core.people import Role
from easeml_meter.core.views import SessionView
from easeml_meter.report.advice import StepPlace, next_step
from easeml_meter.spec import MeterSpec

STAMP = "2026-03-02T09:00:00+00:00"
GIVEN = ValidationSet("m", 1, "d", 20, {"label": "y"}, "v.csv", STAMP)


def state(*phases: Phase, spec: MeterSpec = SPEC, given: bool = True) -> MeterState:
    """Give a meter whose test sets are in these phases."""
    sets = [TestSet("m", number, phase, 100, STAMP) for number, phase in enumerate(phases, 1)]
    meter = MeterRecord(id="m", name="meter", settings=spec.to_mapping(), created_at=STAMP)
    return MeterState(meter, spec, tuple(sets), GIVEN if given else None)


def test_a_developer_without_a_validation_set_hands_one_in() -> None:
    for phase in (Phase.REQUESTED, Phase.ACTIVE):
        step = next_step(state(phase, given=False), Role.DEVELOPER, session([], phase=phase))
        assert step.place is StepPlace.VALIDATION
        assert step.command.startswith("meter validation set ")


@pytest.mark.parametrize(
    ("view", "place", "title"),
    [
        (session([]), StepPlace.SUBMIT, "Submit a first model"),
        (session([1, 1]), StepPlace.SUBMIT, "Submit the next model"),
        (session([1, 3]), StepPlace.VALIDATION, "Check the validation set"),
        (session([1, 3], INCREMENTAL), StepPlace.VALIDATION, "Check the validation set"),
    ],
)
def test_a_developer_does_what_the_answers_call_for(
    view: SessionView, place: StepPlace, title: str
) -> None:
    spec = view.spec.replace(inputs="public")
    step = next_step(state(Phase.ACTIVE, spec=spec), Role.DEVELOPER, view)
    assert (step.place, step.title) == (place, title)


@pytest.mark.parametrize(
    ("models", "place", "title"),
    [
        (False, StepPlace.NOWHERE, "Hand your model to a runner"),
        ("onnx", StepPlace.SUBMIT, "Submit a model"),
    ],
)
def test_a_developer_who_does_not_see_the_inputs_predicts_nothing(
    models: bool | str, place: StepPlace, title: str
) -> None:
    spec = SPEC.replace(inputs="hidden", models=models)
    step = next_step(state(Phase.ACTIVE, spec=spec), Role.DEVELOPER, session([]))
    assert (step.place, step.title) == (place, title)


def test_nobody_does_anything_at_an_archived_meter() -> None:
    for role in (Role.DEVELOPER, Role.LABELER, Role.RUNNER, Role.ADMIN):
        assert next_step(state(Phase.ARCHIVED), role, None).title == "This meter is archived"


def test_who_can_do_nothing_is_told_what_to_wait_for() -> None:
    waiting = state(Phase.SPENT, Phase.REQUESTED)
    for role in (Role.DEVELOPER, Role.RUNNER):
        step = next_step(waiting, role, None)
        assert (step.place, step.title) == (StepPlace.NOWHERE, "Wait for test set 2")
        assert "100 labels" in step.words


def test_a_labeler_releases_then_delivers_then_waits() -> None:
    spent = session([1], phase=Phase.SPENT)
    first = next_step(state(Phase.SPENT, Phase.REQUESTED), Role.LABELER, spent)
    assert (first.title, first.place) == ("Release test set 1", StepPlace.LABELS)
    asked = session([], phase=Phase.REQUESTED)
    second = next_step(state(Phase.RELEASED, Phase.REQUESTED), Role.LABELER, asked)
    assert (second.title, second.place) == ("Deliver labels for test set 2", StepPlace.LABELS)
    third = next_step(state(Phase.ACTIVE), Role.LABELER, session([]))
    assert (third.title, third.place) == ("Nothing to do", StepPlace.NOWHERE)
    worst = session([1, 5], INCREMENTAL)
    last = next_step(state(Phase.ACTIVE, spec=worst.spec), Role.LABELER, worst)
    assert last.command == "meter testset retire"


def test_runners_submit_and_admins_manage() -> None:
    assert next_step(state(Phase.ACTIVE), Role.RUNNER, None).place is StepPlace.SUBMIT
    without = replace(state(Phase.ACTIVE), validation=None)
    assert next_step(without, Role.RUNNER, None).place is StepPlace.NOWHERE
    assert next_step(state(Phase.ACTIVE), Role.ADMIN, None).place is StepPlace.MANAGE
