"""Checks of single values (names, ids, hosts, numbers, times), and how each is refused."""

from __future__ import annotations

import ipaddress
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields
from enum import StrEnum
from fractions import Fraction
from typing import Any, TypeVar

from easeml_meter.errors import invalid

Choice = TypeVar("Choice", bound=StrEnum)

_MOST = 10**12
"""No whole number of a meter is larger: beyond it nothing is a count of people's steps."""


def one_of(field: str, value: object, kind: type[Choice]) -> Choice:
    """Read a word as one of an enumeration."""
    try:
        return kind(str(value))
    except ValueError:
        raise invalid(field, value, f"one of {', '.join(kind)}") from None


def listed(field: str, value: object) -> tuple[Any, ...]:
    """Read a list or tuple."""
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise invalid(field, value, "a list needed")
    return tuple(value)


def finite(field: str, value: object) -> None:
    """Refuse what is not a finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not _is_finite(value):
        raise invalid(field, value, "a finite number needed")


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number too large for a float
        return False


def whole(field: str, value: object, *, at_least: int) -> None:
    """Refuse what is not a whole number within reason."""
    if isinstance(value, bool) or not isinstance(value, int) or not at_least <= value <= _MOST:
        raise invalid(
            field, value, f"it must be a whole number, {at_least} or more (at most 10^12)"
        )


def refuse_with(field: str, value: object, used: Mapping[str, object], line: str) -> None:
    """Refuse a value together with the first of these that is used; {} in the line is its name."""
    for name in (name for name, is_used in used.items() if is_used):
        raise invalid(field, value, line.format(name))


def settle(value: object, **fields: object) -> None:
    """Set fields of a frozen value while it is being made."""
    for name, each in fields.items():
        object.__setattr__(value, name, each)


def known(kind: type, told: Mapping[str, Any], /, **own: Any) -> dict[str, Any]:
    """Return the fields of a dataclass that were told: a later version may tell more.

    `own` are fields that are not told so. One that is missing and needed is looked up all the same:
    what a server told says itself what it lacks.
    """
    return own | {
        each.name: told[each.name]
        for each in fields(kind)
        if each.name not in own
        and (each.name in told or (each.default is MISSING and each.default_factory is MISSING))
    }


MAX_NAME = 200

# In words that Python, Rust and JavaScript understand alike.
ODD = (
    r"\x00-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    r"\u2028-\u202e\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\uffff"
)

NAME = rf"^[^\s{ODD}][^{ODD}]{{0,{MAX_NAME - 1}}}$"
"""Names: no control characters, nothing that is not seen (Default_Ignorable_Code_Point of Unicode,
and the empty pattern of Braille), and nothing that changes the order in which they are read."""

# Halves of characters, which file names on a command line may hold, but no database takes; and what
# is not seen beyond the plane that all three languages write alike.
_BEYOND = re.compile(
    "[\ud800-\udfff\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)


ID = "[0-9a-f]{32}"
"""Ids of everything that a server knows: the 32 hexadecimal digits of 16 random bytes."""


def is_id(text: str) -> bool:
    """Whether a text is an id, and not the name of something."""
    return re.fullmatch(ID, text) is not None


def is_loopback(host: str) -> bool:
    """Whether a host, by its address or its usual name, is this machine."""
    return host == "localhost" or (is_address(host) and ipaddress.ip_address(host).is_loopback)


def is_address(host: str) -> bool:
    """Whether a host is an IP address, and not a name."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def check_name(field: str, name: str) -> None:
    """Refuse what is no name of a user, token, meter, model or file: one printable line.

    Raises:
        InvalidInput: it is empty, too long, begins with a space or holds a control character.
    """
    if not re.fullmatch(NAME, name) or _BEYOND.search(name):
        shown = name[:40] + ("..." if len(name) > 40 else "")
        raise invalid(field, shown, f"1 to {MAX_NAME} printable characters")


_WHOLE = re.compile(r"(\d{1,3}(?:[, ']\d{3})+|\d+(?:\.\d+)?) ?([kKmM]?)")
_THOUSANDS = {"": 1, "k": 1_000, "m": 1_000_000}


def read_whole(field: str, text: str) -> int:
    """Read a whole number as people write it: 1000, 1,000 or 1k."""
    try:
        if found := _WHOLE.fullmatch(text.strip()):
            plain = found[1].translate({ord(each): None for each in ", '"})
            number = Fraction(plain) * _THOUSANDS[found[2].lower()]
            if number.denominator == 1:
                return int(number)
        return int(text)
    except ValueError:  # also of thousands of digits
        raise invalid(field, text[:40], "a whole number, such as 1000") from None


def read_share(field: str, text: str) -> float:
    """Read a number as people write it: 0.05, .05, 0,05 or 5%."""
    plain, percent, _ = text.strip().partition("%")
    if re.fullmatch(r"\d*,\d+ *", plain):
        plain = plain.replace(",", ".")
    try:
        number = float(plain)
        return float(Fraction(repr(number)) / 100) if percent else number
    except (ValueError, OverflowError):
        raise invalid(field, text[:40], "a number, such as 0.05 or 5%") from None


def read_shares(field: str, text: str) -> list[float]:
    """Read one number as people write it, or several with commas between them."""
    # None of them may be 0, so this is one number, and no list.
    parts = [text] if re.fullmatch(r"\s*0,\d+\s*%?\s*", text) else text.split(",")
    return [read_share(field, part) for part in parts]


def read_confidence(text: str) -> float:
    """Read how sure a promise is, such as 95, 95% or .95; return the delta that is left."""
    number = read_share("confidence", text)
    share = Fraction(repr(number)) if math.isfinite(number) else Fraction(2)
    share = share / 100 if 1 < number < 100 and "%" not in text else share
    if not 0 < share < 1:
        raise invalid("confidence", text[:40], "between 0 and 1, or in percent: 0.95 or 95")
    return float(1 - share)
