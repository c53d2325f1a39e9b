"""Conditions: "pass" says that every clause is true, such as "n > 0.8 +/- 0.01".

The number after "+/-" is a margin to plan with: a test set of the planned size passes what shows
it. At any size a clause is tested at the level of the answer, and a conjunction passes if each
clause does at that one level (Lemma T): a false one has a false clause, and must pass that.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import Annotated, ClassVar, Literal, NamedTuple

from easeml_meter.conditions import Clause as Part
from easeml_meter.conditions import Condition as Clauses
from easeml_meter.conditions import Difference, Variable, parse_question
from easeml_meter.errors import invalid
from easeml_meter.promise.bands import band_of, most_bands
from easeml_meter.promise.claims import ChangeWithin, Clause, Exceeds, Gains
from easeml_meter.promise.kernel import bars_of_change, least_wins
from easeml_meter.promise.questions import (
    TOO_FAR,
    Asking,
    Measured,
    Promise,
    Shown,
    Truth,
    check_losses,
    is_band,
)
from easeml_meter.promise.samples import Loss
from easeml_meter.promise.schema import Exact, Setting, exact
from easeml_meter.promise.shapes import Answer, Flat, Verdict, log_of

PASS, FAIL = "pass", "fail"


class Condition(Asking, frozen=True, kw_only=True):
    """Clauses that a model passes or fails."""

    ask: Annotated[str, Setting("clauses such as n > 0.8 +/- 0.01, joined by /\\")]
    disagreement: Annotated[
        Exact | None,
        Setting(
            "fail where exactly one of the two is right on more of the rows: fewer labels",
            above=0,
            below=1,
        ),
    ] = None
    than: Annotated[
        Literal["kept", "deployed"],
        Setting("which model o is: the deployed one, or the last one that passed"),
    ] = "deployed"
    form: ClassVar[Literal["tolerance", "level"]] = "level"
    verdict: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.clauses

    @property
    def text(self) -> str:
        """The clauses."""
        return str(self.clauses)

    @property
    def needs(self) -> frozenset[str]:
        """An old model, if a clause names one; labels, if any reads them."""
        about = {clause.variable for clause in self.clauses.clauses}
        old = ["old"] if about - {Variable.ACCURACY} else []
        return frozenset((*old, *(["labels"] if about - {Variable.DISAGREEMENT} else [])))

    @property
    def promotes(self) -> bool:
        """Whether people say which model is the old one."""
        return "old" in self.needs and self.than == "deployed"

    @property
    def most_apart(self) -> Fraction:
        """The largest share of rows on which a model that passes differs from the old one."""
        return Fraction(1) if self.disagreement is None else self.disagreement

    @property
    def clauses(self) -> Clauses:
        """The clauses, read."""
        limit = None if self.disagreement is None else float(self.disagreement)
        read = parse_question(self.ask, disagreement=limit)
        if not isinstance(read, Clauses):
            raise invalid("ask", self.ask, "clauses such as n > 0.8 +/- 0.01")
        return read

    def shape(self, loss: Loss) -> Verdict:
        """A false claim leads on by "fail" alone."""
        return Verdict()

    def claims(self, loss: Loss) -> tuple[tuple[Clause, ...], ...]:
        """One claim, of several clauses."""
        read, most = self.clauses, self.clauses.most
        found: list[Clause] = []
        for clause in read.clauses:
            margin = clause.needed - clause.share
            if clause.variable is not Variable.CHANGE:
                found.append(Exceeds(clause.share, margin))
            else:
                found.append(Gains(clause.share, margin, most))
        return (tuple(found),)

    def answers(self, told: int) -> tuple[Answer, ...]:
        """List both answers, the more usual one first."""
        return (FAIL, PASS)

    def answer(self, told: int, rows: Measured, level: Fraction) -> Answer:
        """Pass if the rows reject, at this level, that any clause is false."""
        if rows.loss is None:
            return FAIL
        check_losses(Fraction(0), rows.loss)
        n = rows.shown.rows
        bars = self.bars(n, level)
        if bars.most_apart is not None and rows.apart > bars.most_apart:
            return FAIL
        kept = [
            _reaches(clause, rows, bar)
            for clause, bar in zip(self.clauses.clauses, bars.clauses, strict=True)
        ]
        return PASS if all(kept) else FAIL

    def bars(self, rows: int, level: Fraction) -> Bars:
        """Return what passes, of public numbers alone: before a hidden row is read."""
        return _bars(self, rows, level)

    def promise(self, answer: Answer, shown: Shown) -> tuple[Promise, ...]:
        """Return the bounds that the clauses of a pass name."""
        if answer != PASS:
            return ()
        of = {Variable.CHANGE: "true n - o", Variable.DISAGREEMENT: "true disagreement"}
        found = []
        for variable in Variable:
            parts = [each for each in self.clauses.clauses if each.variable is variable]
            low = max((exact(each.threshold) for each in parts if each.above), default=None)
            high = min((exact(each.threshold) for each in parts if not each.above), default=None)
            if variable is Variable.ACCURACY:
                low, high = (None if each is None else 1 - each for each in (high, low))
            if parts:
                found.append(Promise(of.get(variable, "true loss"), low, high))  # type: ignore[arg-type]
        return tuple(found)

    def truth(self, rows: Measured, level: Fraction) -> Truth:
        """Return whether these rows pass."""
        return Truth(passed=self.answer(0, rows, level) == PASS)


class Bars(NamedTuple):
    """What passes at one level: a bar for each clause, and how far apart two models may be.

    A bar is the least count of rows that speak for the clause, or of n - o the least wins for every
    number of disputed rows, or the least wins minus losses where a limit is announced. None: no
    count will do.
    """

    clauses: tuple[int | tuple[int | None, ...] | None, ...]
    most_apart: int | None


@lru_cache(maxsize=64)
def _bars(question: Condition, rows: int, level: Fraction) -> Bars:
    clauses = question.clauses.clauses
    found: list[int | tuple[int | None, ...] | None] = []
    apart = None if question.disagreement is None else math.floor(question.disagreement * rows)
    least = [least_wins(rows, level, each.share) for each in clauses if each.is_limit]
    limits = [rows - bar for bar in least if bar is not None]
    if apart is not None:
        limits.append(apart)
    for clause in clauses:
        if clause.variable is not Variable.CHANGE:
            found.append(least_wins(rows, level, clause.share))
        elif limits:
            from easeml_meter.promise.numbers.differences import least_gain

            found.append(least_gain(rows, clause.share, min(limits), log_of(level)))
        else:
            found.append(bars_of_change(rows, clause.share, level))
    return Bars(tuple(found), apart)


def _reaches(clause: Part, rows: Measured, bar: int | tuple[int | None, ...] | None) -> bool:
    """Whether the rows are at the bar of a clause."""
    n = rows.shown.rows
    if clause.variable is Variable.CHANGE:
        wins, losses = (rows.wins, rows.losses) if clause.above else (rows.losses, rows.wins)
        if isinstance(bar, tuple):
            least = bar[wins + losses]
            return least is not None and wins >= least
        return bar is not None and wins - losses >= bar
    count = rows.differing if clause.variable is Variable.DISAGREEMENT else n - rows.errors
    count = count if clause.above else n - count
    return isinstance(bar, int) and count >= bar


class Change(Asking, frozen=True, kw_only=True):
    """A reading of n - o: between which of a few edges it lies."""

    ask: Annotated[str, Setting("such as n - o at -0.02, 0, 0.02 +/- 0.01")]
    disagreement: Annotated[
        Exact,
        Setting('"too-far" where exactly one is right on more of the rows', above=0, most=1),
    ]

    reads: ClassVar[str] = "n - o"

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.read

    @property
    def text(self) -> str:
        """The edges and the tolerance."""
        return str(self.read)

    @property
    def ends(self) -> tuple[Fraction, ...]:
        """Where bands begin, and where the last one ends."""
        return (Fraction(-1), *self.edges, Fraction(1))

    @property
    def tolerances(self) -> tuple[Fraction, ...]:
        """The same for each band."""
        return (self.tolerance,) * self.rungs

    @property
    def needs(self) -> frozenset[str]:
        """An old model."""
        return frozenset(("old", "labels"))

    @property
    def promotes(self) -> bool:
        """People say which model is the old one."""
        return True

    @property
    def most_apart(self) -> Fraction:
        """The largest share of rows on which a model with a reading differs from the old one."""
        return self.disagreement

    @property
    def read(self) -> Difference:
        """The reading as it is understood."""
        limit = float(self.disagreement) if self.disagreement < 1 else None
        read = parse_question(self.ask, disagreement=limit)
        if not isinstance(read, Difference):
            raise invalid("ask", self.ask, 'a reading such as "n - o at -0.02, 0, 0.02 +/- 0.01"')
        return read

    @property
    def tolerance(self) -> Fraction:
        """How far an answer may be off."""
        return exact(self.read.tolerance)

    @property
    def edges(self) -> tuple[Fraction, ...]:
        """Between which n - o is told to lie."""
        return tuple(map(exact, self.read.edges))

    def shape(self, loss: Loss) -> Flat:
        """The bands that one difference can be told as, and "too far"."""
        moved = tuple((edge + 1) / 2 for edge in self.edges)
        return Flat(Fraction(most_bands(moved, (self.tolerance / 2,)) + 1), len(self.edges) + 2)

    def claims(self, loss: Loss) -> tuple[tuple[ChangeWithin], ...]:
        """One claim."""
        return ((ChangeWithin(self.tolerance, self.disagreement),),)

    def answers(self, told: int) -> tuple[Answer, ...]:
        """List the bands, and what is said of models that are unlike the old one."""
        return (*(str(band) for band in range(1, len(self.edges) + 2)), TOO_FAR)

    def answer(self, told: int, rows: Measured, level: Fraction) -> Answer:
        """Return the band of n - o."""
        n = rows.shown.rows
        if rows.loss is None or rows.apart > self.disagreement * n:
            return TOO_FAR
        return str(band_of(self.edges, Fraction(rows.wins - rows.losses, n)))

    def range_of(self, answer: Answer, shown: Shown) -> tuple[Fraction, Fraction] | None:
        """Return the edges of n - o that an answer tells; None without a reading."""
        if not is_band(answer):
            return None
        ends = (Fraction(-1), *self.edges, Fraction(1))
        return ends[int(answer) - 1], ends[int(answer)]

    def tolerance_of(self, answer: Answer) -> Fraction | None:
        """Return the tolerance of an answer; None without a reading."""
        return self.tolerance if is_band(answer) else None

    def promise(self, answer: Answer, shown: Shown) -> tuple[Promise, ...]:
        """Return the band, widened by the tolerance."""
        told = self.range_of(answer, shown)
        if told is None:
            return ()
        low, high = told[0] - self.tolerance, told[1] + self.tolerance
        return (Promise("true n - o", max(Fraction(-1), low), min(Fraction(1), high)),)

    def truth(self, rows: Measured, level: Fraction) -> Truth:
        """Return the band of n - o; none where the two are too far apart."""
        answer = self.answer(0, rows, level)
        return Truth(int(answer) if is_band(answer) else None)
