"""What all drawings have in common: inks, colours, sizes."""

from __future__ import annotations

from typing import Any

INK = "#1c1e21"
PAGE_INK = "currentColor"
GREY = "#8a8f98"
BLUE, GREEN, RED, ORANGE, PURPLE = "#2f80c2", "#23a06c", "#d1495b", "#e58a2c", "#a05fb4"
SIGNALS = (GREEN, "#9aab2e", "#d9a514", ORANGE, RED)
"""Colours of bands 1 to 5."""
WIDTH = 300


def styled(chart: Any, ink: str) -> Any:
    """Set ink, background and sizes; the page's own panels let its background through."""
    return (
        chart.properties(background="white" if ink == INK else "transparent")
        .configure(aria=False, font="Helvetica, Arial, sans-serif")
        .configure_view(stroke=None)
        .configure_title(
            color=ink, fontSize=13, subtitleColor=ink, subtitleFontSize=11, anchor="start"
        )
        .configure_axis(
            labelColor=ink,
            titleColor=ink,
            tickColor=GREY,
            domainColor=GREY,
            gridColor=GREY,
            gridOpacity=0.25,
            labelFontSize=11,
            titleFontSize=11,
            titleFontWeight="normal",
        )
        .configure_legend(
            orient="bottom",
            direction="horizontal",
            columns=3,
            labelColor=ink,
            titleColor=ink,
            labelFontSize=11,
            labelLimit=300,
            symbolStrokeWidth=2.5,
            symbolSize=250,
            title=None,
        )
    )
