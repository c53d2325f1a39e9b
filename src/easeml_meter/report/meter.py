"""The meter as the paper draws it: one column per step.

A solid bar covers the gap told (the band of empirical overfitting), a grey bar what the tolerance
adds to it (distributional overfitting). Bands are drawn equally high, whatever their width, so
that narrow ones can be read; the edges stand at the axis. A tolerance has the scale of the band it
reaches into, and is never thinner than can be seen.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

from easeml_meter.core.signals import (
    ABOVE_CEILING,
    ALARM,
    BASELINE,
    BELOW_FLOOR,
    FAIL,
    NO_READING,
    OK,
    PASS,
    TOO_FAR,
    TOO_FEW,
)
from easeml_meter.core.views import SessionView, Signal
from easeml_meter.promise.numbers.rounding import at_least, at_most
from easeml_meter.promise.words import words_of
from easeml_meter.report.palette import TOLERANCE, TRACK, text_on
from easeml_meter.report.scale import Scale, answer_colour
from easeml_meter.report.svg import (
    BOLD,
    MARGIN,
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
from easeml_meter.report.words import (
    answer_words,
    change_words,
    gap_name,
    gap_words,
    history_words,
    loss_sentence,
    meaning_words,
    shown,
    standing_words,
    told_words,
)

FEW = 24
"""Up to here every column carries its step and its model's name; beyond, they are thinned."""
PER_ROW = 50
_LEAST_WIDTH = 350.0
_NAME_LENGTH = 18


@dataclass(frozen=True)
class Layout:
    """Where everything goes."""

    view: SessionView

    @cached_property
    def coming(self) -> int:
        """Empty columns for the steps still promised, while there is room for them."""
        total = len(self.view.signals) + self.view.steps_left
        return self.view.steps_left if total <= FEW else 0

    @cached_property
    def columns(self) -> int:
        """All columns."""
        return len(self.view.signals) + self.coming

    @property
    def few(self) -> bool:
        """Whether there is room for names."""
        return self.columns <= FEW

    @cached_property
    def per_row(self) -> int:
        """Columns side by side before a new row is begun."""
        return max(1, min(self.columns, PER_ROW))

    @cached_property
    def pitch(self) -> float:
        """From one column to the next."""
        return 30.0 if self.columns <= 12 else 26.0 if self.few else 14.0

    @property
    def bar(self) -> float:
        """How wide a column is."""
        return self.pitch - (6 if self.few else 1)

    @cached_property
    def cell(self) -> float:
        """How high a band is; a column has room for the word "above ceiling", upright."""
        bands = len(self.scale.rungs)
        if not self.view.spec.meter.question.numbered:  # their edges stand beside them, upright
            return (200 if self.few else 100) / bands
        wanted = 150 if self.few else 100
        return max(min(4.0, 400 / bands), min(36.0, wanted / bands), 96 / bands)

    @cached_property
    def plot(self) -> float:
        """How high a column is."""
        return self.cell * len(self.scale.rungs)

    @cached_property
    def scale(self) -> Scale:
        """The scale of the columns."""
        return Scale(self.view.spec, self.view.signals)

    @cached_property
    def axis(self) -> float:
        """Room for the edges at the left, and for the first name, which leans that way."""
        widest = max(text_width(edge, 10) for edge in self.edges)
        return MARGIN + max(widest + 16, 44.0)

    @cached_property
    def edges(self) -> tuple[str, ...]:
        """The edges of the scale, from 0 up."""
        return tuple(f"{edge:g}" for edge in self.scale.edges)

    @cached_property
    def below(self) -> float:
        """Room for steps and names under a row."""
        if not self.few:
            return 24.0
        names = [self.name(index) for index in range(len(self.view.signals))]
        return 24.0 + 0.72 * max((text_width(name, 10) for name in names), default=0.0)

    def name(self, index: int) -> str:
        """Return a model's name as far as there is room for it, leaning to the left."""
        room = (self.axis + index * self.pitch + self.pitch / 2 - 4) / 0.72
        return fitted(self.view.signals[index].model, 10, room, _NAME_LENGTH)

    @cached_property
    def width(self) -> float:
        """The whole drawing's width."""
        return max(_LEAST_WIDTH, self.axis + self.per_row * self.pitch + MARGIN)

    @cached_property
    def top(self) -> float:
        """Where the first row begins, under the heading."""
        return 56.0

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return max(1, -(-self.columns // PER_ROW))

    def row_top(self, row: int) -> float:
        """Where a row of columns begins."""
        return self.top + row * (self.plot + self.below)

    def place(self, index: int) -> tuple[float, float]:
        """Return the left and the top of a column."""
        row, column = divmod(index, PER_ROW)
        gutter = (self.pitch - self.bar) / 2
        return self.axis + column * self.pitch + gutter, self.row_top(row)

    def height_of(self, gap: float) -> float:
        """Return how far below the top of a column a gap lies."""
        return self.plot - self.cell * self.scale.place(gap)


_THINNEST = 3.0
_ODD = (
    *(ABOVE_CEILING, NO_READING, PASS, FAIL, BASELINE, TOO_FAR),
    *(BELOW_FLOOR, TOO_FEW, OK, ALARM),
)


def meter_svg(view: SessionView) -> str:
    """Draw the meter per step, bands equally high."""
    layout = Layout(view)
    signs, signs_height = legend(_signs(layout), layout.width)
    foot = layout.row_top(layout.rows)
    parts = [
        _heading(layout),
        *(_frame(layout, row) for row in range(layout.rows)),
        _tracks(layout),
        _tolerances(layout),
        *_columns(layout),
        element("g", signs, transform=f"translate(0 {number(foot)})"),
    ]
    return image(
        "meter",
        layout.width,
        foot + signs_height + MARGIN,
        f"Meter {shown(view.meter, 40)}, {standing_words(view)}",
        f"{history_words(view)} {meaning_words(view)}",
        *parts,
        small=layout.width <= PHONE,
    )


def _heading(layout: Layout) -> str:
    even = "bands equally high" if layout.view.spec.meter.question.numbered else "drawn edges"
    caption = f"height: {gap_name(layout.view.spec)}"
    if text_width(f"{caption}; {even}", 11) <= layout.width - 2 * MARGIN:
        caption += f"; {even}"
    words = words_of(layout.view.spec.meter)
    if words is not None:
        caption = escaped(fitted(words.heading, 11, layout.width - 2 * MARGIN, limit=200))
    standing = f", {standing_words(layout.view)}"
    room = layout.width - 2 * MARGIN - text_width(standing, BOLD)
    title = escaped(fitted(layout.view.meter, BOLD, room) + standing)
    return element("text", title, x=MARGIN, y=22, font_size=14, font_weight="600") + element(
        "text", caption, x=MARGIN, y=40, font_size=11, class_="m-quiet"
    )


def _frame(layout: Layout, row: int) -> str:
    if layout.view.spec.meter.question.verdict:  # a verdict has no height
        return ""
    top, left = layout.row_top(row), layout.axis - 10
    colours = layout.scale.colours
    strip = [
        element(
            "path",
            d=box(left, top + layout.plot - layout.cell * (k + 1), 5, layout.cell),
            fill=colour,
        )
        for k, colour in enumerate(colours)
    ]
    every = math.ceil(11 / layout.cell)
    last = len(layout.edges) - 1
    labels = [
        element(
            "text",
            edge,
            x=number(left - 4),
            y=number(top + layout.plot - layout.cell * k + 3.5),
        )
        for k, edge in enumerate(layout.edges)
        if k == last or (k % every == 0 and last - k >= every)
    ]
    return "".join(strip) + element("g", *labels, text_anchor="end", font_size=10)


def _tracks(layout: Layout) -> str:
    told = len(layout.view.signals)
    paths = ["", ""]
    for index in range(layout.columns):
        left, top = layout.place(index)
        paths[index >= told] += box(left, top, layout.bar, layout.plot)
    drawn = element("path", d=paths[0], fill=TRACK, class_="m-track") if paths[0] else ""
    if paths[1]:
        outline = {"fill": "none", "stroke": "currentColor", "stroke_opacity": "0.35"}
        drawn += element("path", d=paths[1], stroke_dasharray="2 3", **outline)
    return drawn


def _columns(layout: Layout) -> list[str]:
    size = 11 if layout.few else 9
    drawn = [_column(layout, index, signal) for index, signal in enumerate(layout.view.signals)]
    marks = [_labels(layout, index) for index in range(layout.columns)]
    return [
        element("g", *drawn, font_size=size, text_anchor="middle"),
        element("g", *marks, font_size=10 if layout.few else 9, text_anchor="middle"),
    ]


def _column(layout: Layout, index: int, signal: Signal) -> str:
    left, top = layout.place(index)
    reading = told_words(signal)
    if layout.few and signal.true_change is not None:
        reading += f", promised {change_words(signal.true_change)}"
    if layout.few and signal.true_gap is not None:
        gap = f", gap {gap_words(signal.gap)}" if signal.spec.meter.question.numbered else ""
        reading += f"{gap}, promised {gap_words(signal.true_gap)}"
    if layout.few and (said := loss_sentence(signal)):
        reading += f". {said}"
    # Isolated, so that a name written from right to left cannot reorder what stands around it.
    name = f"\u2068{escaped(signal.model, 40 if layout.few else 24)}\u2069"
    parts = [element("title", f"{signal.step:,} {name}: {reading}")]
    if signal.answer in _ODD or not layout.scale.shows(signal):
        parts.append(_odd(layout, signal))
    else:
        parts.append(_band(layout, signal, answer_colour(signal)))
    return element("g", *parts, transform=f"translate({number(left)} {number(top)})")


def _tolerances(layout: Layout) -> str:
    path = ""
    for index, signal in enumerate(layout.view.signals):
        told, promised = signal.told, signal.promised
        if told is None or promised is None or not layout.scale.shows(signal):
            continue
        left, top = layout.place(index)
        (low, high), (least, most) = told, promised
        if most > high:
            end = layout.height_of(high)
            height = min(end, max(_THINNEST, end - layout.height_of(most)))
            path += box(left, top + end - height, layout.bar, height)
        if least < low:
            start = layout.height_of(low)
            height = min(layout.plot - start, max(_THINNEST, layout.height_of(least) - start))
            path += box(left, top + start, layout.bar, height)
    return element("path", d=path, fill=TOLERANCE, class_="m-tol") if path else ""


def _band(layout: Layout, signal: Signal, colour: str) -> str:
    low, high = signal.told or (0.0, 1.0)
    top, bottom = layout.height_of(high), layout.height_of(low)
    bar = element("path", d=box(0, top, layout.bar, max(1.0, bottom - top)), fill=colour)
    if not signal.spec.meter.question.numbered:
        return bar + (_edges(layout, signal, top, bottom, colour) if layout.few else "")
    middle = number(layout.bar / 2)
    if layout.cell >= 12:
        if signal.told_edges is not None:  # over several bands: the number stands in its own one
            top = layout.height_of(float(signal.spec.meter.question.ends[signal.answer]))
        at = number(top + layout.cell / 2 + 4)
        return bar + element("text", str(signal.answer), x=middle, y=at, fill=text_on(colour))
    at = number(top - 4 if top >= 14 else top + layout.cell + 12)
    return bar + element("text", str(signal.answer), x=middle, y=at)


def _edges(layout: Layout, signal: Signal, top: float, bottom: float, colour: str) -> str:
    """Write the edges of a band upright: on its bar, else where there is more room beside it."""
    low, high = signal.gap or (0.0, 1.0)
    words = f"{at_least(low, 3)}–{at_most(high, 3)}"
    length = text_width(words, 9)
    _, most = signal.true_gap or (0.0, 1.0)
    clear = 4 + max(_THINNEST, top - layout.height_of(most))
    ink: dict[str, str] = {}
    start = top - clear
    if bottom - top >= length + 4:
        ink, start = {"fill": text_on(colour)}, bottom - 2
    elif top < layout.plot - bottom:
        start = bottom + clear + length
    at = f"rotate(-90) translate({number(-start)} {number(layout.bar / 2 + 3)})"
    return element("text", words, transform=at, font_size=9, text_anchor="start", **ink)


def _odd(layout: Layout, signal: Signal) -> str:
    low = signal.gap[0] if signal.gap is not None else layout.scale.edges[0]
    height = layout.height_of(low)
    outline = element(
        "path",
        d=box(0.5, 0.5, layout.bar - 1, height - 1),
        fill=layout.scale.colours[0] if signal.passed else "none",
        stroke="currentColor",
        stroke_dasharray="1 2",
    )
    middle = layout.bar / 2
    glyph = element("g", _glyph(signal.answer), transform=f"translate({number(middle)} 9)")
    at = f"rotate(-90) translate({number(-18)} {number(middle + 3.5)})"
    words = element("text", told_words(signal), transform=at, font_size=10, text_anchor="end")
    return outline + glyph + words


def _glyph(answer: int) -> str:
    """Return the sign of an answer that is no band, 9 wide around 0, 0."""
    if answer == ABOVE_CEILING:
        return element("path", d="M-4.5 4h9L0-4.5z")
    if answer == BELOW_FLOOR:
        return element("path", d="M-4.5-4h9L0 4.5z")
    line = {"fill": "none", "stroke": "currentColor", "stroke_width": "1.6"}
    if answer == TOO_FEW:
        return element("path", d="M-3 3L3-3M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0", **line)
    if answer == BASELINE:
        return element("circle", cx=0, cy=0, r=4, **line)
    if answer in (PASS, OK):
        return element("path", d="M-4 0.5l3 3.5 5.5-8", **line)
    if answer == ALARM:
        return element("path", d="M0-6v7M0 3.5v1.5", **line)
    if answer > 0:  # a difference among gaps
        return element("path", d="M-4-2.5h8M0-6.5v8M-4 4.5h8", **line)
    if answer == TOO_FAR:
        return element("path", d="M-4-2h8M-4 2h8M2-4.5l-4 9", **line)
    return element("path", d="M-3.5-3.5l7 7M3.5-3.5l-7 7", **line)


def _labels(layout: Layout, index: int) -> str:
    signals = layout.view.signals
    told = index < len(signals)
    following = signals[-1].step + 1 if signals else 1
    step = signals[index].step if told else following + index - len(signals)
    if not (layout.few or step % 5 == 0 or index % PER_ROW == 0):
        return ""
    left, top = layout.place(index)
    x, y = left + layout.bar / 2, top + layout.plot
    if not told:
        return element("text", str(step), x=x, y=y + 13, class_="m-quiet")
    label = element("text", str(step), x=x, y=y + 13)
    if layout.few:
        name = element(
            "text",
            escaped(layout.name(index)),
            transform=f"translate({number(x + 4)} {number(y + 24)})rotate(-45)",
            text_anchor="end",
        )
        label += name
    return label


def _signs(layout: Layout) -> list[tuple[str, str]]:
    view = layout.view
    answers = {signal.answer for signal in view.signals}
    best = layout.scale.colours[-1 if view.spec.meter.question.reads == "n - o" else 0]
    solid = element("path", d=box(-6, -6, 12, 12), fill=best)
    grey = element("path", d=box(-6, -6, 12, 12), fill=TOLERANCE, class_="m-tol")
    told = "with its band" if view.spec.meter.question.numbered else "between drawn edges"
    entries = [(solid, f"reported gap, {told}"), (grey, "tolerance")]
    if view.spec.meter.question.reads == "n - o":
        entries[0] = (solid, "reported n - o, with its band")
    if view.spec.meter.question.verdict:
        entries = []
    entries += [(_glyph(each), answer_words(each)) for each in _ODD if each in answers]
    if layout.coming:
        line = {"fill": "none", "stroke": "currentColor", "stroke_dasharray": "2 2"}
        entries.append((element("path", d=box(-4, -6, 8, 12), **line), "step still promised"))
    return entries
