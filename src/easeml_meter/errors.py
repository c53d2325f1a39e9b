"""Everything that can go wrong and is worth telling a user, in one line each."""

from __future__ import annotations


class MeterError(Exception):
    """Base of all errors a user may see: one line that says what, what was given, what to do.

    `exit_code` is what the command line exits with; the table stands in docs/commands.md.
    """

    exit_code = 1


class InvalidInput(MeterError):
    """The request itself is wrong; nothing was done and nothing was charged."""

    exit_code = 2


def invalid(field: str, given: object, allowed: str) -> InvalidInput:
    """Name the field, the value given and what is allowed."""
    return InvalidInput(f"{field}: {given!r} given, {allowed}")
