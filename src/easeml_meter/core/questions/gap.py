"""The gap between validation loss and test loss: the question of every meter that asks no other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

from easeml_meter.core.questions.assumptions import gap_assumptions
from easeml_meter.core.questions.question import Question
from easeml_meter.promise import compare, solve, words
from easeml_meter.promise.numbers.rounding import as_written, at_most
from easeml_meter.spec import Count, Gap, MeterSpec

if TYPE_CHECKING:
    from easeml_meter.core.questions.planning import Plan
    from easeml_meter.promise.meter import Meter

_FEW = 12
"""Bands whose edges are listed; of more, only the number is said."""


@dataclass(frozen=True)
class GapQuestion(Question):
    """The bands, tolerances and rules of a meter; its delta plays no part here."""

    spec: MeterSpec

    usual = True

    @classmethod
    def of_meter(cls, spec: MeterSpec) -> Self | None:
        """Every meter with bands asks it, unless another kind says that it is asked."""
        return cls(spec) if spec.bands else None

    @property
    def statistic(self) -> str:
        return words.statistic(self.spec.meter)

    @property
    def unit(self) -> str:
        """What the promise is counted of: labels, clusters, or what a score is made of."""
        return self.spec.unit if self.spec.corpus is None else self.spec.corpus.kind.unit

    @property
    def answers(self) -> tuple[str, ...]:
        return words.answers(self.spec.meter)

    @property
    def tolerance(self) -> float:
        return self.spec.tolerances[0]

    @property
    def tolerances(self) -> tuple[float, ...]:
        return self.spec.tolerances

    def with_tolerances(self, tolerances: Sequence[float]) -> Self:
        """Return the question of the same meter with other tolerances."""
        return type(self)(self.spec.with_tolerances(tolerances))

    def composed(self, steps: int, delta: float) -> Meter:
        """Return the meter, with these answers and this delta."""
        return self.spec.replace(steps=steps, delta=delta).meter

    @property
    def terms(self) -> solve.Terms:
        """What is counted: consistent histories, all of them, or as the paper has it."""
        if self.spec.published:
            return compare.as_published
        return compare.all_answers if self.spec.count is Count.ALL else solve.terms

    @property
    def counting(self) -> str:
        """What is counted."""
        if self.spec.published:
            return "pairs of model and signal"
        return "distinct models" if self.spec.count is Count.ALL else "consistent models"

    @property
    def brief(self) -> str:
        return f"{self._bands('')}, tolerance {at_most(max(self.spec.tolerances))}"

    @property
    def facts(self) -> dict[str, str]:
        tolerances = [at_most(eps) for eps in self.spec.tolerances]
        one = tolerances[:1] if len(set(tolerances)) == 1 else tolerances
        return {"tolerance": ", ".join(one), "bands": self._bands("bands")}

    def _bands(self, after: str) -> str:
        """Say how many bands there are, and where they begin; `after` a word, not repeat it."""
        spec = self.spec
        if spec.drawn is not None:
            if after:
                return f"edges drawn for every answer, {spec.drawn:g} apart"
            return f"bands {spec.drawn:g} wide with drawn edges"
        if spec.signals == 1:
            return "1, from 0 to 1" if after else "1 band"
        if not after and spec.signals > _FEW:
            return f"{spec.signals} bands"
        word = "an edge" if spec.signals == 2 and after else "edges"
        number = f"{spec.signals}," if after else f"{spec.signals} bands"
        return f"{number} with {word} at " + ", ".join(f"{edge:g}" for edge in spec.edges)

    def settings(self, plan: Plan) -> dict[str, str]:
        spec = self.spec
        found = {"protocol": str(spec.protocol)}
        if spec.gap is Gap.SIGNED:
            found["gap"] = "signed: test loss minus validation loss"
        models = _count(plan.log_models)
        found["bound"] = f"{spec.tail}, {self.counting} ({models} of them)"
        if plan.top_up is not None:
            later = "{more_labels:,} {unit} more, {labels:,} in all, for {steps:,} steps more"
            found["top-up"] = later.format(**plan.top_up, unit=spec.unit)
        if spec.rows is not None:
            found["rows to draw"] = f"{spec.rows:,}"
        for name, size in spec.stratum_rows(plan.labels).items():
            found[f"of them {name}"] = f"{size:,}"
        if spec.judged:
            found["judge"] = f"errs on at most {spec.judge_error:g} of them"
            found["pool"] = f"{spec.pool:,} rows more, without a label"
        if spec.fixes_rows:
            found["tries at sealing"] = f"{spec.tries:,}"
        if spec.floor is not None:
            found["floor"] = f"{spec.floor:g}"
        elif spec.ceiling is not None:
            found["ceiling"] = f"{spec.ceiling:g}"
        return found

    def together(self, steps: int) -> str:
        """Say which steps share the probability: a top-up has more of them."""
        spec = self.spec
        if spec.top_up is not None:
            first = "its one step" if steps == 1 else f"all {steps:,} steps"
            return f"in {first} and {spec.top_up:,} more after the top-up together"
        return super().together(steps)

    @property
    def assumptions(self) -> tuple[str, ...]:
        return gap_assumptions(self.spec)

    @property
    def promised(self) -> str:
        return words.promised(self.spec.meter)

    @property
    def promised_points(self) -> float | None:
        spec = self.spec
        if spec.curve:
            return None
        edge = as_written(spec.bands[0].upper if spec.drawn is None else spec.drawn / 2)
        return min(100.0, math.ceil(1000 * (edge + as_written(spec.tolerances[0]))) / 10)

    @property
    def headline(self) -> str:
        spec, points = self.spec, self.promised_points
        if points is None:
            return ""
        where = "In the lowest band" if spec.drawn is None else "On average, if it does not overfit"
        if spec.corpus is not None:
            word = spec.corpus.word
            return f"{where}: true {word} at least the validation {word} - {points} points."
        word = "error" if spec.loss == "0-1" else "loss"
        return f"{where}: true {word} at most the validation {word} + {points} points."

    def for_steps(self, steps: int) -> Self:
        if steps == self.spec.steps:
            return self
        return replace(self, spec=self.spec.replace(steps=steps))

    def details(self, plan: Plan) -> dict[str, Any]:
        spec = self.spec
        return {
            "labels": plan.labels,
            "signals": spec.signals if spec.drawn is None else None,
            "edges": list(spec.edges) if spec.drawn is None else None,
            "drawn": spec.drawn,
            "tolerances": list(spec.tolerances),
            "promised_points": self.promised_points,
            "protocol": str(spec.protocol),
            "gap": str(spec.gap),
            "bound": str(spec.tail),
            "counting": self.counting,
            "ceiling": spec.ceiling,
            "floor": spec.floor,
            "top_up": plan.top_up,
            "strata": spec.stratum_rows(plan.labels) if spec.stratified else None,
        }


def _count(log: float) -> str:
    """Write a number given by its logarithm."""
    if log < math.log(1e15):
        return f"{round(math.exp(log)):,}"
    return f"about 10^{log / math.log(10):,.0f}"
