"""The gap between validation loss and test loss: the question of every meter."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from easeml_meter.core.questions.question import Question
from easeml_meter.spec import MeterSpec, Protocol
from easeml_meter.stats import counting, planning
from easeml_meter.stats.draws import expected_edges
from easeml_meter.stats.feedback import possible_bands
from easeml_meter.stats.tails import log_tail, log_tail_from


@dataclass(frozen=True)
class GapQuestion(Question):
    """The bands, tolerances and rules of a meter; its own steps and delta play no part here."""

    spec: MeterSpec

    @property
    def statistic(self) -> str:
        """The gap."""
        return "the gap between validation loss and test loss"

    @property
    def answers(self) -> tuple[str, ...]:
        """The bands, and what is said instead."""
        spec = self.spec
        bands = [f"band {number}" for number in range(1, spec.signals + 1)]
        if spec.drawn is not None:
            bands = [f"a band {spec.drawn:g} wide, with edges drawn for this answer"]
        above = ["above the ceiling"] if spec.ceiling is not None else []
        above += ["too spread"] if spec.variance_ceiling is not None else []
        reverted = ["reverted"] if spec.masked_reverts else []
        return (*bands, *above, *reverted, *(["no reading"] if spec.may_fail else []))

    @property
    def consistent(self) -> Fraction | None:
        """As many as `stats.counting` counts at each step of a regular meter without extras."""
        spec = self.spec
        extras = (spec.published, spec.memory is not None, spec.reverts, spec.masked_reverts)
        if spec.protocol is not Protocol.REGULAR or any((*extras, spec.tenants, spec.above)):
            return None
        return possible_bands(spec) + expected_edges(spec) + spec.silent_answers

    @property
    def tolerance(self) -> float:
        """The smallest of all bands."""
        return self.spec.tolerances[0]

    @property
    def promised(self) -> str:
        """What holds of each reading."""
        return planning.promised_of(self.spec)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """Those of the meter."""
        return planning.assumptions_of(self.spec)

    def log_models(self, steps: int) -> float:
        """Count the histories that the meter's rules leave."""
        return counting.log_sum(counting.log_models(self.spec, steps))

    def log_tail(self, size: int) -> float:
        """Return the tail at the smallest tolerance."""
        return planning.log_tails(self.spec, size)[0]

    def log_tail_from(self, size: int) -> float:
        """Return the same for this size and all larger ones."""
        return planning.log_tails(self.spec, size, log_tail_from)[0]

    def log_failure(self, steps: int, size: int, *, onwards: bool = False) -> float:
        """Sum over the tolerances that an answer can still promise."""
        tail = log_tail_from if onwards else log_tail
        return planning.log_failure(self.spec, size, steps=steps, tail=tail)

    def enough(self, nats: float) -> int:
        """Hoeffding's bound at the smallest tolerance is never below another."""
        needed = (nats + math.log(2)) * (1 + 1e-11) + 1e-11
        return math.ceil(needed / (2 * self.tolerance**2)) + 1
