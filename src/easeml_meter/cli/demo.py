"""`meter demo`: a story of overfitting, told in seconds."""

from __future__ import annotations

import sys
from pathlib import Path

import click


@click.command()
@click.argument("folder", type=click.Path(path_type=Path), default=Path("meter-demo"))
@click.option("--yes", is_flag=True, help="Do not wait for Enter.")
def demo(folder: Path, yes: bool) -> None:
    """Watch a developer overfit, and a meter notice, in a new FOLDER (meter-demo).

    Everything is real but the data: sealed labels, answers, budget, release. Press Enter to go on.
    """
    from rich.console import Console

    from easeml_meter.demo.story import tell

    console = Console(highlight=False)

    def pause() -> None:
        if not yes and sys.stdin.isatty() and sys.stdout.isatty():
            click.prompt("  [Enter]", default="", show_default=False, prompt_suffix="")

    tell(folder, console, pause)
