"""From a log of answers to the next one: what may be asked, at which level, and what is told.

A `Snapshot` is folded from answers alone, and so is whether another may be asked: a refusal tells
nothing. `decide` is called before the lock (advice) and under it (law), on the same numbers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

from easeml_meter.errors import Spent, invalid
from easeml_meter.promise.alarm import Alarm, bar_of
from easeml_meter.promise.budgets import Memory, Reverts, Steps
from easeml_meter.promise.closing import Closing, Shares
from easeml_meter.promise.keep import Keep
from easeml_meter.promise.kernel import least_wins
from easeml_meter.promise.meter import Meter
from easeml_meter.promise.proofs import log_counts
from easeml_meter.promise.questions import Measured, Promise, Shown
from easeml_meter.promise.renewals import TopUp, Window
from easeml_meter.promise.shapes import Answer, State
from easeml_meter.promise.teams import Teams


class Snapshot(NamedTuple):
    """What a team's answers of one test set fold to."""

    told: int
    spent: State
    answers: int = 0
    team: int = 1


class Decided(NamedTuple):
    """An answer, at what level it was given, what it promises, and where that leaves the meter."""

    answer: Answer
    level: Fraction
    promises: tuple[Promise, ...]
    after: Snapshot
    g: Fraction | None = None


def start(meter: Meter, team: int = 1) -> Snapshot:
    """Return where a team begins."""
    return Snapshot(meter.shape.start, _levels(meter, team).start, 0, team)


def _levels(meter: Meter, team: int) -> Steps | Closing | Shares | Reverts | Memory:
    """Return the budget that a team's answers move."""
    budget = meter.budget
    if isinstance(budget, Teams):
        return budget.of(team)
    if budget is None:
        raise AssertionError("every meter has a budget")
    return budget


def step(meter: Meter, at: Snapshot, answer: Answer) -> Snapshot:
    """Return where an answer leaves a team."""
    return Snapshot(
        meter.shape.after(at.told, answer),
        _levels(meter, at.team).after(at.spent, answer),
        at.answers + 1,
        at.team,
    )


def fold(meter: Meter, answers: Iterable[Answer], team: int = 1) -> Snapshot:
    """Return where these answers leave a team."""
    at = start(meter, team)
    for answer in answers:
        at = step(meter, at, answer)
    return at


def most_answers(meter: Meter, team: int = 1) -> int | None:
    """Return the most answers of a team; None: no end."""
    each = meter.budget.teams[team - 1] if isinstance(meter.budget, Teams) else None
    steps = _levels(meter, team).steps if each is None else each
    if isinstance(steps, str):
        return None
    if isinstance(meter.renewal, Window):
        return meter.renewal.answers
    return steps + (meter.renewal.then if isinstance(meter.renewal, TopUp) else 0)


def may(meter: Meter, at: Snapshot) -> bool:
    """Return whether another answer is left, which the answers so far decide."""
    most = most_answers(meter, at.team)
    return _levels(meter, at.team).open(at.spent) and (most is None or at.answers < most)


def left(meter: Meter, at: Snapshot) -> int | None:
    """Return the answers that are promised whatever they are; None: no end."""
    most = most_answers(meter, at.team)
    budget = _levels(meter, at.team)
    if isinstance(budget, Closing):
        rare = budget.rare_left(at.spent)
        return rare if most is None else min(rare, most - at.answers)
    return None if most is None else most - at.answers


def level(meter: Meter, at: Snapshot) -> Fraction:
    """Return the level of the next answer: its part of delta, fixed by the answers so far."""
    budget = _levels(meter, at.team)
    apart = meter.budget.apart if isinstance(meter.budget, Teams) else 1
    delta = meter.delta / meter.sample.tries
    if isinstance(budget, Closing | Shares):
        return delta / apart * budget.level(at.spent)
    if isinstance(budget, Steps) and budget.falls:
        return delta * budget.level(at.spent, meter.shape)
    return delta / _count(meter)


@lru_cache(maxsize=256)
def _count(meter: Meter) -> Fraction:
    """Return how many events share delta, rounded up: one level for all of them."""
    count = math.exp(max(log_counts(meter.shape, meter.budget, meter.renewal).values()))
    return Fraction(math.ceil(count * (1 + 1e-9))) if count < 1e15 else Fraction(count)


def alarms(at: Snapshot) -> int:
    """Return how many alarms there were."""
    return len(at.spent) - 1 if isinstance(at.spent, tuple) else 0


def askable(meter: Meter, at: Snapshot, shown: Shown) -> None:
    """Refuse, free of charge, what no rows could say yes to: public numbers decide that.

    Raises:
        InvalidInput: not even a model without an error would do.
    """
    question, here = meter.question, level(meter, at)
    if isinstance(question, Alarm):
        g = margin(meter, at, shown)
        if bar_of(shown, g, here) is None:
            raise invalid("labels", shown.rows, "not even 0 errors of so few would be ok")
    elif isinstance(question, Keep) and least_wins(shown.rows, here) is None:
        raise invalid("cases", shown.rows, "no number of wins would do at this level")


def margin(meter: Meter, at: Snapshot, shown: Shown) -> Fraction:
    """Return g in force for this submission."""
    question = meter.question
    if not isinstance(question, Alarm):
        raise AssertionError("only an alarm has a g")
    rows = shown.validation_rows or max(1, shown.rows // 2)
    return question.margin(shown.rows, rows, alarms(at), level(meter, at))


def decide(meter: Meter, at: Snapshot, rows: Measured) -> Decided:
    """Return the answer to what was measured, and what it leaves.

    Raises:
        Spent: no answer is left.
    """
    if not may(meter, at):
        raise Spent("this test set has said all it safely can: ask for fresh labels")
    here = level(meter, at)
    question = meter.question
    if isinstance(question, Alarm):
        g = margin(meter, at, rows.shown)
        answer = question.answer(at.told, rows, here, g)
        promises = question.promise(at.told, answer, rows.shown, g)
        return Decided(answer, here, promises, step(meter, at, answer), g)
    answer = question.answer(at.told, rows, here)
    promises = question.promise(at.told, answer, rows.shown)
    return Decided(answer, here, promises, step(meter, at, answer))
