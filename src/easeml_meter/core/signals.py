"""Answers as numbers: 1..m for a band, or one of those below, which have none; and their names.

Books and other programs have the names.
"""

from __future__ import annotations

ABOVE_CEILING = -1
NO_READING = -3
PASS = -6
FAIL = -7
BASELINE = -8
TOO_FAR = -9
BELOW_FLOOR = -11
TOO_FEW = -12
OK = -13
ALARM = -14

_NAMES = {
    ABOVE_CEILING: "above-ceiling",
    NO_READING: "no-reading",
    PASS: "pass",
    FAIL: "fail",
    BASELINE: "baseline",
    BELOW_FLOOR: "below-floor",
    TOO_FEW: "too-few",
    TOO_FAR: "too-far",
    OK: "ok",
    ALARM: "alarm",
}
_ANSWERS = {name: answer for answer, name in _NAMES.items()}


def name_of(answer: int) -> str:
    """Name an answer for people and for the books."""
    return _NAMES.get(answer, str(answer))


def answer_named(name: str) -> int:
    """Read an answer from its name."""
    return _ANSWERS[name] if name in _ANSWERS else int(name)
