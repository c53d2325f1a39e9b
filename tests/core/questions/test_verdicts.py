"""Pass or fail: two answers, of which one promises something."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest
from tests.service.helpers import condition_spec, small_spec

from easeml_meter.core.ledger import Account, Ledger
from easeml_meter.core.questions.kinds import rules_of
from easeml_meter.core.questions.passing import Verdicts
from easeml_meter.core.questions.planning import plan_of
from easeml_meter.core.signals import FAIL, NO_READING, PASS, Rules, State, answer_named, name_of
from easeml_meter.errors import InvalidInput


def test_a_meter_has_the_rules_of_its_question() -> None:
    assert type(rules_of(small_spec())) is Rules
    assert type(rules_of(condition_spec())) is Verdicts


@pytest.mark.parametrize(
    ("wrong", "answer"),
    [(Fraction(3, 10), FAIL), (Fraction(299, 1000), PASS), (1, FAIL), (0, PASS)],
)
def test_a_model_passes_with_the_tolerance_to_spare(wrong: Fraction, answer: int) -> None:
    rules = rules_of(condition_spec(question="n > 0.5 +/- 0.2"))
    assert rules.answer(State(), 0.0, wrong) == answer


def test_every_clause_has_to_hold() -> None:
    rules = rules_of(condition_spec(question="n > 0.5 +/- 0.1 /\\ n < 0.9 +/- 0.1"))
    assert [rules.answer(State(), 0, 1 - Fraction(n, 100)) for n in (60, 61, 79, 80)] == [
        FAIL,
        PASS,
        PASS,
        FAIL,
    ]


def test_what_cannot_be_measured_fails() -> None:
    """A third answer would cost labels, and "fail" promises nothing anyway."""
    assert rules_of(condition_spec()).unread(State(), NO_READING) == FAIL


def test_answers_are_named_and_read() -> None:
    assert (name_of(PASS), name_of(FAIL)) == ("pass", "fail")
    assert (answer_named("pass"), answer_named("fail")) == (PASS, FAIL)


def test_a_pass_bounds_the_true_loss() -> None:
    rules = rules_of(condition_spec(question="n > 0.5 +/- 0.1 /\\ n < 0.9 +/- 0.1"))
    assert rules.true_loss(PASS, Fraction(0)) == (0.1, 0.5)
    assert rules.true_loss(FAIL, Fraction(0)) == (None, None)


def ledger(**options: object) -> Ledger:
    spec = condition_spec(**options)
    return Ledger(spec, plan_of(spec).labels)


def test_a_ledger_gives_the_promised_answers_and_no_more() -> None:
    found = ledger(steps=4)
    for answers in ((FAIL,) * 4, (PASS,) * 4, (PASS, FAIL, FAIL, PASS)):
        assert found.may_submit(found.replay(answers[:3]))
        assert not found.may_submit(found.replay(answers))


def test_a_ledger_counts_one_model_for_each_history_that_may_go_wrong() -> None:
    """2^(T-1): one label less than planned, and the ledger refuses the test set."""
    spec = condition_spec(question="n > 0.8 +/- 0.05", steps=10, delta=0.01)
    size = plan_of(spec).labels
    Ledger(spec, size)
    with pytest.raises(InvalidInput, match="too few"):
        Ledger(spec, size - 1)
    passed = spec.replace(passes=1)
    assert plan_of(passed).labels < size


def test_one_pass_too_many_closes_the_test_set() -> None:
    found = ledger(steps=4, passes=1)
    assert found.may_submit(found.replay([PASS, FAIL]))
    closed = found.replay([PASS, PASS])
    assert not found.may_submit(closed)
    assert (found.steps_left(closed), found.battery(closed)) == (0, 0.0)


def test_teams_are_counted_as_sharing_all_answers() -> None:
    found = ledger(steps=4, tenants=(2, 2))
    shared = plan_of(condition_spec(steps=4, tenants=(2, 2), handover=True))
    assert replace(plan_of(found.spec), meter=shared.meter) == shared
    assert not found.may_submit(found.record(found.record(Account(2), FAIL), PASS))
    with pytest.raises(InvalidInput, match="not needed"):
        found.check_handover((1, 2))


def test_an_answer_of_another_question_is_no_answer() -> None:
    with pytest.raises(InvalidInput):
        ledger().record(Account(), 1)
