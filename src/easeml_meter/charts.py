"""Charts for people: drawn with altair, saved as svg, png or self-contained html."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from easeml_meter.errors import MeterError, invalid

FORMATS = (".svg", ".png", ".html")


def check_format(path: Path) -> None:
    """Refuse a file that could not be drawn, before anything is computed."""
    if path.suffix.lower() not in FORMATS:
        raise invalid("chart", str(path), f"a file name that ends in {', '.join(FORMATS)}")


def labels_against_steps(points: Sequence[dict[str, object]], steps: int) -> Any:
    """Draw labels against steps, one panel for each way of counting, with `steps` marked."""
    alt = altair()
    base = alt.Chart()
    x = alt.X("steps:Q", scale=alt.Scale(type="log", nice=False), title="steps")
    lines = base.mark_line().encode(
        x=x,
        y=alt.Y("labels:Q", scale=alt.Scale(type="log"), title="labels in the hidden test set"),
        color=alt.Color("meter:N", title=None, sort=None),
        tooltip=["meter:N", "form:N", "steps:Q", alt.Tooltip("labels:Q", format=",")],
    )
    rule = base.mark_rule(color="#888", strokeDash=[3, 3]).encode(x=alt.datum(steps))
    return (
        alt.layer(rule, lines)
        .properties(width=230, height=340)
        .facet(alt.Column("form:N", title=None, sort=None), data=alt.Data(values=list(points)))
        .properties(title=f"Labels against steps; dashed: {steps:,} steps")
        .configure_legend(orient="bottom", columns=3, labelLimit=300)
    )


def save(chart: Any, path: Path) -> None:
    """Write a chart in the format that the file's ending names; nothing is loaded from afar."""
    check_format(path)
    kind = path.suffix.lower()
    options: dict[str, Any] = {"inline": True} if kind == ".html" else {}
    if kind == ".png":
        options["ppi"] = 144
    try:
        chart.save(str(path), **options)
    except OSError as error:
        raise invalid("chart", str(path), f"cannot be written: {error.strerror or error}") from None


def svg(chart: Any) -> str:
    """Draw a chart as SVG text."""
    stream = io.StringIO()
    chart.save(stream, format="svg")
    return stream.getvalue()


def png(drawn: str) -> bytes:
    """Turn SVG text into a PNG of the same picture, at twice the resolution of a plain screen."""
    import vl_convert

    return bytes(vl_convert.svg_to_png(drawn, ppi=144))


def altair() -> Any:
    """Import altair, or say which extra brings it."""
    try:
        import altair
    except ImportError as error:
        message = 'charts need the extra "charts": pip install "easeml-meter[charts]"'
        raise MeterError(message) from error
    except RuntimeError as error:  # it looks for its cache in a home that a container may not have
        raise MeterError("charts need a home folder: set HOME to a folder of yours") from error
    return altair
