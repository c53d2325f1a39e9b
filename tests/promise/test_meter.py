"""Meters as compositions: files, plans, refusals, and developers who play exactly optimally."""

from __future__ import annotations

import json
import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.promise import worlds

from easeml_meter.errors import InvalidInput, Spent
from easeml_meter.promise import ledger, solve
from easeml_meter.promise.budgets import Steps
from easeml_meter.promise.meter import Meter
from easeml_meter.promise.proofs import COUNTS, FRESH, TAILS, log_counts
from easeml_meter.promise.questions import Measured, Shown
from easeml_meter.promise.shapes import heaviest, log_of

EXAMPLES = {
    "alarm": '[question]\nask = "alarm"\ng = 0.05\n',
    "alarm in full": """
        question = {ask = "alarm", g = 0.08}
        budget = {steps = 20, alarms = 3}
        sample = {labels = 500}
        meter = {delta = 0.05}""",
    "gate": 'question = {ask = "keep"}',
    "the paper's regular meter": """
        question = {ask = "gap", tolerance = 0.01, edges = [0.02, 0.05, 0.1, 0.2]}
        budget = {steps = 10}
        meter = {delta = 0.01}""",
    "incremental, drawn, two teams": """
        question = {ask = "gap", tolerance = 0.02, drawn = 0.1, worst = true}
        budget = {teams = [10, 10]}""",
    "ease.ml/ci": r"""
        question = {ask = "n > 0.8 +/- 0.02 /\\ n - o > -0.01 +/- 0.02", disagreement = 0.1}
        budget = {steps = 32, fails = 3}
        meter = {delta = 0.0001}""",
    "rolling": """
        question = {ask = "gap", tolerance = 0.05, edges = [0.1, 0.2, 0.4]}
        budget = {steps = 52}
        renewal = {window = 13, answers = 5}""",
    "strata, drawn, top-up": """
        question = {ask = "gap", tolerance = 0.05, drawn = 0.25}
        budget = {steps = 10}
        renewal = {then = 10}
        sample = {stratum = "language", strata = ["de", "en"], weights = [0.3, 0.7]}
        meter = {delta = 0.05}""",
}
PLANNED = {
    "the paper's regular meter": 48_986,
    "incremental, drawn, two teams": 7_204,
    "rolling": 766,
    "strata, drawn, top-up": 1_300,
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_file_goes_there_and_back(name: str) -> None:
    meter = Meter.loads(EXAMPLES[name])
    assert Meter.loads(meter.dumps()) == meter


@pytest.mark.parametrize("name", PLANNED)
def test_an_example_needs_what_it_says(name: str) -> None:
    assert solve.labels(Meter.loads(EXAMPLES[name])) == PLANNED[name]


def test_labels_that_join_are_planned_with_what_the_first_stage_left() -> None:
    meter = Meter.loads(EXAMPLES["strata, drawn, top-up"])
    assert solve.labels(meter, stage=1) == 1_930


SAME = json.loads(Path("tests/recorded/plans.json").read_text())


@pytest.mark.parametrize("plan", SAME, ids=lambda plan: f"{plan['section']}: {plan['name']}")
def test_a_plan_is_the_recorded_one(plan: dict[str, Any]) -> None:
    meter = Meter.from_tables(plan["settings"])
    size = solve.labels(meter)
    assert size == plan["labels"]
    if "then_in_all" in plan:
        assert solve.labels(meter, stage=1) == plan["then_in_all"]


@pytest.mark.parametrize(
    "text",
    [
        'question = {ask = "gap", tolerance = 0.05, edges = [0.1]}\nbudget = {steps = %d}',
        'question = {ask = "gap", tolerance = 0.05, edges = [0.03, 0.06]}\nbudget = {steps = %d}',
        'question = {ask = "gap", tolerance = 0.1, edges = [0.2], worst = true}\n'
        "budget = {steps = %d}",
        'question = {ask = "gap", tolerance = 0.1, drawn = 0.4, worst = true}\n'
        "budget = {steps = %d}",
        'question = {ask = "n > 0.8 +/- 0.05"}\nbudget = {steps = %d}',
        'question = {ask = "n > 0.8 +/- 0.05"}\nbudget = {steps = %d, passes = 2}',
        'question = {ask = "n > 0.8 +/- 0.05"}\nbudget = {steps = %d, fails = 3}',
        'question = {ask = "n > 0.8 +/- 0.05"}\nbudget = {steps = %d, passes = 2, fails = 3}',
    ],
)
def test_a_closed_form_is_the_recursion(text: str) -> None:
    """One tail for all: what is counted is what the theorem's own recursion adds up to."""
    for count in (1, 2, 3, 7, 12):
        meter = Meter.loads(text % count)
        budget = meter.budget
        assert budget is not None
        total = log_of(heaviest(meter.shape, budget, count))
        counted = log_counts(meter.shape, budget, meter.renewal)
        assert sum(map(_exp, counted.values())) == pytest.approx(_exp(total), rel=1e-9)


def _exp(log: float) -> float:
    return float(2.718281828459045**log)


def test_one_answer_too_many_is_seen() -> None:
    """The recursion is made of the rule: a shape that leaves one more answer costs more."""
    meter = Meter.loads('question = {ask = "gap", tolerance = 0.05, edges = [0.1]}')
    more = meter.shape.with_silent(1)
    assert heaviest(more, Steps(steps=5), 5) > heaviest(meter.shape, Steps(steps=5), 5)


def test_what_is_proved_names_a_heading_of_the_mathematics() -> None:
    text = Path("docs/mathematics.md").read_text("utf-8")
    headings = set(re.findall(r"^#+ (.+)$", text, re.MULTILINE))
    lemmas = {row.lemma for table in (TAILS, FRESH) for row in table.values()}
    assert lemmas | set(COUNTS.values()) <= headings


HALF, THREE = Fraction(1, 2), Fraction(3, 4)
FAIR, MIXED = (HALF,) * 4, (HALF, HALF, THREE, THREE)
GRID = [Fraction(k, 8) for k in range(0, 9, 2)]
WORLDS = {
    "reading": '{ask = "gap", tolerance = 0.3, edges = [0.6]}',
    "worst so far": '{ask = "gap", tolerance = 0.3, edges = [0.6], worst = true}',
    "ceiling, merged edges": '{ask = "gap", tolerance = 0.3, edges = [0.6], ceiling = 0.75}',
    "drawn edges": '{ask = "gap", tolerance = 0.3, drawn = 0.8}',
    "first alarm closes": '{ask = "alarm", g = 0.25}\nbudget = {alarms = 1, steps = %d}',
    "second alarm closes": '{ask = "alarm", g = 0.25}\nbudget = {alarms = 2, steps = %d}',
    "three alarms": '{ask = "alarm", g = [0.25, 0.25, 0.25]}\nbudget = {alarms = 3, steps = %d}',
    "alarms without an end": '{ask = "alarm", g = 0.25}\nbudget = {alarms = 3, steps = "no end"}',
    "condition": '{ask = "n > 0.5 +/- 0.1"}',
    "first pass closes": '{ask = "n > 0.5 +/- 0.1"}\nbudget = {passes = 1, steps = %d}',
    "second fail closes": '{ask = "n > 0.5 +/- 0.1"}\nbudget = {fails = 2, steps = %d}',
    "signed": '{ask = "gap", tolerance = 0.3, edges = [0.6], signed = true}',
    "three bands": '{ask = "gap", tolerance = 0.3, edges = [0.3, 0.7]}',
    "worst, under a ceiling": '{ask = "gap", tolerance = 0.3, edges = [0.6], worst = true, '
    "ceiling = 0.75}",
    "worst, drawn": '{ask = "gap", tolerance = 0.3, drawn = 0.8, worst = true}',
    "worst, drawn, two rises": '{ask = "gap", tolerance = 0.2, drawn = 0.8, worst = true, '
    "climbs = 2}",
    "worst, unequal tolerances": '{ask = "gap", tolerance = [0.2, 0.4], edges = [0.6], '
    "worst = true}",
    "falling levels": '{ask = "gap", tolerance = 0.3, edges = [0.6]}\n'
    'budget = {steps = %d, levels = "falling"}',
    "answers forgotten, under a ceiling": '{ask = "gap", tolerance = 0.3, edges = [0.6], '
    "ceiling = 0.75}\nbudget = {steps = %d, memory = 9}",
    "two clauses": r'{ask = "n > 0.3 +/- 0.1 /\\ n < 0.9 +/- 0.05"}',
    "passes and fails": '{ask = "n > 0.5 +/- 0.1"}\nbudget = {passes = 1, fails = 2, steps = %d}',
    "second keep closes": '{ask = "keep"}\nbudget = {keeps = 2, steps = %d}',
    "keep by shares": '{ask = "keep"}\nbudget = {gate = true, steps = %d}',
    "keep without an end": '{ask = "keep"}',
}


def world(name: str, steps: int) -> Meter:
    text = "question = " + WORLDS[name]
    if "%d" in text:
        text %= steps
    elif "budget" not in text and "keep" not in text:
        text += f"\nbudget = {{steps = {steps}}}"
    meter = Meter.loads(text)
    # With four rows levels must be large, or no answer could claim anything.
    delta = Fraction(9, 10) if "alarm" in name else Fraction(3, 5)
    msgspec.structs.force_setattr(meter, "delta", delta)
    return meter


@pytest.mark.parametrize("steps", [2, pytest.param(3, marks=pytest.mark.verify)])
@pytest.mark.parametrize("coins", [FAIR, MIXED], ids=["fair", "mixed"])
@pytest.mark.parametrize("name", WORLDS)
def test_no_developer_breaks_more_than_is_counted(
    name: str, coins: tuple[Fraction, ...], steps: int
) -> None:
    meter = world(name, steps)
    grid = GRID if meter.question.form == "tolerance" or "alarm" in name else GRID[:1]
    best, bound = worlds.solve(meter, coins, steps, grid)
    assert best <= bound
    if meter.question.form == "level":
        assert best <= meter.delta


def test_the_first_alarm_that_closes_is_attained() -> None:
    best, bound = worlds.solve(world("first alarm closes", 3), FAIR, 3, GRID)
    assert best == bound > 0


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('question = {ask = "gap"}\nbudget = {alarms = 3}', "gap with closing"),
        (
            'question = {ask = "alarm"}\nsample = {cluster = "user"}',
            "alarm on clusters: proved on plain rows",
        ),
        ('question = {ask = "gap"}\nbudget = {memory = 2, steps = 9, teams = [1, 2]}', "budget"),
        (
            'question = {ask = "gap"}\nbudget = {teams = [5, 5]}\nrenewal = {then = 3}',
            "teams with topup",
        ),
        ('question = {ask = "gap", tolerance = 0.1, edges = [0.2, 0.1]}', "edges must rise"),
        ('question = {ask = "gap", drawn = 0.2, ceiling = 0.1}', "drawn edges under a limit"),
        ('question = {ask = "gap", tolerance = 1e-9999999}', "a number, such as 0.05"),
        ('question = {ask = "gap", tolerance = 0.0000000000001}', "digits after the point"),
        ('question = {ask = "gap", tolerance = nan}', "a number"),
        ('question = {ask = "alarm"}\nmeter = {delta = 0.3}', "at most 0.25"),
        ('question = {ask = "keep"}\nmeter = {detla = 0.3}', "did you mean 'delta'"),
        ('question = {ask = "keep", then = "kept"}', "question"),
        ("steps = 10\ndelta = 0.1", "[budget] steps"),
        ('question = {ask = "gap"}\nbudget = {reverts = [2], memory = 3}', "reverts and memory"),
    ],
)
def test_what_nobody_proved_is_refused_in_one_line(text: str, words: str) -> None:
    with pytest.raises(InvalidInput, match=words.replace("[", r"\[").replace("]", r"\]")) as error:
        Meter.loads(text)
    assert "\n" not in str(error.value)


def test_an_alarm_is_decided_at_its_bar_and_one_above_it() -> None:
    """n = 500, T = 20, v = .10, g = .08, delta = .05: ok needs 72 errors, then 62, then 58."""
    meter = Meter.loads(EXAMPLES["alarm in full"])
    shown = Shown(500, Fraction(1, 10), 250)
    at = ledger.start(meter)
    for bar in (72, 62, 58):
        ok = ledger.decide(meter, at, Measured(shown, Fraction(bar, 500), bar))
        assert ok.answer == "ok"
        assert ok.promises[0].at_most == Fraction(18, 100)
        alarm = ledger.decide(meter, at, Measured(shown, Fraction(bar + 1, 500), bar + 1))
        assert (alarm.answer, alarm.promises) == ("alarm", ())
        assert ledger.step(meter, at, "alarm") == alarm.after
        at = alarm.after
    assert not ledger.may(meter, at)
    with pytest.raises(Spent):
        ledger.decide(meter, at, Measured(shown, Fraction(0), 0))


def test_a_gate_needs_more_wins_after_a_keep() -> None:
    meter = Meter.loads(EXAMPLES["gate"])
    at = ledger.start(meter)
    for wins, losses, kept in ((6, 0, False), (7, 0, True), (10, 0, False), (11, 0, True)):
        decided = ledger.decide(meter, at, Measured(Shown(300), Fraction(1), 0, wins, losses))
        assert (decided.answer == "keep") == kept
        at = decided.after if decided.answer == "keep" else at


def test_a_model_that_fails_on_hidden_rows_is_an_alarm() -> None:
    meter = Meter.loads(EXAMPLES["alarm in full"])
    decided = ledger.decide(meter, ledger.start(meter), Measured(Shown(500, HALF, 9), None))
    assert decided.answer == "alarm"


def test_no_answers_are_left_where_levels_have_an_end() -> None:
    meter = Meter.loads('question = {ask = "gap", tolerance = 0.1}\nbudget = {steps = 2}')
    at = ledger.fold(meter, ["1", "2"])
    assert (ledger.left(meter, at), ledger.may(meter, at)) == (0, False)
    assert ledger.left(meter, ledger.start(meter)) == 2


FLAT = {
    "alarms": "[budget] alarms",
    "ceiling": "[question] ceiling",
    "classes": "[sample] classes",
    "clusters": '[sample] cluster = "COLUMN"',
    "commands_may_carry_inputs_out": "[sample] commands_may_carry_inputs_out",
    "disagreement": "[question] disagreement",
    "drawn": "[question] drawn",
    "expects": "[question] expects",
    "floor": "[question] floor",
    "g": "[question] g",
    "gap": "[question] signed = true",
    "handover": "[budget] handover",
    "inputs": "[sample] inputs",
    "judge_error": "[sample] judge_error",
    "labels": "[sample] labels",
    "loss": "[sample] loss",
    "memory": "[budget] memory",
    "metric": "[sample] metric",
    "models": "[sample] models",
    "on_demand": "[sample] on_demand",
    "passes": "[budget] passes: the pass of this number closes the test set",
    "pool": "[sample] pool",
    "protocol": "[question] worst = true, or [renewal] every_step = true, or [budget] memory = 0",
    "question": "[question] ask",
    "reverts": "[budget] reverts",
    "rows": "[sample] rows",
    "sizes": "[sample] sizes",
    "steps": "[budget] steps",
    "strata": "[sample] strata",
    "stratum": "[sample] stratum",
    "submissions": "[renewal] answers",
    "tenants": "[budget] teams",
    "tolerance": "[question] tolerance",
    "top_up": "[renewal] then",
    "tries": "[sample] tries",
    "weights": "[sample] weights",
    "window": "[renewal] window",
}


@pytest.mark.parametrize("key", FLAT)
def test_a_flat_file_is_told_where_its_settings_went(key: str) -> None:
    text = f"meter.toml: [meter] {key!r} is no setting: write {FLAT[key]}"
    with pytest.raises(InvalidInput) as caught:
        Meter.loads(f"[meter]\n{key} = 3\n")
    assert str(caught.value) == text


@pytest.mark.parametrize(
    ("flat", "said"),
    [
        ("delta = 0.1", "'delta' is no table: write [meter] delta"),
        (
            "[meter]\n[[bands]]\nlower = 0",
            "write [question] edges = [0.1, 0.2] and tolerance = 0.05",
        ),
        ("[meter]\npublished = true", "leave it out: it is a bound, which meter compare shows"),
        ('[meter]\ncount = "all"', "leave it out: meter compare shows what all answers would need"),
        ("[meter]\nmixture = 3", "known: [question], [budget], [sample], [renewal], [meter]"),
    ],
)
def test_what_has_no_place_in_a_table_is_refused_in_one_line(flat: str, said: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        Meter.loads(flat)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
