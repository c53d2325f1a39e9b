"""Pass or fail: the tail, the rule and the words of a condition.

"Pass" means that every clause is true; whatever is unsure is "fail", about which nothing is
promised: a model that cannot be measured has not passed. The old model of a condition is any that
was fixed beforehand: the deployed one, or the last that passed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from easeml_meter.conditions import Condition
from easeml_meter.core.questions.question import Question
from easeml_meter.promise import condition as conditions
from easeml_meter.promise.assumptions import APART, COMMON_ASSUMPTIONS, RIGHT_OR_WRONG
from easeml_meter.promise.budgets import Steps
from easeml_meter.promise.closing import Closing
from easeml_meter.promise.meter import Meter
from easeml_meter.promise.numbers.rounding import at_most
from easeml_meter.promise.schema import exact
from easeml_meter.promise.words import meaning
from easeml_meter.spec import MeterSpec

if TYPE_CHECKING:
    pass


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

    def composed(self, steps: int, delta: float) -> Meter:
        """Return a meter of a condition; the last pass closes it."""
        budget = (
            Steps(steps=steps)
            if self.passes is None
            else Closing(passes=self.passes + 1, steps=steps)
        )
        limit = None if self.disagreement is None else exact(self.disagreement)
        asked = conditions.Condition(ask=str(self), disagreement=limit)
        return Meter(question=asked, budget=budget, delta=exact(delta))
