"""Labels against steps: one line for each meter, one panel for each way of counting."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from easeml_meter.report.palette import INK, TRACK
from easeml_meter.report.svg import element, escaped, image, legend, number

_LEFT, _RIGHT, _GAP = 48.0, 14.0, 32.0
_HEIGHT = 210.0

# In the order in which they are drawn: where two meters cost the same, the later line has gaps
# that show the earlier one.
_LINES: dict[str, tuple[str, str | None]] = {
    "resampling (baseline)": ("#7a4b9c", "6 3"),
    "regular, uniform": ("#b34700", None),
    "regular, nonuniform": ("#4a2512", "5 5"),
    "incremental, uniform": ("#0062a8", None),
    "no adaptivity (ideal)": ("#7d8892", None),
    "incremental, nonuniform": ("#00735a", "5 5"),
}

Lines = Mapping[str, Sequence[float]]
"""The labels that each of the paper's meters (`comparison.lines`) needs at each number of steps."""


@dataclass(frozen=True)
class _Panel:
    """Both axes are logarithmic, and the same in all panels."""

    title: str
    steps: tuple[float, float]
    labels: tuple[float, float]
    left: float
    top: float
    width: float

    @property
    def right(self) -> float:
        return self.left + self.width

    @property
    def base(self) -> float:
        return self.top + _HEIGHT

    def x(self, steps: float) -> float:
        return self.left + self.width * _share(steps, self.steps)

    def y(self, labels: float) -> float:
        return self.base - _HEIGHT * _share(labels, self.labels)

    def path(self, steps: Sequence[int], labels: Sequence[float]) -> str:
        points = zip(map(self.x, steps), map(self.y, labels), strict=True)
        return "M" + "L".join(f"{number(x)} {number(y)}" for x, y in points)


def _share(value: float, ends: tuple[float, float]) -> float:
    low, high = map(math.log, ends)
    return (math.log(value) - low) / (high - low)


def labels_svg(
    steps: Sequence[int], forms: Mapping[str, Lines], asked: int, chosen: int | None = None
) -> str:
    """Draw a panel for each form, side by side, with the steps that were asked for.

    `chosen` is the labels of one meter with that many steps: a dot instead of a vertical line.
    A single panel needs no title and is as wide as a phone.
    """
    panels = _panels(steps, forms, chosen)
    last = panels[-1]
    width = last.right + _RIGHT
    signs, height = legend(_signs(asked, chosen), width)
    return image(
        "labels",
        width,
        last.base + 36 + height,
        "Labels against answers",
        _description(steps, forms, asked, chosen),
        element("text", "Labels against answers", x=12, y=22, font_size=14, font_weight="600"),
        _label_axis(panels[0]),
        *(_drawn(panel, steps, forms[panel.title], asked, chosen) for panel in panels),
        element("g", signs, transform=f"translate(0 {number(last.base + 30)})"),
        small=len(panels) == 1,
    )


def _panels(steps: Sequence[int], forms: Mapping[str, Lines], chosen: int | None) -> list[_Panel]:
    values = [value for lines in forms.values() for line in lines.values() for value in line]
    values += [] if chosen is None else [chosen]
    low, high = 10.0 ** math.floor(math.log10(min(values))), max(values)
    top, width = (40.0, 288.0) if len(forms) == 1 else (62.0, 230.0)
    return [
        _Panel(
            title=title,
            steps=(steps[0], max(steps[-1], steps[0] + 1)),
            labels=(low, max(high * 1.2, low * 10)),
            left=_LEFT + place * (width + _GAP),
            top=top,
            width=width,
        )
        for place, title in enumerate(forms)
    ]


def _drawn(
    panel: _Panel, steps: Sequence[int], lines: Lines, asked: int, chosen: int | None
) -> str:
    title = element("text", escaped(panel.title), x=panel.left, y=panel.top - 10, font_size=12)
    parts = [title if panel.title else "", _grid(panel)]
    if chosen is None:
        parts.append(_rule(panel.x(asked), panel.top, panel.base))
    parts += [_stroke(panel.path(steps, lines[name]), name) for name in _LINES]
    if chosen is not None:
        parts.append(_dot(panel.x(asked), panel.y(chosen)))
    return "".join(parts)


def _description(
    steps: Sequence[int], forms: Mapping[str, Lines], asked: int, chosen: int | None
) -> str:
    said = [f"Labels needed for {steps[0]:,} to {steps[-1]:,} answers."]
    for title, lines in forms.items():
        ranges = "; ".join(
            f"{name} from {_short(line[0])} to {_short(line[-1])}" for name, line in lines.items()
        )
        said.append(f"{title}: {ranges}." if title else f"{ranges}.")
    if chosen is not None:
        said.append(f"Your meter: {chosen:,} labels for {asked:,} answers.")
    return " ".join(said)


def _stroke(path: str, name: str) -> str:
    colour, dashes = _LINES[name]
    return element(
        "path",
        element("title", name),
        d=path,
        fill="none",
        stroke=colour,
        stroke_width=2,
        stroke_dasharray=dashes,
        class_=f"m-line-{list(_LINES).index(name)}",
    )


def _dot(x: float, y: float) -> str:
    return element("circle", cx=x, cy=y, r=5, fill=INK, class_="m-chosen")


def _rule(x: float, top: float, base: float) -> str:
    path = f"M{number(x)} {number(top)}V{number(base)}"
    return element("path", d=path, stroke="#888888", stroke_dasharray="3 3")


def _signs(asked: int, chosen: int | None) -> list[tuple[str, str]]:
    signs = [(_stroke("M-8 0H10", name), name) for name in _LINES]
    if chosen is not None:
        return [*signs, (_dot(0, 0), "your meter")]
    return [*signs, (_rule(0, -8, 8), f"{asked:,} step{'s' if asked > 1 else ''}")]


def _label_axis(panel: _Panel) -> str:
    counts = [
        element("text", _short(power), x=_LEFT - 6, y=panel.y(power) + 3.5, text_anchor="end")
        for power in _powers(*panel.labels)
    ]
    name = element(
        "text", "answers", x=_LEFT - 6, y=panel.base + 18, text_anchor="end", class_="m-quiet"
    )
    return element("g", *counts, name, font_size=10)


def _grid(panel: _Panel) -> str:
    path = "".join(
        f"M{number(panel.left)} {number(panel.y(power))}H{number(panel.right)}"
        for power in _powers(*panel.labels)
    )
    steps = [
        element("text", _short(power), x=panel.x(power), y=panel.base + 18, text_anchor="middle")
        for power in _powers(*panel.steps)
    ]
    grid = element("path", d=path, fill="none", stroke=TRACK, class_="m-grid")
    return grid + element("g", *steps, font_size=10)


def _powers(low: float, high: float) -> list[float]:
    """Return the powers of ten between two numbers, or both of these if there are fewer than 2."""
    first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
    found = [10.0**power for power in range(first, last + 1)]
    return found if len(found) > 1 else [low, high]


def _short(value: float) -> str:
    """Write a number with two or three digits: 23k, 1.2M."""
    for unit, sign in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= unit:
            return f"{value / unit:.3g}{sign}"
    return f"{value:.0f}"
