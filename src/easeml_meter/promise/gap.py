"""The gap: how far the loss on the test set is from that on the validation set, in bands."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Annotated, ClassVar

import msgspec

from easeml_meter.errors import invalid
from easeml_meter.promise.bands import default_edges, expected_edges, most_bands
from easeml_meter.promise.claims import Within
from easeml_meter.promise.questions import (
    NO_READING,
    TOO_FEW,
    Asking,
    Measured,
    Promise,
    Shown,
    Truth,
    check_losses,
    is_band,
)
from easeml_meter.promise.samples import Loss
from easeml_meter.promise.schema import Exact, Exacts, Setting
from easeml_meter.promise.shapes import Answer, Climb, Flat, Shape

ABOVE, BELOW = "above-ceiling", "below-floor"
ONE = Fraction(1)
Ends = Callable[[Fraction, Fraction, Fraction], tuple[Fraction, Fraction]]
"""From the ends of a test loss, and a tolerance, to those of the true one."""
_SMALLEST = Fraction(1, 10**6)


class Gap(Asking, frozen=True, kw_only=True):
    """The paper's question: in which band the gap lies, each answer within a tolerance."""

    tolerance: Annotated[
        Exacts,
        Setting("how far an answer may be off; a list: one for each band, not falling", above=0),
    ] = Exacts((Fraction(1, 100),))
    edges: Annotated[
        tuple[Exact, ...] | None,
        Setting("where bands begin; none: from the tolerance", above=0, below=1),
    ] = None
    drawn: Annotated[
        Exact | None,
        Setting(
            "draw the edges of every answer, this far apart", least=Fraction(1, 10_000), most=1
        ),
    ] = None
    worst: Annotated[bool, Setting("tell the worst band so far, not this model's")] = False
    climbs: Annotated[
        int | None, Setting('with "worst" and "drawn": so many rises and no more', least=1)
    ] = None
    signed: Annotated[bool, Setting("a model that is better on the test set has no gap")] = False
    ceiling: Annotated[
        Exact | None, Setting("tell no band for a loss above this", above=0, below=1)
    ] = None
    floor: Annotated[
        Exact | None, Setting("tell no band for a score below this", above=0, below=1)
    ] = None
    reads: ClassVar[str] = "gap"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.tolerance[0] < _SMALLEST or self.tolerance[0] >= 1:
            raise invalid("tolerance", float(self.tolerance[0]), "0.000001 to below 1")
        if list(self.tolerance) != sorted(self.tolerance):
            raise invalid("tolerance", list(map(float, self.tolerance)), "numbers that do not fall")
        edges = self.edges or ()
        if list(edges) != sorted(set(edges)):
            raise invalid("edges", list(map(float, edges)), "edges must rise, such as 0.1, 0.2")
        if len(self.tolerance) > 1 and len(self.tolerance) != len(self.all_edges) + 1:
            raise invalid("tolerance", len(self.tolerance), f"one, or {len(self.all_edges) + 1}")
        for name in ("climbs", "edges"):
            if self.drawn is None and name == "climbs" and self.climbs is not None:
                raise invalid("climbs", self.climbs, 'only with "drawn" and "worst"')
        if self.drawn is not None:
            self._check_drawn(edges)
        if self.ceiling is not None and self.floor is not None:
            raise invalid("floor", float(self.floor), "either a floor or a ceiling")

    def _check_drawn(self, edges: tuple[Fraction, ...]) -> None:
        if edges or len(self.tolerance) > 1:
            raise invalid("drawn", float(self.drawn or 0), "one tolerance and no edges of its own")
        if self.ceiling is not None or self.floor is not None:
            limit = self.ceiling or self.floor or 0
            raise invalid("ceiling", float(limit), "no lemma for drawn edges under a limit")
        if self.climbs is not None and not self.worst:
            raise invalid("climbs", self.climbs, 'only with "worst"')

    @property
    def draws(self) -> Fraction | None:  # type: ignore[override]
        """How far apart drawn edges are."""
        return self.drawn

    @property
    def climbs_only(self) -> bool:  # type: ignore[override]
        """Whether an answer is about the worst model so far."""
        return self.worst

    @property
    def one_sided(self) -> bool:  # type: ignore[override]
        """Whether a model that is better on the test set has no gap."""
        return self.signed

    @property
    def all_edges(self) -> tuple[Fraction, ...]:
        """The edges in force; drawn ones come with each answer."""
        if self.drawn is not None:
            return ()
        if self.edges is not None:
            return self.edges
        edges = default_edges(self.tolerance[0])
        return edges[:1] if self.worst else edges  # of the worst so far, each costs labels

    @property
    def ends(self) -> tuple[Fraction, ...]:
        """Where bands begin, and where the last one ends."""
        return (Fraction(0), *self.all_edges, Fraction(1))

    @property
    def tolerances(self) -> tuple[Fraction, ...]:
        """That of each band."""
        return tuple(self.tolerance) * (self.rungs if len(self.tolerance) == 1 else 1)

    @property
    def limit(self) -> Fraction | None:  # type: ignore[override]
        """The loss above which no band is told: the ceiling, or 1 minus the floor."""
        return 1 - self.floor if self.floor is not None else self.ceiling

    @property
    def merges(self) -> bool:  # type: ignore[override]
        """Whether edges near the ceiling are left out of an answer, and "above" is one of two."""
        return self.limit is not None and not self.worst

    @property
    def possible(self) -> int:
        """How many bands of fixed edges one truth can be told as."""
        return most_bands(self.all_edges, self.tolerance if self.worst else self.tolerance[:1])

    def shape(self, loss: Loss, possible: int | None = None) -> Shape:
        """Return what one truth leaves possible; `possible` bands, where a tolerance is sought."""
        eps = self.tolerance[0]
        silent = int(loss.unsized)
        if self.drawn is not None:
            rho = expected_edges(eps, self.drawn)
            if self.worst:
                top = math.ceil(1 / self.drawn) + 1 if self.climbs is None else self.climbs + 1
                return Climb(top, 2, min(Fraction(1), rho), silent)
            return Flat(1 + rho + silent)
        edges, bands = self.all_edges, self.possible if possible is None else possible
        if self.worst:
            return Climb(len(edges) + 1, bands, silent=silent + (self.limit is not None))
        if self.merges:
            averaged = loss.score is not None and loss.score.kind.averaged
            bands = bands + 1 if averaged else max(2, bands)
        elif self.limit is not None:  # "above" may come whatever the truth is
            bands += 1
        return Flat(Fraction(bands + silent), len(edges) + 1 + silent + (self.limit is not None))

    def claims(self, loss: Loss) -> tuple[tuple[Within], ...]:
        """Return what is claimed at each height: one claim, but for unequal tolerances."""
        eps = self.tolerance if self.worst else self.tolerance[:1]
        return tuple((Within(each, self.limit, self.merges),) for each in eps)

    def scaled(self, factor: Fraction) -> Gap:
        """Return the same question with other tolerances."""
        scaled = Exacts(each * factor for each in self.tolerance)
        return msgspec.structs.replace(self, tolerance=scaled)

    @property
    def beyond(self) -> Answer:
        """The answer to a loss above the ceiling; of a score, that is below its floor."""
        return ABOVE if self.floor is None else BELOW

    @property
    def bands(self) -> int:
        """How many bands there are."""
        edges = len(self.all_edges) if self.drawn is None else math.ceil(1 / self.drawn)
        return edges + 1

    def answers(self, told: int) -> tuple[Answer, ...]:
        """List the answers that may come next, the most usual one first."""
        bands = map(str, range(1 + (told if self.worst else 0), self.bands + 1))
        return (*bands, *([self.beyond] if self.limit is not None else []))

    def answer(self, told: int, rows: Measured, level: Fraction) -> Answer:
        """Return the band of the gap, or the worst so far; the level plays no part."""
        if rows.few:
            return TOO_FEW
        if rows.loss is None:
            return NO_READING
        check_losses(rows.shown.validation, rows.loss)
        if self.limit is not None and rows.loss > self.limit:
            return self.beyond
        band = self.band(rows)
        return str(max(told + 1, band) if self.worst else band)

    def band(self, rows: Measured) -> int:
        """Return the number of the band of a gap, from 1: the lower edge in, the upper one out."""
        loss, validation = rows.loss or Fraction(0), rows.shown.validation or Fraction(0)
        gap = max(Fraction(0), loss - validation) if self.signed else abs(loss - validation)
        if self.drawn is None:
            shown = (number for number, edge in self._numbered(rows.shown) if edge <= gap)
            return max(shown, default=1)
        first = _drawn(rows.shown)
        last = math.ceil((1 - first) / self.drawn) + 1
        return min(last, math.floor((gap - first) / self.drawn) + 2)

    def _numbered(self, shown: Shown) -> list[tuple[int, Fraction]]:
        """Return the fixed edges of an answer, with the numbers of the bands that they begin.

        An edge e cuts test losses at v - e and v + e. Where one of them is within two tolerances
        below the ceiling, the edge is dropped on both sides: on one side alone, three answers could
        come. The validation loss v is known, so a missing edge tells nothing.
        """
        edges = list(enumerate(self.all_edges, 2))
        if not self.merges or self.limit is None or shown.validation is None:
            return edges
        low, high = self.limit - 2 * self.tolerance[0], self.limit
        sides = (1,) if self.signed else (1, -1)
        return [
            (number, edge)
            for number, edge in edges
            if not any(low <= shown.validation + side * edge <= high for side in sides)
        ]

    def range_of(self, answer: Answer, shown: Shown) -> tuple[Fraction, Fraction] | None:
        """Return the edges of the gap that an answer tells; None without a reading.

        The worst band so far has an upper edge only: it may be another model's.
        """
        if not is_band(answer):
            return None
        band, lower, upper = int(answer), Fraction(0), Fraction(1)
        if self.drawn is not None:
            first = _drawn(shown)
            upper = min(upper, first + (band - 1) * self.drawn)
            if band > 1:
                lower = max(lower, first + (band - 2) * self.drawn)
        else:
            edges = self._numbered(shown)
            upper = next((edge for number, edge in edges if number > band), upper)
            if band > 1 and not self.worst:
                lower = self.all_edges[band - 2]
        return (Fraction(0) if self.worst else lower), upper

    def tolerance_of(self, answer: Answer) -> Fraction | None:
        """Return the tolerance of an answer; None without a reading."""
        if not is_band(answer):
            return None
        return self.tolerance[min(int(answer), len(self.tolerance)) - 1]

    @property
    def least_above(self) -> Fraction | None:
        """The least true loss that "above the ceiling" promises; None if it promises nothing."""
        if self.limit is None or not self.merges:
            return None
        return max(Fraction(0), self.limit - self.tolerance[0])

    def side(self, answer: Answer, shown: Shown) -> int:
        """Return 1 if the test loss must be above the validation loss, -1 if below, 0 if unknown.

        A distance has no sign, but losses lie between 0 and 1, or the ceiling: a gap may have room
        on one side only.
        """
        told, validation = self.range_of(answer, shown), shown.validation
        if told is None or validation is None or told[0] == 0:
            return 0
        if self.signed or validation < told[0]:
            return 1
        return -1 if validation + told[0] > self._highest else 0

    @property
    def _highest(self) -> Fraction:
        """The largest test loss that gets a reading."""
        return Fraction(1) if self.limit is None else self.limit

    def promise(self, answer: Answer, shown: Shown, ends: Ends) -> tuple[Promise, ...]:
        """Return the gap and the loss that an answer promises.

        `ends` are those of the true loss, where the test loss lies in a range and is told to so
        much: within the tolerance, and within the exact interval at the size delivered.
        """
        if answer == self.beyond:
            above = self.least_above
            return () if above is None else (Promise("true loss", above, None),)
        told, eps = self.range_of(answer, shown), self.tolerance_of(answer)
        if told is None or eps is None:
            return ()
        validation = shown.validation
        if validation is None:
            return (Promise("true gap", max(Fraction(0), told[0] - eps), min(ONE, told[1] + eps)),)
        lower, upper = told
        side = self.side(answer, shown)
        # The test loss lies above the validation loss, below it, or on one of both sides.
        low, high = ends(validation + lower, validation + upper, eps)
        below, nearly = ends(validation - upper, validation - lower, eps)
        highest = ends(validation, min(validation + upper, self._highest), eps)[1]
        over = (low - validation, high - validation)
        under = (validation - nearly, validation - below)
        gaps = (min(over[0], under[0]), max(over[1], under[1]))
        if side or self.signed:
            gaps = under if side < 0 else over
        least: Fraction | None = max(Fraction(0), low if side > 0 else below)
        if side <= 0 and (self.worst or self.signed):
            least = None
        return (
            Promise("true gap", max(Fraction(0), gaps[0]), min(ONE, gaps[1])),
            Promise("true loss", least, min(ONE, nearly if side < 0 else highest)),
        )

    def truth(self, rows: Measured, level: Fraction) -> Truth:
        """Return the band of the gap itself, whatever was told."""
        return Truth(self.band(rows))


class Unmerged(Gap, frozen=True, kw_only=True):
    """A gap whose bands are remembered: its ceiling merges none, and promises nothing."""

    merges = False


def _drawn(shown: Shown) -> Fraction:
    if shown.first_edge is None:
        raise AssertionError("the edges of an answer are needed, and it has none")
    return shown.first_edge
