"""Figures of a promise as text, rounded so that what is printed is never more than what holds.

Numbers are taken as people write them: 0.3 means three tenths, not the double next to it.
"""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from functools import lru_cache

_DIGITS = 6
_CONFIDENCE_DIGITS = 12
"""The nines of a very small delta are printed up to here."""


def as_written(value: float | Fraction) -> Fraction:
    """Return a number as its shortest decimal says it, without rounding."""
    return value if isinstance(value, Fraction) else _decimal(value)


@lru_cache(maxsize=1024)  # every answer is compared with the same few edges
def _decimal(value: float) -> Fraction:
    return Fraction(repr(float(value)))


def at_most(value: float | Fraction, digits: int = _DIGITS) -> str:
    """Return an upper edge, a tolerance or a delta with a few digits, rounded up."""
    return _text(as_written(value), digits, ROUND_CEILING)


def at_least(value: float | Fraction, digits: int = _DIGITS) -> str:
    """Return a lower edge with a few digits, rounded down."""
    return _text(as_written(value), digits, ROUND_FLOOR)


def percent_at_most(value: float | Fraction) -> str:
    """Return an upper bound in percent with a decimal, rounded up."""
    return f"{math.ceil(1000 * as_written(value)) / 10:.12g}"


def percent_at_least(value: float | Fraction) -> str:
    """Return a lower bound in percent with a decimal, rounded down."""
    return f"{math.floor(1000 * as_written(value)) / 10:.12g}"


def confidence_of(failure: Fraction) -> str:
    """Return 1 minus the probability of a failure, rounded down and never 1."""
    delta = Decimal(at_most(failure))
    context = Context(prec=_CONFIDENCE_DIGITS, rounding=ROUND_FLOOR)
    return f"{abs(context.subtract(Decimal(1), delta)).normalize():f}"  # 0 has a sign


@lru_cache(maxsize=1024)
def _text(value: Fraction, digits: int, rounding: str) -> str:
    context = Context(prec=digits, rounding=rounding)
    rounded = context.divide(Decimal(value.numerator), Decimal(value.denominator))
    return f"{float(rounded):.{digits}g}"  # up to 15 digits a double holds them all
