"""The planner's chart: labels against steps, one line for each meter."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from easeml_meter.report.palette import INK, TRACK
from easeml_meter.report.svg import element, image, legend, number

_WIDTH, _TOP, _BASE = 350.0, 40.0, 250.0
_LEFT, _RIGHT = 48.0, 14.0

# Names as in a comparison. Both regular meters cost the same: their histories all stand at band 1.
_LINES = {
    "resampling (baseline)": ("resampling", "#7a4b9c", "6 3"),
    "regular, uniform": ("regular", "#b34700", None),
    "incremental, uniform": ("incremental, one tolerance", "#0062a8", None),
    # Often the same as the next one, which is drawn over it and has gaps.
    "no adaptivity (ideal)": ("no adaptivity", "#7d8892", None),
    "incremental, nonuniform": ("incremental, by band", "#00735a", "5 5"),
}


@dataclass(frozen=True)
class _Axes:
    """Both logarithmic."""

    steps: tuple[float, float]
    labels: tuple[float, float]

    def x(self, steps: float) -> float:
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * _share(steps, self.steps)

    def y(self, labels: float) -> float:
        return _BASE - (_BASE - _TOP) * _share(labels, self.labels)

    def point(self, steps: float, labels: float) -> str:
        return f"{number(self.x(steps))} {number(self.y(labels))}"


def _share(value: float, ends: tuple[float, float]) -> float:
    low, high = map(math.log, ends)
    return (math.log(value) - low) / (high - low)


def labels_svg(
    steps: Sequence[int], labels: Mapping[str, Sequence[float]], chosen: tuple[int, int]
) -> str:
    """Draw the lines, and the meter that was asked for as a dot."""
    values = [value for line in labels.values() for value in line] + [chosen[1]]
    low, high = (10.0 ** math.floor(math.log10(min(values))), max(values))
    axes = _Axes((steps[0], max(steps[-1], steps[0] + 1)), (low, max(high * 1.2, low * 10)))
    lines = []
    for index, (name, (_, colour, dashes)) in enumerate(_LINES.items()):
        points = "L".join(axes.point(*each) for each in zip(steps, labels[name], strict=True))
        lines.append(_stroke(f"M{points}", colour, dashes, index))
    heading = element("text", "Labels against steps", x=12, y=22, font_size=14, font_weight="600")
    signs, height = legend(_signs(), _WIDTH)
    return image(
        "plan",
        _WIDTH,
        _BASE + 36 + height,
        "Labels against steps",
        _description(steps, labels, chosen),
        heading,
        _grid(axes),
        *lines,
        _dot(axes.x(chosen[0]), axes.y(chosen[1])),
        element("g", signs, transform=f"translate(0 {number(_BASE + 30)})"),
        small=True,
    )


def _description(
    steps: Sequence[int], labels: Mapping[str, Sequence[float]], chosen: tuple[int, int]
) -> str:
    said = [
        f"{words} from {_short(labels[name][0])} to {_short(labels[name][-1])}"
        for name, (words, _, _) in _LINES.items()
    ]
    return (
        f"Labels needed for {steps[0]:,} to {steps[-1]:,} steps: {'; '.join(said)}. "
        f"Your meter: {chosen[1]:,} labels for {chosen[0]:,} steps."
    )


def _stroke(path: str, colour: str, dashes: str | None, index: int) -> str:
    return element(
        "path",
        d=path,
        fill="none",
        stroke=colour,
        stroke_width=2,
        stroke_dasharray=dashes,
        class_=f"p-line-{index}",
    )


def _dot(x: float, y: float) -> str:
    return element("circle", cx=x, cy=y, r=5, fill=INK, class_="p-dot")


def _signs() -> list[tuple[str, str]]:
    lines = [
        (_stroke("M-8 0H10", colour, dashes, index), words)
        for index, (words, colour, dashes) in enumerate(_LINES.values())
    ]
    return [*lines, (_dot(0, 0), "your meter")]


def _grid(axes: _Axes) -> str:
    powers = _powers(*axes.labels)
    path = "".join(
        f"M{number(_LEFT)} {number(axes.y(power))}H{number(_WIDTH - _RIGHT)}" for power in powers
    )
    counts = [
        element("text", _short(power), x=_LEFT - 6, y=axes.y(power) + 3.5, text_anchor="end")
        for power in powers
    ]
    base = _BASE + 18
    steps = [
        element("text", _short(power), x=axes.x(power), y=base, text_anchor="middle")
        for power in _powers(*axes.steps)
    ]
    axis = element("text", "steps", x=_LEFT - 6, y=base, text_anchor="end", class_="m-quiet")
    grid = element("path", d=path, fill="none", stroke=TRACK, class_="m-grid")
    return grid + element("g", *counts, *steps, axis, font_size=10)


def _powers(low: float, high: float) -> list[float]:
    """Give the powers of ten between two numbers, or both of them if there is none but one."""
    first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
    found = [10.0**power for power in range(first, last + 1)]
    return found if len(found) > 1 else [low, high]


def _short(value: float) -> str:
    """Write a number with two or three digits: 23k, 1.2M."""
    for unit, sign in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= unit:
            return f"{value / unit:.3g}{sign}"
    return f"{value:.0f}"
