"""How good each model is: its validation loss, and where the true loss lies as promised.

One column per submission, on a linear axis from 0. It is coloured by classes alone, for pages that
have tones for bands, light and dark. After release, the test losses are drawn into the promises.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from easeml_meter.core.lifecycle import Phase
from easeml_meter.core.views import SessionView, Signal, Truth, band_numbers
from easeml_meter.report.scale import tone
from easeml_meter.report.svg import element, escaped, fitted, number, text_width
from easeml_meter.report.words import (
    is_error,
    loss_name,
    loss_words,
    measured_words,
    page_words,
    shown,
    validation_words,
)

MOST = 40
"""Submissions that are drawn, the newest ones."""
_ON_PHONES = 12
_FEWEST = 6
_SLOTS = 24
"""Columns up to which answers that are left are drawn as empty slots."""
_NAMED = 14
"""Columns up to which each one has its name and numbers beside it."""
_TOP, _STRIP, _LEFT_EDGE = 18.0, 26.0, 46.0
_TIP, _NAME = 226.0, 11.5


def promised_svg(view: SessionView, *, phone: bool = False) -> str:
    """Draw the session for a wide window, or the newest columns of it for a phone."""
    return _Chart(view, phone).draw()


def bounded(signal: Signal) -> float | None:
    """Return the upper bound on the true loss that an answer promises; None: none below 1."""
    most = signal.true_loss_at_most
    return most if most is not None and most < 1 else None


def tones(view: SessionView) -> list[int]:
    """Return the tones of the bars that are drawn, the mildest first; for an empty meter, that."""
    return sorted({tone(signal) or 1 for signal in view.signals[-MOST:]}) or [1]


def best_promise(view: SessionView) -> Signal | None:
    """Return the answer with the least upper bound on the true loss, the first of several."""
    found = [signal for signal in view.signals if bounded(signal) is not None]
    return min(found, key=lambda signal: bounded(signal) or 0.0, default=None)


@dataclass(frozen=True)
class _Chart:
    view: SessionView
    phone: bool

    @cached_property
    def shown(self) -> tuple[Signal, ...]:
        return self.view.signals[-(_ON_PHONES if self.phone else MOST) :]

    @cached_property
    def columns(self) -> int:
        room = max(0, (_ON_PHONES if self.phone else _SLOTS) - len(self.shown))
        waiting = self.view.phase in (Phase.ACTIVE, Phase.REQUESTED)
        slots = min(room, self.view.steps_left) if waiting else 0
        return max(len(self.shown) + slots, _FEWEST)

    @property
    def named(self) -> bool:
        return self.columns <= _NAMED and not self.phone

    @property
    def width(self) -> float:
        return 320.0 if self.phone else 760.0

    @property
    def bottom(self) -> float:
        return 240.0 if self.phone else 400.0

    @property
    def column(self) -> float:
        return (self.width - _LEFT_EDGE - 8) / self.columns

    @property
    def bar(self) -> float:
        return min(36.0, 0.62 * self.column)

    @cached_property
    def truths(self) -> tuple[Truth | None, ...]:
        """What each submission that is drawn really was; empty before release."""
        known = self.view.retrospective
        count = len(self.view.signals)
        return (known + (None,) * count)[:count][-len(self.shown) :] if known else ()

    @cached_property
    def largest(self) -> float:
        values = [value for each in self.shown for value in _values(each)]
        values += [truth.test_loss for truth in self.truths if truth is not None]
        return max(*values, 0.01) if values else 0.25

    @cached_property
    def step(self) -> float:
        """The distance between two lines of the axis: 1, 2 or 5 times a power of ten."""
        rough = self.largest * 1.1 / 5
        power = 10.0 ** math.floor(math.log10(rough))
        return next(k * power for k in (1, 2, 5, 10) if k * power >= rough * 0.999)

    @cached_property
    def highest(self) -> float:
        return min(1.0, self.step * math.ceil(1.08 * self.largest / self.step))

    def y(self, loss: float) -> float:
        share = min(max(loss, 0.0), self.highest) / self.highest
        return self.bottom - (self.bottom - _TOP) * share

    def x(self, index: int) -> float:
        return _LEFT_EDGE + self.column * (index + 0.5)

    def draw(self) -> str:
        heights = 40.0 + (38.0 if self.named else 22.0)
        content = [*self._axis(), *self._slots(), *self._bars(), *self._best(), *self._measured()]
        content += [*self._truth(), *self._strip(), *self._links()]
        name = loss_name(self.view.spec)
        last = f" Latest: {', '.join(self._words(len(self.shown) - 1))}." if self.shown else ""
        label = f"Validation {name} of {len(self.shown)} submissions, each with the promised range "
        return element(
            "svg",
            *content,
            class_=f"chart {'phone' if self.phone else 'desk'}",
            viewBox=f"0 0 {number(self.width)} {number(self.bottom + heights)}",
            role="group",
            aria_label=f"{label}of the true {name}.{last}",
        )

    def _axis(self) -> Iterator[str]:
        for count in range(round(self.highest / self.step) + 1):
            value = count * self.step
            y, kind = self.y(value), "line" if count else "zero"
            yield element("line", class_=kind, x1=_LEFT_EDGE, x2=self.width - 8, y1=y, y2=y)
            words = f"{100 * value:.4g} %" if is_error(self.view.spec) else f"{value:.4g}"
            yield _text(words, _LEFT_EDGE - 8, y + 4, "axis", "end")

    def _slots(self) -> Iterator[str]:
        if self.view.phase not in (Phase.ACTIVE, Phase.REQUESTED):
            return
        taken = len(self.shown)
        for index in range(taken, min(self.columns, taken + self.view.steps_left)):
            left = self.x(index) - self.bar / 2
            size = {"width": self.bar, "height": self.bottom - _TOP, "rx": 6}
            yield element("rect", class_="slot", x=left, y=_TOP, **size)

    def _bars(self) -> Iterator[str]:
        """Draw where the true loss lies: nothing where the promise excludes it."""
        for index, signal in enumerate(self.shown):
            fill = f"fill-{tone(signal) or 1}"
            left = self.x(index) - self.bar / 2
            for kind, (least, most) in zip(("above", "below"), _ranges(signal), strict=True):
                if most > least:
                    top = self.y(most)
                    size = {"width": self.bar, "height": self.y(least) - top}
                    yield element("rect", class_=f"{fill} {kind}", x=left, y=top, **size)
            most_promised = bounded(signal)
            if most_promised is not None:
                y = self.y(most_promised)
                yield element("rect", class_=fill, x=left, y=y - 2, width=self.bar, height=4, rx=2)

    def _best(self) -> Iterator[str]:
        best = best_promise(self.view)
        if best is None or len(self.view.signals) < 2 or self.truths:
            return
        y = self.y(bounded(best) or 0.0)
        start = self.x(self.shown.index(best)) if best in self.shown else _LEFT_EDGE
        yield element("line", class_="best", x1=start, x2=self.width - 8, y1=y, y2=y)
        bound = loss_words(best.spec, bounded(best) or 0.0)
        words = f"best promise so far: {bound}"
        room = self.width - 8 - self.x(len(self.shown) - 1) - self.bar / 2
        if text_width(words, 12) > room:  # on bars; the sentence above the drawing has them, too
            return
        yield _text(words, self.width - 8, y - 6, "halo axis", "end")

    def _measured(self) -> Iterator[str]:
        yield self._path("seen", [signal.validation_loss for signal in self.shown])
        best = best_promise(self.view)
        for index, signal in enumerate(self.shown):
            last = len(self.shown) - 1
            # Numbers of neighbours would overlap.
            alone = signal is best and min(index, last - index) > 1
            telling = self.named or index in (0, last) or alone
            yield from self._point(index, signal, telling=telling)

    def _path(self, kind: str, losses: Sequence[float | None]) -> str:
        """Draw a line through losses, broken where one is not known."""
        path, pen = "", "M"
        for index, loss in enumerate(losses):
            if loss is None:
                pen = "M"
                continue
            path += f"{pen}{number(self.x(index))} {number(self.y(loss))}"
            pen = "L"
        return element("path", class_=kind, d=path) if path else ""

    def _truth(self) -> Iterator[str]:
        yield self._path(
            "truth", [None if each is None else each.test_loss for each in self.truths]
        )
        for index, truth in enumerate(self.truths):
            if truth is None:
                continue
            x, y = self.x(index), self.y(truth.test_loss)
            yield element("circle", class_="ring", cx=x, cy=y, r=min(5.0, 0.2 * self.column + 1))
            if self.named or index in (0, len(self.shown) - 1):
                words = measured_words(self.view.spec, truth.test_loss).removesuffix(" %")
                above = truth.test_loss >= truth.validation_loss
                yield self._number(words, x, y - 11 if above else y + 20, "cap")

    def _point(self, index: int, signal: Signal, *, telling: bool) -> Iterator[str]:
        most, loss, x = bounded(signal), signal.validation_loss, self.x(index)
        # After release the test loss has its number there.
        if telling and most is not None and not self.truths:
            words = loss_words(signal.spec, most).removesuffix(" %")
            yield self._number(words, x, self.y(most) - 8, "cap")
        if loss is None:
            return
        y = self.y(loss)
        yield element("circle", class_="dot", cx=x, cy=y, r=min(5.5, 0.2 * self.column + 1))
        if telling:
            words = validation_words(signal).removesuffix(" %")
            truth = self.truths[index] if self.truths else None
            low = y + 20 < self.bottom and (truth is None or truth.test_loss >= loss)
            yield self._number(words, x, y + 20 if low else y - 11, "measured")

    def _number(self, words: str, x: float, y: float, kind: str) -> str:
        """Write a number at a point, away from those of the axis and inside the drawing."""
        half = text_width(words, 12) / 2
        inside = min(max(x, _LEFT_EDGE + half), self.width - half)
        return _text(words, inside, y, f"{kind} halo")

    def _strip(self) -> Iterator[str]:
        top, width = self.bottom + 12, min(54.0, self.column - 3)
        for index, signal in enumerate(self.shown):
            x, shade = self.x(index), tone(signal)
            kind = f"fill-{shade}" if shade else "slot"
            box = {"x": x - width / 2, "y": top, "width": width, "height": _STRIP, "rx": 5}
            yield element("rect", class_=kind, **box)
            sign = mark(signal)
            if text_width(sign, 13) < width:
                yield _text(sign, x, top + 17.5, f"band on-{shade}")
            for line, part in enumerate(self._below(index)):
                yield _text(part, x, top + 42 + 14 * line, "name")

    @cached_property
    def _names(self) -> list[list[str]]:
        return [_lines(signal.model, self.column - 2) for signal in self.shown]

    def _below(self, index: int) -> list[str]:
        """Return a name if all names fit, else a number, as far as there is room."""
        if self.named and all(self._names):
            return self._names[index]
        telling = self.named or index in (0, len(self.shown) - 1)
        return [f"{self.shown[index].step:,}"] if telling else []

    def _words(self, index: int) -> list[str]:
        signal, name = self.shown[index], loss_name(self.view.spec)
        most, truth = bounded(signal), self.truths[index] if self.truths else None
        bound = "no upper bound" if most is None else f"at most {loss_words(signal.spec, most)}"
        found = [f"validation {validation_words(signal)}, {page_words(signal)}"]
        found.append(f"true {name} {bound}")
        if truth is not None:
            found.append(f"test {name} {measured_words(signal.spec, truth.test_loss)}")
        return found

    def _links(self) -> Iterator[str]:
        """Make each column a link to its row, with a tip on hover and focus."""
        for index, signal in enumerate(self.shown):
            x, words = self.x(index), self._words(index)
            size = {"y": 8, "width": self.column, "height": self.bottom + _STRIP + 8, "rx": 6}
            hit = element("rect", class_="hit", x=x - self.column / 2, **size)
            left = min(max(x - _TIP / 2, 4.0), self.width - _TIP - 4)
            lines = (fitted(signal.model, 13, _TIP - 24), *words)
            height = 12 + 18.0 * len(lines)
            top = self.bottom - 8 - height
            tip = [element("rect", x=left, y=top, width=_TIP, height=height, rx=7)]
            for line, part in enumerate(lines):
                tip.append(_text(part, left + 12, top + 20 + 18 * line, "", "start"))
            yield element(
                "a",
                hit,
                element("g", *tip, class_="tip"),
                href=f"#answer-{signal.step}",
                aria_label=shown(f"{signal.model}: {', '.join(words)}", 300),
            )


def _text(words: str, x: float, y: float, kind: str, anchor: str = "middle") -> str:
    return element("text", escaped(words), class_=kind or None, x=x, y=y, text_anchor=anchor)


def _values(signal: Signal) -> Iterator[float]:
    for value in (signal.validation_loss, bounded(signal), signal.true_loss_at_least):
        if value is not None:
            yield value


def _ranges(signal: Signal) -> tuple[tuple[float, float], tuple[float, float]]:
    """Return where the promise leaves the true loss: above the validation loss, and below it.

    A distance leaves out what is nearer than the band; other answers tell an upper end only.
    """
    least, most, loss = signal.true_loss_at_least, signal.true_loss_at_most, signal.validation_loss
    nothing = (0.0, 0.0)
    if loss is None or (least is None and most is None):
        return nothing, nothing
    if most is None or signal.true_gap is None:
        return (least or 0.0, 1.0 if most is None else most), nothing
    question = signal.spec.meter.question
    one_sided = question.climbs_only or question.one_sided
    hole = 0.0 if one_sided else signal.true_gap[0]
    lowest = least or 0.0
    return (max(loss + hole, lowest), most), (lowest, min(loss - hole, most))


def mark(signal: Signal) -> str:
    """Return the number of a band that has one that means something, or a sign."""
    if signal.band is None:
        return {True: "✓", False: "✗", None: "–"}[signal.passed]
    return "" if not signal.spec.meter.question.numbered else band_numbers(signal)


def _lines(name: str, room: float) -> list[str]:
    """Break a name at spaces over two lines of a column; nothing if it does not fit uncut."""
    lines = [""]
    for word in shown(name).split():
        longer = f"{lines[-1]} {word}".strip()
        if lines[-1] and text_width(longer, _NAME) > room:
            lines.append(word)
        else:
            lines[-1] = longer
    fits = len(lines) <= 2 and all(text_width(line, _NAME) <= room for line in lines)
    return lines if fits else []
