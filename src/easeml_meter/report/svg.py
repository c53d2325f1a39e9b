"""Small tools to write SVG by hand.

The drawings carry no style attribute and no style element, so they work under a strict content
security policy; classes let a page restyle them, attributes make them complete without one.
"""

from __future__ import annotations

import html
import unicodedata
from collections.abc import Sequence

from easeml_meter.report.palette import INK, PAPER
from easeml_meter.report.words import shown

MARGIN = 12.0
BOLD = 16.5
"""A heading of size 14 in bold is about as wide as a text of this size."""
PHONE = 450.0
"""Drawings up to this width can be read on a phone without scrolling much."""
FONT = "system-ui, Segoe UI, Helvetica, Arial, DejaVu Sans, sans-serif"
_THIN, _WIDE = frozenset("fijlrt.,:;|!'()[] -1"), frozenset("mwMW—@%")


def escaped(text: str, limit: int = 2_000) -> str:
    """Make any text safe inside an element or a quoted attribute, in XML and in HTML."""
    return html.escape(shown(text, limit))


def number(value: float) -> str:
    """Write a coordinate: a tenth of a pixel is enough."""
    written = f"{value:.1f}".removesuffix(".0")
    return "0" if written == "-0" else written


def element(name: str, *children: str, **attributes: str | float | None) -> str:
    """Write an element: children are markup; attributes are escaped, None leaves one out.

    A trailing underscore is dropped and others become hyphens: `class_`, `stroke_width`.
    """
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{_value(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    inner = "".join(children)
    return f"<{name}{written}>{inner}</{name}>" if inner else f"<{name}{written}/>"


def _value(value: str | float) -> str:
    return html.escape(value) if isinstance(value, str) else number(value)


def box(left: float, top: float, width: float, height: float) -> str:
    """Return the path of a rectangle; paths of several can be put together."""
    sides = f"h{number(width)}v{number(height)}h{number(-width)}z"
    return f"M{number(left)} {number(top)}{sides}"


def image(
    kind: str,
    width: float,
    height: float,
    title: str,
    description: str,
    *content: str,
    small: bool = False,
) -> str:
    """Write a whole drawing, with its text for those who do not see it.

    A small one, of a phone's width, may be enlarged where there is more room.
    """
    return (
        element(
            "svg",
            element("title", escaped(title)),
            element("desc", escaped(description)) if description else "",
            element("rect", width="100%", height="100%", fill=PAPER, class_="m-paper"),
            *content,
            xmlns="http://www.w3.org/2000/svg",
            role="img",
            class_=f"m-svg m-{kind}" + (" m-small" if small else ""),
            width=width,
            height=height,
            viewBox=f"0 0 {number(width)} {number(height)}",
            font_family=FONT,
            color=INK,
            fill="currentColor",
        )
        + "\n"
    )


def legend(entries: Sequence[tuple[str, str]], width: float) -> tuple[str, float]:
    """Lay out signs (24 wide around 0, 0) with their words; give the height needed as well."""
    drawn, x, y = [], MARGIN, 10.0
    for sign, words in entries:
        needed = 26 + text_width(words, 11)
        if x > MARGIN and x + needed > width - MARGIN:
            x, y = MARGIN, y + 18
        place = f"translate({number(x + 8)} {number(y)})"
        drawn.append(element("g", sign, element("text", words, x=14, y=4), transform=place))
        x += needed + 12
    return element("g", *drawn, font_size=11), y + 10


def text_width(text: str, size: float) -> float:
    """Estimate how wide a text will be: there is no font to ask."""
    total = 0.0
    for char in text:
        if unicodedata.combining(char):
            continue
        if unicodedata.east_asian_width(char) in "WF":
            total += 1.0
        else:
            usual = 0.7 if char.isupper() else 0.6
            total += 0.36 if char in _THIN else 0.95 if char in _WIDE else usual
    return total * size


def fitted(text: str, size: float, room: float, limit: int = 60) -> str:
    """Shorten a stranger's text, made safe to show, until it fits."""
    while text_width(shown(text, limit), size) > room and limit > 4:
        limit -= 1
    return shown(text, limit)
