"""What questions have in common: what is measured of a model, and what an answer promises."""

from __future__ import annotations

from fractions import Fraction
from typing import ClassVar, Literal, NamedTuple

from easeml_meter.conditions import Comparison
from easeml_meter.errors import invalid
from easeml_meter.promise.schema import Settings

NO_READING, TOO_FEW, TOO_FAR = "no-reading", "too-few", "too-far"
BASELINE = "baseline"
"""The model that others are compared with: a link of the log, which is free."""


class Shown(NamedTuple):
    """What of a submission its developers may know before they are answered."""

    rows: int
    validation: Fraction | None = None
    validation_rows: int | None = None
    first_edge: Fraction | None = None


class Measured(NamedTuple):
    """What was measured of a model on hidden rows: nobody sees it.

    Attributes:
        shown: What is public of it.
        loss: On the test set; None: the model failed on it.
        errors: Rows that are wrong, where each is right or wrong.
        wins: Rows that it gets right and the old model wrong.
        losses: The other way round.
        differing: Rows for which the two predict different things.
        unlabeled: Whether only labels of rows that differ are known, so that these are counted.
        few: Whether too few rows are predicted positive for a score of them.
    """

    shown: Shown
    loss: Fraction | None
    errors: int = 0
    wins: int = 0
    losses: int = 0
    differing: int = 0
    unlabeled: bool = False
    few: bool = False

    @property
    def apart(self) -> int:
        """Rows that count towards how far the two models are apart."""
        return self.differing if self.unlabeled else self.wins + self.losses


def measured_of(shown: Shown, loss: Fraction | None, beside: Comparison | None = None) -> Measured:
    """Return what was measured of a model, and beside the old one if it was compared."""
    errors = 0 if loss is None else round(loss * shown.rows)
    both = Comparison() if beside is None else beside
    return Measured(shown, loss, errors, both.gained, both.lost, both.differing)


class Promise(NamedTuple):
    """One number range that an answer promises, at the level it was given."""

    of: Literal["true loss", "true gap", "true n - o", "true disagreement"]
    at_least: Fraction | None
    at_most: Fraction | None


class Asking(Settings, frozen=True, kw_only=True):
    """What may be asked of every question; in the usual form, it is about one model, in bands."""

    form: ClassVar[Literal["tolerance", "level"]] = "tolerance"
    """Whether the tolerance of an answer is fixed, or the level that a claim is tested at."""
    verdict: ClassVar[bool] = False
    """Whether an answer is yes or no, and has no height."""
    vouches: ClassVar[bool] = False
    """Whether ok says that the test set vouches for the loss on the validation set."""
    reads: ClassVar[str] = ""
    """What an answer is a band of: "gap" or "n - o"; empty: of nothing."""
    draws: ClassVar[Fraction | None] = None
    """How far apart the edges are that are drawn for every answer; none: no edges are."""
    climbs_only: ClassVar[bool] = False
    """Whether an answer is about the worst model so far."""
    merges: ClassVar[bool] = False
    """Whether edges near a ceiling are left out of an answer, which then reaches over more."""
    one_sided: ClassVar[bool] = False
    """Whether a model that is better on the test set has no gap."""

    limit: ClassVar[Fraction | None] = None
    """The loss above which nothing else is told; none: there is no such loss."""

    @property
    def text(self) -> str:
        """What is asked, as it is written."""
        return type(self).__name__.lower()

    @property
    def ends(self) -> tuple[Fraction, ...]:
        """Where bands begin, and where the last one ends; nothing without bands."""
        return ()

    @property
    def rungs(self) -> int:
        """How many bands have edges that all answers share."""
        return max(0, len(self.ends) - 1)

    @property
    def tolerances(self) -> tuple[Fraction, ...]:
        """How far a reading may be off, for each band."""
        return ()

    @property
    def needs(self) -> frozenset[str]:
        """What an answer needs beside the test set: "validation", "old", "labels"."""
        return frozenset(("validation", "labels"))

    @property
    def promotes(self) -> bool:
        """Whether people say which model the next ones are compared with."""
        return False

    @property
    def most_apart(self) -> Fraction:
        """The largest share of rows on which a model that is answered differs from the old one."""
        return Fraction(1)

    def range_of(self, answer: str, shown: Shown) -> tuple[Fraction, Fraction] | None:
        """Return the edges that an answer tells; None without a reading."""
        return None

    def tolerance_of(self, answer: str) -> Fraction | None:
        """Return the tolerance of an answer; None without a reading."""
        return None

    @property
    def numbered(self) -> bool:
        """Whether the number of a band means something: its edges are those of every answer."""
        return self.draws is None


class Truth(NamedTuple):
    """What released rows show of an answer: the band of a reading, or whether a claim held."""

    band: int | None = None
    passed: bool | None = None


def is_band(answer: str) -> bool:
    """Whether an answer is the number of a band, from 1."""
    return answer.isdecimal()


def check_losses(validation: Fraction | None, loss: Fraction) -> None:
    """Refuse what is no loss: each alone, as how far they are apart tells something."""
    if validation is None or not 0 <= validation <= 1:
        raise invalid("validation loss", validation, "a loss from 0 to 1")
    if not 0 <= loss <= 1:
        raise invalid("test loss", "(hidden)", "a loss from 0 to 1")
