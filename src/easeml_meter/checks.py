"""Checks of single values (names, ids, hosts, numbers, times), and how each is refused."""

from __future__ import annotations

import ipaddress
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields
from enum import StrEnum
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
ODD = r"\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\uffff"

NAME = rf"^[^\s{ODD}][^{ODD}]{{0,{MAX_NAME - 1}}}$"
"""Names: no control characters, and nothing that changes the order in which they are read."""

# Halves of characters, which file names on a command line may hold, but no database takes.
_SURROGATES = re.compile("[\ud800-\udfff]")


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
    if not re.fullmatch(NAME, name) or _SURROGATES.search(name):
        shown = name[:40] + ("..." if len(name) > 40 else "")
        raise invalid(field, shown, f"1 to {MAX_NAME} printable characters")
