"""A grammar of Thrift's compact protocol, in which a Parquet file describes itself.

Changed bytes seldom get past the first struct; here everything but one field stays in order.
"""

from __future__ import annotations

from random import Random
from typing import Any, NamedTuple

from fuzz.mutation import NUMBERS, number_of, varint, word

_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _STRUCT = 1, 2, 3, 7, 8, 9, 10, 12
_KINDS = (*range(1, 11), _STRUCT)
_TAIL = 8
"""Bytes after the footer: its size, and a mark."""


class Field(NamedTuple):
    """A field of a struct: a whole number, bytes, a list with the kind of its items, or fields."""

    number: int
    kind: int
    value: Any


def change_footer(data: bytes, draw: Random) -> bytes:
    """Change a few fields of the footer of a Parquet file, or of the head of its first page."""
    start = len(data) - _TAIL - int.from_bytes(data[-8:-4], "little")
    if draw.random() < 0.3:
        # The places in the footer stay right only if the head stays as long; so it does, mostly.
        fields, end = read_struct(data, 4)
        head = write_struct(changed(fields, draw))
        return data[:4] + head[: end - 4].ljust(end - 4, b"\0") + data[end:]
    fields, _ = read_struct(data, start)
    for _ in range(draw.choice((1, 1, 2, 4))):
        fields = changed(fields, draw)
    footer = write_struct(fields)
    return data[:start] + footer + len(footer).to_bytes(4, "little") + data[-4:]


def changed(fields: list[Field], draw: Random) -> list[Field]:
    """Repeat, drop or change one field, or one within it."""
    found = list(fields)
    if not found:
        return [Field(draw.randrange(1, 20), 5, draw.choice(NUMBERS))]
    at = draw.randrange(len(found))
    number, kind, value = found[at]
    match draw.randrange(10):
        case 0:
            del found[at]
        case 1:
            found[at:at] = [found[at]] * draw.choice((1, 2, 100))
        case 2:
            found[at] = Field(draw.randrange(1, 40), kind, value)
        case 3:
            found[at] = Field(number, draw.choice(_KINDS), value)
        case _:
            found[at] = Field(number, kind, _other(value, draw))
    return found


def _other(value: Any, draw: Random) -> Any:
    if isinstance(value, list):
        return changed(value, draw)
    if isinstance(value, tuple):
        of, items = value
        items = list(items)
        if items and draw.random() < 0.7:
            at = draw.randrange(len(items))
            items[at] = _other(items[at], draw)
            return of, items
        return of, draw.choice(([], items * 2, items[1:], items[:1] * 100))
    if isinstance(value, bytes):
        return draw.choice((b"", value * 2, value[:-1], word(draw).encode("utf-8", "replace")))
    return draw.choice((*NUMBERS, value ^ 1, value + 1)) if isinstance(value, int) else value


def read_struct(data: bytes, at: int) -> tuple[list[Field], int]:
    """Read a struct that a writer of Parquet wrote; return its fields, and where it ends."""
    fields, number = [], 0
    while head := data[at]:
        at += 1
        if head >> 4:
            number += head >> 4
        else:
            raw, at = varint(data, at)
            number = raw >> 1
        kind = head & 15
        value, at = (None, at) if kind <= _FALSE else _read(data, at, kind)
        fields.append(Field(number, kind, value))
    return fields, at + 1


def _read(data: bytes, at: int, kind: int) -> tuple[Any, int]:
    if kind <= _BYTE:
        return data[at], at + 1
    if kind == _DOUBLE:
        return data[at : at + 8], at + 8
    if kind == _BINARY:
        size, at = varint(data, at)
        return data[at : at + size], at + size
    if kind in (_LIST, _SET):
        of, size = data[at] & 15, data[at] >> 4
        at += 1
        if size == 15:
            size, at = varint(data, at)
        items = []
        for _ in range(size):
            item, at = _read(data, at, of)
            items.append(item)
        return (of, items), at
    return read_struct(data, at) if kind == _STRUCT else varint(data, at)


def write_struct(fields: list[Field]) -> bytes:
    """Write a struct; what does not fit its kind any more is written as it is."""
    out = bytearray()
    for number, kind, value in fields:
        out += bytes([kind]) + number_of(number << 1)
        if kind > _FALSE:
            out += _written(kind, value)
    return bytes(out) + b"\0"


def _written(kind: int, value: Any) -> bytes:
    if isinstance(value, list):
        return write_struct(value)
    if isinstance(value, tuple):
        of, items = value
        head = bytes([0xF0 | of]) + number_of(len(items))
        return head + b"".join(_written(of, item) for item in items)
    if isinstance(value, bytes):
        return value if kind == _DOUBLE else number_of(len(value)) + value
    number = value or 0
    return bytes([number & 255]) if kind <= _BYTE else number_of(number)
