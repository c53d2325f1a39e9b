"""Draw the tree of consistent histories for docs/mathematics.md, by the rules that count it."""

from __future__ import annotations

import sys
from pathlib import Path

from easeml_meter.report.svg import element, image
from easeml_meter.spec import MeterSpec
from easeml_meter.stats.feedback import reaches
from easeml_meter.stats.rounding import as_written

SPEC = MeterSpec.uniform(tolerance=0.01, steps=3, delta=0.01)
TRUE_GAPS = {(): 0.1, (3,): 0.02, (4,): 0.2}
"""Where the developer puts the true gap of the model after each history: right at an edge."""
WIDTH, LEFT, ROW, TOP, RADIUS = 760.0, 100.0, 92.0, 58.0, 13.0
COUNTED, LEFT_OUT = "#0062a8", "#b4bcc4"

History = tuple[int, ...]


def possible(history: History) -> list[int]:
    """List the bands that can be told next while no promise is broken."""
    gap = as_written(TRUE_GAPS[history])
    return [band for band, (low, high) in enumerate(reaches(SPEC), 1) if low <= gap < high]


def nodes(
    history: History = (), left: float = LEFT, width: float = WIDTH - LEFT
) -> dict[History, float]:
    """Place a history and all that can follow it in a part of the width."""
    found = {history: left + width / 2}
    if history not in TRUE_GAPS:
        return found
    # A history that goes on needs more room than one that ends here.
    shares = [5.0 if (*history, band) in TRUE_GAPS else 1.0 for band in range(1, SPEC.signals + 1)]
    unit = width / sum(shares)
    for band, share in enumerate(shares, 1):
        found |= nodes((*history, band), left, share * unit)
        left += share * unit
    return found


def drawing() -> str:
    """Return the tree as SVG."""
    places, lines, circles = nodes(), [], []
    counted = [0] * SPEC.steps
    for history, x in places.items():
        told = all(history[i] in possible(history[:i]) for i in range(len(history)))
        counted[len(history)] += told
        y, ink = TOP + ROW * len(history), COUNTED if told else LEFT_OUT
        if history:
            above = places[history[:-1]]
            dashes = None if told else "4 3"
            ends = {"x1": above, "y1": y - ROW + RADIUS, "x2": x, "y2": y - RADIUS}
            lines.append(element("line", stroke=ink, stroke_dasharray=dashes, **ends))
        fill = COUNTED if told else "none"
        circles.append(element("circle", cx=x, cy=y, r=RADIUS, fill=fill, stroke=ink))
        name = str(history[-1]) if history else ""
        text = "#ffffff" if told else "currentColor"
        circles.append(element("text", name, x=x, y=y + 4, text_anchor="middle", fill=text))
    rows = [
        element(
            "text", f"step {step + 1}: {many} of {SPEC.signals**step}", x=6.0, y=TOP + ROW * step
        )
        for step, many in enumerate(counted)
    ]
    gaps = [
        element(
            "text", f"true gap {TRUE_GAPS[each]:g}", x=places[each] + 20, y=TOP + ROW * len(each)
        )
        for each in TRUE_GAPS
    ]
    title = "The tree of consistent histories"
    said = "Numbers are bands. Filled: possible while no promise is broken, and counted."
    heading = element("text", said, x=6.0, y=20.0, font_size=12)
    group = element("g", *lines, *circles, *rows, *gaps, font_size=11)
    height = TOP + ROW * (SPEC.steps - 1) + 30
    return image("tree", WIDTH, height, title, said, heading, group)


if __name__ == "__main__":
    images = Path(__file__).parents[1] / "docs" / "images"
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else images / "consistent-tree.svg"
    target.write_text(drawing(), encoding="utf-8")
