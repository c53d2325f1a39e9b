"""What to do now: for whom, in which state, and never more than the history shows."""

from __future__ import annotations

import itertools
import json
import re
from dataclasses import replace
from typing import Any

import pytest
from tests.report.sessions import INCREMENTAL, LIMITED, SPEC, drawn_session, over, session

from easeml_meter.core.history import MeterState
from easeml_meter.core.lifecycle import Phase
from easeml_meter.core.model import MeterRecord, TestSet, ValidationSet
from easeml_meter.core.people import Role
from easeml_meter.core.signals import (
    ABOVE_CEILING,
    NO_READING,
)
from easeml_meter.core.views import SessionView
from easeml_meter.report.advice import StepPlace, advice, next_step
from easeml_meter.report.badges import badge_json
from easeml_meter.report.gauge import headline
from easeml_meter.report.words import history_words
from easeml_meter.spec import MeterSpec

COMMANDS = {
    Role.DEVELOPER: {"meter submit", "meter validation set", "meter validation replace"},
    Role.LABELER: {"meter seal", "meter testset add", "meter release", "meter testset retire"},
}


def said(answers: Any, *args: Any, role: Role | None = None, **options: Any) -> str:
    return " ".join(advice(session(answers, *args, **options), role))


def test_before_the_first_step() -> None:
    assert "at least 86,542 labels" in said([], phase=Phase.REQUESTED)
    assert "Submit a first model: `meter submit`" in said([], role=Role.DEVELOPER)
    assert said([], role=Role.LABELER) == "Nothing to do: this test set waits for submissions."


def test_a_climbing_meter() -> None:
    climbing = said([1, 1, 2, 3])
    assert "climbed from band 1 to band 3" in climbing
    assert "`meter validation replace`" in climbing
    assert "whatever came after it" in said([1, 2], INCREMENTAL)
    assert "Carry on" in said([1, 1, 2, 1])


def test_a_meter_that_began_where_it_is_has_not_climbed() -> None:
    assert "climbed" not in said([4, 3, 4])
    assert "was at band 3 at step 2 and is at band 4 now" in said([4, 3, 4])
    assert "climbed" not in said([4, 4], INCREMENTAL)


def test_a_gap_that_was_there_from_the_start() -> None:
    assert "No reported band was below band 3, so the answers do not show" in said([3, 3])
    assert "below band" not in said([3, 3], INCREMENTAL)
    assert "has reported band 3 since step 1" in said([3, 3], INCREMENTAL)


@pytest.mark.parametrize("spec", [LIMITED, INCREMENTAL])
@pytest.mark.parametrize("last", [ABOVE_CEILING, NO_READING])
def test_nobody_is_told_to_carry_on_after_a_model_without_a_reading(
    spec: MeterSpec, last: int
) -> None:
    assert "Carry on" in said([1, last, 1], spec)
    assert "Carry on" not in said([1, last], spec)
    assert "Carry on" in " ".join(advice(drawn_session([0.0, last, 0.0])))
    assert "Carry on" not in " ".join(advice(drawn_session([0.0, last])))
    assert "climbed from band 1 to band 2" in said([1, 2, last], spec)


def test_bands_that_reach_over_others_near_the_ceiling_are_named_as_such() -> None:
    spec = SPEC.replace(ceiling=0.1)

    def told(*bands: tuple[int, int]) -> SessionView:
        view = session([low for low, _ in bands], spec)
        edges = [(spec.bands[low - 1].lower, spec.bands[high - 1].upper) for low, high in bands]
        pairs = zip(view.signals, edges, strict=True)
        return replace(view, signals=tuple(over(one, each) for one, each in pairs))

    def words(*bands: tuple[int, int]) -> str:
        return " ".join(advice(told(*bands)))

    assert "the gap is in the lowest band" in words((1, 1))
    assert "the gap may be in the lowest band" in words((1, 2))
    assert "climbed from bands 1-2 to band 3" in words((1, 2), (3, 3))
    assert "climbed" not in words((1, 2), (2, 3))
    assert "No reported band was below" not in words((1, 2), (2, 3))
    assert "at bands 2-3, and no earlier answer is sure to be a lower one" in words((1, 2), (2, 3))
    assert "was at band 1 at step 2 and is at band 2 now" in words((1, 2), (1, 1), (2, 2))
    assert json.loads(badge_json(told((1, 2))))["message"].startswith("bands 1-2,")
    assert headline(told((1, 2)).signals[0]).startswith("Step 1: bands 1-2 of 5,")
    assert history_words(told(*[(1, 1), (1, 2)] * 20)).startswith(
        "40 steps: band 1 in 20, bands 1-2 in 20."
    )


@pytest.mark.parametrize("protocol", ["regular", "incremental"])
def test_what_is_said_of_a_history_is_true_of_the_models_in_it(protocol: str) -> None:
    """Every short history of gaps."""
    spec = SPEC.replace(protocol=protocol)
    for bands in itertools.product(range(1, 6), repeat=3):
        answers = list(bands)
        if protocol == "incremental":
            answers = list(itertools.accumulate(bands, max))
        text = said(answers, spec)
        for first, now in re.findall(r"climbed from band (\d) to band (\d)", text):
            assert int(first) < int(now) == answers[-1]
            assert int(first) == bands[0]
        for lowest in re.findall(r"below band (\d)", text):
            assert min(bands) == int(lowest)
        if "Carry on" in text:
            assert bands[-1] == 1
        if "nothing new about the gap" in text:
            assert (protocol, answers[-1]) == ("incremental", 5)


@pytest.mark.parametrize("answers", [[1, 3], [3, 3]])
@pytest.mark.parametrize("protocol", ["regular", "incremental"])
def test_teams_that_are_counted_apart_replace_no_set_that_all_share(
    answers: list[int], protocol: str
) -> None:
    """It would carry a message from one team to the others, which the count leaves out."""
    apart = MeterSpec.uniform(
        tolerance=0.01, steps=10, delta=0.1, tenants=(5, 5), protocol=protocol
    )
    assert "validation replace" not in said(answers, apart)
    assert "nobody may replace it because of an answer" in said(answers, apart)
    assert "validation replace" in said(answers, apart.replace(handover=True))


def test_answers_without_a_band() -> None:
    assert "above the ceiling of 0.4" in said([1, ABOVE_CEILING], LIMITED)
    assert "could not be measured" in said([NO_READING])


def test_an_incremental_meter_at_its_top_band_says_that_it_is_at_its_end() -> None:
    top = said([1, 5], INCREMENTAL)
    assert "further answers can say nothing new about the gap" in top
    assert "Labelers: to go on with a fresh test set" in top
    assert "`meter testset retire`" in top
    assert "retire" not in said([1, 5], INCREMENTAL, role=Role.DEVELOPER)
    assert "nothing new" not in said([1, 4], INCREMENTAL)
    assert "nothing new" not in said([1, 5])
    assert "validation replace" not in top


@pytest.mark.parametrize(
    ("loss", "options", "words"),
    [
        (0.1, {}, "The test loss is above the validation loss"),
        (0.9, {}, "With a validation loss of 90 %, the test loss can only be below it"),
        (0.5, {}, "The gap is a distance"),
        (0.5, {"ceiling": 0.4}, "With a validation loss of 50 %, the test loss can only be below"),
        (0.5, {"gap": "signed"}, "The test loss is above the validation loss"),
    ],
)
def test_the_side_of_the_gap_is_said_where_the_numbers_show_it(
    loss: float, options: dict[str, Any], words: str
) -> None:
    assert words in said([1, 5], SPEC.replace(**options), losses=[loss, loss])


def test_the_end_of_a_test_set() -> None:
    assert "running low" not in said([1] * 7)
    assert "running low" in said([1] * 8)
    spent = said([1] * 10, phase=Phase.SPENT)
    assert "at least 86,542 labels" in spent
    assert "Further answers come from test set 2." in spent
    assert "to train and validate on" in said([1] * 10, phase=Phase.RELEASED)


@pytest.mark.parametrize("role", list(COMMANDS))
@pytest.mark.parametrize("spec", [SPEC, LIMITED, INCREMENTAL])
@pytest.mark.parametrize("phase", list(Phase))
def test_nobody_is_told_to_run_the_command_of_another_role(
    role: Role, spec: Any, phase: Phase
) -> None:
    others = set().union(*(names for each, names in COMMANDS.items() if each is not role))
    for answers in (
        [],
        [1],
        [1, 5],
        [5, 3, 5],
        [ABOVE_CEILING],
        [NO_READING],
        [1] * 9,
    ):
        view = session(answers, spec, phase=phase)
        lines = advice(view, role)
        assert lines, "there is something to say in every state"
        for line in lines:
            commands = re.findall("`([^`]*)`", line)
            assert not [name for name in commands if any(map(name.startswith, others))]
            assert not line.startswith(("Developers:", "Labelers:"))
        for line in advice(view):
            for name in re.findall("`([^`]*)`", line):
                reader = "Labelers:" if any(map(name.startswith, COMMANDS[Role.LABELER])) else "Dev"
                assert line.startswith(reader)


def test_advice_does_not_depend_on_names() -> None:
    view = session([1, 2])
    other = replace(view, meter="`<b>", signals=tuple(replace(s, model="x") for s in view.signals))
    assert advice(view) == advice(other)


def test_drawn_edges_are_compared_as_far_as_they_tell_models_apart() -> None:
    carry_on = " ".join(advice(drawn_session([0.2, 0.01])))
    assert "Carry on" in carry_on
    drifted = " ".join(advice(drawn_session([0.01, 0.06, 0.3])))
    assert "At step 1 the gap was at most 0.0314, and it is at least 0.2973 now" in drifted
    assert "consider replacing the validation set" in drifted
    unclear = " ".join(advice(drawn_session([0.08, 0.07])))
    assert "no earlier answer shows a smaller one" in unclear
    assert "consider replacing" not in unclear
    for text in (carry_on, drifted, unclear):
        assert not re.search(r"band \d", text)


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
