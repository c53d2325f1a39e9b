"""Conditions: "pass" says that every clause is true, such as "n > 0.8 +/- 0.01".

The number after "+/-" is a margin to plan with: a test set of the planned size passes what shows
it. At any size a clause is tested at the level of the answer, and a conjunction passes if each
clause does at that one level (Lemma T): a false one has a false clause, and must pass that.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, ClassVar, Literal

from easeml_meter.conditions import Condition as Clauses
from easeml_meter.conditions import Difference, Variable, parse_question
from easeml_meter.errors import invalid
from easeml_meter.promise.bands import band_of, most_bands
from easeml_meter.promise.claims import ChangeWithin, Clause, Exceeds, Gains
from easeml_meter.promise.kernel import bar_better_by, bar_not_worse, least_wins
from easeml_meter.promise.questions import NO_READING, TOO_FAR, Asking, Measured, Promise, Shown
from easeml_meter.promise.samples import Loss
from easeml_meter.promise.schema import Exact, Setting, exact
from easeml_meter.promise.shapes import Answer, Flat, Verdict

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
    test: Annotated[
        Literal["clauses", "bets"], Setting("how n - o is tested; bets take scores, too")
    ] = "clauses"
    form: ClassVar[Literal["tolerance", "level"]] = "level"
    verdict: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.clauses

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

    def answer(self, told: int, rows: Measured, level: Fraction) -> Answer:
        """Pass if the rows reject, at this level, that any clause is false."""
        read, n = self.clauses, rows.shown.rows
        disputed = rows.wins + rows.losses
        limit = self.disagreement
        if rows.loss is None or (limit is not None and disputed > limit * n):
            return FAIL
        for clause in read.clauses:
            count, share = n - rows.errors, clause.share
            if clause.variable is Variable.CHANGE:
                count, bar = rows.wins, _bar_of_change(n, disputed, share, level)
            elif clause.variable is Variable.DISAGREEMENT:
                count = disputed if clause.above else n - disputed
                bar = least_wins(n, level, share)
            else:
                count = count if clause.above else rows.errors
                bar = least_wins(n, level, share)
            if bar is None or count < bar:
                return FAIL
        return PASS

    def promise(self, told: int, answer: Answer, shown: Shown) -> tuple[Promise, ...]:
        """Return the bounds that the clauses of a pass name."""
        if answer != PASS:
            return ()
        found = []
        for clause in self.clauses.clauses:
            threshold = exact(clause.threshold)
            low, high = (threshold, None) if clause.above else (None, threshold)
            if clause.variable is Variable.CHANGE:
                found.append(Promise("true n - o", low, high))
            elif clause.variable is Variable.ACCURACY:
                least = None if high is None else 1 - high
                most = None if low is None else 1 - low
                found.append(Promise("true loss", least, most))
        return tuple(found)


def _bar_of_change(n: int, disputed: int, change: Fraction, level: Fraction) -> int | None:
    """Return the least wins that show n - o > change, whatever the two disagree on."""
    if change == 0:
        return least_wins(disputed, level)
    if change < 0:
        return bar_not_worse(n, disputed, -change, level)
    return bar_better_by(n, disputed, change, level)


class Change(Asking, frozen=True, kw_only=True):
    """A reading of n - o: between which of a few edges it lies."""

    ask: Annotated[str, Setting("such as n - o at -0.02, 0, 0.02 +/- 0.01")]
    disagreement: Annotated[
        Exact,
        Setting('"too-far" where exactly one is right on more of the rows', above=0, most=1),
    ]

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.read

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

    def answer(self, told: int, rows: Measured, level: Fraction) -> Answer:
        """Return the band of n - o."""
        n = rows.shown.rows
        if rows.loss is None:
            return NO_READING
        if rows.wins + rows.losses > self.disagreement * n:
            return TOO_FAR
        return str(band_of(self.edges, Fraction(rows.wins - rows.losses, n)))

    def promise(self, told: int, answer: Answer, shown: Shown) -> tuple[Promise, ...]:
        """Return the band, widened by the tolerance."""
        if not answer.isdecimal():
            return ()
        ends = (Fraction(-1), *self.edges, Fraction(1))
        low, high = ends[int(answer)] - self.tolerance, ends[int(answer) + 1] + self.tolerance
        return (Promise("true n - o", max(Fraction(-1), low), min(Fraction(1), high)),)
