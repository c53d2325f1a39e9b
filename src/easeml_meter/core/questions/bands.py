"""Bands: how the gap of any score between validation set and test set is answered."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from easeml_meter.spec import Count, MeterSpec
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
