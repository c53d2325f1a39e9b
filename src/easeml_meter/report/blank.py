"""The empty meter: its bands, the worst on top, and a slot for each answer that it will give."""

from __future__ import annotations

from itertools import pairwise

from easeml_meter.report.scale import band_tone
from easeml_meter.report.svg import element, escaped, number
from easeml_meter.report.words import change_words, loss_words, range_words
from easeml_meter.spec import MeterSpec

_WIDTH, _NAMES, _ROW = 340.0, 132.0, 34.0
_MOST_ROWS, _MOST_SLOTS = 8, 12
_DRAWN_ROWS = 5


def blank_svg(spec: MeterSpec) -> str:
    """Draw a meter before its first answer."""
    rows, note = _rows(spec)
    height = _ROW * len(rows) + (22 if note else 4)
    slots = min(spec.steps, _MOST_SLOTS)
    column = (_WIDTH - _NAMES) / slots
    drawn = []
    for index, (tone, name) in enumerate(rows):
        top = 2 + _ROW * index
        drawn.append(_row(top, tone, name))
        for slot in range(slots):
            left = _NAMES + column * (slot + 0.5)
            size = min(20.0, 0.7 * column)
            box = {"x": left - size / 2, "y": top + (_ROW - 6 - size) / 2, "rx": 4}
            drawn.append(element("rect", class_="slot", width=size, height=size, **box))
    if note:
        drawn.append(element("text", escaped(note), x=_NAMES, y=height - 6, class_="axis"))
    return element(
        "svg",
        *drawn,
        class_="chart blank",
        viewBox=f"0 0 {number(_WIDTH)} {number(height)}",
        role="img",
        aria_label=f"The empty meter: {'; '.join(name for _, name in reversed(rows))}. {note}",
    )


def _row(top: float, tone: int, name: str) -> str:
    size = {"width": 8, "height": _ROW - 6, "rx": 3}
    mark = element("rect", class_=f"fill-{tone}" if tone else "slot", x=0, y=top, **size)
    line = {"x1": _NAMES, "x2": _WIDTH, "y1": top + _ROW - 3, "y2": top + _ROW - 3}
    words = element("text", escaped(name), x=16, y=top + 18, class_="name")
    return mark + words + element("line", class_="line", **line)


def _rows(spec: MeterSpec) -> tuple[list[tuple[int, str]], str]:
    """Return the answers to draw, the worst first, each with its tone; and what else to say."""
    left = f"{spec.steps:,} answer{'' if spec.steps == 1 else 's'}"
    if spec.condition is None and len(set(spec.tolerances)) == 1:
        left += f", tolerance {loss_words(spec, spec.tolerances[0])}"
    if spec.difference is not None:
        edges = [-1.0, *map(float, spec.difference.edges), 1.0]
        names = [f"n - o {change_words(each)}" for each in pairwise(edges)]
        # The worst is the lowest, and stands above.
        return [(band_tone(len(names) - n, len(names)), each) for n, each in enumerate(names)], left
    if spec.condition is not None:
        return [(0, "fail"), (1, "pass")], left
    if spec.drawn is not None:
        tones = range(_DRAWN_ROWS, 0, -1)
        wide = loss_words(spec, spec.drawn)
        return [(tone, f"gap, {wide} wide") for tone in tones], f"{left}; edges move"
    every = [
        (band_tone(place, spec.signals), f"{place}: {range_words(spec, (band.lower, band.upper))}")
        for place, band in enumerate(spec.bands, 1)
    ]
    if len(every) > _MOST_ROWS:
        kept = every[: _MOST_ROWS // 2] + every[-_MOST_ROWS // 2 :]
        return kept[::-1], f"{left}; {len(every) - len(kept)} bands between are not drawn"
    return every[::-1], left
