"""Bands: how the gap of any score between validation set and test set is answered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self, cast

import msgspec

from easeml_meter.checks import finite, listed
from easeml_meter.core.questions.question import Question
from easeml_meter.errors import invalid
from easeml_meter.promise.assumptions import BLIND_VALIDATION, DRAWN_EDGES
from easeml_meter.promise.gap import Gap
from easeml_meter.promise.schema import exact
from easeml_meter.spec import MeterSpec, default_edges

TOO_FEW = "too few predicted positives"
"""What is said of a model that predicts fewer positives than its precision is counted of."""
TOO_FEW_EXCUSED = f' (or is reported as "{TOO_FEW}", which promises nothing)'
"""The same as part of a promise."""
BELOW_FLOOR = "below the floor"
LOSS_GAP = "the gap between validation loss and test loss"
JUDGED_GAP = f"{LOSS_GAP}, with a judge"
"""What is asked where a judge stands in for most labels."""


def score_gap(word: str, *, curve: bool = False) -> str:
    """Say what is asked of a score of the whole test set."""
    if curve:
        return "the distance of a model's ROC curves on validation and test set"
    return f"the gap between validation and test set in {word}"


@dataclass(frozen=True)
class Bands:
    """A few ranges of gaps with one tolerance: fixed edges, or edges drawn for every answer."""

    tolerance: float
    signals: int = 5
    edges: tuple[float, ...] | None = None
    """The inner edges; None: equal bands."""
    drawn: float | None = None
    """The distance of edges that are drawn for every answer; None: fixed edges."""

    def __post_init__(self) -> None:
        self.spec()

    @classmethod
    def asked(cls, given: dict[str, Any]) -> Self:
        """Take the bands out of options; by default, they are those of a meter.

        Raises:
            InvalidInput: No tolerance is given, or what is given makes no bands.
        """
        tolerance = given.pop("tolerance", None)
        if tolerance is None:
            raise invalid("tolerance", None, "give one, such as 0.01")
        finite("tolerance", tolerance)
        edges = given.pop("edges", None)
        if edges is not None:
            edges = listed("edges", edges)
        elif not {"signals", "drawn"} & set(given):
            edges = default_edges(tolerance)
        signals = given.pop("signals", 5 if edges is None else len(edges) + 1)
        return cls(tolerance, signals, edges, given.pop("drawn", None))

    def spec(self) -> MeterSpec:
        """Return a meter with these bands; a few of its rules are asked for them."""
        return MeterSpec.uniform(
            signals=self.signals,
            tolerance=self.tolerance,
            edges=self.edges,
            steps=1,
            delta=0.5,
            drawn=self.drawn,
        )

    def gap(self, floor: float | None = None) -> Gap:
        """Return the question that is asked in these bands."""
        gap = self.spec().meter.question
        if not isinstance(gap, Gap):
            raise AssertionError("bands are of a gap")
        return gap if floor is None else msgspec.structs.replace(gap, floor=exact(floor))

    @property
    def tolerances(self) -> tuple[float, ...]:
        """That of each band, as a meter has them."""
        return self.spec().tolerances

    def with_tolerances(self, tolerances: Sequence[float]) -> Self:
        """Return the same bands with another tolerance, which is one for all."""
        return replace(self, tolerance=tolerances[0])

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What the count of consistent histories rests on, whatever is read in bands."""
        return (BLIND_VALIDATION, *([DRAWN_EDGES] if self.drawn is not None else []))

    @property
    def answers(self) -> tuple[str, ...]:
        """The bands by name."""
        if self.drawn is not None:
            return (f"a band {self.drawn:g} wide, with edges drawn for this answer",)
        return tuple(f"band {number}" for number in range(1, self.signals + 1))


class InBands(Question):
    """A question that is answered in bands with one tolerance, which can be asked for."""

    bands: Bands
    has_bands = True

    @property
    def tolerance(self) -> float:
        """That of the bands."""
        return self.bands.tolerance

    @property
    def tolerances(self) -> tuple[float, ...]:
        """The same for each of them."""
        return self.bands.tolerances

    def with_tolerances(self, tolerances: Sequence[float]) -> Self:
        """Return the question with another tolerance."""
        bands = self.bands.with_tolerances(tolerances)
        # Each kind is a dataclass, with its fields in an order of its own.
        return cast(Self, replace(cast(Any, self), bands=bands))
