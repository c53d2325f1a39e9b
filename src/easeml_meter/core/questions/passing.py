"""Pass or fail: the tail, the rule and the words of a condition.

"Pass" means that every clause is true; whatever is unsure is "fail", about which nothing is
promised: a model that cannot be measured has not passed. The old model of a condition is any that
was fixed beforehand: the deployed one, or the last that passed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Self

from easeml_meter.conditions import Clause, Comparison, Condition, Variable
from easeml_meter.core.questions.question import Question
from easeml_meter.core.signals import BASELINE, FAIL, PASS, Loss, Rules, State
from easeml_meter.errors import invalid
from easeml_meter.promise.assumptions import APART, COMMON_ASSUMPTIONS, RIGHT_OR_WRONG
from easeml_meter.promise.numbers import differences, passing
from easeml_meter.promise.numbers.rounding import as_written, at_least, at_most
from easeml_meter.promise.words import meaning
from easeml_meter.spec import MeterSpec

if TYPE_CHECKING:
    from easeml_meter.core.views import Signal


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

    def rules(self, spec: MeterSpec) -> Rules:
        return Verdicts(spec)

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


@dataclass(frozen=True)
class Verdicts(Rules):
    """The rule of a condition, step by step."""

    @property
    def condition(self) -> Condition:
        """What models have to pass."""
        if self.spec.condition is None:
            raise AssertionError("a meter that asks for the gap gives no verdicts")
        return self.spec.condition

    def answers(self, state: State) -> tuple[int, ...]:
        """List both answers, the more usual one first; before them comes a model to compare with.

        That first answer is always the same, so it tells nothing and costs nothing.
        """
        return (BASELINE,) if self.condition.needs_old and not state.based else (FAIL, PASS)

    def answer(
        self,
        state: State,
        validation_loss: Loss,
        test_loss: Loss,
        against: Comparison | None = None,
    ) -> int:
        if not 0 <= test_loss <= 1:
            raise invalid("test loss", "(hidden)", "a loss from 0 to 1")
        values = {Variable.ACCURACY: 1 - as_written(test_loss)}
        if self.condition.needs_old:
            if against is None:
                raise AssertionError("a model must be compared with the old one")
            most = self.condition.disagreement
            apart = against.apart(predictions=self.spec.on_demand)
            if most is not None and apart > as_written(most):
                return FAIL
            for variable in (Variable.CHANGE, Variable.DISAGREEMENT):
                values[variable] = against.value(variable)
        clauses = self.condition.clauses
        return PASS if all(each.holds(values[each.variable]) for each in clauses) else FAIL

    def unread(self, state: State, reason: int) -> int:
        """Return "fail": a model without a reading has not passed; the first one is no loss."""
        return self.answers(state)[0]

    def after(self, state: State, answer: int) -> State:
        """Return the state once this was told; passes count where they can close the test set."""
        if answer == BASELINE:
            return replace(state, based=True)
        counted = answer == PASS and self.condition.passes is not None
        return replace(state, passes=state.passes + 1) if counted else state

    def ended(self, state: State) -> bool:
        """Whether more models passed than leave the test set in use."""
        most = self.condition.passes
        return most is not None and state.passes > most

    def tolerance(self, answer: int) -> None:
        """Return None: no value is told that could be off."""

    def range_of(self, answer: int) -> None:
        """Return None: no gap is told."""

    def true_loss(
        self, answer: int, validation_loss: Fraction
    ) -> tuple[float | None, float | None]:
        levels = [each for each in self.condition.clauses if each.variable is Variable.ACCURACY]
        if answer != PASS:
            return None, None
        most = [1 - as_written(each.threshold) for each in levels if each.above]
        least = [1 - as_written(each.threshold) for each in levels if not each.above]
        return (
            float(at_least(max(least), digits=15)) if least else None,
            float(at_most(min(most), digits=15)) if most else None,
        )

    def truth(
        self, validation_loss: Fraction, test_loss: Fraction, against: Comparison | None = None
    ) -> dict[str, Any]:
        if self.spec.compares and against is None:
            return {"band": None}
        told = self.answer(State(based=True), validation_loss, test_loss, against=against)
        change = None if against is None else float(against.value(Variable.CHANGE))
        return {"band": None, "passed": told == PASS, "change": change}

    def sentence(self, signal: Signal, sure: str) -> str:
        if signal.answer == FAIL:
            return "Nothing is promised about a model that fails."
        if signal.answer != PASS:
            return super().sentence(signal, sure)
        old = "" if signal.old is None else f" The old model is that of step {signal.old:,}."
        return f"{sure}: this model {', and '.join(map(meaning, self.condition.clauses))}.{old}"
