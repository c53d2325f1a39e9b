"""The pictures of docs/reading-the-meter.md; `python -m tests.report.pictures` draws them anew."""

from __future__ import annotations

from pathlib import Path

from tests.report.sessions import INCREMENTAL, LIMITED, SPEC, drawn_session, released, session

from easeml_meter.core.signals import ABOVE_CEILING, NO_READING
from easeml_meter.report.badges import badge_svg
from easeml_meter.report.curves import curves_svg
from easeml_meter.report.meter import meter_svg

IMAGES = Path(__file__).parents[2] / "docs" / "images"

FALLING = [0.2, 0.18, 0.165, 0.15, 0.135, 0.12, 0.105, 0.095]
MARCHING = session([1, 1, 1, 2, 1, 2, 3, 3], losses=FALLING)
LOSSES = [(0.2 - 0.012 * step, 0.2 - 0.012 * step + 0.0015 * step**2) for step in range(10)]

MOVING = drawn_session([0.004, 0.01, 0.012, 0.03, 0.02, 0.045, 0.07, 0.09])

PICTURES = {
    "meter-other-answers.svg": meter_svg(
        session([1, 2, 1, ABOVE_CEILING, 2, NO_READING, 3], LIMITED)
    ),
    "meter.svg": meter_svg(MARCHING),
    "meter-incremental.svg": meter_svg(session([1, 1, 2, 2, 2, 4, 4], INCREMENTAL)),
    "meter-drawn.svg": meter_svg(MOVING),
    "losses.svg": curves_svg(released(SPEC, LOSSES)),
    "badge.svg": badge_svg(MARCHING),
}

if __name__ == "__main__":
    for name, drawn in PICTURES.items():
        (IMAGES / name).write_text(drawn, encoding="utf-8")
