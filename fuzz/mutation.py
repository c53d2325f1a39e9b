"""Changes to bytes and texts that are almost right."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from random import Random

NUMBERS = (0, 1, 2, 7, 15, 16, 127, 128, 255, 256, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, 1 << 62)
WORDS = (
    *("", "0", "-0", "1", "-1", "007", "1e400", "-1e-400", "NaN", "inf", "-inf", "null", "None"),
    *("true", "false", "0x10", "1_000", "9" * 30, "9" * 400, "0." + "1" * 50, "2020-01-01"),
    *("label", "prediction", "id", "a", "A", " a", "a ", "ä", "日本", "\u202e", "\ufeff", "\x00"),
    *('"', '""', '"a"', "'", "\\", "\\u0000", "\\ud800", ",", ";", "\t", "\r", "\n", "\r\n", "{}"),
    *("[]", "[[]]", "[1]", '{"a": 1}', "<b>", "{{7*7}}", "../../etc/passwd", "x" * 300, "{", "["),
)


def change(data: bytes, draw: Random, start: int = 0, end: int | None = None) -> bytes:
    """Change some bytes, between `start` and `end` if given."""
    out = bytearray(data)
    for _ in range(draw.choice((1, 1, 1, 2, 3, 8))):
        stop = len(out) if end is None else min(end, len(out))
        if start >= stop:
            break
        at = draw.randrange(start, stop)
        draw.choice(_CHANGES)(out, at, draw)
    return bytes(out)


def _flip(out: bytearray, at: int, draw: Random) -> None:
    out[at] ^= 1 << draw.randrange(8)


def _set(out: bytearray, at: int, draw: Random) -> None:
    out[at] = draw.randrange(256)


def _number(out: bytearray, at: int, draw: Random) -> None:
    code = draw.choice("BHIQ")
    size = struct.calcsize(code)
    number = draw.choice(NUMBERS) + draw.randint(-2, 2)
    out[at : at + size] = struct.pack("<" + code, number % (1 << 8 * size))


def _remove(out: bytearray, at: int, draw: Random) -> None:
    del out[at : at + draw.choice((1, 2, 4, 8, 64, 512))]


def _repeat(out: bytearray, at: int, draw: Random) -> None:
    piece = bytes(out[at : at + draw.choice((1, 4, 16, 64))])
    out[at:at] = piece * draw.choice((1, 2, 50))


def _insert(out: bytearray, at: int, draw: Random) -> None:
    out[at:at] = draw.choice(WORDS).encode("utf-8", "surrogatepass")


def _cut(out: bytearray, at: int, _draw: Random) -> None:
    del out[at:]


_CHANGES: Sequence[Callable[[bytearray, int, Random], None]] = (
    *(_flip, _flip, _set, _set, _number, _number, _number, _remove, _repeat, _insert, _cut),
)


def word(draw: Random) -> str:
    """Return a text that a parser may stumble over."""
    if draw.random() < 0.6:
        return draw.choice(WORDS)
    return "".join(draw.choice(WORDS) for _ in range(draw.randrange(4)))
