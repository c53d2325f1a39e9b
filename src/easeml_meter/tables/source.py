"""Where the bytes of a table come from, a file or memory; what they may hold, how they are named.

A few kilobytes of a stranger can unpack to gigabytes. So a child process decodes the file
(`apart`), and counts what it finds batch by batch. The files of a meter's owner are not limited.
What a stranger wrote is made fit for one line: short, escaped, never echoed in full.
"""

from __future__ import annotations

import difflib
import hashlib
import io
import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from easeml_meter.errors import InvalidInput, MeterError, TooLarge

_WORDS = {
    "most_rows": "rows",
    "most_columns": "columns",
    "most_decoded_bytes": "bytes when decoded",
    "longest_text": "bytes in one text",
    "most_classes": "classes",
}
_MEMORY = 64 << 20
_TIMES = 4
"""A child may take so many bytes, and so many times `most_decoded_bytes`: rows exist as pages, as
values and as texts."""


@dataclass(frozen=True)
class TableLimits:
    """What one table may hold; each limit is a setting of a server, of the same name."""

    most_rows: int = 10_000_000
    most_columns: int = 10_000
    most_decoded_bytes: int = 256 << 20
    longest_text: int = 1 << 20
    most_classes: int = 25_000

    @property
    def memory(self) -> int:
        """Bytes that a child may take to decode a file."""
        return _MEMORY + _TIMES * self.most_decoded_bytes

    def check(self, setting: str, given: int) -> None:
        """Refuse more than a setting allows."""
        if given > (most := getattr(self, setting)):
            line = f"{given:,} {_WORDS[setting]} given, at most {most:,}"
            raise TooLarge(f"{line} (setting {setting} of the server)")


USUAL_LIMITS = TableLimits()


class TableTally:
    """What was read of a table so far, against its limits."""

    def __init__(self, limits: TableLimits) -> None:
        self._limits = limits
        self._rows = self.bytes = 0

    def add(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Count a valid batch, with dictionaries and views written out, and return it so.

        Raises:
            TooLarge: it is too much.
            InvalidInput: it is of a type whose values may share their storage.
        """
        plain = written_out(batch.schema)
        if plain != batch.schema:
            batch = batch.cast(plain)
        self._rows += batch.num_rows
        self._limits.check("most_rows", self._rows)
        for column in batch.columns:
            for texts in _texts(column):
                longest = pc.max(pc.binary_length(texts)).as_py() or 0
                self._limits.check("longest_text", longest)
        self.bytes += batch.nbytes
        self._limits.check("most_decoded_bytes", self.bytes)
        return batch


def written_out(schema: pa.Schema) -> pa.Schema:
    """Return columns whose dictionaries and views, also those in lists, are laid out plainly."""
    plain = [(field.name, _plain(field.type)) for field in schema]
    return pa.schema(plain)


def _plain(kind: pa.DataType) -> pa.DataType:
    types = pa.types
    if types.is_dictionary(kind):
        return _plain(kind.value_type)
    if types.is_string_view(kind):
        return pa.large_string()
    if types.is_binary_view(kind):
        return pa.large_binary()
    if types.is_struct(kind):
        return pa.struct([field.with_type(_plain(field.type)) for field in kind])
    if types.is_map(kind):
        return pa.map_(_plain(kind.key_type), _plain(kind.item_type))
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        item = kind.value_field.with_type(_plain(kind.value_type))
        if types.is_fixed_size_list(kind):
            return pa.list_(item, kind.list_size)
        return pa.list_(item) if types.is_list(kind) else pa.large_list(item)
    return kind


def _texts(column: Any) -> Iterator[Any]:
    """Yield the texts of a column, also those in lists."""
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    kind, types = column.type, pa.types
    if types.is_struct(kind):
        for field in column.flatten():
            yield from _texts(field)
    elif any(is_list(kind) for is_list in _LISTS):
        yield from _texts(column.flatten())
    elif any(is_text(kind) for is_text in _TEXTS):
        yield column
    elif types.is_nested(kind) or types.is_run_end_encoded(kind) or types.is_dictionary(kind):
        # Lists that are views, runs and unions may show the same value any number of times.
        shown = str(kind)[:40]
        raise InvalidInput(f"type {shown!r} given, numbers, texts or lists of them needed")


_LISTS = (
    *(pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list),
    pa.types.is_map,
)
_TEXTS = (
    *(pa.types.is_string, pa.types.is_large_string),
    *(pa.types.is_binary, pa.types.is_large_binary),
)


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


MEMORY = ".memory"
"""What stands before the ending of names of what never was a file, so that a server knows it."""

Source = Path | Held
Given = str | os.PathLike[str] | Held
"""A source as a caller names it."""


def source_of(given: Given) -> Source:
    """Take what a caller names."""
    return given if isinstance(given, Held) else Path(given)


def of_memory(name: str) -> bool:
    """Whether a name is that of data in memory, whose bytes its sender has never seen."""
    return os.path.splitext(name)[0].endswith(MEMORY)


def for_arrow(source: Source) -> str | pa.BufferReader:
    """Return a source as pyarrow takes it: a file that it opens and closes by itself, or memory."""
    return pa.BufferReader(source.content) if isinstance(source, Held) else str(source)


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
        if isinstance(error, InvalidInput):
            start, line = f"{named(self._path)}: ", str(error)
            kind = TooLarge if isinstance(error, TooLarge) else InvalidInput
            raise kind(line if line.startswith(start) else start + line) from None


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
        super().__exit__(of, error, at)
        # A parser that meets nonsense may raise anything.
        if isinstance(error, Exception) and not isinstance(error, MeterError):
            line = f"{named(self._path)}: no {self._kind} file, or a damaged one: write it again"
            raise InvalidInput(line) from None
