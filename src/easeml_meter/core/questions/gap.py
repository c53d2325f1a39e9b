"""The gap between validation loss and test loss: the question of every meter that asks no other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

from easeml_meter.core.questions.assumptions import gap_assumptions
from easeml_meter.core.questions.question import Question
from easeml_meter.errors import invalid
from easeml_meter.promise import words
from easeml_meter.promise.numbers import judges
from easeml_meter.promise.numbers.plain import log_sum
from easeml_meter.promise.numbers.rounding import as_written, at_most
from easeml_meter.promise.numbers.tails import log_tail, log_tail_from
from easeml_meter.spec import Count, Gap, MeterSpec, Protocol
from easeml_meter.spec.strata import strata_step, whole_strata
from easeml_meter.stats import counting, planning
from easeml_meter.stats.feedback import possible_bands

if TYPE_CHECKING:
    from easeml_meter.core.questions.planning import Plan

_FEW = 12
"""Bands whose edges are listed; of more, only the number is said."""


@dataclass(frozen=True)
class GapQuestion(Question):
    """The bands, tolerances and rules of a meter; its delta plays no part here."""

    spec: MeterSpec
    possible: int | None = None
    """How many bands of one model are taken to be possible; None: as many as are."""
    supposed: tuple[float, ...] | None = None
    """Tolerances in place of the meter's own, while the smallest ones are searched."""

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

    @property
    def possible_bands(self) -> int:
        return possible_bands(self.spec)

    def with_tolerances(self, tolerances: Sequence[float], possible: int | None = None) -> Self:
        """Return the question of the same meter with other tolerances.

        With `possible` bands, it is only counted with them: a meter is checked when it is made, and
        a search makes many. How many drawn edges a tolerance reaches depends on it, though.
        """
        if possible is None or self.spec.drawn is not None:
            return type(self)(self.spec.with_tolerances(tolerances))
        return replace(self, possible=possible, supposed=tuple(tolerances))

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

    @property
    def fewest_steps(self) -> int:
        """The steps that are reverted are among them."""
        return max([1, *self.spec.reverts])

    def log_models(self, steps: int) -> float:
        return log_sum(counting.log_models(self.spec, steps, self.possible))

    def log_tail(self, size: int) -> float:
        return planning.log_tails(self.spec, size)[0]

    def log_tail_from(self, size: int) -> float:
        return planning.log_tails(self.spec, size, log_tail_from)[0]

    def log_failure(self, steps: int, size: int, *, onwards: bool = False) -> float:
        """Sum over the tolerances that an answer can still promise."""
        tail = log_tail_from if onwards else log_tail
        each = size // self._test_sets(steps)
        return planning.log_failure(
            self.spec,
            each,
            steps=steps,
            possible=self.possible,
            tolerances=self.supposed,
            tail=tail,
        )

    def enough(self, nats: float) -> int:
        """Hoeffding's bound at the smallest tolerance, for all that is counted, is never below."""
        spec = self.spec
        # The bound is raised by its rounding error, so the search begins a little above it.
        needed = (nats + math.log(2)) * (1 + 1e-11) + 1e-11
        highest = math.ceil(needed / (2 * self.tolerance**2)) + 1
        if spec.corpus is not None:
            return planning.enough(spec, needed)
        if spec.stratified:
            return whole_strata(spec, math.ceil(highest * planning.strata_cost(spec)) + 1)
        if spec.judge_error is not None and spec.pool is not None:
            # As `judge` begins: its tail is jagged, and both are to find one size.
            return judges.enough(self.tolerance, spec.judge_error, spec.pool, nats)
        return highest * self._test_sets(spec.steps)

    def work(self, size: int) -> float:
        """Return what the tails cost: those of a judge are dear, each searched for its worst."""
        if not self.spec.judged:
            return super().work(size)
        running_max = self.spec.protocol is Protocol.INCREMENTAL
        return judges.work(size, len(set(self.spec.tolerances)) if running_max else 1)

    def supported_steps(self, size: int, nats: float) -> int:
        """Return the most steps; those of meters that are counted step by step one by one."""
        spec, found = self.spec, 0
        if counting.has_closed_form(spec):
            return super().supported_steps(size, nats)
        tails = planning.log_tails(spec, size, log_tail_from)
        for steps, failure in counting.walk(spec, tails):
            if steps >= self.fewest_steps:
                if failure + nats > 0:
                    break
                found = steps
        return found

    def rounded_up(self, size: int) -> int:
        spec = self.spec
        return whole_strata(spec, size) if spec.stratified and not spec.sizes else size

    def rounded_down(self, size: int) -> int:
        """Return a size of whole strata; a meter that gives their sizes has no other one."""
        spec = self.spec
        if spec.sizes:
            return sum(spec.sizes) if sum(spec.sizes) <= size else 0
        return size - size % strata_step(spec) if spec.stratified else size

    def drawn_size(self, size: int) -> int:
        """Return the sum of the sizes that the meter gives its strata, which must be enough."""
        sizes = self.spec.sizes
        if sizes and sum(sizes) < size:
            needed = f"too few: {size:,} rows are needed in all"
            raise invalid("sizes", list(sizes)[:20], needed)
        return sum(sizes) or size

    def _test_sets(self, steps: int) -> int:
        """Return the number of test sets of one session: one, unless every step draws its own."""
        return steps if self.spec.protocol is Protocol.RESAMPLING else 1

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
