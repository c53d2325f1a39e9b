"""Curves: labels against steps, reverts or reliability."""

from __future__ import annotations

import math
from typing import Any

from easeml_meter.charts import altair
from easeml_meter.lab.curves import CurveForm, Curves, Panel
from easeml_meter.lab.drawings.style import BLUE, GREEN, GREY, ORANGE, PURPLE, RED, WIDTH

HEIGHT = 230
COLOURS = {
    "Resampling": PURPLE,
    "Regular Meter": RED,
    "Regular, Nonuniform": ORANGE,
    "Regular, Two Tenants": RED,
    "Regular, Time Travel": RED,
    "Incremental Meter": BLUE,
    "Incremental, Nonuniform": GREEN,
    "Incremental, Two Tenants": BLUE,
    "Incremental, Time Travel": BLUE,
    "No Adaptivity": GREY,
}
# Curves that coincide, from the back to the front; they are drawn inside each other.
COINCIDE = (
    (
        "No Adaptivity",
        "Incremental, Nonuniform",
        "Incremental, Two Tenants",
        "Incremental, Time Travel",
    ),
    ("Regular, Nonuniform", "Regular Meter"),
)
THIN, WIDE, WIDEST = 1.8, 4.5, 8.5
DASHES = {CurveForm.PUBLISHED: [1, 0], CurveForm.TIGHTENED: [5, 3]}


def series_of(curves: Curves) -> list[str]:
    """List the names of the curves in their first panel's order."""
    return list(dict.fromkeys(point.series for point in curves.panels[0].points))


def ticks(low: float, high: float) -> list[float]:
    """Return round values for a logarithmic axis: 1, 2, 5 times powers of ten, or the powers."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps = (1, 2, 5) if math.log10(high / low) < 2.6 else (1,)
    found = [digit * 10.0**power for power in powers for digit in steps]
    return [value for value in found if low <= value <= high]


def curve_panel(curves: Curves, panel: Panel, *, legend: bool, width: int = WIDTH) -> Any:
    """Draw one panel; all panels of a figure share the axis of labels."""
    alt = altair()
    values = [point.labels for each in curves.panels for point in each.points]
    low, high = min(values) / 1.25, max(values) * 1.25
    written = "datum.value === 0 ? '0' : format(datum.value, '~s')"
    if curves.log:
        y_scale = alt.Scale(type="log", domain=[low, high], nice=False)
        y_axis = alt.Axis(labelExpr=written, values=ticks(low, high))
    else:
        y_scale = alt.Scale(domain=[0, max(values) * 1.05], nice=False)
        y_axis = alt.Axis(labelExpr=written, tickCount=6)
    xs = sorted({point.x for point in panel.points})
    marked = [x for x in xs if x % 20 == 0 or x == xs[0]] if len(xs) > 10 else xs
    if xs[-1] < 1:
        marked = [x for x in xs if round(100 * x) % 3 == 0]
    names = series_of(curves)

    def key(columns: int) -> Any:
        return alt.Legend(title=None, columns=columns) if legend else None

    widths = _widths(names)
    data = [
        {
            "series": point.series,
            "form": str(point.form),
            "x": point.x,
            "labels": point.labels,
            "width": widths[point.series],
            "opacity": 0.45
            if point.series == "No Adaptivity" and widths[point.series] > THIN
            else 1,
        }
        for point in sorted(panel.points, key=lambda point: -widths[point.series])
    ]
    colours = alt.Scale(domain=names, range=[COLOURS[name] for name in names])
    dashes = alt.Scale(domain=[str(form) for form in CurveForm], range=list(DASHES.values()))
    return (
        alt.Chart(alt.Data(values=data), title=panel.title)
        .mark_line(strokeCap="butt", strokeJoin="round")
        .encode(
            x=alt.X(
                "x:Q",
                title=curves.x_title,
                scale=alt.Scale(domain=[xs[0], xs[-1]]),
                axis=alt.Axis(values=marked, grid=False, labelFlush=False),
            ),
            y=alt.Y("labels:Q", title="labels", scale=y_scale, axis=y_axis),
            color=alt.Color("series:N", scale=colours, legend=key(4 if len(names) <= 4 else 3)),
            strokeDash=alt.StrokeDash("form:N", scale=dashes, legend=key(2)),
            strokeWidth=alt.StrokeWidth("width:Q", scale=None, legend=None),
            strokeOpacity=alt.StrokeOpacity("opacity:Q", scale=None, legend=None),
            detail=["series:N", "form:N"],
        )
        .properties(width=width, height=HEIGHT)
    )


def _widths(names: list[str]) -> dict[str, float]:
    """Return the width of each curve: wider at the back of curves that coincide."""
    found = dict.fromkeys(names, THIN)
    for stack in COINCIDE:
        present = [name for name in reversed(stack) if name in names]
        found |= dict(zip(present, (THIN, WIDE, WIDEST), strict=False))
    return found
