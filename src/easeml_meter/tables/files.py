"""Files as they lie on disk: may they be read, and are they still what they were?"""

from __future__ import annotations

import hashlib
import os
import stat
from types import TracebackType

from easeml_meter.errors import InvalidInput, MeterError
from easeml_meter.tables.source import Given, Held, Source
from easeml_meter.tables.wording import about, named

Stamp = tuple[int, ...]
"""Which file it is, and its size and time: another stamp means another content."""


def stamp_of(path: Given, what: str = "file") -> Stamp:
    """Identify a regular file and its state; anything else is refused, and never waited for."""
    if isinstance(path, Held):
        return 0, 0, len(path.content), 0
    try:
        # Opened, not only looked at: that is what shows whether it may be read. A pipe would wait.
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    except OSError as error:
        reason = error.strerror or type(error).__name__
        line = f"{named(path)}: cannot be read ({reason}): give a {what} that you may read"
        raise InvalidInput(line) from None
    except ValueError:
        raise InvalidInput(f"{named(path)}: no possible name of a {what}") from None
    try:
        state = os.fstat(handle)
    finally:
        os.close(handle)
    if not stat.S_ISREG(state.st_mode):
        given = "a folder" if stat.S_ISDIR(state.st_mode) else "no regular file"
        raise InvalidInput(f"{named(path)}: {given} given, a {what} needed")
    return state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns


def file_digest(source: Source, kind: str = "readable") -> str:
    """Return the SHA-256 digest of a file's bytes; `kind` says what it is if it cannot be read."""
    if isinstance(source, Held):
        return source.digest
    stamp_of(source)
    with reading(source, kind), source.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class reading(about):  # noqa: N801  used like a function
    """Turn what a reader says about a broken file, quoting it, into one line that does not."""

    def __init__(self, path: Given, kind: str) -> None:
        super().__init__(path)
        self._kind = kind

    def __exit__(
        self, of: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        """Refuse the file."""
        super().__exit__(of, error, at)
        # A parser that meets nonsense may raise anything.
        if isinstance(error, Exception) and not isinstance(error, MeterError):
            line = f"{named(self._path)}: no {self._kind} file, or a damaged one: write it again"
            raise InvalidInput(line) from None
