"""Developers against questions of right and wrong: conditions, differences, readings.

Some rows are easy: a model is right or wrong there as its developer wishes. On the others every
guess is a coin flip; they are cut into blocks. A probe guesses on one block, and is otherwise such
that its answer says whether the guesses are lucky. The last model takes every guess on its lucky
side. It is asked for a pass that it does not deserve, or for a reading that is off.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from fractions import Fraction
from functools import cache, cached_property

import numpy as np
from numpy.random import Generator

from easeml_meter.conditions import Clause, Comparison, Variable
from easeml_meter.core.questions.passing import PassFail
from easeml_meter.lab.meters import as_one
from easeml_meter.lab.simulation.worlds import Flags
from easeml_meter.promise import ledger, solve
from easeml_meter.promise.closing import Closing
from easeml_meter.promise.condition import PASS, Change, Condition
from easeml_meter.promise.ledger import Snapshot
from easeml_meter.promise.meter import Meter
from easeml_meter.promise.questions import Shown, is_band, measured_of


def broken_sessions(meter: Meter, labels: int, runs: int, random: Generator) -> Flags:
    """Return in which sessions some answer breaks its promise.

    The answers are those that the planned test set allows, whatever number of labels is played.
    Teams share every answer, as they are counted.
    """
    game = _Game(as_one(meter), labels)
    lucky = random.binomial(game.block, 0.5, size=(runs, game.probes))
    return np.array([game.broken(row) for row in lucky.tolist()], dtype=np.bool_)


class _Asked(ABC):
    """A question, and the models that are made for it."""

    def __init__(self, meter: Meter, labels: int) -> None:
        self.meter, self.labels = meter, labels
        self.level = ledger.level(meter, ledger.start(meter))
        self.probe, self.last = cache(self._probe), cache(self._last)

    def answer(self, loss: Fraction, against: Comparison) -> str:
        """Return what is told of a model beside the old one."""
        unlabeled = self.meter.sample.orders_labels
        rows = measured_of(Shown(self.labels), loss, against)._replace(unlabeled=unlabeled)
        return self.meter.asked.answer(0, rows, self.level)  # type: ignore[call-arg]

    @property
    @abstractmethod
    def most(self) -> tuple[Fraction, Fraction]:
        """The largest share of rows that can be guesses, of a probe and of the last model."""

    @abstractmethod
    def _probe(self, right: int, rows: int) -> tuple[str, bool]:
        """Return the answer to a model with so many right guesses, and whether it says: lucky."""

    @abstractmethod
    def _last(self, right: int, rows: int) -> bool:
        """Whether the answer to such a model breaks its promise."""

    @property
    def ladder(self) -> bool:
        """Whether others are compared with a model that passes."""
        return False

    def ends(self, at: Snapshot) -> bool:
        """Whether another lucky probe would be the last submission."""
        budget = self.meter.budget
        return isinstance(budget, Closing) and budget.rare_left(at.spent) == 1


class _Bands(_Asked):
    """A reading of n - o. Guesses stand where the old model says the opposite."""

    def __init__(self, meter: Meter, question: Change, labels: int) -> None:
        super().__init__(meter, labels)
        self.question = question
        self.edge = min(question.edges, key=abs)

    @property
    def most(self) -> tuple[Fraction, Fraction]:
        most = self.question.disagreement
        return most - abs(self.edge), most

    def _answer(self, known: int, change: int, rows: int) -> str:
        against = _beside(self.labels, known + change, abs(known) + rows)
        return self.answer(Fraction(0), against)

    def _probe(self, right: int, rows: int) -> tuple[str, bool]:
        answer = self._answer(math.ceil(self.labels * self.edge), 2 * right - rows, rows)
        above = 1 + self.question.edges.index(self.edge)
        return answer, is_band(answer) and int(answer) > above

    def _last(self, right: int, rows: int) -> bool:
        off = Fraction(2 * right - rows, self.labels)
        answer = self._answer(0, 2 * right - rows, rows)
        return is_band(answer) and abs(off) > self.question.tolerance


class _Condition(_Asked):
    """Pass or fail. The clause that is easiest to pass wrongly is attacked; the others hold."""

    def __init__(self, meter: Meter, question: Condition, labels: int) -> None:
        super().__init__(meter, labels)
        self.question, self.condition = question, question.clauses
        self.clause = max(self.condition.clauses, key=self._tail)
        self.comfort = {each: self._comfortable(each) for each in Variable}

    def _tail(self, clause: Clause) -> float:
        limit = self.condition.disagreement if clause.variable is Variable.CHANGE else None
        meter = PassFail((clause,), limit).composed(1, 0.1)
        return solve.log_failure(meter, self.labels)

    def _comfortable(self, variable: Variable) -> Fraction:
        """Return a value in the middle of what the other clauses let pass."""
        most = self.condition.most
        change = variable is Variable.CHANGE
        low = -most if change else Fraction(0)
        high = Fraction(1) if variable is Variable.ACCURACY else most
        for each in self.condition.clauses:
            if each is not self.clause and each.variable is variable:
                limit = each.needed if each.above else -each.needed if change else 1 - each.needed
                low, high = (max(low, limit), high) if each.above else (low, min(high, limit))
        return (low + high) / 2

    @property
    def most(self) -> tuple[Fraction, Fraction]:
        return self._room(self.clause.needed), self._room(self.clause.share)

    def _room(self, value: Fraction) -> Fraction:
        """Return the share of rows that can be guesses of a model that has this value in truth."""
        if self.clause.variable is Variable.CHANGE:
            # What a limit on d passes has to lie below it, by less than a row.
            return max(Fraction(0), self.condition.most - abs(value) - Fraction(1, self.labels))
        return 2 * min(value, 1 - value)

    def _answer(self, value: Fraction, right: int, rows: int) -> str:
        """Return what is told of a model whose true value is the largest one up to `value`."""
        goal, above = self.labels * value, self.clause.above
        side = 1 if above else -1
        values = dict(self.comfort)
        apart = 0
        if self.clause.variable is not Variable.CHANGE:
            shown = Fraction(math.floor(goal - Fraction(rows, 2)) + right, self.labels)
            values[self.clause.variable] = shown if above else 1 - shown
        elif self.ladder:
            # The old model is wrong on all guesses: half of them are paid for with easy rows.
            change = right - math.ceil(Fraction(rows, 2))
            values[Variable.CHANGE] = side * Fraction(math.floor(goal) + change, self.labels)
            apart = rows
        else:
            change = 2 * right - rows
            values[Variable.CHANGE] = side * Fraction(math.floor(goal) + change, self.labels)
            values[Variable.ACCURACY] += side * Fraction(change, self.labels)
            apart = abs(math.floor(goal)) + rows
        differing = apart or math.ceil(values[Variable.DISAGREEMENT] * self.labels)
        change = round(values[Variable.CHANGE] * self.labels)
        against = _beside(self.labels, change, apart or abs(change), differing)
        loss = 1 - min(Fraction(1), max(Fraction(0), values[Variable.ACCURACY]))
        return self.answer(loss, against)

    def _probe(self, right: int, rows: int) -> tuple[str, bool]:
        answer = self._answer(self.clause.needed, right, rows)
        return answer, answer == PASS

    def _last(self, right: int, rows: int) -> bool:
        return self._answer(self.clause.share, right, rows) == PASS

    @property
    def ladder(self) -> bool:
        return self.question.than == "kept"


def _beside(labels: int, change: int, apart: int, differing: int = 0) -> Comparison:
    """Return a model that is right on so many more rows, and differs on so many."""
    apart = max(apart, abs(change))
    gained = (apart + change) // 2
    found = Comparison(labels, gained, gained - change, max(apart, differing))
    if found.value(Variable.CHANGE) != Fraction(change, labels):
        raise AssertionError("a change is what was gained minus what was lost")
    return found


def _asked(meter: Meter, labels: int) -> _Asked:
    question = meter.question
    if isinstance(question, Change):
        return _Bands(meter, question, labels)
    if isinstance(question, Condition):
        return _Condition(meter, question, labels)
    raise AssertionError(f"{question} is neither a condition nor a reading of n - o")


class _Game:
    """A meter, with a test set of so many rows."""

    def __init__(self, meter: Meter, labels: int) -> None:
        self.labels = labels
        self.meter = meter
        self.asked = _asked(self.meter, labels)
        self.start = ledger.start(self.meter)

    @cached_property
    def probes(self) -> int:
        at, probes = self.start, 0
        while self._goes_on(at):
            at, probes = ledger.step(self.meter, at, self.meter.asked.answers(0)[0]), probes + 1
        return max(1, probes)

    def _goes_on(self, at: Snapshot) -> bool:
        steps = ledger.most_answers(self.meter, at) or 0
        return ledger.may(self.meter, at) and steps - at.answers > 1

    @cached_property
    def block(self) -> int:
        smallest, largest = self.asked.most
        whole = math.floor(self.labels * largest) // self.probes
        return max(0, min(whole, math.floor(self.labels * smallest)))

    def broken(self, lucky: Sequence[int]) -> bool:
        """Play one session, in which so many guesses of each block are right."""
        at = self.start
        taken: list[tuple[int, bool]] = []
        left = list(lucky)
        while left and self._goes_on(at) and not self.asked.ends(at):
            right = left.pop(0)
            answer, is_lucky = self.asked.probe(right, self.block)
            at = ledger.step(self.meter, at, answer)
            in_old = self.asked.ladder and is_lucky
            taken.append((right if is_lucky else self.block - right, in_old))
        taken += [(right, False) for right in left]
        return self._breaks(at, taken)

    def _breaks(self, at: Snapshot, taken: Sequence[tuple[int, bool]]) -> bool:
        """Ask about the last model, which takes the right guesses of each block.

        A block that the old model has, too, tells nothing against it.
        """
        if not ledger.may(self.meter, at):
            return False
        most = math.floor(self.labels * self.asked.most[1])
        blocks = [right for right, in_old in taken if not (in_old and self.asked.ladder)]
        blocks = blocks[: most // self.block] if self.block else []
        return self.asked.last(sum(blocks), self.block * len(blocks))
