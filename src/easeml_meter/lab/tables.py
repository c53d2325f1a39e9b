"""The data behind the figures, as tables in long form."""

from __future__ import annotations

import csv
import io
import itertools
from collections.abc import Sequence

from easeml_meter.lab.curves import Curves
from easeml_meter.lab.drawings import Drawn
from easeml_meter.lab.paper import PrintedNumber
from easeml_meter.lab.traces import Trace, readings
from easeml_meter.lab.trees import Tree
from easeml_meter.spec import Protocol

Row = dict[str, object]


def rows(data: Drawn) -> list[Row]:
    """Return the data behind a figure in long form."""
    if isinstance(data, Curves):
        return [
            {
                "panel": panel.title,
                "series": point.series,
                "bound": str(point.form),
                data.x_title: point.x,
                "labels": point.labels,
            }
            for panel in data.panels
            for point in panel.points
        ]
    return list(
        itertools.chain.from_iterable(
            _tree_rows(each) if isinstance(each, Tree) else _trace_rows(each) for each in data
        )
    )


def _tree_rows(tree: Tree) -> list[Row]:
    return [
        {
            "panel": tree.title,
            "node": node.name,
            "answers": node.level,
            "counted by the paper": int(node.published),
            "distinct model": int(node.distinct),
            "pruned": int(node.pruned),
        }
        for node in tree.nodes
    ]


def _trace_rows(trace: Trace) -> list[Row]:
    return [
        {
            "panel": trace.title,
            "meter": str(protocol),
            "step": reading.step,
            "change": step.change,
            "validation loss": step.validation_loss,
            "test loss": step.test_loss,
            "true loss": step.true_loss,
            "gap": step.gap,
            "signal": reading.answer,
            "band lower": reading.lower,
            "band upper": reading.upper,
            "tolerance": reading.tolerance,
        }
        for protocol in (Protocol.REGULAR, Protocol.INCREMENTAL)
        for step, reading in zip(trace.steps, readings(trace, protocol), strict=True)
    ]


def as_csv(table: Sequence[Row]) -> str:
    """Write rows that all have the same columns."""
    stream = io.StringIO()
    writer = csv.DictWriter(stream, list(table[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(table)
    return stream.getvalue()


def number_row(number: PrintedNumber) -> Row:
    """Return a printed number as one row of numbers.csv."""
    return {
        "printed": number.printed,
        "what": number.what,
        "places": "; ".join(number.places),
        "computed": number.computed,
        "tightened": number.tightened,
        "verdict": str(number.verdict),
        "note": number.note,
    }
