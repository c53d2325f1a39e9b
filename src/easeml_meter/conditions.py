"""Conditions that a model passes or fails: "n > 0.8 +/- 0.01", in the language of ease.ml/ci.

"n - o at -0.02, 0, 0.02 +/- 0.01" is no condition, but a reading: between which of these edges the
difference lies.

n is the accuracy of the new model, o that of an old one, d the share of rows on which they differ.
A condition is one clause or several with `/\\` between them.
"""

from __future__ import annotations

import itertools
import re
from bisect import bisect_right
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import ClassVar, Self

from easeml_meter.checks import finite, whole
from easeml_meter.errors import invalid

MAX_CLAUSES = 20
"""Clauses of one condition: each costs the planner time, and nobody reads more."""
LONGEST = 2_000
"""Characters of a question, which anybody may send to a server."""
BETTER = "better"
"""Short for "n - o > 0", with o the last model that passed."""


def _tidy(text: str) -> str:
    """Return a text with one space at a time: patterns would try each of many in several roles.

    Raises:
        InvalidInput: it is too long.
    """
    if len(text) > LONGEST:
        raise invalid("question", text[:80], f"at most {LONGEST:,} characters")
    return " ".join(text.split())


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
_UNPROVED = {
    r"\*|(?:^|[-+]) ?[0-9.]+ ?[nod]\b": "no coefficients: a row then counts neither -1, 0 nor 1, "
    "and no tail here covers that. Ask for n - o, and for n in a clause of its own",
    r"^o ?[<>]": "nothing is asked of the old model alone: ask for n - o, or for n when it is new",
    r"^o ?- ?n\b": "write it the other way round, as n - o",
    r"\b[nod] ?\+ ?[nod]\b": "no sums: ask for each of them in a clause of its own",
    r"\\/": "no or: clauses are joined by /\\ (and) alone",
}
"""What conditions of ease.ml/ci may have and these do not, and why or what to write."""


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
        tidy = _tidy(text)
        for pattern, why in _UNPROVED.items():
            if re.search(pattern, tidy):
                raise invalid("question", text.strip(), why)
        found = _CLAUSE.fullmatch(tidy)
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
        threshold = _exactly(self.threshold)
        if self.above:
            return threshold
        return -threshold if self.variable is Variable.CHANGE else 1 - threshold

    @property
    def needed(self) -> Fraction:
        """What the test set has to show more than."""
        return self.share + _exactly(self.tolerance)

    @property
    def is_limit(self) -> bool:
        """Whether it limits how much a model differs from the old one."""
        return self.variable is Variable.DISAGREEMENT and not self.above

    def holds(self, value: Fraction) -> bool:
        """Whether a test set that shows this value of the variable passes it."""
        if self.above:
            return value > self.needed
        return (-value if self.variable is Variable.CHANGE else 1 - value) > self.needed


@dataclass(frozen=True)
class Condition:
    """Clauses that all have to hold."""

    clauses: tuple[Clause, ...]
    disagreement: float | None = None
    """Fail where exactly one of the two is right on a larger share of rows; None: never."""
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
        if text.strip() == BETTER:
            if tolerance is None:
                raise invalid("tolerance", None, '"better" needs one, such as 0.01')
            return cls((Clause(Variable.CHANGE, True, 0.0, tolerance),), disagreement, passes)
        if tolerance is not None:
            raise invalid("tolerance", tolerance, "the condition has its own, after +/-")
        clauses = tuple(Clause.parse(part) for part in text.split("/\\"))
        return cls(clauses, disagreement, passes)

    def __str__(self) -> str:
        return " /\\ ".join(str(clause) for clause in self.clauses)

    @property
    def compares(self) -> bool:
        """Whether it asks for the difference to an old model."""
        return any(clause.variable is Variable.CHANGE for clause in self.clauses)

    @property
    def needs_old(self) -> bool:
        """Whether it can be answered only beside an old model."""
        return any(clause.variable is not Variable.ACCURACY for clause in self.clauses)

    @property
    def reads_every_label(self) -> bool:
        """Whether it asks how accurate a model is by itself, also where it predicts as the old."""
        return any(clause.variable is Variable.ACCURACY for clause in self.clauses)

    @property
    def most(self) -> Fraction:
        """The largest share of rows on which a model that passes differs from the old one.

        A clause "d < A +/- eps" passes nothing that differs on A - eps or more.
        """
        limits = [Fraction(1), *(1 - c.needed for c in self.clauses if c.is_limit)]
        if self.disagreement is not None:
            limits.append(_exactly(self.disagreement))
        return min(limits)


_READING = re.compile(r"n\s*-\s*o\s+at\s+(?P<edges>[^/]+?)\s*\+/-\s*(?P<tolerance>\S+)")
_READING_FORM = 'such as "n - o at -0.02, 0, 0.02 +/- 0.01"'


@dataclass(frozen=True)
class Difference:
    """A reading of n - o: which two of a few edges it lies between."""

    edges: tuple[float, ...]
    tolerance: float
    disagreement: float | None = None
    """Answer "too far", and nothing else, if exactly one of the two is right on more rows."""

    needs_old: ClassVar[bool] = True
    compares: ClassVar[bool] = True

    def __post_init__(self) -> None:
        for value in (*self.edges, self.tolerance):
            finite("question", value)
        if not 1e-6 <= self.tolerance < 1:
            raise invalid("tolerance", self.tolerance, "at least 1e-06, and below 1")
        if not 1 <= len(self.edges) <= MAX_CLAUSES:
            raise invalid("question", str(self), f"1 to {MAX_CLAUSES} edges")
        apart = itertools.pairwise((-1.0, *self.edges, 1.0))
        if not all(lower < upper for lower, upper in apart):
            raise invalid(
                "question", str(self), "edges between -1 and 1, each above the one before"
            )
        if self.disagreement is not None:
            finite("disagreement", self.disagreement)
            if not 0 < self.disagreement < 1:
                raise invalid("disagreement", self.disagreement, "a share between 0 and 1")

    def __str__(self) -> str:
        edges = ", ".join(f"{edge:.15g}" for edge in self.edges)
        return f"n - o at {edges} +/- {self.tolerance:.15g}"

    @classmethod
    def parse(cls, text: str, disagreement: float | None = None) -> Self:
        """Read "n - o at -0.02, 0, 0.02 +/- 0.01"."""
        found = _READING.fullmatch(_tidy(text))
        try:
            if found is None:
                raise ValueError(text)
            edges = tuple(float(edge) for edge in found["edges"].split(","))
            return cls(edges, float(found["tolerance"]), disagreement)
        except ValueError:
            raise invalid("question", text.strip(), _READING_FORM) from None

    @property
    def most(self) -> Fraction:
        """The largest share of rows on which a model with a reading differs from the old one."""
        return Fraction(1) if self.disagreement is None else _exactly(self.disagreement)

    def band(self, change: Fraction) -> int:
        """Return the number of the band of a difference, from 1: lower edge in, upper edge out."""
        return 1 + bisect_right([_exactly(edge) for edge in self.edges], change)

    @property
    def possible(self) -> int:
        """How many bands can be told of one model while no promise is broken.

        A closed interval of two tolerances meets one band more than it has edges.
        """
        edges, reach = [_exactly(edge) for edge in self.edges], 2 * _exactly(self.tolerance)
        return 1 + max(sum(0 <= other - edge < reach for other in edges) for edge in edges)


ALARM = "alarm"
"""The question whether a model's true loss is at most its validation loss and g more."""


@dataclass(frozen=True)
class Vouching:
    """What an alarm asks: whether the test set vouches for the loss on the validation set."""

    needs_old: ClassVar[bool] = False
    compares: ClassVar[bool] = False

    def __str__(self) -> str:
        return ALARM


def parse_question(
    text: str,
    *,
    disagreement: float | None = None,
    passes: int | None = None,
    tolerance: float | None = None,
) -> Condition | Difference | Vouching:
    """Read a condition, a reading of n - o, or the word of an alarm."""
    if text.strip() == ALARM:
        for name, value in (("passes", passes), ("disagreement", disagreement)):
            if value is not None:
                raise invalid(name, value, "not with an alarm, which takes g and alarms")
        if tolerance is not None:
            raise invalid("tolerance", tolerance, "an alarm has none: say g, or nothing")
        return Vouching()
    if not re.match(r"n ?- ?o at\b", _tidy(text)):
        return Condition.parse(text, disagreement=disagreement, passes=passes, tolerance=tolerance)
    for name, value in (("passes", passes), ("tolerance", tolerance)):
        if value is not None:
            raise invalid(name, value, "not with a reading of n - o, which has its own after +/-")
    return Difference.parse(text, disagreement)


@dataclass(frozen=True)
class Comparison:
    """A model beside an old one on the same rows of a test set."""

    rows: int = 0
    gained: int = 0
    """Rows where the new one is right and the old one wrong."""
    lost: int = 0
    """Rows where it is the other way round."""
    differing: int = 0
    """Rows where they predict different things."""

    def __add__(self, other: Comparison) -> Comparison:
        return Comparison(
            self.rows + other.rows,
            self.gained + other.gained,
            self.lost + other.lost,
            self.differing + other.differing,
        )

    def value(self, variable: Variable) -> Fraction:
        """Return what a clause compares with its threshold."""
        if variable is Variable.CHANGE:
            return Fraction(self.gained - self.lost, self.rows)
        return Fraction(self.differing, self.rows)

    def apart(self, *, predictions: bool = False) -> Fraction:
        """Return the share of rows where one of the two is right and the other wrong.

        `predictions`: where they predict different things, which can be seen without labels.
        """
        return Fraction(self.differing if predictions else self.gained + self.lost, self.rows)


def _exactly(value: float) -> Fraction:
    """Return a number as its shortest decimal says it, without rounding."""
    return Fraction(repr(float(value)))
