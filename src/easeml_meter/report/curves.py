"""After release: validation and test loss of every step, and where the true loss was promised."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby

from easeml_meter.core.views import SessionView, Truth
from easeml_meter.report.checks import Check, checks, summary
from easeml_meter.report.palette import TEST, TOLERANCE, TRACK, VALIDATION, WRONG
from easeml_meter.report.svg import (
    BOLD,
    PHONE,
    box,
    element,
    escaped,
    fitted,
    image,
    legend,
    number,
    text_width,
)

_TOP, _BASE = 40.0, 250.0
_LEFT, _RIGHT = 56.0, 12.0
_INSET = 14.0
_MARKED = 60
"""Beyond this many steps the points merge into the line."""


@dataclass(frozen=True)
class _Axes:
    found: tuple[Check, ...]

    @cached_property
    def width(self) -> float:
        return min(740.0, max(350.0, 36.0 * len(self.found)))

    @cached_property
    def ticks(self) -> tuple[float, ...]:
        values = [value for check in self.found for value in _values(check)] or [0.0, 1.0]
        low, high = min(values), max(values)
        rough = max(high - low, 0.01) / 4
        unit = 10.0 ** math.floor(math.log10(rough))
        step = next(unit * each for each in (1, 2, 5, 10) if unit * each >= rough * 0.999)
        first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
        return tuple(k * step for k in range(first, max(last, first + 1) + 1))

    def x(self, index: int) -> float:
        room = self.width - _LEFT - _RIGHT - 2 * _INSET
        steps = len(self.found) - 1
        return _LEFT + _INSET + room * (index / steps if steps else 0.5)

    def y(self, loss: float) -> float:
        low, high = self.ticks[0], self.ticks[-1]
        return _BASE - (_BASE - _TOP) * (loss - low) / (high - low)

    def point(self, index: int, loss: float) -> str:
        return f"{number(self.x(index))} {number(self.y(loss))}"


def _values(check: Check) -> tuple[float, ...]:
    truth = check.truth
    if truth is None:
        return ()
    return truth.validation_loss, truth.test_loss, *(check.true_loss or ())


def curves_svg(view: SessionView) -> str:
    """Draw the losses of a released test set; before release there are none to draw."""
    found = checks(view)
    axes = _Axes(found)
    standing = f", test set {view.generation}"
    room = axes.width - 24 - text_width(f"Losses of {standing}", BOLD)
    title = f"Losses of {fitted(view.meter, BOLD, room)}{standing}"
    signs, signs_height = legend(_signs(axes), axes.width)
    heading = element("text", escaped(title), x=12, y=22, font_size=14, font_weight="600")
    if not any(check.truth is not None for check in found):
        words = "No losses are known: the test set has not been released."
        note = element("text", words, x=12, y=60, font_size=12)
        return image("curves", axes.width, 80, title, words, heading, note)
    wrong = "".join(
        _cross(axes.x(index), axes.y(check.truth.test_loss))
        for index, check in enumerate(found)
        if check.truth is not None and check.right is False
    )
    return image(
        "curves",
        axes.width,
        _BASE + 36 + signs_height,
        title,
        _description(found),
        heading,
        _grid(axes),
        _promised(axes),
        _curve(axes, lambda truth: truth.test_loss, TEST, "test"),
        _curve(axes, lambda truth: truth.validation_loss, VALIDATION, "validation"),
        _crosses(wrong) if wrong else "",
        element("g", signs, transform=f"translate(0 {number(_BASE + 30)})"),
        small=axes.width <= PHONE,
    )


def _description(found: tuple[Check, ...]) -> str:
    known = [check.truth for check in found if check.truth is not None]
    first, last = known[0], known[-1]
    return (
        f"Validation loss from {first.validation_loss:.4g} at first to {last.validation_loss:.4g} "
        f"at last; test loss from {first.test_loss:.4g} to {last.test_loss:.4g}. {summary(found)}"
    )


def _grid(axes: _Axes) -> str:
    lines = "".join(
        f"M{number(_LEFT)} {number(axes.y(tick))}H{number(axes.width - _RIGHT)}"
        for tick in axes.ticks
    )
    grid = element("path", d=lines, fill="none", stroke=TRACK, class_="m-grid")
    losses = [
        element("text", f"{tick:.6g}", x=_LEFT - 6, y=axes.y(tick) + 3.5, text_anchor="end")
        for tick in axes.ticks
    ]
    count = len(axes.found)
    room = (axes.width - _LEFT - _RIGHT) / max(1, count)
    every = next(each for each in (1, 2, 5, 10, 20, 50, count) if each * room >= 26)
    base = _BASE + 18
    steps = [
        element("text", str(check.signal.step), x=axes.x(index), y=base, text_anchor="middle")
        for index, check in enumerate(axes.found)
        if index == 0 or check.signal.step % every == 0
    ]
    axis = element("text", "step", x=_LEFT - 6, y=base, text_anchor="end", class_="m-quiet")
    return grid + element("g", *losses, *steps, axis, font_size=10)


def _runs(found: tuple[Check, ...], has: Callable[[Check], bool]) -> Iterator[list[int]]:
    """Return the unbroken runs of steps for which something is known."""
    for there, run in groupby(range(len(found)), lambda index: has(found[index])):
        if there:
            yield list(run)


def _promised(axes: _Axes) -> str:
    """Draw where the true loss was promised to be: test loss and tolerance, as a grey band."""
    found, path = axes.found, ""
    for run in _runs(found, lambda check: check.true_loss is not None):
        edges = [(index, found[index].true_loss or (0.0, 0.0)) for index in run]
        if len(edges) == 1:
            index, (low, high) = edges[0]
            path += box(axes.x(index) - 5, axes.y(high), 10, axes.y(low) - axes.y(high))
            continue
        upper = [axes.point(index, high) for index, (_, high) in edges]
        lower = [axes.point(index, low) for index, (low, _) in reversed(edges)]
        path += "M" + "L".join(upper + lower) + "z"
    return element("path", d=path, fill=TOLERANCE, fill_opacity="0.5", class_="m-tol")


def _curve(axes: _Axes, loss: Callable[[Truth], float], colour: str, kind: str) -> str:
    found, line, marks = axes.found, "", ""
    known = [(0.0 if each.truth is None else loss(each.truth)) for each in found]
    for run in _runs(found, lambda check: check.truth is not None):
        line += "M" + "L".join(axes.point(index, known[index]) for index in run)
        if len(found) <= _MARKED or len(run) == 1:
            marks += "".join(_mark(kind, axes.x(index), axes.y(known[index])) for index in run)
    dashes, width = "5 3" if kind == "test" else None, 2.0 if len(found) <= _MARKED else 1.4
    drawn = element("path", d=line, fill="none", stroke_width=width, stroke_dasharray=dashes)
    if marks:
        drawn += element("path", d=marks, stroke="none")
    return element("g", drawn, fill=colour, stroke=colour, class_=f"m-{kind}")


def _mark(kind: str, x: float, y: float) -> str:
    if kind == "test":
        return box(x - 3, y - 3, 6, 6)
    return f"M{number(x)} {number(y - 4.5)}l4.5 4.5-4.5 4.5-4.5-4.5z"


def _cross(x: float, y: float) -> str:
    return f"M{number(x - 7)} {number(y - 7)}l14 14M{number(x + 7)} {number(y - 7)}l-14 14"


def _crosses(path: str) -> str:
    return element("path", d=path, fill="none", stroke=WRONG, stroke_width=3, class_="m-wrong")


def _signs(axes: _Axes) -> list[tuple[str, str]]:
    def sample(colour: str, kind: str) -> str:
        dashes = "5 3" if kind == "test" else None
        line = element("path", d="M-8 0h16", stroke_width=2, stroke_dasharray=dashes)
        mark = element("path", d=_mark(kind, 0, 0), stroke="none")
        return element("g", line, mark, fill=colour, stroke=colour, class_=f"m-{kind}")

    grey = element(
        "path", d=box(-8, -6, 16, 12), fill=TOLERANCE, fill_opacity="0.5", class_="m-tol"
    )
    entries = [
        (sample(VALIDATION, "validation"), "validation loss"),
        (sample(TEST, "test"), "test loss"),
        (grey, "true loss, as promised"),
    ]
    if any(check.right is False for check in axes.found):
        entries.append((_crosses(_cross(0, 0)), "wrong answer"))
    return entries
