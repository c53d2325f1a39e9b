"""Pass or fail: the tail, the rule and the words of a condition.

"Pass" means that every clause is true; whatever is unsure is "fail", about which nothing is
promised: a model that cannot be measured has not passed. The old model of a condition is any that
was fixed beforehand: the deployed one, or the last that passed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Self

from easeml_meter.conditions import Clause, Condition, Variable
from easeml_meter.core.questions.question import Question
from easeml_meter.promise.assumptions import APART, COMMON_ASSUMPTIONS, RIGHT_OR_WRONG
from easeml_meter.promise.numbers import differences, passing
from easeml_meter.promise.numbers.rounding import as_written, at_most
from easeml_meter.promise.words import meaning
from easeml_meter.spec import MeterSpec

if TYPE_CHECKING:
    pass


def _log_tail(clause: Clause, labels: int, most: Fraction, *, onwards: bool) -> float:
    """Return the logarithm of the chance that a model passes for which a clause is false.

    A model passes only if it differs from the old one on at most a share `most` of the rows.
    """
    tolerance = as_written(clause.tolerance)
    if clause.variable is Variable.CHANGE:
        change = differences.log_pass_tail_from if onwards else differences.log_pass_tail
        return change(labels, clause.share, tolerance, most)
    level = passing.log_tail_from if onwards else passing.log_tail
    return level(labels, clause.share, tolerance)


def _rate(clause: Clause, most: Fraction) -> float:
    """Return how fast the tail falls with the labels, by a bound in closed form."""
    if clause.variable is Variable.CHANGE:
        return differences.rate(clause.tolerance, float(most))
    return passing.rate(clause.share, as_written(clause.tolerance))


@dataclass(frozen=True)
class PassFail(Condition, Question):
    """A condition as a question."""

    @classmethod
    def of(cls, condition: Condition) -> Self:
        """Return the question that asks for a condition."""
        return cls(condition.clauses, condition.disagreement, condition.passes)

    @classmethod
    def of_meter(cls, spec: MeterSpec) -> Question | None:
        """Return the condition that a meter asks; with labels on demand, `ondemand` has it."""
        if spec.condition is None or spec.on_demand:
            return None
        return cls.of(spec.condition)

    @property
    def statistic(self) -> str:
        return str(self)

    @property
    def answers(self) -> tuple[str, ...]:
        """Two answers, also for a condition of several clauses."""
        return ("pass", "fail")

    @property
    def promised(self) -> str:
        meanings = ", and ".join(map(meaning, self.clauses))
        return f"every model that passes {meanings}. Nothing is promised about a model that fails."

    @property
    def assumptions(self) -> tuple[str, ...]:
        found = [*COMMON_ASSUMPTIONS, RIGHT_OR_WRONG]
        if self.needs_old:
            found.append("the old model was fixed before the session, or is one that was submitted")
        if self.disagreement is not None:
            limit = at_most(self.disagreement)
            found.append(f"a model fails {APART} {limit} of the rows")
        if self.passes is not None:
            closing = (
                f"pass number {self.passes + 1} closes" if self.passes else "the first pass closes"
            )
            found.append(f"{closing} the test set")
        return tuple(found)

    def work(self, size: int) -> float:
        each = {Variable.CHANGE: 6 * differences.summed_rows(size)}
        return sum(each.get(clause.variable, 1_000.0) for clause in self.clauses)

    def log_models(self, steps: int) -> float:
        return passing.log_models(steps, self.passes)

    def log_tail(self, size: int) -> float:
        """Return the largest tail of all clauses.

        A model is fixed before it is measured. It passes wrongly only if some clause is false, and
        then it must pass that one, too: the largest tail counts, not their sum.
        """
        return max(_log_tail(clause, size, self.most, onwards=False) for clause in self.clauses)

    def log_tail_from(self, size: int) -> float:
        return max(_log_tail(clause, size, self.most, onwards=True) for clause in self.clauses)

    def enough(self, nats: float) -> int:
        """By Chernoff's bound for the clause that needs most."""
        slowest = min(_rate(clause, self.most) for clause in self.clauses)
        return math.ceil(nats * (1 + 1e-11) / slowest) + 1
