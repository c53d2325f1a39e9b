"""A question as a value: what the planner and the books need to know of it, and nothing else.

All questions share one budget. Every answer multiplies the histories that the next question can
follow; a question is safe after a history if its tail is below the share of delta that the history
has. So a kind of question is its alphabet, its tail and its words.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from fractions import Fraction

from easeml_meter.stats.counting import log_sum


class Question(ABC):
    """One kind of question; its subclasses are frozen dataclasses."""

    @property
    @abstractmethod
    def statistic(self) -> str:
        """What is measured, in words."""

    @property
    @abstractmethod
    def answers(self) -> tuple[str, ...]:
        """Every answer that can be given."""

    @property
    @abstractmethod
    def promised(self) -> str:
        """What holds of every answer, as the end of a sentence."""

    @property
    @abstractmethod
    def assumptions(self) -> tuple[str, ...]:
        """Everything the promise rests on, in plain words."""

    @property
    def unit(self) -> str:
        """What the planned size counts."""
        return "labels"

    @property
    def consistent(self) -> int | Fraction | None:
        """How many answers to one model no earlier promise rules out; None: not to be mixed."""
        return None

    @property
    def tolerance(self) -> float | None:
        """How far a reading may be off; None: the question says so itself."""
        return None

    def together(self, steps: int) -> str:
        """Say which answers share the probability of the promise, as part of a sentence."""
        return "in its one step" if steps == 1 else f"in all {steps:,} steps together"

    def notes(self, steps: int, size: int, nats: float) -> tuple[str, ...]:
        """What else a reader of a plan wants to know; exp(-nats) is the failure it allows."""
        return ()

    def work(self, size: int) -> float:
        """Return what one tail of this size costs, in rows that are summed over."""
        return 1_000.0

    @abstractmethod
    def log_models(self, steps: int) -> float:
        """Return the logarithm of how many models can be the first that breaks the promise."""

    @abstractmethod
    def log_tail(self, size: int) -> float:
        """Return the logarithm of a bound on the chance that one model breaks the promise."""

    def log_tail_from(self, size: int) -> float:
        """Return the largest `log_tail` of this size and all larger ones; most tails fall."""
        return self.log_tail(size)

    @abstractmethod
    def enough(self, nats: float) -> int:
        """Return a size from which on the tail is below exp(-nats), by a bound in closed form."""

    def log_failure(self, steps: int, size: int, *, onwards: bool = False) -> float:
        """Return the logarithm of the chance that any of `steps` answers breaks the promise.

        `onwards`: of this size or any larger one.
        """
        tail = self.log_tail_from if onwards else self.log_tail
        return self.log_models(steps) + tail(size)

    def log_left(self, share: float, tail: float) -> float:
        """Return the log of what each answer leaves of a share of delta; all are logarithms.

        The question is an event, and each of its consistent answers gets the same part of the rest.
        """
        return log_difference(share, tail) - self._log_consistent

    def log_needed(self, following: float, tail: float) -> float:
        """Return the log of the share of which `following` is left: the inverse of `log_left`."""
        return log_sum((tail, following + self._log_consistent))

    @property
    def _log_consistent(self) -> float:
        if self.consistent is None:
            raise AssertionError(f"{self.statistic} is not to be mixed with others")
        return math.log(self.consistent)


def log_difference(more: float, less: float) -> float:
    """Return log(exp(more) - exp(less)); minus infinity where nothing is left."""
    return more + math.log(-math.expm1(less - more)) if less < more else -math.inf
