"""Pass or fail: "n > 0.8 +/- 0.01", in the language of ease.ml/ci's conditions.

n is the accuracy of the new model, o that of an old one, d the share of rows on which they differ.
A condition is one clause or several with `/\\` between them. "Pass" means that every clause is
true; whatever is unsure is "fail", about which nothing is promised.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import Self

from easeml_meter.checks import finite, whole
from easeml_meter.core.questions.question import Question
from easeml_meter.errors import invalid
from easeml_meter.stats import passing
from easeml_meter.stats.planning import COMMON_ASSUMPTIONS
from easeml_meter.stats.rounding import as_written, at_least, at_most

MAX_CLAUSES = 20
"""Clauses of one condition: each costs the planner time, and nobody reads more."""


class Variable(StrEnum):
    """What a clause is about."""

    ACCURACY = "n"
    DISAGREEMENT = "d"


_CLAUSE = re.compile(
    r"(?P<variable>[a-z][a-z -]*?)\s*(?P<sign>[<>])\s*"
    r"(?P<threshold>[+-]?[0-9.]+(?:e[+-]?\d+)?)\s*\+/-\s*(?P<tolerance>[0-9.]+(?:e[+-]?\d+)?)"
)
_FORM = 'such as "n > 0.8 +/- 0.01", and several with /\\ between them'


@dataclass(frozen=True)
class Clause:
    """One comparison: it holds in the test set with a tolerance to spare, or it is not passed."""

    variable: Variable
    above: bool
    """Whether the variable has to be above the threshold, or below it."""
    threshold: float
    tolerance: float

    def __post_init__(self) -> None:
        finite("tolerance", self.tolerance)
        if not 1e-6 <= self.tolerance < 1:
            raise invalid("tolerance", self.tolerance, "at least 1e-06, and below 1")
        if not 0 < self.share < 1 or not self.share + as_written(self.tolerance) < 1:
            allowed = "the threshold, also with the tolerance to spare, must lie between 0 and 1"
            raise invalid("question", str(self), allowed)

    def __str__(self) -> str:
        sign = ">" if self.above else "<"
        return f"{self.variable} {sign} {self.threshold:.15g} +/- {self.tolerance:.15g}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read "n > 0.8 +/- 0.01"."""
        found = _CLAUSE.fullmatch(text.strip())
        if found is None:
            raise invalid("question", text.strip(), _FORM)
        name = re.sub(r"\s*-\s*", " - ", found["variable"])
        try:
            variable = Variable(name)
            numbers = float(found["threshold"]), float(found["tolerance"])
        except ValueError:
            known = " and ".join(Variable)
            raise invalid("question", text.strip(), f"{known} are known, {_FORM}") from None
        return cls(variable, found["sign"] == ">", *numbers)

    @property
    def share(self) -> Fraction:
        """The threshold of a clause that reads "above": "n < A" is "errors > 1 - A"."""
        threshold = as_written(self.threshold)
        return threshold if self.above else 1 - threshold

    def log_tail(self, labels: int, *, onwards: bool) -> float:
        """Return the logarithm of the chance that a model passes for which this is false."""
        tail = passing.log_tail_from if onwards else passing.log_tail
        return tail(labels, self.share, as_written(self.tolerance))

    def rate(self) -> float:
        """Return how fast the tail falls with the labels, by Chernoff's bound."""
        return passing.rate(self.share, as_written(self.tolerance))

    @property
    def meaning(self) -> str:
        """What is true if it passes."""
        side = "above" if self.above else "below"
        edge = (at_least if self.above else at_most)(self.threshold)
        if self.variable is Variable.ACCURACY:
            return f"has a true accuracy {side} {edge}"
        return f"differs from the old model on a true share of rows {side} {edge}"


@dataclass(frozen=True)
class PassFail(Question):
    """A condition that a model passes or fails."""

    clauses: tuple[Clause, ...]
    passes: int | None = None
    """How many models may pass before the one that closes the test set; None: any number."""

    def __post_init__(self) -> None:
        if not 1 <= len(self.clauses) <= MAX_CLAUSES:
            raise invalid("question", f"{len(self.clauses)} clauses", f"1 to {MAX_CLAUSES}")
        if self.passes is not None:
            whole("passes", self.passes, at_least=0)

    @classmethod
    def parse(cls, text: str, *, passes: int | None = None) -> Self:
        """Read a condition."""
        return cls(tuple(Clause.parse(part) for part in text.split("/\\")), passes)

    def __str__(self) -> str:
        return " /\\ ".join(str(clause) for clause in self.clauses)

    @property
    def statistic(self) -> str:
        """The condition as it is written."""
        return str(self)

    @property
    def answers(self) -> tuple[str, ...]:
        """Two answers, also for a condition of several clauses."""
        return ("pass", "fail")

    @property
    def promised(self) -> str:
        """What is true of a model that passes."""
        meanings = ", and ".join(clause.meaning for clause in self.clauses)
        return f"every model that passes {meanings}. Nothing is promised about a model that fails."

    @property
    def assumptions(self) -> tuple[str, ...]:
        """Those of every question, and what this one adds."""
        found = [*COMMON_ASSUMPTIONS, "each prediction is right or wrong"]
        if any(clause.variable is not Variable.ACCURACY for clause in self.clauses):
            found.append("the old model was fixed before the session, or is one that was submitted")
        if self.passes is not None:
            closing = (
                f"pass number {self.passes + 1} closes" if self.passes else "the first pass closes"
            )
            found.append(f"{closing} the test set")
        return tuple(found)

    def log_models(self, steps: int) -> float:
        """Count the models that may pass wrongly."""
        return passing.log_models(steps, self.passes)

    def log_tail(self, size: int) -> float:
        """Return the largest tail of all clauses.

        A model is fixed before it is measured. It passes wrongly only if some clause is false, and
        then it must pass that one, too: the largest tail counts, not their sum.
        """
        return max(clause.log_tail(size, onwards=False) for clause in self.clauses)

    def log_tail_from(self, size: int) -> float:
        """Return the same for this size and all larger ones."""
        return max(clause.log_tail(size, onwards=True) for clause in self.clauses)

    def enough(self, nats: float) -> int:
        """By Chernoff's bound for the clause that needs most."""
        return math.ceil(nats * (1 + 1e-11) / min(clause.rate() for clause in self.clauses)) + 1
