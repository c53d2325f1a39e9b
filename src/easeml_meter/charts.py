"""Charts drawn with altair, as SVG, and any SVG as PNG."""

from __future__ import annotations

import io
from importlib.util import find_spec
from typing import Any

from easeml_meter.errors import MeterError

_MISSING = 'charts need the extra "charts": pip install "easeml-meter[charts]"'


def svg(chart: Any) -> str:
    """Draw a chart as SVG text."""
    stream = io.StringIO()
    chart.save(stream, format="svg")
    return stream.getvalue()


def draws_png() -> bool:
    """Whether the extra that makes PNGs is installed."""
    return find_spec("vl_convert") is not None


def png(drawn: str) -> bytes:
    """Turn SVG text into a PNG of the same picture, at twice the resolution of a plain screen."""
    try:
        import vl_convert
    except ImportError:
        raise MeterError(_MISSING) from None
    return bytes(vl_convert.svg_to_png(drawn, ppi=144))


def altair() -> Any:
    """Import altair, or say which extra brings it."""
    try:
        import altair
    except ImportError:
        raise MeterError(_MISSING) from None
    except RuntimeError as error:  # it looks for its cache in a home that a container may not have
        raise MeterError("charts need a home folder: set HOME to a folder of yours") from error
    return altair
