"""How the paper's figures are drawn.

Every figure is a row of panels. `panels` draws them one by one, without legends and in the ink of
the page they stand on; `whole` draws them together, with their legends, for a file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from easeml_meter.charts import altair
from easeml_meter.lab.curves import CurveForm, Curves
from easeml_meter.lab.drawings.curves import COLOURS, curve_panel, series_of
from easeml_meter.lab.drawings.style import (
    BLUE,
    GREY,
    INK,
    ORANGE,
    PAGE_INK,
    SIGNALS,
    WIDTH,
    styled,
)
from easeml_meter.lab.drawings.traces import SCORES, trace_panel
from easeml_meter.lab.drawings.trees import tree_panel
from easeml_meter.lab.traces import Trace
from easeml_meter.lab.trees import Tree

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
