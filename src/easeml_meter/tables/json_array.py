"""JSON: one array of objects, on any number of lines."""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from easeml_meter.errors import InvalidInput
from easeml_meter.tables import text as blocks
from easeml_meter.tables.json_lines import JsonTable

_SPACE = b" \t\r\n"


@dataclass(frozen=True)
class JsonArrayTable(JsonTable):
    """An array of objects, cut into blocks of one object after the other."""

    kind: ClassVar[str] = "JSON"
    many_lines: ClassVar[bool] = True

    def _first_record(self) -> object:
        first = next(self._blocks()).lstrip(_SPACE)
        if not first:
            return None
        return json.JSONDecoder().raw_decode(first.decode(errors="replace"))[0]

    def _blocks(self) -> Iterator[bytes]:
        """Cut the file after objects; commas between them become line breaks."""
        with self.path.open("rb") as stream:
            text = stream.read(blocks.BLOCK).removeprefix(codecs.BOM_UTF8).lstrip(_SPACE)
            if not text.startswith(b"["):
                found = (
                    "no array of objects: write [{...}, ...], or one object per line in a .jsonl"
                )
                raise InvalidInput(found)
            text, row = text[1:], 0
            while True:
                following = stream.read(blocks.BLOCK)
                cut = _cut(text, row)
                if cut.rows:
                    yield cut.objects
                    row += cut.rows
                if cut.closed:
                    _check_end(cut.rest, following, stream.read(1))
                    break
                if not following:
                    raise InvalidInput(f"the array does not end after row {row}: write it again")
                if len(cut.rest) > 4 * blocks.BLOCK:
                    most = f"{4 * blocks.BLOCK:,} bytes"
                    raise InvalidInput(f"row {row + 1}: an object that does not end within {most}")
                text = cut.rest + following
        if not row:
            yield b""


class _Cut(NamedTuple):
    objects: bytes
    rows: int
    closed: bool
    """Whether the array ends here."""
    rest: bytes
    """What follows: the beginning of an object, or what stands after the array."""


def _cut(text: bytes, before: int) -> _Cut:
    """Separate the whole objects at the start of `text`, which stands within the array."""
    # What is escaped is blanked in place, so that every quote left opens or closes a string.
    plain = text.replace(b"\\\\", b"__").replace(b'\\"', b"__")
    marks = np.frombuffer(plain, np.uint8)
    quotes = marks == ord('"')
    outside = ~(np.logical_xor.accumulate(quotes) | quotes) if len(marks) else quotes
    opening = outside & ((marks == ord("{")) | (marks == ord("[")))
    closing = outside & ((marks == ord("}")) | (marks == ord("]")))
    depth = np.cumsum(opening.astype(np.int8) - closing.astype(np.int8), dtype=np.int32)
    ends = np.flatnonzero(depth < 0)
    closed = len(ends) > 0
    inside = depth[: ends[0]] if closed else depth
    last = np.flatnonzero(closing[: len(inside)] & (inside == 0))
    size = int(last[-1]) + 1 if len(last) else 0
    top = (inside[:size] == 0) | (opening[:size] & (inside[:size] == 1))
    found = marks[:size][top].tobytes().translate(None, _SPACE)
    rows = found.count(b"}")
    wanted = b",".join([b"{}"] * rows)
    between = plain[size : int(ends[0])] if closed else b""
    if found.removeprefix(b"," if before else b"") != wanted or between.strip(_SPACE):
        where = f"row {before + 1} or later"
        raise InvalidInput(f"{where}: no JSON object between two commas: write [{{...}}, ...]")
    objects = np.frombuffer(text[:size], np.uint8).copy()
    objects[np.flatnonzero(outside[:size] & (marks[:size] == ord(",")) & (inside[:size] == 0))] = 10
    rest = text[int(ends[0]) + 1 :] if closed else text[size:]
    return _Cut(objects.tobytes(), rows, closed, rest)


def _check_end(*rest: bytes) -> None:
    if b"".join(rest).strip(_SPACE):
        raise InvalidInput("something stands after the array: write one array")
