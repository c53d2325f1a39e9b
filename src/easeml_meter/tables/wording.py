"""What a stranger wrote, made fit for one line: short, escaped, never echoed in full."""

from __future__ import annotations

import difflib
import os
from collections.abc import Sequence
from types import TracebackType

from easeml_meter.errors import InvalidInput, TooLarge
from easeml_meter.tables.source import Given, Held

LONGEST = 60


def excerpt(value: object, longest: int = LONGEST) -> str:
    """Quote a value; a long one is cut before it is escaped, so 10 MB cost nothing."""
    text = value if isinstance(value, str) else str(value)
    shown = repr(text[:longest])
    if not isinstance(value, str):
        shown = shown[1:-1]  # a number needs no quotes
    return shown if len(text) <= longest else f"{shown}... ({len(text):,} characters)"


def no_column(wanted: str, names: Sequence[str]) -> str:
    """Say that there is no such column, and which one was probably meant."""
    small = {name.lower(): name for name in reversed(names)}
    # Comparing takes the product of both lengths, and strangers choose the names.
    few = [name for name in small if len(name) <= LONGEST][:1000]
    near = difflib.get_close_matches(wanted[:LONGEST].lower(), few, 1, 0.75)
    there = f"there are {some(names) or 'none'}"
    if len(names) == 1 and ";" in names[0]:
        there += ", separated by semicolons: write commas"
    meant = f"did you mean {excerpt(small[near[0]])}? {there}" if near else there
    return f"no column {excerpt(wanted)} ({meant})"


def some(items: Sequence[object], most: int = 5) -> str:
    """List the first few of `items`, and how many more there are."""
    shown = ", ".join(excerpt(item, 20) for item in items[:most])
    return shown if len(items) <= most else f"{shown} and {len(items) - most:,} more"


def named(path: Given) -> str:
    """Name a file: as it is where that is short and printable, else by the end of its name."""
    text = (path.title or path.name) if isinstance(path, Held) else os.fspath(path)
    if len(text) <= 2 * LONGEST:
        return text if text.isprintable() else repr(text)
    return f"...{text[-LONGEST:]!r} ({len(text):,} characters)"


# A class, as a generator takes three times as long, and each file is read within several.
class about:  # noqa: N801  used like a function
    """Begin the line of a refusal with the name of the file, once."""

    def __init__(self, path: Given) -> None:
        self._path = path

    def __enter__(self) -> None:
        """Begin to read the file."""

    def __exit__(
        self, of: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        """Name the file."""
        if isinstance(error, InvalidInput):
            start, line = f"{named(self._path)}: ", str(error)
            kind = TooLarge if isinstance(error, TooLarge) else InvalidInput
            raise kind(line if line.startswith(start) else start + line) from None
