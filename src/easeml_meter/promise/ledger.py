"""From a log of answers to the next one: what may be asked, at which level, and what is told.

A `Snapshot` is folded from answers alone, and so is whether another may be asked: a refusal tells
nothing. `decide` is called before the lock (advice) and under it (law), on the same numbers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

from easeml_meter.errors import Spent, invalid
from easeml_meter.promise.alarm import ALARM, Alarm, bar_of, claim_of
from easeml_meter.promise.budgets import MOST_STEPS, Memory, Reverts, Steps
from easeml_meter.promise.closing import Closing, Shares
from easeml_meter.promise.condition import Condition
from easeml_meter.promise.gap import Gap
from easeml_meter.promise.keep import Keep
from easeml_meter.promise.levels import ends_of, level_of_all, log_first_tail
from easeml_meter.promise.meter import Meter
from easeml_meter.promise.questions import (
    BASELINE,
    NO_READING,
    TOO_FEW,
    Measured,
    Promise,
    Shown,
    is_band,
)
from easeml_meter.promise.renewals import TopUp, Window
from easeml_meter.promise.shapes import Answer, Climb, Flat, State
from easeml_meter.promise.solve import log_failure
from easeml_meter.promise.teams import Teams


class Snapshot(NamedTuple):
    """What a team's answers of one test set fold to.

    Attributes:
        told: What the question remembers: the worst band so far.
        spent: What the budget remembers.
        answers: How many there were.
        team: Whose they are.
        stage: 1: fresh labels have joined.
        group: The teams that share this history by hand-over; empty: the one team alone.
        shared: Answers that such a group has together.
    """

    told: int
    spent: State
    answers: int = 0
    team: int = 1
    stage: int = 0
    group: tuple[int, ...] = ()
    shared: int | None = None


class Decided(NamedTuple):
    """An answer, at what level it was given, what it promises, and where that leaves the meter.

    `edge` is what its entry keeps of public numbers: the first drawn edge, or g.
    """

    answer: Answer
    level: Fraction
    promises: tuple[Promise, ...]
    after: Snapshot
    edge: Fraction | None = None


def start(meter: Meter, team: int = 1, stage: int = 0) -> Snapshot:
    """Return where a team begins."""
    return Snapshot(meter.shape.start, _levels(meter, team).start, 0, team, stage)


def _levels(meter: Meter, team: int) -> Steps | Closing | Shares | Reverts | Memory:
    """Return the budget that a team's answers move."""
    budget = meter.budget
    if isinstance(budget, Teams):
        return budget.of(team)
    if budget is None:
        raise AssertionError("every meter has a budget")
    return budget


def answers(meter: Meter, at: Snapshot) -> tuple[Answer, ...]:
    """List every answer that may come next, the most usual one first."""
    found = meter.asked.answers(at.told)
    if not isinstance(meter.question, Gap):
        return found
    few = (TOO_FEW,) if meter.sample.measured.unsized else ()
    return (*found, *few, *((NO_READING,) if meter.sample.may_fail else ()))


def step(meter: Meter, at: Snapshot, answer: Answer) -> Snapshot:
    """Return where an answer leaves a team; the model to compare with is free.

    Raises:
        InvalidInput: no such answer can come after this history.
    """
    if answer == BASELINE:
        return at
    lowest = at.told + 1 if meter.question.climbs_only else 1
    known = meter.bands is not None and is_band(answer) and lowest <= int(answer) <= meter.bands
    if not known and answer not in (possible := answers(meter, at)):
        raise invalid("answer", answer, f"one of {', '.join(possible)} after this history")
    return at._replace(
        told=meter.shape.after(at.told, answer),
        spent=_levels(meter, at.team).after(at.spent, answer),
        answers=at.answers + 1,
    )


def fold(meter: Meter, log: Iterable[Answer], team: int = 1, stage: int = 0) -> Snapshot:
    """Return where these answers leave a team."""
    at = start(meter, team, stage)
    for answer in log:
        at = step(meter, at, answer)
    return at


def most_answers(meter: Meter, at: Snapshot) -> int | None:
    """Return the most answers of a team, or of those it shares a history with; None: no end."""
    if at.group:
        return at.shared
    if isinstance(meter.renewal, Window):
        return meter.renewal.answers
    if at.stage and isinstance(meter.renewal, TopUp):
        return meter.renewal.then
    budget = meter.budget
    if isinstance(budget, Teams):
        return budget.steps if budget.handover else budget.teams[at.team - 1]
    steps = _levels(meter, at.team).steps
    return None if isinstance(steps, str) else steps


def may(meter: Meter, at: Snapshot) -> bool:
    """Return whether another answer is left, which the answers so far decide."""
    most = most_answers(meter, at)
    return _levels(meter, at.team).open(at.spent) and (most is None or at.answers < most)


def left(meter: Meter, at: Snapshot) -> int:
    """Return the answers that are promised whatever they are."""
    if not may(meter, at):
        return 0
    most, budget = most_answers(meter, at), _levels(meter, at.team)
    rare = budget.rare_left(at.spent) if isinstance(budget, Closing) else None
    rest = None if most is None else most - at.answers
    return min((each for each in (rare, rest) if each is not None), default=MOST_STEPS)


def battery(meter: Meter, at: Snapshot) -> float:
    """Return the share of the answers that is left, from 1 down to 0; of rare ones, if less is.

    A rolling test set gets back with each batch what an answer costs: nothing runs down.
    """
    if isinstance(meter.renewal, Window):
        return 1.0
    if not may(meter, at):
        return 0.0
    most, budget = most_answers(meter, at), _levels(meter, at.team)
    share = 1.0 if most is None else 1 - at.answers / most
    if isinstance(budget, Closing):
        share = min(share, budget.rare_left(at.spent) / budget.rare_left(budget.start))
    return share


def level(meter: Meter, at: Snapshot) -> Fraction:
    """Return the level of the next answer: its part of delta, fixed by the answers so far."""
    budget = _levels(meter, at.team)
    apart = meter.budget.apart if isinstance(meter.budget, Teams) else 1
    delta = meter.delta / meter.sample.tries
    if isinstance(budget, Closing | Shares):
        return delta / apart * budget.level(at.spent)
    if isinstance(budget, Steps) and budget.falls:
        return delta * budget.level(at.spent, meter.shape)
    return level_of_all(meter, at.stage)


def alarms(at: Snapshot) -> int:
    """Return how many alarms there were."""
    return len(at.spent) - 1 if isinstance(at.spent, tuple) else 0


def check_size(meter: Meter, size: int, stage: int = 0) -> None:
    """Refuse a test set that is too small: books that were changed by hand answer nothing.

    Claims are tested at a level, whatever the size is.
    """
    if meter.question.form == "level":
        return
    stages = 2 if isinstance(meter.renewal, TopUp) else 1
    rows = size // meter.renewal.window if isinstance(meter.renewal, Window) else size
    allowed = math.log(meter.delta / (meter.sample.tries * stages))
    if log_failure(meter, rows, stage) > allowed + _ROUNDING:
        raise invalid("labels", size, "too few to promise so many steps: see the plan")


_ROUNDING = 1e-6
"""Plans were checked when they were made; some of their tails are searched for."""


# --- hand-overs between teams that are counted apart ----------------------------------------------


def joined(meter: Meter, size: int, snapshots: Sequence[Snapshot]) -> Snapshot:
    """Return the one history of teams of whom one handed a model to another.

    What one team knows the other now knows, too: the worst band of both.
    """
    if len(snapshots) == 1:
        return snapshots[0]
    group = tuple(each.team for each in snapshots)
    return snapshots[0]._replace(
        told=max(each.told for each in snapshots),
        answers=sum(each.answers for each in snapshots),
        group=group,
        shared=shared_steps(meter, size, group),
    )


def check_handover(meter: Meter, group: Sequence[int]) -> None:
    """Raise `InvalidInput` unless this meter can count what these teams share."""
    budget, named = meter.budget, " and ".join(map(str, group))
    if not isinstance(budget, Teams) or budget.handover:
        raise invalid("handover", named, "only between isolated teams")
    if meter.question.form == "level":
        raise invalid("handover", named, "their levels use up delta: make a meter with handover")


@lru_cache(maxsize=256)
def shared_steps(meter: Meter, size: int, group: tuple[int, ...]) -> int:
    """Return the answers, given ones included, that teams have together after a hand-over.

    From then on their models depend on all of their answers. The isolated histories stay possible
    until it happens, and whether it does may depend on the answers. So the shared histories come on
    top: they must fit into what the plan has left of delta, which is as much as the test set is
    larger than planned. Any group of teams could have been the one, so each has an equal share.

    Raises:
        InvalidInput: The meter's joint histories are not counted.
    """
    check_handover(meter, group)
    budget, shape = meter.budget, meter.shape
    if not isinstance(budget, Teams) or not isinstance(shape, Flat | Climb):
        raise AssertionError("checked above")
    teams = len(budget.teams)
    slack = float(meter.delta / meter.sample.tries) - math.exp(log_failure(meter, size))
    if slack <= 0:
        return 0
    share = math.log(slack) - math.log(2**teams - teams - 1)
    # Each team brings a worst band of its own, so the count of one developer is too small. Any
    # sequence of possible answers covers every joint one.
    each = shape.b if isinstance(shape, Flat) else shape.possible
    trees, room = Flat(Fraction(each)), share - log_first_tail(meter, size)
    steps, most = 0, sum(budget.teams[team - 1] for team in group)
    while steps < most and trees.log_mass(0, steps)[0] <= room:
        steps += 1
    return steps


# --- answers --------------------------------------------------------------------------------------


def margin(meter: Meter, at: Snapshot, shown: Shown) -> Fraction | None:
    """Return g in force for this submission; None: no g would do."""
    question = meter.question
    if not isinstance(question, Alarm):
        raise AssertionError("only an alarm has a g")
    rows = shown.validation_rows or max(1, shown.rows // 2)
    return question.margin(shown.rows, rows, alarms(at), level(meter, at))


def askable(meter: Meter, at: Snapshot, shown: Shown) -> None:
    """Refuse, free of charge, what no rows could say yes to; and find the bars of the others.

    Public numbers decide it, before a hidden row is read.

    Raises:
        InvalidInput: not even a model without an error would do.
    """
    question, here = meter.question, level(meter, at)
    if isinstance(question, Alarm):
        g = margin(meter, at, shown)
        if g is None:
            given = f"{shown.rows:,} hidden, {shown.validation_rows or 0:,} of the validation set"
            raise invalid("rows", given, "too few for ok at any g: replace the validation set")
        if shown.validation is not None and bar_of(shown, g, here) is None:
            raise invalid("labels", shown.rows, "not even 0 errors of so few would be ok")
    elif isinstance(question, Keep) and question.bars(shown.rows, here)[-1] is None:
        raise invalid("cases", shown.rows, "no number of wins would do at this level")
    elif isinstance(question, Condition):
        question.bars(shown.rows, here)


def decide(meter: Meter, at: Snapshot, rows: Measured) -> Decided:
    """Return the answer to what was measured, and what it leaves.

    Raises:
        Spent: no answer is left.
    """
    if not may(meter, at):
        raise Spent("this test set has said all it safely can: ask for fresh labels")
    here, shown, question = level(meter, at), rows.shown, meter.asked
    if rows.loss is None and isinstance(question, Gap) and NO_READING not in answers(meter, at):
        # A runner's file is broken: what predicts nothing is wrong on every row.
        rows = rows._replace(loss=Fraction(1), few=meter.sample.measured.unsized)
    edge: Fraction | None = None
    if isinstance(question, Alarm):
        g, answer, edge = margin(meter, at, shown), ALARM, Fraction(0)
        if g is not None:  # else an alarm came while it was measured: it is charged
            answer = question.answer(at.told, rows, here, g)
            edge = claim_of(shown, g) - (shown.validation or 0)
        shown = shown._replace(first_edge=edge)
    else:
        answer = question.answer(at.told, rows, here)
        if is_band(answer):
            edge = shown.first_edge
    after = step(meter, at, answer)
    return Decided(answer, here, promises(meter, answer, shown, at.stage), after, edge)


def promises(meter: Meter, answer: Answer, shown: Shown, stage: int = 0) -> tuple[Promise, ...]:
    """Return what an answer promises, of public numbers alone."""
    question = meter.asked
    if isinstance(question, Gap):
        return question.promise(answer, shown, ends_of(meter, shown.rows, stage))
    return question.promise(answer, shown)
