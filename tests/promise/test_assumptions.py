"""What a promise rests on is said in full, and only where it is so."""

from __future__ import annotations

import pytest

from easeml_meter.promise.assumptions import (
    BLIND_VALIDATION,
    CLUSTERED,
    COMMON_ASSUMPTIONS,
    DRAWN_EDGES,
    PUBLIC_INPUTS,
    ROLLING,
    STRATIFIED,
    TOPPED_UP,
    about_people,
    assumptions_of,
    delta_words,
)
from easeml_meter.promise.meter import Meter

GAP = 'question = {ask = "gap", tolerance = 0.1}\n'
CONDITION = 'question = {ask = "n > 0.8 +/- 0.05"}\n'
TWO = 'sample = {stratum = "s", strata = ["a", "b"], weights = [0.5, 0.5]}'


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ('sample = {inputs = "public"}', PUBLIC_INPUTS),
        ('sample = {cluster = "user"}', CLUSTERED),
        (TWO, STRATIFIED),
        ("renewal = {window = 3}", ROLLING),
        ("renewal = {then = 3}", TOPPED_UP),
        ("budget = {steps = 5, memory = 2}", "each model depends on at most the last 2 answers"),
        ("budget = {teams = [2, 3]}", "no team's models depend on another team's answers"),
        ("budget = {steps = 5, reverts = [3]}", "the steps to revert are fixed in advance"),
        ("sample = {judge_error = 0.1, pool = 900}", "errs more often than 0.1 is refused"),
    ],
)
def test_each_setting_says_what_it_takes(settings: str, said: str) -> None:
    assert said in " ".join(assumptions_of(Meter.loads(GAP + settings)))
    assert said not in " ".join(assumptions_of(Meter.loads(GAP)))


def test_drawn_edges_are_the_meters_own() -> None:
    drawn = Meter.loads('question = {ask = "gap", tolerance = 0.1, drawn = 0.3}')
    assert DRAWN_EDGES in assumptions_of(drawn)
    assert BLIND_VALIDATION in assumptions_of(Meter.loads(GAP))


@pytest.mark.parametrize("question", [GAP, CONDITION, 'question = {ask = "alarm"}\n'])
def test_each_line_is_said_once(question: str) -> None:
    meter = Meter.loads(f'{question}sample = {{inputs = "public"}}')
    found = assumptions_of(meter)
    assert len(set(found)) == len(found)
    assert {*COMMON_ASSUMPTIONS, PUBLIC_INPUTS, delta_words(meter)} <= set(found)


def test_what_only_people_can_keep_is_told_apart() -> None:
    assert about_people(assumptions_of(Meter.loads(CONDITION))) == []
    kept = about_people(assumptions_of(Meter.loads(f"{GAP}budget = {{steps = 5, memory = 2}}")))
    assert kept == [BLIND_VALIDATION, "each model depends on at most the last 2 answers"]
