"""How a claim of the paper is judged: by a comparison, never by hand."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum

CLOSE = 0.05
"""Relative distance up to which a number still counts as close."""
SLIGHT = 0.1
"""A change up to this share is slight."""
SIGNIFICANT = 1.5
"""An improvement by this factor or more is significant."""
MUCH = 2.0
"""One thing is much larger than another from this factor on."""


class ClaimVerdict(StrEnum):
    """What became of a claim."""

    HOLDS = "holds"
    ROUGHLY = "holds roughly"
    FAILS = "does not hold"


def graded(holds: bool, roughly: bool) -> ClaimVerdict:
    """Judge by a strict and a lenient condition."""
    if holds:
        return ClaimVerdict.HOLDS
    return ClaimVerdict.ROUGHLY if roughly else ClaimVerdict.FAILS


@dataclass(frozen=True)
class ClaimFinding:
    """What was found when a claim was checked."""

    verdict: ClaimVerdict
    found: str


@dataclass(frozen=True)
class Claim:
    """Something the paper says about one of its figures, and how to check it."""

    place: str
    says: str
    check: Callable[[], ClaimFinding]


def worst(judged: Iterable[ClaimVerdict]) -> ClaimVerdict:
    """Return the worst of several verdicts."""
    return max(judged, key=list(ClaimVerdict).index)


def close(value: float, reference: float) -> bool:
    """Whether two numbers are close."""
    return abs(value - reference) <= CLOSE * abs(reference)


def read_number(text: str) -> tuple[float, float]:
    """Read a printed number such as 380K, 3.5x or 26,492: its value and that of its last digit."""
    match = re.fullmatch(r"([\d,]+)(?:\.(\d+))?([Kx]?)", text)
    if match is None:
        raise ValueError(f"not a printed number: {text}")
    whole, decimals, unit = match[1].replace(",", ""), match[2] or "", match[3]
    scale = 1000 if unit == "K" else 1
    return float(f"{whole}.{decimals or 0}") * scale, scale * 10.0 ** -len(decimals)


def of_number(text: str, computed: float, *, about: bool = False) -> ClaimVerdict:
    """Judge a printed number by the computed one.

    It holds when the computed number, rounded to the digits printed, is the printed one (or when
    it is close, where the paper itself says "around"); it holds roughly when it is close.
    """
    value, digit = read_number(text)
    rounded = math.floor(computed / digit + 0.5) * digit
    near = close(computed, value)
    return graded(math.isclose(rounded, value) or (about and near), near)


def cut_off(text: str, computed: float) -> bool:
    """Whether the printed number is the computed one with its digits cut off, not rounded."""
    value, digit = read_number(text)
    return math.isclose(math.floor(computed / digit) * digit, value)
