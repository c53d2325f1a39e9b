"""`meter demo`: a story of overfitting, told in seconds."""

from __future__ import annotations

from pathlib import Path

import click

from easeml_meter.cli.common import PATH, at_terminal, echo_json, json_option


@click.command()
@click.argument("folder", type=PATH, default=Path("meter-demo"))
@click.option("--yes", is_flag=True, help="Do not wait for Enter.")
@json_option
def demo(folder: Path, yes: bool, as_json: bool) -> None:
    """Watch a developer overfit, and a meter notice, in a new FOLDER (meter-demo).

    Everything is real but the data: sealed labels, answers, budget, release. Press Enter to go on.
    """
    from rich.console import Console

    from easeml_meter.demo.story import tell
    from easeml_meter.meter import Meter

    console = Console(highlight=False, quiet=as_json)

    def pause() -> None:
        if at_terminal() and not yes and not as_json:
            click.prompt("  [Enter]", default="", show_default=False, prompt_suffix="")

    tell(folder, console, pause)
    if as_json:
        with Meter.open(folder) as meter:
            echo_json({"folder": str(folder), **meter.status().to_dict()})
