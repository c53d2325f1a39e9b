"""Fields of a form that hold numbers: read, or refused in one line that names the field."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from easeml_meter.errors import invalid

Number = TypeVar("Number", int, float)


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
