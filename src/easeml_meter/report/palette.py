"""Colours: one for each band from green to red, told apart also by people who are colour-blind.

Colour is never the only carrier: every drawing writes the band's number as well.
"""

from __future__ import annotations

from functools import lru_cache

# After Okabe and Ito: hue and lightness both change from one to the next.
_ANCHORS = ((0, 158, 115), (242, 216, 75), (230, 159, 0), (213, 94, 0), (155, 28, 49))

INK = "#1c2733"
PAPER = "#ffffff"
TRACK = "#eceff2"
TOLERANCE = "#a3acb5"
CHARGE = "#3b76b8"
LOW_CHARGE = "#d55e00"
VALIDATION = "#0062a8"
TEST = "#b34700"
WRONG = "#9b1c31"

BLACK, WHITE = "#000000", "#ffffff"


@lru_cache(maxsize=64)  # a history asks for the same few at every step
def band_colours(count: int) -> tuple[str, ...]:
    """Return `count` colours from green to red."""
    return tuple(colour_between(k / (count - 1) if count > 1 else 0.0) for k in range(count))


def text_on(colour: str) -> str:
    """Return black or white, whichever reads better on a colour (contrast 4.5 at least)."""
    return max(BLACK, WHITE, key=lambda ink: contrast(ink, colour))


def contrast(first: str, second: str) -> float:
    """Return the contrast ratio of two colours, as WCAG 2 defines it."""
    darker, lighter = sorted((_luminance(first), _luminance(second)))
    return (lighter + 0.05) / (darker + 0.05)


def colour_between(position: float) -> str:
    """Return the colour at a place from 0, green, to 1, red."""
    place = position * (len(_ANCHORS) - 1)
    index = min(int(place), len(_ANCHORS) - 2)
    share = place - index
    pairs = zip(_ANCHORS[index], _ANCHORS[index + 1], strict=True)
    return "#" + "".join(f"{round(low + share * (high - low)):02x}" for low, high in pairs)


def _luminance(colour: str) -> float:
    parts = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    red, green, blue = (v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
