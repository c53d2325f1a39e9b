"""Developers who make a bad model pass: what the answers pass and fail tell them of the test set.

Half of the rows are easy: a model is right or wrong there as its developer wishes. On the others
every guess is a coin flip. The coin rows are cut into blocks. A probe guesses on one block, and is
otherwise as good as it takes to pass if the guesses are lucky: its answer says whether they are.
The last model takes every guess on the side that was lucky, and is truly no better than allowed.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from easeml_meter.conditions import Comparison, Variable
from easeml_meter.core.signals import FAIL, PASS, State
from easeml_meter.core.verdicts import Verdicts
from easeml_meter.spec import MeterSpec

_COINS = Fraction(1, 2)
"""The share of rows on which every guess is a coin flip."""


def false_passes(spec: MeterSpec, labels: int, runs: int, random: np.random.Generator) -> float:
    """Return the share of sessions in which the last model passes though it must not.

    The meter asks for one level of n, or is a ladder without a limit to what differs.
    """
    rules = Verdicts(spec)
    probes = spec.steps - 1
    block = math.floor(labels * _COINS) // probes
    lucky = random.binomial(block, 0.5, size=(runs, probes))
    play = _ladder if spec.ladder else _level
    return sum(play(rules, labels, block, row) for row in lucky.tolist()) / runs


def _level(rules: Verdicts, labels: int, block: int, lucky: list[int]) -> bool:
    """Probe with models that pass if one block is lucky; then guess on all blocks at once."""
    (clause,) = rules.condition.clauses
    needed = math.floor(labels * clause.needed)
    known = needed - block // 2
    right = 0
    for guesses in lucky:
        told = rules.answer(State(), 0, 1 - Fraction(known + guesses, labels))
        right += guesses if told == PASS else block - guesses
    # True of the last model: half of the coins, and so many easy rows that it is just not above.
    easy = math.floor(labels * clause.share - Fraction(block * len(lucky), 2))
    return rules.answer(State(), 0, 1 - Fraction(easy + right, labels)) == PASS


def _ladder(rules: Verdicts, labels: int, block: int, lucky: list[int]) -> bool:
    """Climb with the lucky blocks; then guess on the unlucky ones the other way round.

    The blocks of models that passed are in the old model, too, and tell nothing against it.
    """
    (clause,) = rules.condition.clauses
    needed = math.floor(labels * clause.needed)
    state, gained, blocks = State(based=True), 0, 0
    for guesses in lucky:
        against = _beside(labels, needed - block // 2 + guesses)
        if rules.answer(state, 0, 0, against=against) == FAIL:
            gained, blocks = gained + block - guesses, blocks + 1
    # True of the last model: exactly as good as the old one, since it gives up as many easy rows.
    change = gained - math.ceil(Fraction(block * blocks, 2))
    return rules.answer(state, 0, 0, against=_beside(labels, change)) == PASS


def _beside(labels: int, change: int) -> Comparison:
    """Return a model beside the old one that is right on so many more rows."""
    found = Comparison(labels, max(change, 0), max(-change, 0), abs(change))
    if found.value(Variable.CHANGE) != Fraction(change, labels):
        raise AssertionError("a change is what was gained minus what was lost")
    return found
