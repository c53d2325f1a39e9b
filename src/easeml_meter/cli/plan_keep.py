"""`meter plan --ask keep`, and what a gate finds with the labels of another plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click

from easeml_meter.checks import read_share
from easeml_meter.cli.common import echo_json
from easeml_meter.cli.questions import delta_of
from easeml_meter.errors import invalid
from easeml_meter.promise.gains import LOSSES, MOST_CASES, need, planned, reaches
from easeml_meter.promise.numbers.rounding import as_written
from easeml_meter.report.gains import conditions, need_lines, reach_json, reach_lines
from easeml_meter.spec import DEFAULT_DELTA

KEEP = "keep"
_TAKES = {"ask", "labels", "steps", "confidence", "delta"}


def plan_keep(
    options: Mapping[str, Any],
    gain: str | None,
    said: Sequence[str] = (),
    *,
    as_json: bool,
) -> None:
    """Print what labels find, or the cases that a gain takes."""
    if gain is not None and options["ask"] != KEEP:
        raise invalid("gain", gain, "only with --ask keep")
    for name in sorted(_given(options) - _TAKES):
        needed = "not with --ask keep, which takes labels or gain, steps and confidence"
        raise invalid(name.replace("_", "-"), options[name], needed)
    labels, steps = options["labels"], options["steps"]
    given = {name: value for name, value in options.items() if value is not None}
    delta = as_written(delta_of(given))
    answers = planned(delta, steps)
    if labels is None and gain is None:
        raise invalid("labels", None, "with --ask keep give --labels 300, or --gain 5%")
    found: dict[str, Any] = {"question": "keep", "delta": float(delta), **conditions()}
    lines = [line for each in said for line in (each, "")]
    if labels is not None:
        rows = reaches(labels, delta, steps)
        found |= {"labels": labels, "answers": reach_json(rows)}
        lines += [*reach_lines(labels, delta, rows), ""]
    if gain is not None:
        share = read_share("gain", gain)
        if not 0 < share <= 1 - 2 * LOSSES:
            raise invalid("gain", share, f"above 0, {1 - 2 * LOSSES:g} at most: 5% or 0.05")
        needs = [need(share, delta, count) for count in answers]
        if any(each.first is None for each in needs):
            raise invalid("gain", share, f"too small: it takes more than {MOST_CASES:,} cases")
        found |= {"gain": share, "cases": [each.to_dict() for each in needs]}
        lines += [*need_lines(share, needs), ""]
    if as_json:
        echo_json(found)
        return
    sure = f"{float(100 * (1 - delta)):g} % sure of all keeps together"
    looks = "" if steps is None else f" --looks {steps}"
    if delta != as_written(DEFAULT_DELTA):
        looks += f" --confidence {float(100 * (1 - delta)):g}"
    lines += [f"{sure}, however many versions were tried.", f"\nNext: meter gate OLD NEW{looks}"]
    click.echo("\n".join(lines))


def labels_alone(options: Mapping[str, Any]) -> bool:
    """Return whether labels were given, and nothing that asks for something else than a gate."""
    return options["labels"] is not None and _given(options) <= _TAKES - {"ask", "steps"}


def _given(options: Mapping[str, Any]) -> set[str]:
    return {name for name, value in options.items() if value not in (None, False, ())}
