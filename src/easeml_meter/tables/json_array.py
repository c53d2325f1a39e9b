"""JSON: one array of objects, on any number of lines, read as JSON Lines."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from easeml_meter.errors import InvalidInput, TooLarge
from easeml_meter.tables import text as blocks
from easeml_meter.tables.json_lines import JsonTable

MOST = 64 << 20
"""Bytes of a file, which is read whole."""
_BEGIN, _COMMA = (re.compile(rf"[ \t\r\n]*{mark}[ \t\r\n]*") for mark in (r"\[", ","))
_END = re.compile(r"[ \t\r\n]*\][ \t\r\n]*\Z")
_BREAKS = bytes.maketrans(b"\r\n", b"  ")
# What an object holds is of no use here: its numbers, of any length, are not worked out.
_DECODER = json.JSONDecoder(parse_int=len, parse_float=len, parse_constant=len)


@dataclass(frozen=True)
class JsonArrayTable(JsonTable):
    """An array of objects, put on lines of their own."""

    kind: ClassVar[str] = "JSON"

    def _first_record(self) -> object:
        first = next(self._blocks(), b"").partition(b"\n")[0]
        return json.loads(first) if first else None

    def _blocks(self) -> Iterator[bytes]:
        """Cut the file after objects."""
        with self.path.open("rb") as stream:
            content = stream.read(MOST + 1)
        if len(content) > MOST:
            raise TooLarge(f"more than {MOST:,} bytes: write one object per line in a .jsonl")
        content = content.removeprefix(codecs.BOM_UTF8)
        lines, waiting = [], 0
        for start, end in _objects(content.decode("latin-1")):
            # Only between values: a string holds no bare line break.
            lines.append(content[start:end].translate(_BREAKS))
            waiting += end - start
            if waiting > blocks.BLOCK:
                yield b"\n".join([*lines, b""])
                lines, waiting = [], 0
        yield b"\n".join(lines)


def _objects(text: str) -> Iterator[tuple[int, int]]:
    """Yield where the objects of an array begin and end; a character stands for each byte."""
    found, row, at = _BEGIN.match(text), 0, 0
    if found is None:
        needed = "write [{...}, ...], or one object per line in a .jsonl"
        raise InvalidInput(f"no array of objects: {needed}")
    while found is not None and (row or not _END.match(text, found.end())):
        at, row = found.end(), row + 1
        try:
            end = _DECODER.raw_decode(text, at)[1]
        except (json.JSONDecodeError, RecursionError):
            end = at
        if end == at or text[at] != "{":
            raise InvalidInput(f"row {row}: no whole JSON object: write [{{...}}, ...]")
        yield at, end
        at, found = end, _COMMA.match(text, end)
    if not _END.match(text, found.end() if found else at):
        raise InvalidInput(f"the array does not end after row {row}: write [{{...}}, ...]")
