"""Where the bytes of a table come from: a file, or memory."""

from __future__ import annotations

import hashlib
import io
import os
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import pyarrow as pa

from easeml_meter.tables.limits import TableLimits


@dataclass(frozen=True)
class Held:
    """A file's content in memory, under the name it came with; there is no file of that name.

    It has those methods of a `Path` that readers need, and is deliberately none: whatever takes it
    for one fails, instead of opening a stranger's choice of a file.
    """

    name: str
    content: bytes = field(repr=False)
    title: str = ""
    """What refusals call it where it never was a file."""
    limits: TableLimits | None = None
    """What a table in it may hold; None: any amount, since its content was checked before."""

    @property
    def suffix(self) -> str:
        """The ending of the name; a dot alone is none."""
        ending = os.path.splitext(self.name)[1]
        return "" if ending == "." else ending

    def open(self, _mode: str) -> io.BytesIO:
        """Read it as a file."""
        return io.BytesIO(self.content)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the content, which never changes."""
        return hashlib.sha256(self.content).hexdigest()

    def absolute(self) -> Held:
        """It is the same wherever one stands."""
        return self

    def read_bytes(self) -> bytes:
        """Return all of it."""
        return self.content


Source = Path | Held
Given = str | os.PathLike[str] | Held
"""A source as a caller names it."""


def source_of(given: Given) -> Source:
    """Take what a caller names."""
    return given if isinstance(given, Held) else Path(given)


def for_arrow(source: Source) -> str | pa.BufferReader:
    """Return a source as pyarrow takes it: a file that it opens and closes by itself, or memory."""
    return pa.BufferReader(source.content) if isinstance(source, Held) else str(source)
