"""Developers of a mixed session, who choose from the answers which question to ask next.

The world is that of `passing`: half of the rows are easy, on the others every guess is a coin flip,
and each probe guesses on one block of them. A probe that the developer thinks lucky is followed by
a question of the one kind, an unlucky one by the other kind. The last model takes every guess on
its lucky side. It is asked for a pass that it does not deserve, and, if the budget goes on, for a
reading that is off.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from easeml_meter.core.ledger import Account, Ledger
from easeml_meter.core.questions.planning import plan_of
from easeml_meter.core.signals import PASS
from easeml_meter.core.verdicts import Verdicts
from easeml_meter.spec import MeterSpec
from easeml_meter.stats.rounding import as_written

READING, LEVEL = 0, 1
"""The questions of such a meter: the gap first, then "n > A +/- eps"."""


def broken_sessions(spec: MeterSpec, labels: int, runs: int, random: np.random.Generator) -> float:
    """Return the share of sessions in which some answer breaks its promise.

    The questions are those that the planned test set allows, whatever number of labels is played.
    """
    ledger = Ledger(spec, plan_of(spec).labels)
    probes = _most_probes(ledger)
    block = labels // 2 // probes
    lucky = random.binomial(block, 0.5, size=(runs, probes))
    return sum(_broken(ledger, labels, block, row) for row in lucky.tolist()) / runs


def _most_probes(ledger: Ledger) -> int:
    """Return how many cheap questions leave enough for the last two."""
    account, probes = Account(), 0
    while ledger.steps_left(account) > 2:
        account, probes = _asked(ledger, account, LEVEL), probes + 1
    return probes


def _asked(ledger: Ledger, account: Account, number: int) -> Account:
    return ledger.record(account, ledger.asking(number).answers(account.state)[0], number)


def _broken(ledger: Ledger, labels: int, block: int, lucky: list[int]) -> bool:
    readings, level = ledger.asking(READING), ledger.asking(LEVEL)
    if not isinstance(level, Verdicts):
        raise AssertionError("the second question of such a meter is a condition")
    (clause,) = level.condition.clauses
    edge = as_written(ledger.spec.edges[0])
    account, number = Account(), READING
    gained = Fraction(0)
    for guesses in lucky:
        if ledger.steps_left(account) <= 2 or not ledger.may_submit(account, number):
            break
        rules = ledger.asking(number)
        if number == READING:
            # An edge of the bands lies where the loss is if the block is neither.
            loss = Fraction(1, 2) + Fraction(block - 2 * guesses, 2 * labels)
            told = rules.answer(account.state, Fraction(1, 2) - edge, loss)
            was_lucky = told == 1
        else:
            right = math.floor(labels * clause.needed) - block // 2 + guesses
            told = rules.answer(account.state, 0, 1 - Fraction(right, labels))
            was_lucky = told == PASS
        account = ledger.record(account, told, number)
        gained += (guesses if was_lucky else block - guesses) - Fraction(block, 2)
        number = READING if was_lucky else LEVEL
    # True of the last model: an accuracy of A, so that it must not pass.
    accuracy = clause.share + gained / labels
    if ledger.may_submit(account, LEVEL):
        told = level.answer(account.state, 0, min(Fraction(1), max(Fraction(0), 1 - accuracy)))
        if told == PASS:
            return True
        account = ledger.record(account, told, LEVEL)
    off = abs(gained) / labels > as_written(readings.spec.tolerances[0])
    return off and ledger.may_submit(account, READING)
