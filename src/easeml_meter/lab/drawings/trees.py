"""Dependency trees."""

from __future__ import annotations

import math
from typing import Any

from easeml_meter.charts import altair
from easeml_meter.lab.drawings.style import BLUE, GREY, ORANGE, WIDTH
from easeml_meter.lab.trees import Node, Tree

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
