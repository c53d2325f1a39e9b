"""Pass or fail: the feedback rule of a meter that asks a condition.

What is unsure fails: a model that cannot be measured has not passed. So there are two answers, and
only "pass" promises something.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

from easeml_meter.conditions import Clause, Comparison, Condition, Variable
from easeml_meter.core.changes import Changes
from easeml_meter.core.questions.passing import meaning
from easeml_meter.core.signals import BASELINE, FAIL, PASS, Rules, State
from easeml_meter.errors import invalid
from easeml_meter.spec import MeterSpec
from easeml_meter.stats.rounding import as_written, at_least, at_most


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
        validation_loss: float | Fraction,
        test_loss: float | Fraction,
        variance: float | Fraction = 0,
        against: Comparison | None = None,
    ) -> int:
        """Return what is told of a model with this test loss, and `against` the old one."""
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

    def ended(self, state: State, tenants: int = 1) -> bool:
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
        """Return what a pass promises of the true loss: at least, at most; None for nothing."""
        levels = [each for each in self.condition.clauses if each.variable is Variable.ACCURACY]
        if answer != PASS:
            return None, None
        most = [1 - as_written(each.threshold) for each in levels if each.above]
        least = [1 - as_written(each.threshold) for each in levels if not each.above]
        return (
            float(at_least(max(least), digits=15)) if least else None,
            float(at_most(min(most), digits=15)) if most else None,
        )

    def promised(self, answer: int) -> str:
        """Say what is true of a model that got this answer; nothing for "fail"."""
        clauses: tuple[Clause, ...] = self.condition.clauses
        return ", and ".join(map(meaning, clauses)) if answer == PASS else ""


def rules_of(spec: MeterSpec) -> Rules:
    """Return the feedback rule of a meter."""
    if spec.difference is not None:
        return Changes(spec)
    return Rules(spec) if spec.condition is None else Verdicts(spec)
