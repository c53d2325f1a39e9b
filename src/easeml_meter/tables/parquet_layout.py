"""What a Parquet file says about itself, read before the library that decodes it.

The footer and the head of every page are Thrift structs. A page says how large it is when it is
decompressed, and how many values are in it; whatever the footer claims, this is what memory is
spent on. The rules are strict: what a usual writer would not write is refused.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Any

from easeml_meter.errors import TooLarge
from easeml_meter.tables.arrow_layout import check_schema
from easeml_meter.tables.limits import TableLimits

MOST_PARTS = 1_000_000
"""Values of all Thrift structs in a file: as many as are read in about a second."""
MOST_PAGES = 100_000
_SMALL_SCHEMA = 4 << 10
"""Bytes of which Arrow cannot make more than some megabytes, whatever they say."""
_DEEPEST = 16
_MAGIC = b"PAR1"
_WIDTHS = (1, 4, 8, 12, 4, 8, 4)
"""Bytes of a value of each physical type; those of texts are where they end."""
_BYTE_ARRAY, _FIXED_BYTES = 6, 7
_HEADS = {0: 5, 2: 7, 3: 8}
"""In which field a page of each type says more: data, dictionary, data of version 2."""
_DICTIONARY_PAGE = 2
_SECOND_VERSION = 3
_LENGTHS = 6
"""The encoding that writes the lengths of texts before all of them."""
_PREFIXES = 7
"""The encoding that writes only where a text differs from the one before."""

Struct = dict[int, Any]


@dataclass(frozen=True)
class ParquetLayout:
    """What is known of a file before it is decoded."""

    decoded: int
    """Bytes, apart from the texts of dictionaries."""
    repeating: frozenset[str]
    """Columns of text that dictionaries could make too large: they are read with dictionaries."""
    deltas: frozenset[str] = frozenset()
    """Columns of text in encodings that Arrow cannot read into dictionaries."""


class DamagedParquet(ValueError):
    """No Parquet file, or none that a usual writer writes."""


def parquet_layout(content: bytes, limits: TableLimits) -> ParquetLayout:
    """Look at the footer and the head of every page.

    Raises:
        TooLarge: it holds more than the limits allow.
        Exception: it is no Parquet file.
    """
    size = int.from_bytes(content[-8:-4], "little")
    start = len(content) - 8 - size
    if content[:4] != _MAGIC or content[-4:] != _MAGIC or start < 4:
        raise DamagedParquet("no Parquet")
    reader = _Reader(content)
    said, _ = reader.struct(start)
    leaves = [each for each in said[2] if not each.get(5)]
    limits.check("most_columns", len(leaves))
    limits.check("most_rows", said[3])
    for each in said.get(5, ()):
        if each[1] == b"ARROW:schema" and len(each[2]) > _SMALL_SCHEMA:
            check_schema(base64.b64decode(each[2])[8:], limits)
    pages, repeating = _Pages(content, reader), set[str]()
    decoded = texts = 0
    for group in said[4]:
        if len(group[1]) != len(leaves):
            raise DamagedParquet("columns are missing")
        for chunk, leaf in zip(group[1], leaves, strict=True):
            found = pages.sizes(chunk[3])
            decoded += max(found.bytes, found.values * _width(leaf))
            limits.check("most_decoded_bytes", decoded)
            if decoded + texts + found.written_out <= limits.most_decoded_bytes:
                texts += found.written_out
            elif found.prefixes:
                line = "texts as differences from the one before given (DELTA_BYTE_ARRAY)"
                raise TooLarge(f"{line}: write them with another encoding")
            else:
                repeating.add(b".".join(chunk[3][3]).decode())
    return ParquetLayout(decoded, frozenset(repeating), _in_deltas(said))


def columns_in_deltas(stream: IO[bytes]) -> frozenset[str]:
    """Return the columns of text that Arrow cannot read into dictionaries, by the footer.

    Raises:
        Exception: it is no Parquet file, or has a footer of very many parts.
    """
    stream.seek(-8, os.SEEK_END)
    size = int.from_bytes(stream.read(4), "little")
    stream.seek(-8 - size, os.SEEK_END)
    return _in_deltas(_Reader(stream.read(size)).struct(0)[0])


def _in_deltas(said: Struct) -> frozenset[str]:
    chunks = (chunk[3] for group in said[4] for chunk in group[1])
    found = {tuple(each[3]) for each in chunks if {_LENGTHS, _PREFIXES} & {*each[2]}}
    return frozenset(b".".join(each).decode() for each in found)


def _width(leaf: Struct) -> int:
    return _natural(leaf[2]) if leaf[1] == _FIXED_BYTES else _WIDTHS[leaf[1]]


@dataclass
class _Sizes:
    """What the pages of a column in one row group add up to."""

    bytes: int = 0
    values: int = 0
    written_out: int = 0
    """At most so many bytes more if every text is written out."""
    prefixes: bool = False


class _Pages:
    """The pages of a file, one column after the other."""

    def __init__(self, content: bytes, reader: _Reader) -> None:
        self._size, self._reader, self._count = len(content), reader, 0

    def sizes(self, column: Struct) -> _Sizes:
        """Add up what the heads of all pages of a column say."""
        found, longest = _Sizes(), 0
        for page in self._of(column):
            found.bytes += page[2]
            if (kind := page[1]) not in _HEADS:
                continue  # Arrow skips what it does not know
            head = page[_HEADS[kind]]
            prefixes = head[4 if kind == _SECOND_VERSION else 2] == _PREFIXES
            found.prefixes |= prefixes
            if prefixes or kind == _DICTIONARY_PAGE:
                longest = max(longest, page[2])
            if kind != _DICTIONARY_PAGE:
                found.values += _natural(head[1])
        if column[1] == _BYTE_ARRAY:
            found.written_out = found.values * longest
        elif found.prefixes:
            raise DamagedParquet("prefixes of what is no text")
        return found

    def _of(self, column: Struct) -> Iterator[Struct]:
        if column[5] == 0:
            return  # of a row group without rows: Arrow reads none, wherever they are said to be
        dictionary, at = column.get(11, 0), column[9]
        if 0 < dictionary < at:
            at = dictionary
        end = at + _natural(column[7])
        if not 4 <= at <= end <= self._size:
            raise DamagedParquet("pages outside of the file")
        while at < end:
            self._count += 1
            if self._count > MOST_PAGES:
                raise TooLarge(f"more than {MOST_PAGES:,} pages given: write larger ones")
            page, at = self._reader.struct(at)
            at += _natural(page[3])
            _natural(page[2])
            yield page


def _natural(number: int) -> int:
    if number < 0:
        raise DamagedParquet("a negative size")
    return number


class _Reader:
    """Reads structs in Thrift's compact protocol; each field once, and no more than `left`.

    Every small submission passes through here, so places are handed on and no byte has a call.
    """

    def __init__(self, content: bytes) -> None:
        self._content, self._left = content, MOST_PARTS

    def struct(self, at: int, depth: int = 1) -> tuple[Struct, int]:
        """Read fields until the end of a struct; return them, and where it ends."""
        content = self._content
        found: Struct = {}
        number = count = 0
        while head := content[at]:
            at += 1
            count += 1
            if head > 15:
                number += head >> 4
                head &= 15
            else:
                number, at = self._whole(at)
            if 4 <= head <= 6:
                value = content[at]
                if value < 128:
                    at += 1
                else:
                    value, at = self._varint(at)
                found[number] = value >> 1 ^ -(value & 1)
            elif head == 8 and (size := content[at]) < 128:
                start = at + 1
                at = start + size
                found[number] = content[start:at]
            elif head == 12:
                found[number], at = self.struct(at, depth + 1)
            elif head < 3:
                found[number] = head == 1
            else:
                found[number], at = self._value(head, at, depth)
        self._left -= count + 1
        if self._left < 0:
            raise _too_many()
        if len(found) != count or depth > _DEEPEST:
            raise DamagedParquet("a field twice, or too deep")
        return found, at + 1

    def _value(self, kind: int, at: int, depth: int) -> tuple[Any, int]:
        if 9 <= kind <= 10:
            return self._list(at, depth)
        if kind == 8:
            size, at = self._varint(at)
            if at + size > len(self._content):
                raise DamagedParquet("cut short")
            return self._content[at : at + size], at + size
        if kind == 12:
            return self.struct(at, depth + 1)
        if 4 <= kind <= 6:
            return self._whole(at)
        if kind == 7:
            return None, at + 8
        if kind <= 3:
            return self._content[at], at + 1
        raise DamagedParquet("a type that Parquet does not have")

    def _list(self, at: int, depth: int) -> tuple[list[Any], int]:
        head, at = self._content[at], at + 1
        size, kind = head >> 4, head & 15
        if size == 15:
            size, at = self._varint(at)
        self._left -= size
        if self._left < 0:
            raise _too_many()
        if 4 <= kind <= 6:
            numbers = self._content[at : at + size]
            if len(numbers) == size and numbers.isascii():  # a byte each
                return [value >> 1 ^ -(value & 1) for value in numbers], at + size
        found = []
        for _ in range(size):
            value, at = self.struct(at, depth + 1) if kind == 12 else self._value(kind, at, depth)
            found.append(value)
        return found, at

    def _varint(self, at: int) -> tuple[int, int]:
        number = shift = 0
        while (byte := self._content[at]) & 128:
            number |= (byte & 127) << shift
            shift, at = shift + 7, at + 1
            if shift > 63:
                raise DamagedParquet("a number without end")
        return number | byte << shift, at + 1

    def _whole(self, at: int) -> tuple[int, int]:
        number, at = self._varint(at)
        return number >> 1 ^ -(number & 1), at


def _too_many() -> TooLarge:
    return TooLarge(f"a footer of more than {MOST_PARTS:,} parts given: write fewer row groups")
