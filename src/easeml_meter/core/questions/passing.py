"""Pass or fail: "n > 0.8 +/- 0.01", in the language of ease.ml/ci's conditions.

n is the accuracy of the new model, o that of an old one, d the share of rows on which they differ.
The old model is any that was fixed beforehand: the deployed one, or the last that passed.
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
from easeml_meter.stats import differences, passing
from easeml_meter.stats.planning import COMMON_ASSUMPTIONS
from easeml_meter.stats.rounding import as_written, at_least, at_most

MAX_CLAUSES = 20
"""Clauses of one condition: each costs the planner time, and nobody reads more."""


class Variable(StrEnum):
    """What a clause is about."""

    ACCURACY = "n"
    DISAGREEMENT = "d"
    CHANGE = "n - o"


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
        lowest = -1 if self.variable is Variable.CHANGE else 0
        if not lowest < self.share < self.needed < 1:
            allowed = f"the threshold, with the tolerance to spare, lies between {lowest} and 1"
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
        if self.above:
            return threshold
        return -threshold if self.variable is Variable.CHANGE else 1 - threshold

    @property
    def needed(self) -> Fraction:
        """What the test set has to show more than."""
        return self.share + as_written(self.tolerance)

    def log_tail(self, labels: int, most: Fraction, *, onwards: bool) -> float:
        """Return the logarithm of the chance that a model passes for which this is false.

        A model passes only if it differs from the old one on at most a share `most` of the rows.
        """
        tolerance = as_written(self.tolerance)
        if self.variable is Variable.CHANGE:
            change = differences.log_pass_tail_from if onwards else differences.log_pass_tail
            return change(labels, self.share, tolerance, most)
        level = passing.log_tail_from if onwards else passing.log_tail
        return level(labels, self.share, tolerance)

    def rate(self, most: Fraction) -> float:
        """Return how fast the tail falls with the labels, by a bound in closed form."""
        if self.variable is Variable.CHANGE:
            return differences.rate(self.tolerance, float(most))
        return passing.rate(self.share, as_written(self.tolerance))

    @property
    def is_limit(self) -> bool:
        """Whether it limits how much a model differs from the old one."""
        return self.variable is Variable.DISAGREEMENT and not self.above

    @property
    def meaning(self) -> str:
        """What is true if it passes."""
        side = "above" if self.above else "below"
        edge = (at_least if self.above else at_most)(self.threshold)
        if self.variable is Variable.ACCURACY:
            return f"has a true accuracy {side} {edge}"
        if self.variable is Variable.CHANGE:
            if self.above and not self.threshold:
                return "is truly more accurate than the old one"
            more = "more" if self.above else "less"
            return f"has a true accuracy that exceeds the old model's by {more} than {edge}"
        return f"differs from the old model on a true share of rows {side} {edge}"


@dataclass(frozen=True)
class PassFail(Question):
    """A condition that a model passes or fails."""

    clauses: tuple[Clause, ...]
    disagreement: float | None = None
    """Fail whatever differs from the old model on a larger share of rows; None: never."""
    passes: int | None = None
    """How many models may pass before the one that closes the test set; None: any number."""

    def __post_init__(self) -> None:
        if not 1 <= len(self.clauses) <= MAX_CLAUSES:
            raise invalid("question", f"{len(self.clauses)} clauses", f"1 to {MAX_CLAUSES}")
        if self.passes is not None:
            whole("passes", self.passes, at_least=0)
        if self.disagreement is not None:
            finite("disagreement", self.disagreement)
            if not 0 < self.disagreement < 1:
                raise invalid("disagreement", self.disagreement, "a share between 0 and 1")
            if not self.compares:
                raise invalid("disagreement", self.disagreement, 'only with "n - o"')
        for clause in self.clauses:
            if clause.variable is Variable.CHANGE and clause.needed >= self.most:
                raise invalid("disagreement", float(self.most), f"too small to pass {clause}")

    @classmethod
    def parse(
        cls,
        text: str,
        *,
        disagreement: float | None = None,
        passes: int | None = None,
        tolerance: float | None = None,
    ) -> Self:
        """Read a condition, or "better", which is n - o > 0 and takes its tolerance from here."""
        if text.strip() == "better":
            if tolerance is None:
                raise invalid("tolerance", None, '"better" needs one, such as 0.01')
            return cls((Clause(Variable.CHANGE, True, 0.0, tolerance),), disagreement, passes)
        if tolerance is not None:
            raise invalid("tolerance", tolerance, "the condition has its own, after +/-")
        clauses = tuple(Clause.parse(part) for part in text.split("/\\"))
        return cls(clauses, disagreement, passes)

    @property
    def compares(self) -> bool:
        """Whether it asks for the difference to an old model."""
        return any(clause.variable is Variable.CHANGE for clause in self.clauses)

    @property
    def most(self) -> Fraction:
        """The largest share of rows on which a model that passes differs from the old one.

        A clause "d < A +/- eps" passes nothing that differs on A - eps or more.
        """
        limits = [Fraction(1), *(1 - c.needed for c in self.clauses if c.is_limit)]
        if self.disagreement is not None:
            limits.append(as_written(self.disagreement))
        return min(limits)

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
    def consistent(self) -> int | None:
        """Both answers, unless passes are counted: then other questions would be, too."""
        return 2 if self.passes is None else None

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
        if self.disagreement is not None:
            limit = at_most(self.disagreement)
            found.append(
                f"a model that differs from the old one on more than {limit} of the rows fails"
            )
        if self.passes is not None:
            closing = (
                f"pass number {self.passes + 1} closes" if self.passes else "the first pass closes"
            )
            found.append(f"{closing} the test set")
        return tuple(found)

    def work(self, size: int) -> float:
        """Add up what the clauses cost."""
        each = {Variable.CHANGE: 6 * differences.summed_rows(size)}
        return sum(each.get(clause.variable, 1_000.0) for clause in self.clauses)

    def log_models(self, steps: int) -> float:
        """Count the models that may pass wrongly."""
        return passing.log_models(steps, self.passes)

    def log_tail(self, size: int) -> float:
        """Return the largest tail of all clauses.

        A model is fixed before it is measured. It passes wrongly only if some clause is false, and
        then it must pass that one, too: the largest tail counts, not their sum.
        """
        return max(clause.log_tail(size, self.most, onwards=False) for clause in self.clauses)

    def log_tail_from(self, size: int) -> float:
        """Return the same for this size and all larger ones."""
        return max(clause.log_tail(size, self.most, onwards=True) for clause in self.clauses)

    def enough(self, nats: float) -> int:
        """By Chernoff's bound for the clause that needs most."""
        slowest = min(clause.rate(self.most) for clause in self.clauses)
        return math.ceil(nats * (1 + 1e-11) / slowest) + 1
