"""`meter lab`: the group, and `meter lab figures`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from easeml_meter.cli.common import PATH, echo_json, json_option, print_rich
from easeml_meter.cli.lazy import LazyGroup

if TYPE_CHECKING:
    from easeml_meter.lab.figures import Report

_COMMANDS = {
    "figures": ("easeml_meter.cli.lab", "Redraw the paper's evaluation and check its claims."),
    "paper": ("easeml_meter.cli.lab", "The paper's meters beside ours: names, labels, commands."),
    "coverage": ("easeml_meter.cli.lab_simulation", "How often a developer breaks the promise."),
    "limit": ("easeml_meter.cli.lab_simulation", "The fewest labels that withstand an attack."),
    "gate": ("easeml_meter.cli.lab_gate", "Six rules that keep or discard, in loops of edits."),
    "noise": ("easeml_meter.cli.lab_gate", "How much of a score is luck: one system, run twice."),
    "misuse": ("easeml_meter.cli.lab_simulation", "What happens when assumptions are broken."),
}


@click.group(cls=LazyGroup, lazy=_COMMANDS)
def lab() -> None:
    """Attack the promise with simulated developers, and redraw the paper's evaluation."""


@click.command()
@click.option("--out", type=PATH, default="figures", help="Folder to write to (figures).")
@click.option("--only", multiple=True, metavar="NAME", help="Only this figure. Repeatable.")
@json_option
def figures(out: Path, only: tuple[str, ...], as_json: bool) -> None:
    """Draw every figure of the paper's evaluation, and check every claim and number.

    Writes NAME.svg, NAME.png and NAME.csv for each figure, then numbers.csv, claims.csv,
    misprints.csv and index.html, which shows what the paper claims and what was found.

    \b
    Figures: uniform, signals, nonuniform, tenants, time-travel, case-study, trees, traces.
    """
    from easeml_meter.lab.figures import FIGURES, draw

    names = only or tuple(FIGURES)
    with _progress(len(set(names)) + 1) as show:
        report = draw(out, names, show)
    if as_json:
        echo_json(report.to_json())
    else:
        _show(report, out)


@click.command()
@json_option
def paper(as_json: bool) -> None:
    """Show each meter of the paper, its labels and ours, and the command that plans it.

    Ten answers within 0.01 and delta = 0.01, five equally wide bands, as in the paper's examples.
    """
    from easeml_meter.lab.numbers import side_by_side

    rows = side_by_side()
    if as_json:
        echo_json(rows)
        return
    shape = "{:24} {:>6} {:>11} {:>8}  {}"
    click.echo(shape.format("in the paper", "labels", "its formula", "here", "called here"))
    for row in rows:
        if "labels" in row:
            numbers = row["printed"], f"{row['formula']:,}", f"{row['labels']:,}"
            click.echo(shape.format(row["paper"], *numbers, row["here"]))
        else:
            click.echo(row["paper"])
        click.echo(f"  {row['command']}")


@contextmanager
def _progress(total: int) -> Iterator[Callable[[str], None]]:
    """Show what is being drawn, on stderr and to people only."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (TextColumn("{task.description:<12}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task("", total=total)
        begun = 0

        def show(name: str) -> None:
            nonlocal begun
            bars.update(task, description=name, completed=begun)
            begun += 1

        yield show


def _show(report: Report, out: Path) -> None:
    from rich.table import Table

    from easeml_meter.lab.figures import tally
    from easeml_meter.lab.numbers import ClaimVerdict

    colours = {ClaimVerdict.ROUGHLY: "yellow", ClaimVerdict.FAILS: "red"}
    findings = [
        (claim, finding) for drawing in report.drawings for claim, finding in drawing.findings
    ]
    claims = tally(finding.verdict for _, finding in findings)
    numbers = tally(number.verdict for number in report.numbers)
    count = len(report.drawings)
    print_rich(
        f"{count} {'figure' if count == 1 else 'figures'}, {len(findings)} claims: {claims}",
        f"{len(report.numbers)} printed numbers: {numbers}",
    )
    table = Table(box=None, pad_edge=False, padding=(0, 1), show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column()
    for verdict, colour in reversed(colours.items()):
        for claim, finding in findings:
            if finding.verdict is verdict:
                table.add_row(str(verdict), claim.place, claim.says, style=colour)
        for number in report.numbers:
            if number.verdict is verdict:
                said = f"{number.printed} ({number.what}): {number.shown}"
                table.add_row(str(verdict), number.places.split()[0], said, style=colour)
    print_rich(table, f"written to {out / 'index.html'}")
