"""Fields of a form that hold numbers: read, or refused in one line that names the field."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from easeml_meter.errors import invalid

Number = TypeVar("Number", int, float)

MOST_STEPS, MOST_SIGNALS = 10_000, 20
"""What is answered in a blink; the command line takes more."""
MOST_WITH_CEILING = 1_000


def read(
    asked: Mapping[str, str], name: str, kind: Callable[[str], Number], allowed: str
) -> Number:
    """Read a field that must be filled."""
    try:
        return kind(asked[name])
    except (ValueError, OverflowError):
        raise invalid(name, asked[name], allowed) from None


def optional(
    asked: Mapping[str, str], name: str, kind: Callable[[str], Number], allowed: str
) -> Number | None:
    """Read a field that may be empty."""
    return read(asked, name, kind, f"{allowed}, or nothing") if asked[name] else None


def several(
    asked: Mapping[str, str], name: str, kind: Callable[[str], Number], allowed: str
) -> tuple[Number, ...]:
    """Read a field of numbers with commas between them; it may be empty."""
    if not asked[name]:
        return ()
    try:
        return tuple(kind(part) for part in asked[name].split(","))
    except (ValueError, OverflowError):
        raise invalid(name, asked[name], allowed) from None


def read_steps(asked: Mapping[str, str], more: str) -> int:
    """Read how many answers a meter gives; `more` says who plans larger ones."""
    steps = read(asked, "steps", int, "a whole number")
    if not 1 <= steps <= MOST_STEPS:
        raise invalid("steps", steps, f"1 to {MOST_STEPS:,} here; {more}")
    if asked["ceiling"] and steps > MOST_WITH_CEILING:
        raise invalid("steps", steps, f"1 to {MOST_WITH_CEILING:,} here with a ceiling; {more}")
    return steps


def read_delta(asked: Mapping[str, str]) -> float:
    """Read the confidence that people choose; return the delta that a meter has instead."""
    confidence = read(asked, "confidence", float, "a number between 0 and 1")
    if not 0 < confidence < 1:
        raise invalid("confidence", confidence, "a number between 0 and 1 (both excluded)")
    return round(1 - confidence, 15)  # 1 - 0.99 is 0.010000000000000009


@dataclass(frozen=True)
class BandFields:
    """The bands of a meter, as a form describes them."""

    signals: int | None
    tolerances: tuple[float, ...]
    edges: tuple[float, ...]

    @classmethod
    def read(cls, asked: Mapping[str, str], field: str, more: str) -> BandFields:
        """Read the fields; a refusal of too many bands is about `field`."""
        allowed = "one number, such as 0.05 for 5 %, or one for each band with commas between them"
        tolerances = several(asked, "tolerance", float, allowed)
        if not tolerances:
            raise invalid("tolerance", asked["tolerance"], allowed)
        edges = several(asked, "edges", float, "numbers with commas between them")
        signals = optional(asked, "signals", int, "a whole number")
        many = max(len(tolerances), len(edges) + 1) if signals is None else signals
        if not 1 <= many <= MOST_SIGNALS:
            raise invalid(field, many, f"1 to {MOST_SIGNALS} here; {more}")
        return cls(signals, tolerances, edges)

    @property
    def settings(self) -> dict[str, Any]:
        """What `MeterSpec.uniform` takes: one tolerance stands for all bands."""
        single = len(self.tolerances) == 1
        tolerance = self.tolerances[0] if single else self.tolerances
        return {"signals": self.signals, "tolerance": tolerance, "edges": self.edges or None}
