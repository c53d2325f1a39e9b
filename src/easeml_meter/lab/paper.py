"""How a number printed in the paper is compared with the value computed here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from easeml_meter.lab import verdicts
from easeml_meter.lab.curves import CurveForm
from easeml_meter.lab.verdicts import ClaimVerdict


@dataclass(frozen=True)
class Number:
    """A number that the paper prints, and how to compute it."""

    printed: str
    what: str
    places: tuple[str, ...]
    compute: Callable[[CurveForm], float]
    about: bool = False
    """The paper itself says "around" or "roughly"."""
    at_least: float | None = None
    """For a number given in words, such as "millions": what it asks for."""
    tightens: bool = True
    """Whether the tightened bound has something to say about it."""
    note: Callable[[], str] | None = None


@dataclass(frozen=True)
class PrintedNumber:
    """A printed number next to the computed one."""

    printed: str
    what: str
    places: tuple[str, ...]
    computed: float
    tightened: float | None
    verdict: ClaimVerdict
    note: str

    @property
    def shown(self) -> str:
        """The computed value, as people write it."""
        return self.write(self.computed)

    def write(self, value: float | None) -> str:
        """Write a value in the manner of the printed one."""
        if value is None:
            return ""
        if "x" in self.printed or "magnitude" in self.printed:
            return f"{value:,.2f}x" if value < 100 else f"{value:,.0f}x"
        return f"{value:,.0f}"


def compare(number: Number) -> PrintedNumber:
    """Compute one number and judge the printed one by it."""
    computed = number.compute(CurveForm.PUBLISHED)
    notes = [number.note()] if number.note is not None else []
    if number.at_least is not None:
        verdict = verdicts.graded(computed >= number.at_least, computed >= number.at_least / 2)
    else:
        verdict = verdicts.of_number(number.printed, computed, about=number.about)
        if verdict is ClaimVerdict.ROUGHLY and verdicts.cut_off(number.printed, computed):
            notes.insert(0, "digits cut off, not rounded")
    return PrintedNumber(
        printed=number.printed,
        what=number.what,
        places=number.places,
        computed=computed,
        tightened=number.compute(CurveForm.TIGHTENED) if number.tightens else None,
        verdict=verdict,
        note="; ".join(notes),
    )
