"""Answers as numbers, and their names in the books."""

from __future__ import annotations

import pytest

from easeml_meter.core.signals import ABOVE_CEILING, ALARM, NO_READING, OK, answer_named, name_of
from easeml_meter.promise import alarm, condition, gap, questions


@pytest.mark.parametrize("answer", [1, 2, 10_000, ABOVE_CEILING, NO_READING, OK, ALARM])
def test_names_of_answers_can_be_read_back(answer: int) -> None:
    assert answer_named(name_of(answer)) == answer


def test_every_answer_of_the_promise_has_a_number() -> None:
    names = [gap.ABOVE, gap.BELOW, questions.NO_READING, questions.TOO_FEW, questions.TOO_FAR]
    names += [condition.PASS, condition.FAIL, alarm.OK, alarm.ALARM, questions.BASELINE]
    numbers = list(map(answer_named, names))
    assert max(numbers) < 0
    assert len(set(numbers)) == len(names)
