from __future__ import annotations

from itertools import pairwise

import pytest

from easeml_meter.report.page import DRAWINGS, STYLE
from easeml_meter.report.palette import BLACK, WHITE, band_colours, contrast, text_on

# How people see who lack one of the three cones (Machado, Oliveira and Fernandes 2009).
EYES = {
    "usual": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protan": (
        (0.152286, 1.052583, -0.204868),
        (0.114503, 0.786281, 0.099216),
        (-0.003882, -0.048116, 1.051998),
    ),
    "deutan": (
        (0.367322, 0.860646, -0.227968),
        (0.280085, 0.672501, 0.047413),
        (-0.011820, 0.042940, 0.968881),
    ),
    "tritan": (
        (1.255528, -0.076749, -0.178779),
        (-0.078411, 0.930809, 0.147602),
        (0.004733, 0.691367, 0.303900),
    ),
}

Triple = tuple[float, ...]


def seen(colour: str, eye: str) -> Triple:
    """A colour in OKLab, where distances are about as people see them."""
    linear = [
        value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4
        for value in (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    ]

    def times(rows: tuple[Triple, ...], vector: list[float]) -> list[float]:
        return [sum(a * b for a, b in zip(row, vector, strict=True)) for row in rows]

    light = [min(1.0, max(0.0, each)) for each in times(EYES[eye], linear)]
    cones = times(
        (
            (0.4122214708, 0.5363325363, 0.0514459929),
            (0.2119034982, 0.6806995451, 0.1073969566),
            (0.0883024619, 0.2817188376, 0.6299787005),
        ),
        light,
    )
    roots = [each ** (1 / 3) for each in cones]
    return tuple(
        times(
            (
                (0.2104542553, 0.7936177850, -0.0040720468),
                (1.9779984951, -2.4285922050, 0.4505937099),
                (0.0259040371, 0.7827717662, -0.8086757660),
            ),
            roots,
        )
    )


def distance(first: str, second: str, eye: str) -> float:
    pairs = zip(seen(first, eye), seen(second, eye), strict=True)
    return float(sum((a - b) ** 2 for a, b in pairs) ** 0.5)


@pytest.mark.parametrize("eye", EYES)
@pytest.mark.parametrize("bands", [2, 3, 4, 5])
def test_neighbouring_bands_look_different_to_every_eye(bands: int, eye: str) -> None:
    for first, second in pairwise(band_colours(bands)):
        assert distance(first, second, eye) > 0.1


def test_numbers_can_be_read_on_every_band() -> None:
    for bands in range(1, 60):
        colours = band_colours(bands)
        assert len(colours) == bands
        for colour in colours:
            assert contrast(text_on(colour), colour) >= 4.5


def test_colours_go_from_green_to_red() -> None:
    low, high = band_colours(5)[0], band_colours(5)[-1]
    assert int(low[3:5], 16) > int(low[1:3], 16)
    assert int(high[1:3], 16) > int(high[3:5], 16)
    assert band_colours(1) == (low,)


def test_contrast_is_the_one_of_wcag() -> None:
    assert contrast(BLACK, WHITE) == pytest.approx(21)
    assert contrast("#777777", WHITE) == pytest.approx(4.48, abs=0.01)


def test_words_of_the_page_can_be_read_by_day_and_by_night() -> None:
    day, night = STYLE.removesuffix(DRAWINGS).split("@media (prefers-color-scheme: dark)")
    for sheet in (day, night):
        shade = dict(
            part.strip().removeprefix("--").split(": ")
            for part in sheet.replace("{", ";").replace("}", ";").split(";")
            if part.strip().startswith("--")
        )
        for name in ("ink", "quiet", "wrong", "link", "validation", "test"):
            for ground in ("paper", "card"):
                assert contrast(shade[name], shade[ground]) >= 4.5, (name, ground)
        assert contrast(shade["ink"], shade["track"]) >= 4.5
