"""The parts of an ONNX file, counted before the library that reads it makes objects of them.

An empty node takes two bytes in a file and 150 in memory. The file is in Protocol Buffers' wire
format: fields, each with its number, its type and its content, without an index.
"""

from __future__ import annotations

import re
from typing import Any

MOST_MESSAGES = 1_000_000
"""Nodes, attributes, tensors, types and the like, in the whole file."""
MESSAGE_TEXTS = 4
"""A text takes about a quarter of the memory of a message, so there may be four times as many."""
DEEPEST = 100
"""Messages within messages; Protocol Buffers refuses more, too."""

# A forest has millions of numbers, one field each: they are passed over without a step for each.
# Up to 1,000 at a time, since the matcher takes memory for every repetition.
_NUMBERS = re.compile(
    b"(?:["
    + b"".join(re.escape(bytes([number << 3])) for number in range(1, 16))
    + rb"][\x80-\xff]{0,9}[\x00-\x7f]|["
    + b"".join(re.escape(bytes([number << 3 | 5])) for number in range(1, 16))
    + rb"].{4}){1,1000}+",
    re.DOTALL,
)


class DamagedModel(ValueError):
    """No message in wire format."""


class TooManyParts(ValueError):
    """There are more parts than are counted."""


def count_parts(content: bytes, kind: Any) -> float:
    """Walk through a message of this type, given by its descriptor.

    Returns:
        Messages, and texts at a quarter each.

    Raises:
        TooManyParts: there are more than `MOST_MESSAGES`.
        DamagedModel: it is no such message.
    """
    walk = _Walk(content)
    walk.message(0, len(content), kind, 0)
    return walk.count / MESSAGE_TEXTS


class _Walk:
    def __init__(self, content: bytes) -> None:
        self._content, self.count = content, 0

    def message(self, at: int, end: int, kind: Any, depth: int) -> None:
        if depth > DEEPEST:
            raise DamagedModel("too deep")
        self._seen(MESSAGE_TEXTS)
        fields = kind.fields_by_number
        while at < end:
            if numbers := _NUMBERS.match(self._content, at, end):
                at = numbers.end()
                continue
            key, at = self._varint(at, end)
            if key & 7 != 2:
                at = self._number(key & 7, at, end)
                continue
            size, at = self._varint(at, end)
            if at + size > end:
                raise DamagedModel("cut short")
            field = fields.get(key >> 3)
            if field is not None and field.message_type is not None:
                self.message(at, at + size, field.message_type, depth + 1)
            else:
                self._seen(1)
            at += size
        if at != end:
            raise DamagedModel("cut short")

    def _seen(self, weight: int) -> None:
        self.count += weight
        if self.count > MOST_MESSAGES * MESSAGE_TEXTS:
            raise TooManyParts

    def _number(self, kind: int, at: int, end: int) -> int:
        if kind == 0:
            return self._varint(at, end)[1]
        if kind not in (1, 5):
            raise DamagedModel("a type that ONNX does not have")
        return at + (8 if kind == 1 else 4)

    def _varint(self, at: int, end: int) -> tuple[int, int]:
        number = shift = 0
        while at < end and shift < 70:
            byte = self._content[at]
            number |= (byte & 127) << shift
            at, shift = at + 1, shift + 7
            if byte < 128:
                return number, at
        raise DamagedModel("a number without end")
