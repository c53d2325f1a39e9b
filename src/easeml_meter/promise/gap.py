"""The gap: how far the loss on the test set is from that on the validation set, in bands."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Annotated

import msgspec

from easeml_meter.errors import invalid
from easeml_meter.promise.bands import (
    band_of,
    default_edges,
    drawn_edges,
    expected_edges,
    most_bands,
)
from easeml_meter.promise.claims import Within
from easeml_meter.promise.questions import NO_READING, TOO_FEW, Asking, Measured, Promise, Shown
from easeml_meter.promise.samples import Loss
from easeml_meter.promise.schema import Exact, Exacts, Setting
from easeml_meter.promise.shapes import Answer, Climb, Flat, Shape

ABOVE, BELOW = "above-ceiling", "below-floor"
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
        return default_edges(self.tolerance[0]) if self.edges is None else self.edges

    @property
    def limit(self) -> Fraction | None:
        """The loss above which no band is told: the ceiling, or 1 minus the floor."""
        return 1 - self.floor if self.floor is not None else self.ceiling

    @property
    def merges(self) -> bool:
        """Whether edges near the ceiling are left out of an answer, and "above" is one of two."""
        return self.limit is not None and not self.worst

    def shape(self, loss: Loss) -> Shape:
        """Return what one truth leaves possible."""
        eps = self.tolerance[0]
        silent = int(loss.unsized)
        if self.drawn is not None:
            rho = expected_edges(eps, self.drawn)
            if self.worst:
                top = math.ceil(1 / self.drawn) + 1 if self.climbs is None else self.climbs + 1
                return Climb(top, 2, min(Fraction(1), rho), silent)
            return Flat(1 + rho + silent)
        edges = self.all_edges
        if self.worst:
            bands = most_bands(edges, self.tolerance)
            return Climb(len(edges) + 1, bands, silent=silent + (self.limit is not None))
        bands = most_bands(edges, self.tolerance[:1])
        if self.merges:
            averaged = loss.score is not None and loss.score.kind.averaged
            bands = bands + 1 if averaged else max(2, bands)
        return Flat(Fraction(bands + silent), len(edges) + 1 + silent + (self.limit is not None))

    def claims(self, loss: Loss) -> tuple[tuple[Within], ...]:
        """Return what is claimed at each height: one claim, but for unequal tolerances."""
        eps = self.tolerance if self.worst else self.tolerance[:1]
        return tuple((Within(each, self.limit, self.merges),) for each in eps)

    def scaled(self, factor: Fraction) -> Gap:
        """Return the same question with other tolerances."""
        scaled = Exacts(each * factor for each in self.tolerance)
        return msgspec.structs.replace(self, tolerance=scaled)

    def answer(self, told: int, rows: Measured, level: Fraction) -> Answer:
        """Return the band of the gap, or the worst so far; the level plays no part."""
        if rows.loss is None:
            return NO_READING
        if self.limit is not None and rows.loss > self.limit:
            return ABOVE if self.floor is None else BELOW
        validation = rows.shown.validation or Fraction(0)
        gap = rows.loss - validation
        gap = max(Fraction(0), gap) if self.signed else abs(gap)
        band = band_of(self.shown_edges(rows.shown), gap)
        return str(max(told, band) if self.worst else band)

    def shown_edges(self, shown: Shown) -> tuple[Fraction, ...]:
        """Return the edges of an answer: drawn ones, or those that no ceiling merges."""
        if self.drawn is not None and shown.first_edge is not None:
            return drawn_edges(shown.first_edge, self.drawn)
        if not self.merges or self.limit is None:
            return self.all_edges
        low, high = self.limit - 2 * self.tolerance[0], self.limit
        validation = shown.validation or Fraction(0)
        sides = (1,) if self.signed else (1, -1)
        return tuple(
            edge
            for edge in self.all_edges
            if not any(low <= validation + side * edge <= high for side in sides)
        )

    def promise(self, told: int, answer: Answer, shown: Shown) -> tuple[Promise, ...]:
        """Return the gap and the loss that an answer promises, widened by its tolerance."""
        if answer in (NO_READING, TOO_FEW):
            return ()
        if answer in (ABOVE, BELOW):
            if not self.merges or self.limit is None:
                return ()
            return (Promise("true loss", self.limit - self.tolerance[0], None),)
        ends = (Fraction(0), *self.shown_edges(shown), Fraction(1))
        band = int(answer)
        # A regular meter promises its first tolerance at every band: it is planned for that.
        eps = self.tolerance[min(band, len(self.tolerance) - 1)]
        at_most = min(Fraction(1), ends[band + 1] + eps)
        at_least = Fraction(0) if self.worst else max(Fraction(0), ends[band] - eps)
        validation = shown.validation or Fraction(0)
        low = Fraction(0) if self.signed and band == 0 else max(Fraction(0), validation - at_most)
        return (
            Promise("true gap", at_least, at_most),
            Promise("true loss", low, min(Fraction(1), validation + at_most)),
        )
