"""Reports for people: the meter, its battery and its history as SVG, as a page, on a terminal.

Pure formatting: what comes out is a function of the view alone. Only `write` touches a file.
"""

from __future__ import annotations

from pathlib import Path

from easeml_meter.errors import invalid
from easeml_meter.report.badges import badge_svg, battery_svg
from easeml_meter.report.checks import Check, checks, summary
from easeml_meter.report.curves import curves_svg
from easeml_meter.report.gauge import plain
from easeml_meter.report.meter import meter_svg
from easeml_meter.report.page import html_page, sections
from easeml_meter.report.style import STYLE
from easeml_meter.report.terminal import history_terminal, session_terminal, terminal
from easeml_meter.report.words import advice

__all__ = [
    "STYLE",
    "Check",
    "advice",
    "badge_svg",
    "battery_svg",
    "checks",
    "curves_svg",
    "history_terminal",
    "html_page",
    "meter_svg",
    "plain",
    "sections",
    "session_terminal",
    "summary",
    "terminal",
    "write",
]


def write(path: Path, text: str) -> None:
    """Write a drawing or a page; the same bytes on every system."""
    try:
        path.write_text(text, encoding="utf-8", newline="\n")
    except OSError as error:
        reason = error.strerror or error
        raise invalid("report", str(path), f"cannot be written: {reason}") from None
