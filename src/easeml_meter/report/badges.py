"""Small drawings: the battery, and a badge for a README, drawn here or by shields.io."""

from __future__ import annotations

import json

from easeml_meter.core.views import SessionView
from easeml_meter.report.palette import (
    CHARGE,
    LOW_CHARGE,
    TRACK,
    WHITE,
    text_on,
)
from easeml_meter.report.scale import answer_colour
from easeml_meter.report.svg import box, element, escaped, image, text_width
from easeml_meter.report.words import LOW_BATTERY, share_words, steps_words, told_words

_LABEL = "meter"
_GREY = "#555f69"
_CELL = 96.0


def battery_svg(share: float) -> str:
    """Draw the share of capacity left, from 0 to 1."""
    share = min(1.0, max(0.0, share))
    words = share_words(share)
    colour = CHARGE if share >= LOW_BATTERY else LOW_CHARGE
    charge = element("path", d=box(5, 5, max(2.0, _CELL * share), 22), fill=colour) if share else ""
    return image(
        "battery",
        170,
        32,
        f"Battery: {words} of the capacity left",
        "",
        element("path", d=box(5, 5, _CELL, 22), fill=TRACK, class_="m-track"),
        charge,
        element(
            "rect",
            x=3,
            y=3,
            width=_CELL + 4,
            height=26,
            rx=4,
            fill="none",
            stroke="currentColor",
            stroke_width=2,
        ),
        element("rect", x=_CELL + 8, y=11, width=4, height=10, rx=1),
        element("text", words, x=_CELL + 20, y=21, font_size=14, font_weight="600"),
    )


def badge_svg(view: SessionView) -> str:
    """Draw a badge for a README: the last published answer, what is left, and nothing else."""
    words, colour = _last_answer(view)
    first, second = (text_width(text, 11) + 14 for text in (_LABEL, words))
    return image(
        "badge",
        first + second,
        20,
        f"{_LABEL}: {words}",
        "",
        element("path", d=box(0, 0, first, 20), fill=_GREY),
        element("path", d=box(first, 0, second, 20), fill=colour),
        _centred(_LABEL, 0, first, WHITE),
        _centred(words, first, second, text_on(colour)),
    )


def badge_json(view: SessionView) -> str:
    """Write the badge for shields.io (https://shields.io/badges/endpoint-badge) to draw."""
    words, colour = _last_answer(view)
    drawn = {"label": _LABEL, "message": words, "color": colour, "labelColor": _GREY}
    return json.dumps({"schemaVersion": 1, **drawn}) + "\n"


def _last_answer(view: SessionView) -> tuple[str, str]:
    if not view.signals:
        return "no answers yet", _GREY
    last = view.signals[-1]
    # What is left now: since the last answer the test set may have been retired, teams with one
    # history may have taken some, or the next batch may have come.
    spent = "spent" if not view.spec.meter.renewal.rolls else "next batch due"
    left = f"{steps_words(view.steps_left)} left" if view.steps_left else spent
    return f"{told_words(last)}, {left}", answer_colour(last) if last.band else _GREY


def _centred(words: str, left: float, width: float, colour: str) -> str:
    # The width is an estimate: `textLength` makes every font keep to it.
    return element(
        "text",
        escaped(words),
        x=left + width / 2,
        y=14,
        font_size=11,
        text_anchor="middle",
        textLength=width - 14,
        fill=colour,
    )
