"""Two submissions on a released test set, in a terminal: the sums, then the examples."""

from __future__ import annotations

from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from easeml_meter.core.views import Differences, DifferingExample, plain
from easeml_meter.report.words import loss_name, measured_words, shown
from easeml_meter.spec import MeterSpec

_INPUTS = 3
"""Columns of inputs that are shown: more do not fit beside the rest."""
_CELL = 24
_RIGHT_OR_WRONG = ("went from right to wrong", "went from wrong to right")
_OF_LOSSES = ("became worse", "became better")


def differences_terminal(
    spec: MeterSpec, found: Differences, *, better: bool = False
) -> RenderableType:
    """Show what became worse, or better, from one submission to the other."""
    name = loss_name(spec)
    sides = [
        f"step {each.step:,}, {shown(each.model, 40)}: test {name} "
        f"{measured_words(spec, each.test_loss)}"
        for each in (found.first, found.second)
    ]
    became = _RIGHT_OR_WRONG if found.zero_one else _OF_LOSSES
    changed = f"of {found.rows:,} examples, {found.worse:,} {became[0]}, "
    lines = [*sides, f"{changed}{found.better:,} {became[1]}"]
    parts: list[RenderableType] = [Text(line) for line in lines]
    if found.examples:
        at = f", page {found.page:,} of {found.pages:,}" if found.pages > 1 else ""
        parts += [Text(f"\nthose that {became[better]}{at}", style="bold"), _examples(found)]
    return Group(*parts)


def _examples(found: Differences) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold underline")
    named = found.examples[0].id is not None
    columns = list(found.examples[0].inputs)[:_INPUTS]
    steps = (f"step {found.first.step:,}", f"step {found.second.step:,}")
    for heading in ("id" if named else "row", "label", *steps, *columns):
        table.add_column(Text(shown(heading, _CELL)), overflow="fold")
    for each in found.examples:
        table.add_row(*map(_cell, _values(each, columns, named=named)))
    return table


def _values(example: DifferingExample, columns: list[str], *, named: bool) -> list[Any]:
    first = example.id if named else example.row
    inputs = [example.inputs.get(name) for name in columns]
    return [first, example.label, *example.predictions, *inputs]


def _cell(value: Any) -> Text:
    written = f"{value:.6g}" if isinstance(value, float) else str(plain(value))
    return Text("" if value is None else shown(written, _CELL))
