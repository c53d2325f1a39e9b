"""`meter why`: where the labels of a plan go, and what would spare some."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from easeml_meter.cli.common import PATH, echo_json, json_option
from easeml_meter.cli.plan import spec_from

if TYPE_CHECKING:
    from easeml_meter.core.questions.reasons import Reasons

_TOML = Path("meter.toml")


@click.command()
@click.option("--steps", type=int, help="Number of promised answers, T.")
@click.option("--tolerance", help="One number, or a comma-separated list with one for each band.")
@click.option("--edges", help="Inner edges of the bands.")
@click.option("--delta", type=float, help="Probability that the promise may fail. Default: 0.01.")
@click.option(
    "--spec",
    "path",
    type=PATH,
    help="A meter.toml. Default: the one in this folder, if neither steps nor tolerance are given.",
)
@json_option
def why(path: Path | None, as_json: bool, **options: Any) -> None:
    """Say why a meter needs its labels, and which setting would halve them.

    \b
    Examples:
      meter why --steps 10 --tolerance 0.01
      meter why --spec meter.toml
    """
    from easeml_meter.core.questions.reasons import reasons

    given = options["steps"] is not None or options["tolerance"] is not None
    if path is None and not given and _TOML.is_file():
        path = _TOML
    found = reasons(spec_from(path, None, options))
    if as_json:
        echo_json(found.to_dict())
    else:
        _show(found)


def _show(found: Reasons) -> None:
    from rich.console import Console
    from rich.table import Table

    spec, console = found.plan.spec, Console(highlight=False)
    steps = "1 answer" if spec.steps == 1 else f"{spec.steps:,} answers"
    needed = f"[bold]{found.plan.labels:,} {spec.unit}[/bold] for {steps}. "
    if not found.adaptivity:
        console.print(
            f"{needed}That is the price of tolerance, delta and steps: it would be the same if "
            "nobody acted on an answer."
        )
    else:
        console.print(
            f"{needed}If nobody acted on an answer, {found.unadapted:,} would do: "
            "that is the price of tolerance, delta and steps. "
            f"The other {found.adaptivity:,} are needed because people do, which makes their next "
            "model depend on the hidden labels."
        )
    if not found.knobs:
        console.print("\nNo setting was found that would spare some.")
        return
    console.print("\nWhat would spare some:")
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold underline")
    for heading, side in (("change", "left"), ("labels", "right"), ("of now", "right")):
        table.add_column(heading, justify=side, no_wrap=True)  # type: ignore[arg-type]
    table.add_column("what it costs")
    for knob in found.knobs:
        share = f"{knob.plan.labels / found.plan.labels:.0%}"
        table.add_row(knob.change, f"{knob.plan.labels:,}", share, knob.costs)
    console.print(table)
    console.print("\nNext: [bold]meter compare[/bold] shows the forms of a meter side by side.")
