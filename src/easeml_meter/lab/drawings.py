"""How the paper's figures are drawn.

Every figure is a row of panels. `panels` draws them one by one, without legends and in the ink of
the page they stand on; `whole` draws them together, with their legends, for a file.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from easeml_meter.charts import altair
from easeml_meter.lab.curves import CurveForm, Curves, Panel
from easeml_meter.lab.meters import Protocol
from easeml_meter.lab.traces import Trace, TracedReading, TracedStep, readings
from easeml_meter.lab.trees import Node, Tree

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


CURVE_HEIGHT = 230
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
        .properties(width=width, height=CURVE_HEIGHT)
    )


def _widths(names: list[str]) -> dict[str, float]:
    """Return the width of each curve: wider at the back of curves that coincide."""
    found = dict.fromkeys(names, THIN)
    for stack in COINCIDE:
        present = [name for name in reversed(stack) if name in names]
        found |= dict(zip(present, (THIN, WIDE, WIDEST), strict=False))
    return found


TRACE_HEIGHT = 150
SCORES = {"validation": BLUE, "hidden test set": ORANGE, "truth": GREY}


def trace_panel(trace: Trace, ink: str, *, legend: bool) -> Any:
    """Draw the accuracies of one history, and below them what each meter tells."""
    alt = altair()
    names = [f"{number}. {step.change}" for number, step in enumerate(trace.steps, 1)]
    meters = [
        _meter_chart(trace, protocol, names, ink)
        for protocol in (Protocol.REGULAR, Protocol.INCREMENTAL)
    ]
    lines = _accuracy_chart(trace, names, legend=legend)
    return alt.vconcat(lines, *meters, spacing=12).resolve_scale(color="independent")


def _steps_axis(names: list[str], *, shown: bool) -> Any:
    alt = altair()
    axis = alt.Axis(
        labels=shown, title=None, ticks=False, labelAngle=-40, labelLimit=150, labelPadding=6
    )
    scale = alt.Scale(domain=names, paddingOuter=0.2, paddingInner=0.25)
    return alt.X("step:N", sort=names, scale=scale, axis=axis)


def _accuracy_chart(trace: Trace, names: list[str], *, legend: bool) -> Any:
    alt = altair()
    scores = [
        {"step": name, "kind": kind, "accuracy": 1 - loss}
        for name, step in zip(names, trace.steps, strict=True)
        for kind, loss in zip(
            SCORES, (step.validation_loss, step.test_loss, step.true_loss), strict=True
        )
        if loss is not None
    ]
    known = [kind for kind in SCORES if any(score["kind"] == kind for score in scores)]
    colours = alt.Scale(domain=known, range=[SCORES[kind] for kind in known])
    key = alt.Legend(orient="top", title=None, columns=3) if legend else None
    # The truth lies under the hidden score most of the time: a wide line at the back shows both.
    at_the_back = {"test": "datum.kind == 'truth'"}
    return (
        alt.Chart(alt.Data(values=sorted(scores, key=lambda score: score["kind"] != "truth")))
        .mark_line()
        .encode(
            x=_steps_axis(names, shown=False),
            y=alt.Y(
                "accuracy:Q",
                scale=alt.Scale(zero=False, nice=True),
                axis=alt.Axis(format=".0%", tickCount=5),
                title="accuracy",
            ),
            color=alt.Color("kind:N", scale=colours, legend=key),
            strokeWidth={"condition": at_the_back | {"value": 6}, "value": 2},
            strokeOpacity={"condition": at_the_back | {"value": 0.5}, "value": 1},
        )
        .properties(width=WIDTH, height=TRACE_HEIGHT, title=trace.title)
    )


def _segments(name: str, step: TracedStep, reading: TracedReading) -> list[dict[str, Any]]:
    """Return the bars of one answer: solid for the band, pale below it, grey for the tolerance."""
    colour = SIGNALS[reading.answer - 1]
    low = max(0.0, reading.below - reading.tolerance)
    high = min(1.0, reading.upper + reading.tolerance)
    bars = [
        (low, reading.below, GREY, 0.6),
        (reading.below, reading.lower, colour, 0.3),
        (reading.lower, reading.upper, colour, 1.0),
        (reading.upper, high, GREY, 0.6),
    ]
    return [
        {"step": name, "low": start, "high": end, "fill": fill, "opacity": opacity, "gap": step.gap}
        for start, end, fill, opacity in bars
        if start < end
    ]


def _meter_chart(trace: Trace, protocol: Protocol, names: list[str], ink: str) -> Any:
    alt = altair()
    told = readings(trace, protocol)
    bars = [
        bar
        for name, step, reading in zip(names, trace.steps, told, strict=True)
        for bar in _segments(name, step, reading)
    ]
    edges = [*map(float, trace.meter.question.ends)]
    y = {
        # A square root gives the small gaps, which matter, more room than the large ones.
        "scale": alt.Scale(type="sqrt", domain=[0, 1]),
        "axis": alt.Axis(values=edges, format="~g", labelOverlap=False, labelFontSize=10),
        "title": "gap",
    }
    x = _steps_axis(names, shown=protocol is Protocol.INCREMENTAL)
    base = alt.Chart(alt.Data(values=bars))
    columns = base.mark_bar().encode(
        x=x,
        y=alt.Y("low:Q", **y),
        y2="high:Q",
        fill=alt.Fill("fill:N", scale=None, legend=None),
        fillOpacity=alt.FillOpacity("opacity:Q", scale=None, legend=None),
    )
    real = base.mark_point(size=40, filled=True, color=ink, shape="diamond", opacity=1).encode(
        x=x, y=alt.Y("gap:Q", **y)
    )
    title = f"{protocol} meter, tolerance {told[0].tolerance:.2g}"
    return alt.layer(columns, real).properties(
        width=WIDTH, height=TRACE_HEIGHT, title=alt.Title(title, fontSize=11, fontWeight="normal")
    )


TREE_HEIGHT = 200
RADIUS = 20.0


def _rim_to_rim(parent: Node, child: Node, deepest: int) -> dict[str, Any]:
    """Return a line between two nodes without the parts inside them: nodes may be see-through."""
    row = TREE_HEIGHT / (deepest + 0.6)
    across, down = (child.x - parent.x) * WIDTH, row
    share = (RADIUS + 2) / math.hypot(across, down)
    return {
        "x": parent.x + share * (child.x - parent.x),
        "y": parent.level + share,
        "x2": child.x - share * (child.x - parent.x),
        "y2": child.level - share,
    }


def tree_panel(tree: Tree, ink: str) -> Any:
    """Draw one tree: filled nodes are counted by the paper, ringed ones are distinct models."""
    alt = altair()
    places = {node.history: node for node in tree.nodes}
    nodes = [
        {
            "name": node.name,
            "x": node.x,
            "level": node.level,
            "fill": GREY if node.pruned else BLUE,
            "opacity": 0.3 if node.pruned else 1 if node.published else 0,
            "stroke": ORANGE if node.distinct else GREY if node.pruned else BLUE,
            "width": 4 if node.distinct else 1.5,
            "dash": [4, 3] if node.pruned else [1, 0],
            "text": GREY if node.pruned else "white" if node.published else ink,
        }
        for node in tree.nodes
    ]
    deepest = max(node.level for node in tree.nodes)
    edges = [
        _rim_to_rim(places[node.history[:-1]], node, deepest)
        | {"dash": [4, 3] if node.pruned else [1, 0]}
        for node in tree.nodes
        if node.level
    ]
    x = {"scale": alt.Scale(domain=[0, 1]), "axis": None}
    y_scale = alt.Scale(domain=[deepest + 0.3, -0.3])
    y_axis = alt.Axis(
        values=list(range(deepest + 1)), format="d", grid=False, domain=False, ticks=False
    )
    lines = (
        alt.Chart(alt.Data(values=edges))
        .mark_rule(stroke=GREY)
        .encode(
            x=alt.X("x:Q", **x),
            y=alt.Y("y:Q", scale=y_scale, axis=y_axis, title="answers so far"),
            x2="x2:Q",
            y2="y2:Q",
            strokeDash=alt.StrokeDash("dash:N", scale=None, legend=None),
        )
    )
    place = {"x": alt.X("x:Q", **x), "y": alt.Y("level:Q", scale=y_scale)}
    base = alt.Chart(alt.Data(values=nodes))
    circles = base.mark_circle(size=math.pi * RADIUS**2, opacity=1).encode(
        **place,
        fill=alt.Fill("fill:N", scale=None, legend=None),
        fillOpacity=alt.FillOpacity("opacity:Q", scale=None, legend=None),
        stroke=alt.Stroke("stroke:N", scale=None, legend=None),
        strokeWidth=alt.StrokeWidth("width:Q", scale=None, legend=None),
        strokeDash=alt.StrokeDash("dash:N", scale=None, legend=None),
    )
    names = base.mark_text(fontSize=12).encode(
        **place, text="name:N", color=alt.Color("text:N", scale=None, legend=None)
    )
    subtitle = f"counted by the paper: {tree.published}; distinct models: {tree.distinct}"
    return alt.layer(lines, circles, names).properties(
        width=WIDTH, height=TREE_HEIGHT, title=alt.Title(tree.title, subtitle=subtitle)
    )


Drawn = Curves | Sequence[Tree] | Sequence[Trace]


FILE_WIDTH = 460
"""Width of a panel that has a file to itself."""


@dataclass(frozen=True)
class Sign:
    """One entry of a legend on the page: a word and how the sign for it looks."""

    word: str
    colour: str
    kind: str
    """line, dashed, box, pale, ring or diamond: the page's style sheet knows them."""


def _panels(drawn: Drawn, ink: str, *, legend: bool) -> list[Any]:
    if isinstance(drawn, Curves):
        width = FILE_WIDTH if legend and len(drawn.panels) == 1 else WIDTH
        return [curve_panel(drawn, panel, legend=legend, width=width) for panel in drawn.panels]
    return [
        tree_panel(each, ink) if isinstance(each, Tree) else trace_panel(each, ink, legend=legend)
        for each in drawn
    ]


def panels(drawn: Drawn) -> list[Any]:
    """Draw each panel alone, for the page."""
    return [styled(panel, PAGE_INK) for panel in _panels(drawn, PAGE_INK, legend=False)]


def signs(drawn: Drawn) -> list[Sign]:
    """Return the legend that goes with the panels."""
    if isinstance(drawn, Curves):
        forms = {CurveForm.PUBLISHED: "line", CurveForm.TIGHTENED: "dashed"}
        return [
            *(Sign(name, COLOURS[name], "line") for name in series_of(drawn)),
            *(Sign(str(form), PAGE_INK, kind) for form, kind in forms.items()),
        ]
    if isinstance(drawn[0], Tree):
        return [
            Sign("counted by the paper", BLUE, "box"),
            Sign("a distinct model", ORANGE, "ring"),
            Sign("pruned", GREY, "pale"),
        ]
    return [
        *(Sign(f"accuracy: {kind}", colour, "line") for kind, colour in SCORES.items()),
        *(Sign(f"band {number}", colour, "box") for number, colour in enumerate(SIGNALS, 1)),
        Sign("this model may lie lower", SIGNALS[-1], "pale"),
        Sign("tolerance", GREY, "box"),
        Sign("the real gap, known after release", PAGE_INK, "diamond"),
    ]


def whole(drawn: Drawn, title: str, key: str) -> Any:
    """Draw all panels together, for a file; `key` says what the signs mean."""
    alt = altair()
    parts = _panels(drawn, INK, legend=True)
    chart = alt.concat(*parts, columns=2, spacing=30)
    heading = alt.Title(title, subtitle=key, fontSize=15, offset=14)
    return styled(chart.properties(title=heading), INK)
