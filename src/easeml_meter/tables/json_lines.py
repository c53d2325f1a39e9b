"""JSON Lines, one object per line; and JSON, an array of objects on any number of lines."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
import pyarrow as pa
import pyarrow.json

from easeml_meter.errors import InvalidInput, TooLarge
from easeml_meter.tables import table as blocks
from easeml_meter.tables.source import Source, Stamp, named
from easeml_meter.tables.table import Block, Manner, TextTable, Types

DEEPEST = 100
"""Lists within lists within lists; at some thousands Arrow ends the process."""

_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
# A mark of the byte order may stand before the first.
_NO_OBJECT = re.compile(rb"^(?!\xef\xbb\xbf[ \t\r]*\{)[ \t\r]*[^{\s]", re.MULTILINE)


@dataclass(frozen=True)
class JsonTable(TextTable):
    """JSON Lines."""

    kind: ClassVar[str] = "JSON Lines"
    mixed: ClassVar[bool] = False

    @classmethod
    def open(cls, path: Source, stamp: Stamp, manner: Manner) -> Self:
        """Look at all rows to settle columns and types; raw ones are those of the first row.

        Columns that are to stay text keep their types: whole numbers have a text form as well.
        """
        table = cls(named(path), pa.schema([]), None, path, stamp)
        if manner.raw and not manner.settled:
            return replace(table, schema=_schema_of(table._first_record(), manner))
        return table.settled(manner.types)

    def _first_record(self) -> object:
        first = b""
        with self.path.open("rb") as file:
            while not first and (line := file.readline(4 * blocks.BLOCK)):
                first = line.strip()
        return json.loads(first) if first else None

    def _blocks(self) -> Iterator[bytes]:
        rest = b""
        with self.path.open("rb") as stream:
            while text := stream.read(blocks.BLOCK):
                end = text.rfind(b"\n") + 1
                if end:
                    yield b"".join([rest, memoryview(text)[:end]])
                    rest = b""
                rest += text[end:]
                if len(rest) > 4 * blocks.BLOCK:
                    raise InvalidInput(f"a line of more than {4 * blocks.BLOCK:,} bytes")
        yield rest

    def _parse(self, block: Block, types: Types, columns: Sequence[str] | None) -> pa.Table:
        wanted = pa.schema([(name, types[name]) for name in columns or ()])
        if not block.text or block.text.isspace():
            return wanted.empty_table()
        self._check_objects(block)
        if columns is None:
            _check_depth(block.text)
        try:
            table = pa.json.read_json(
                pa.BufferReader(block.text),
                read_options=pa.json.ReadOptions(block_size=len(block.text) + 1, use_threads=False),
                parse_options=pa.json.ParseOptions(
                    explicit_schema=None if columns is None else wanted,
                    unexpected_field_behavior="infer" if columns is None else "ignore",
                ),
            )
        except (pa.ArrowException, UnicodeDecodeError) as error:
            row = re.search(r" in row (\d+)$", str(error))
            first = block.before + 1
            where = f"row {first + int(row[1])}" if row else f"row {first} or later"
            line = f"{where}: no JSON object of the same kind as the rows before it"
            raise InvalidInput(f"{line}: write one per row") from None
        if columns is not None:
            return table
        known = {
            column.name: types.get(column.name, _plain(column.type)) for column in table.schema
        }
        settled = pa.schema(known)
        return table if settled == table.schema else self._parse(block, known, settled.names)

    def _check_objects(self, block: Block) -> None:
        """Refuse rows that are no objects: Arrow takes null for one, or ends the process."""
        if found := _NO_OBJECT.search(block.text):
            row = block.before + 1 + block.text.count(b"\n", 0, found.start())
            raise InvalidInput(f"row {row} or later: no JSON object: write one per row")


def _check_depth(text: bytes) -> None:
    """Refuse nesting that Arrow, looking for types, would follow until the stack is used up."""
    if b"\\" in text:
        text = re.sub(rb"\\.", b"", text, flags=re.DOTALL)
    outside = b"".join(text.split(b'"')[::2])
    brackets = np.frombuffer(outside.translate(None, _NO_BRACKETS), np.uint8)
    opening = (brackets == ord("[")) | (brackets == ord("{"))
    if np.cumsum(np.where(opening, 1, -1)).max(initial=0) > DEEPEST:
        raise InvalidInput(f"a value of more than {DEEPEST} levels: write lists of plain values")


def _plain(kind: pa.DataType) -> pa.DataType:
    """Take text for text: Arrow takes some of it for times."""
    if pa.types.is_timestamp(kind):
        return pa.string()
    if pa.types.is_list(kind):
        return pa.list_(_plain(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, _plain(field.type)) for field in kind])
    return kind


def _schema_of(record: object, manner: Manner) -> pa.Schema:
    if record is None:
        raise InvalidInput("no rows given, one per example needed")
    if not isinstance(record, dict):
        raise InvalidInput('row 1: no JSON object, such as {"prediction": 3}: write one per row')
    return pa.schema(
        [
            (name, _type_of(value, reals=manner.reals and name not in manner.texts))
            for name, value in record.items()
        ]
    )


def _type_of(value: object, *, reals: bool) -> pa.DataType:
    match value:
        case bool():
            return pa.bool_()
        case int():
            return pa.float64() if reals else pa.int64()
        case float():
            return pa.float64()
        case str():
            return pa.string()
        case [first, *_]:
            fraction = any(isinstance(item, float) for item in value)
            return pa.list_(_type_of(0.5 if fraction else first, reals=reals))
        case _:
            return pa.null()


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
