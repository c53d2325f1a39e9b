"""A file that holds a table: what all formats have in common.

Files come from strangers. Whatever is wrong with one becomes a single line (`InvalidInput`), and
nothing is ever mapped into memory, since a file that shrinks under a mapping kills the process.
"""

from __future__ import annotations

import hashlib
import os
import stat
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from easeml_meter.errors import InvalidInput
from easeml_meter.scoring.wording import about, excerpt, named

BATCH_ROWS = 1 << 18
LIST_ROWS = 1 << 12
"""Lists are read in smaller batches: each may have a thousand values."""

Batches = Iterator[list[Any]]


@dataclass(frozen=True)
class Part:
    """A run of consecutive rows, from `first_row` (counted from 1); `rows` if known beforehand."""

    first_row: int
    rows: int | None
    batches: Callable[[], Batches]


@dataclass(frozen=True)
class Table(ABC):
    """A file that holds columns."""

    path: Path
    columns: tuple[str, ...]
    rows: int | None
    """None: known only after reading."""
    stamp: tuple[int, ...]
    """Tells whether the file was changed since it was opened."""
    kind: ClassVar[str]

    def batches(self, columns: Sequence[str]) -> Batches:
        """Yield the arrays of these columns, batch by batch."""
        return self._valid(partial(self._read, list(columns)))

    def check_unchanged(self) -> None:
        """Refuse a file that was changed since it was opened: its digest would mean nothing."""
        if stamp_of(self.path) != self.stamp:
            raise InvalidInput(f"{named(self.path)}: changed while it was read: submit it again")

    def parts(self, columns: Sequence[str], at_most: int) -> list[Part]:
        """Split into up to `at_most` parts that can be read at the same time."""
        return [Part(1, self.rows, partial(self.batches, columns))]

    def digest(self) -> str:
        """Give the SHA-256 digest of the file's bytes."""
        with readable(self.path, self.kind), self.path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    def _valid(self, read: Callable[[], Batches]) -> Batches:
        # Arrow trusts offsets and text to be in order; a stranger's may lead out of memory.
        with readable(self.path, self.kind):
            for batch in read():
                for column in batch:
                    column.validate(full=True)
                yield batch

    @abstractmethod
    def _read(self, columns: list[str]) -> Batches: ...


def stamp_of(path: Path) -> tuple[int, ...]:
    """Identify a regular file and its state; anything else is refused, and never waited for."""
    try:
        # Opened, not only looked at: that is what shows whether it may be read. A pipe would wait.
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        line = f"{named(path)}: cannot be read ({reason}): give a file that you may read"
        raise InvalidInput(line) from None
    except ValueError:
        raise InvalidInput(f"{named(path)}: no possible file name") from None
    try:
        state = os.fstat(handle)
    finally:
        os.close(handle)
    if not stat.S_ISREG(state.st_mode):
        what = "a folder" if stat.S_ISDIR(state.st_mode) else "no regular file"
        raise InvalidInput(f"{named(path)}: {what} given, a file of predictions needed")
    return state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns


@contextmanager
def readable(path: Path, kind: str) -> Iterator[None]:
    """Turn what a reader says about a broken file into one line."""
    try:
        with about(path):
            yield
    except InvalidInput:
        raise
    except Exception as error:  # a parser that meets nonsense may raise anything
        reason = excerpt(str(error) or type(error).__name__, 120)
        line = f"{named(path)}: cannot be read as a {kind} ({reason}): write it again"
        raise InvalidInput(line) from None
