"""Flat settings as compositions: every recorded plan and meter has one, with nothing lost."""

from __future__ import annotations

import dataclasses
import json
import pickle
from typing import Any

import pytest
from tests.recorded import replay

from easeml_meter.promise.budgets import Reverts
from easeml_meter.promise.condition import Condition
from easeml_meter.promise.gap import Gap
from easeml_meter.promise.meter import Meter
from easeml_meter.spec import MeterSpec


@pytest.mark.parametrize("plan", replay.PLANS, ids=lambda plan: plan["name"])
def test_a_recorded_plan_is_the_composition_of_its_settings(plan: dict[str, Any]) -> None:
    _there_and_back(plan["settings"])


@pytest.mark.parametrize("name", replay.NAMES)
def test_a_recorded_meter_goes_there_and_back(name: str) -> None:
    _there_and_back(replay.read(replay.METERS / f"{name}.json")["settings"])


def _there_and_back(settings: dict[str, Any]) -> None:
    spec, meter = MeterSpec.from_mapping(settings), Meter.from_tables(settings)
    assert spec.meter == meter
    assert Meter.loads(meter.dumps()) == meter
    assert MeterSpec.from_mapping(json.loads(json.dumps(spec.to_mapping()))) == spec


def test_what_was_worked_out_is_not_carried_to_another_meter() -> None:
    spec = MeterSpec.uniform(tolerance=0.1)
    assert spec.meter is spec.meter
    other = spec.replace(delta=0.05)
    assert other.meter.delta != spec.meter.delta
    assert pickle.loads(pickle.dumps(spec)).meter == spec.meter  # noqa: S301
    assert "meter" not in {each.name for each in dataclasses.fields(spec)}


def test_better_is_compared_with_the_last_model_that_passed() -> None:
    spec = MeterSpec(bands=(), steps=5, delta=0.1, question="better", tolerance=0.02)
    question = spec.meter.question
    assert isinstance(question, Condition)
    assert (question.ask, question.than) == ("n - o > 0 +/- 0.02", "kept")


def test_steps_may_be_undone_together() -> None:
    budget = MeterSpec.uniform(tolerance=0.1, steps=6, reverts=(3, 3)).meter.budget
    assert isinstance(budget, Reverts)
    assert [run.first for run in budget.runs()] == [0, 2, 1]


def test_both_stages_of_a_top_up_are_one_meter() -> None:
    spec = MeterSpec.uniform(tolerance=0.1, steps=4, top_up=6)
    assert spec.of_test_set(2).meter == spec.meter


def test_bands_keep_what_they_promise() -> None:
    spec = MeterSpec.uniform(tolerance=[0.05, 0.1, 1.5], edges=[0.2, 0.6])
    question = spec.meter.question
    assert isinstance(question, Gap)
    assert tuple(map(float, question.tolerance)) == spec.tolerances
    assert tuple(map(float, question.edges or ())) == spec.edges
