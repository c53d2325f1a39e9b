"""What rules keep in loops of edits: useless ones left, real ones right, a row for each rule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from easeml_meter.report.palette import INK, TRACK, VALIDATION, WRONG
from easeml_meter.report.svg import box, element, escaped, image, legend, number

_LEFT, _WIDTH, _GAP, _RIGHT = 184.0, 190.0, 48.0, 48.0
_TOP, _ROW, _BAR = 78.0, 40.0, 12.0
_PROMISED = 0.1
_LINE = "10 %, as the last two promise"
_SIGNS = (
    "edits that do nothing",
    "an attacker's edits",
    "a gain of 2 points",
    "a gain of 5 points",
)
_PALE_WRONG, _PALE_REAL = "#dd98a4", "#8fbbe0"


@dataclass(frozen=True)
class Bars:
    """What one rule does, as shares: two bars left, two right."""

    name: str
    useless: tuple[float, float]
    real: tuple[float, float]


def loops_svg(title: str, rows: Sequence[Bars]) -> str:
    """Draw the rules below each other, with a line at what is promised of useless edits."""
    width = _LEFT + 2 * _WIDTH + _GAP + _RIGHT
    base = _TOP + _ROW * len(rows)
    colours = (WRONG, _PALE_WRONG, _PALE_REAL, VALIDATION)
    entries = [
        (element("path", d=box(-8, -6, 18, 12), fill=colour), escaped(words))
        for colour, words in zip(colours, _SIGNS, strict=True)
    ]
    drawn, height = legend(entries, width)
    lines = [
        f"{row.name}: a useless edit in {_percent(row.useless[0])} of loops, attacked in "
        f"{_percent(row.useless[1])}; of real edits {_percent(row.real[0])} and "
        f"{_percent(row.real[1])}."
        for row in rows
    ]
    at = _LEFT + _WIDTH * _PROMISED
    return image(
        "loops",
        width,
        base + 34 + height,
        title,
        " ".join(lines),
        element("text", escaped(title), x=12, y=24, font_size=14, font_weight="600"),
        _heading(_LEFT, "loops that keep a useless edit", "less is better"),
        _heading(_LEFT + _WIDTH + _GAP, "real edits that are kept", "more is better"),
        *(_drawn(row, _TOP + _ROW * place, colours) for place, row in enumerate(rows)),
        element(
            "path",
            d=f"M{number(at)} {number(_TOP - 4)}V{number(base)}",
            stroke=INK,
            stroke_dasharray="3 3",
        ),
        element(
            "text",
            f"{_percent(_PROMISED)}, as the last two promise",
            x=at - 6,
            y=base + 14,
            font_size=10,
        ),
        element("g", drawn, transform=f"translate(0 {number(base + 30)})"),
    )


def _heading(left: float, words: str, better: str) -> str:
    first = element("text", words, x=left, y=52, font_size=12, font_weight="600")
    return first + element("text", better, x=left, y=67, font_size=10, class_="m-quiet")


def _drawn(row: Bars, top: float, colours: Sequence[str]) -> str:
    parts = [
        element("text", escaped(row.name), x=_LEFT - 8, y=top + 17, text_anchor="end", font_size=12)
    ]
    values = zip((*row.useless, *row.real), colours, strict=True)
    for place, (share, colour) in enumerate(values):
        left = _LEFT + (_WIDTH + _GAP) * (place // 2)
        y = top + (_BAR + 1) * (place % 2)
        parts.append(element("path", d=box(left, y, _WIDTH, _BAR), fill=TRACK, class_="m-grid"))
        parts.append(element("path", d=box(left, y, _WIDTH * share, _BAR), fill=colour))
        parts.append(element("text", _percent(share), x=left + _WIDTH + 4, y=y + 10, font_size=10))
    return element("g", *parts)


def _percent(share: float) -> str:
    digits = 0 if share == 0 or share >= 0.095 else 1
    return f"{100 * share:.{digits}f} %"
