"""Development traces, with the meters' answers under each step."""

from __future__ import annotations

from typing import Any

from easeml_meter.charts import altair
from easeml_meter.lab.drawings.style import BLUE, GREY, ORANGE, SIGNALS, WIDTH
from easeml_meter.lab.traces import Trace, TracedReading, TracedStep, readings
from easeml_meter.spec import Protocol

HEIGHT = 150
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
        .properties(width=WIDTH, height=HEIGHT, title=trace.title)
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
    edges = [band.lower for band in trace.spec.bands] + [1.0]
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
        width=WIDTH, height=HEIGHT, title=alt.Title(title, fontSize=11, fontWeight="normal")
    )
