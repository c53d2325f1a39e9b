"""`meter handover`: what a hand-over costs, and its record."""

from __future__ import annotations

from dataclasses import asdict

import click

from easeml_meter.cli.common import (
    MeterPlace,
    echo_json,
    json_option,
    open_meter,
    place_options,
)


@click.command()
@click.argument("giver", type=int)
@click.argument("receiver", type=int)
@click.option("--confirm", is_flag=True, help="Record it; without this, only show the cost.")
@place_options
@json_option
def handover(giver: int, receiver: int, confirm: bool, place: MeterPlace, as_json: bool) -> None:
    """Show what it costs if team GIVER hands a checkpoint to team RECEIVER, or record it.

    From then on, both depend on all answers that either got, and share what is left.
    """
    found = open_meter(place).hand_over(giver, receiver, confirm=confirm)
    if as_json:
        echo_json({"recorded": confirm, "sentence": found.sentence, **asdict(found)})
    else:
        click.echo(found.sentence)
        click.echo("recorded" if confirm else "nothing was recorded: add --confirm")
