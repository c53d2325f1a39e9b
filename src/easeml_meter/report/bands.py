"""The bands of a meter side by side, and how far each edge can move by the tolerance."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise

from easeml_meter.report.palette import INK, band_colours
from easeml_meter.report.scale import TONES, band_tone
from easeml_meter.report.svg import element, escaped, number
from easeml_meter.report.words import loss_words
from easeml_meter.spec import MeterSpec

_WIDTH, _MARGIN = 360.0, 8.0
_MOST = 8
"""Bands that are drawn one by one."""


def bands_svg(spec: MeterSpec) -> str:
    """Draw the bands, equally wide so that narrow ones can be read; empty: too many to draw."""
    question = spec.meter.question
    if question.reads != "gap" or question.rungs > _MOST:
        return ""
    if question.draws is not None:
        return _image(_moving(spec), f"Bands {loss_words(spec, question.draws)} wide; edges move")
    ends, tolerances = question.ends, question.tolerances
    each = _WIDTH / question.rungs
    drawn = []
    for index, eps in enumerate(tolerances):
        drawn.append(_band(index * each, each, band_tone(index + 1, question.rungs)))
        if index == 0 or eps != tolerances[index - 1]:
            tolerance = f"± {loss_words(spec, eps)}"
            drawn.append(_text(tolerance, (index + 0.5) * each, 84, "middle"))
    edges = ends[1:-1]
    for edge, (below, above) in zip(edges, pairwise(tolerances), strict=True):
        low = _place(ends, each, max(Fraction(0), edge - above))
        high = _place(ends, each, min(Fraction(1), edge + below))
        box = {"x": low, "y": 46, "width": max(2.0, high - low), "height": 6, "rx": 3}
        drawn.append(element("rect", class_="reach", fill=INK, **box))
    for index, edge in enumerate(ends):
        anchor = "start" if index == 0 else "end" if index == len(ends) - 1 else "middle"
        drawn.append(_text(loss_words(spec, edge), index * each, 68, anchor))
    words = ", ".join(loss_words(spec, edge) for edge in edges) or "none"
    named = ", ".join(loss_words(spec, eps) for eps in dict.fromkeys(tolerances))
    return _image(drawn, f"Bands of the gap, with edges at {words}, and the tolerance {named}")


def _image(content: list[str], words: str) -> str:
    view = f"{number(-_MARGIN)} 0 {number(_WIDTH + 2 * _MARGIN)} 92"
    return element(
        "svg", *content, class_="chart bands", viewBox=view, role="img", aria_label=words
    )


def _band(left: float, width: float, tone: int) -> str:
    size = {"x": left, "y": 8, "width": width - 2, "height": 34, "rx": 4}
    # A page's style sheet decides by the class; a notebook has none.
    return element("rect", class_=f"fill-{tone}", fill=band_colours(TONES)[tone - 1], **size)


def _text(words: str, x: float, y: float, anchor: str) -> str:
    return element(
        "text", escaped(words), x=x, y=y, text_anchor=anchor, class_="axis", font_size=12
    )


def _place(ends: Sequence[Fraction], each: float, gap: Fraction) -> float:
    at = max(index for index, end in enumerate(ends[:-1]) if index == 0 or end <= gap)
    share = (gap - ends[at]) / (ends[at + 1] - ends[at])
    return (at + min(1.0, float(share))) * each


def _moving(spec: MeterSpec) -> list[str]:
    width = _WIDTH / TONES
    drawn = [_band(index * width, width, index + 1) for index in range(TONES)]
    wide = loss_words(spec, spec.meter.question.draws or 0)
    tolerance = loss_words(spec, spec.meter.question.tolerances[0])
    note = f"every answer has edges of its own, {wide} apart, ± {tolerance}"
    return [*drawn, element("text", escaped(note), x=0, y=68, class_="axis")]
