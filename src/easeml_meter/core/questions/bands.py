"""Bands: how the gap of any score between validation set and test set is answered."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Self

from easeml_meter.checks import finite, listed
from easeml_meter.errors import invalid
from easeml_meter.spec import Count, MeterSpec, default_edges
from easeml_meter.stats.draws import expected_edges
from easeml_meter.stats.feedback import possible_bands


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
            count=Count.CONSISTENT,
            drawn=self.drawn,
        )

    @property
    def consistent(self) -> Fraction:
        """How many bands can be told of one model while no promise is broken, on average."""
        spec = self.spec()
        return possible_bands(spec) + expected_edges(spec)

    @property
    def answers(self) -> tuple[str, ...]:
        """The bands by name."""
        if self.drawn is not None:
            return (f"a band {self.drawn:g} wide, with edges drawn for this answer",)
        return tuple(f"band {number}" for number in range(1, self.signals + 1))
