"""What an Arrow file or stream says about itself, read before the library that decodes it.

The heads of its messages are flatbuffers: a table says where each of its fields is, and several
may say the same place. So a few bytes can stand for any number of columns, and a compressed
buffer for any number of bytes; its true size stands before it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from easeml_meter.errors import InvalidInput, TooLarge
from easeml_meter.tables.limits import USUAL_LIMITS, TableLimits

MOST_MESSAGES = 20_000
"""As many as are read in about a second."""
SCHEMA, DICTIONARY, BATCH = 1, 2, 3
_MAGIC = b"ARROW1"
_CONTINUES = b"\xff\xff\xff\xff"
_PARTS = 4
"""A column may have so many nested ones on average."""
_TIMESTAMP, _UNION = 10, 14


class DamagedArrow(ValueError):
    """The head of a message makes no sense; the message says in which way."""


class ArrowMessage(NamedTuple):
    """The head of a message."""

    kind: int
    body: int
    """Bytes that follow the head."""
    content: int | None
    """Where its batch of rows or of a dictionary's values is in the head."""
    compressed: bool
    grows: bool
    """Whether it adds to a dictionary that came before."""


def look_at(head: bytes) -> ArrowMessage:
    """Read the head of a message.

    Raises:
        DamagedArrow: it contradicts itself, or is about neither columns nor rows.
    """
    message = _follow(head, 0)
    _Walk(head).metadata(_field(head, message, 4))
    kind = _value(head, "<B", _field(head, message, 1))
    size = _value(head, "<q", _field(head, message, 3))
    if kind == SCHEMA:
        return ArrowMessage(kind, size, _follow(head, _field(head, message, 2)), False, False)
    if kind not in (DICTIONARY, BATCH):
        raise DamagedArrow("neither batches nor dictionaries in the Arrow stream")
    content, grows = _follow(head, _field(head, message, 2)), False
    if kind == DICTIONARY:
        grows = bool(_value(head, "<B", _field(head, content, 2)))
        content = _follow(head, _field(head, content, 1))
    return ArrowMessage(kind, size, content, _field(head, content, 3) is not None, grows)


def check_schema(head: bytes, limits: TableLimits) -> None:
    """Look at the columns in the head of a message, nested ones included.

    Raises:
        TooLarge: there are more than the limits allow.
        DamagedArrow: it contradicts itself.
    """
    message = look_at(head)
    if message.kind != SCHEMA:
        raise DamagedArrow("no schema")
    _Walk(head, limits).schema(message.content or 0)


def check_arrow(content: bytes, limits: TableLimits) -> None:
    """Look at the heads of all messages of a file or stream.

    Raises:
        TooLarge: it holds more than the limits allow.
        Exception: it is no Arrow file.
    """
    decoded, count = 0, 0
    for head, body in _in_file(content, limits) if content[:6] == _MAGIC else _in_stream(content):
        count += 1
        if count > MOST_MESSAGES:
            raise TooLarge(f"more than {MOST_MESSAGES:,} batches given: write larger ones")
        message = look_at(head)
        if message.kind == SCHEMA:
            check_schema(head, limits)
            continue
        if message.grows:
            raise InvalidInput("a dictionary that grows given: write it whole")
        if message.compressed:
            decoded += sum(_decompressed(content, body, head, message.content or 0))
            limits.check("most_decoded_bytes", decoded)


def _in_stream(content: bytes) -> Iterator[tuple[bytes, int]]:
    """Yield the head of each message, and where its body starts."""
    at = 0
    while at < len(content):
        start, size = _prefix(content, at)
        if not size:
            return
        head, body = content[start : start + size], start + size
        at = body + look_at(head).body
        if not body <= at <= len(content):
            raise DamagedArrow("a message that ends too early")
        yield head, body


def _in_file(content: bytes, limits: TableLimits) -> Iterator[tuple[bytes, int]]:
    size = int.from_bytes(content[-10:-6], "little")
    footer = content[len(content) - 10 - size : -10]
    table = _follow(footer, 0)
    walk = _Walk(footer, limits)
    walk.schema(_follow(footer, _field(footer, table, 1)))
    walk.metadata(_field(footer, table, 4))
    for number in (2, 3):
        start, count = _vector(footer, _field(footer, table, number), 24)
        for offset, length, _, _ in struct.iter_unpack("<qiiq", footer[start : start + 24 * count]):
            if not 0 <= offset <= offset + length <= len(content):
                raise DamagedArrow("a block outside of the file")
            begin, size = _prefix(content, offset)
            yield content[begin : begin + size], offset + length


def _prefix(content: bytes, at: int) -> tuple[int, int]:
    """Return where the head of the message at this place starts, and its size."""
    # Before version 0.15 of Arrow, the size stood alone.
    start = at + 4 if content[at : at + 4] == _CONTINUES else at
    return start + 4, _value(content, "<i", start)


def _decompressed(content: bytes, body: int, head: bytes, batch: int) -> Iterator[int]:
    """Yield how large each buffer says it is when decompressed."""
    start, count = _vector(head, _field(head, batch, 2), 16)
    for offset, length in struct.iter_unpack("<qq", head[start : start + 16 * count]):
        if length:
            said = _value(content, "<q", body + offset)
            yield max(0, length - 8 if said == -1 else said)


@dataclass
class _Walk:
    """A walk through the columns of a schema, which counts what Arrow would make of them."""

    head: bytes
    limits: TableLimits = USUAL_LIMITS
    parts: int = 0
    bytes: int = 0

    def schema(self, table: int) -> None:
        start, count = _vector(self.head, _field(self.head, table, 1))
        self.limits.check("most_columns", count)
        self.columns(start, count)
        self.metadata(_field(self.head, table, 2))

    def columns(self, start: int, count: int) -> None:
        self.parts += count
        self.limits.check("most_columns", self.parts // _PARTS)
        for index in range(count):
            column = _follow(self.head, start + 4 * index)
            self.text(_field(self.head, column, 0))
            kind = _value(self.head, "<B", _field(self.head, column, 2))
            if kind == _UNION:
                raise InvalidInput("type union given, numbers, texts or lists of them needed")
            if kind == _TIMESTAMP:
                said = _follow(self.head, _field(self.head, column, 3))
                self.text(_field(self.head, said, 1))
            self.metadata(_field(self.head, column, 6))
            self.columns(*_vector(self.head, _field(self.head, column, 5)))

    def metadata(self, place: int | None) -> None:
        start, count = _vector(self.head, place)
        for index in range(count):
            pair = _follow(self.head, start + 4 * index)
            self.text(_field(self.head, pair, 0))
            self.text(_field(self.head, pair, 1))

    def text(self, place: int | None) -> None:
        """Count a text; together they are longer than the head only if they share their place."""
        self.bytes += 1 + (_value(self.head, "<I", _follow(self.head, place)) if place else 0)
        if self.bytes > 4 * len(self.head):
            raise DamagedArrow("texts that share their place")


def _vector(head: bytes, place: int | None, size: int = 4) -> tuple[int, int]:
    """Return where a vector's items of so many bytes start, and how many there are."""
    if place is None:
        return 0, 0
    start = _follow(head, place)
    count = _value(head, "<I", start)
    if start + 4 + size * count > len(head):
        raise DamagedArrow("a vector that is cut short")
    return start + 4, count


def _field(head: bytes, table: int, number: int) -> int | None:
    """Return the place of a field of a table; None if it is left out."""
    directory = table - _value(head, "<i", table)
    entry = 4 + 2 * number
    if entry + 2 > _value(head, "<H", directory):
        return None
    offset = _value(head, "<H", directory + entry)
    return table + offset if offset else None


def _follow(head: bytes, place: int | None) -> int:
    if place is None:
        raise DamagedArrow("a message of the Arrow stream has no content")
    return place + _value(head, "<I", place)


def _value(head: bytes, code: str, place: int | None) -> int:
    """Read a whole number; 0 where it is left out."""
    if place is None:
        return 0
    if not 0 <= place <= len(head) - struct.calcsize(code):
        raise DamagedArrow("a message of the Arrow stream is damaged")
    return int(struct.unpack_from(code, head, place)[0])
