"""`meter handover`: what a hand-over costs, its request, and the other team's answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from easeml_meter.cli.common import (
    MeterPlace,
    echo_json,
    json_option,
    open_meter,
    place_options,
)
from easeml_meter.errors import invalid

if TYPE_CHECKING:
    from easeml_meter.core.views import Consequence


@click.command()
@click.argument("giver", type=int, required=False)
@click.argument("receiver", type=int, required=False)
@click.option("--confirm", "answer", flag_value="confirm", help="Request it from the other team.")
@click.option("--accept", "answer", flag_value="accept", help="Agree to one that was requested.")
@click.option("--decline", "answer", flag_value="decline", help="Decline one, or withdraw it.")
@place_options
@json_option
def handover(
    giver: int | None, receiver: int | None, answer: str | None, place: MeterPlace, as_json: bool
) -> None:
    """Show what it costs if team GIVER hands a checkpoint to team RECEIVER, or request it.

    Once the other team has agreed, both depend on all answers that either got, and share what is
    left. In a folder, which has one owner, --confirm records it at once. Without teams, show the
    hand-overs that wait for a team to agree.
    """
    meter = open_meter(place)
    if giver is None and answer is None:
        _show(meter.handovers(), as_json)
        return
    if giver is None or receiver is None:
        raise invalid("handover", "no two teams", "give both, such as: meter handover 1 2")
    if answer in ("accept", "decline"):
        found = meter.answer_handover(giver, receiver, accept=answer == "accept")
    else:
        found = meter.hand_over(giver, receiver, confirm=answer == "confirm")
    if as_json:
        echo_json(found.to_json())
        return
    click.echo(found.sentence)
    if answer is None:
        click.echo("nothing was recorded: add --confirm")
    else:
        click.echo("declined" if answer == "decline" else _standing(found))


def _show(waiting: list[Consequence], as_json: bool) -> None:
    if as_json:
        echo_json([each.to_json() for each in waiting])
        return
    for each in waiting:
        click.echo(f"{each.giver} to {each.receiver}: {each.sentence}")
        click.echo(f"  {_standing(each)}")
    if not waiting:
        click.echo("no hand-over waits for a team to agree")


def _standing(found: Consequence) -> str:
    return "recorded" if found.recorded else found.standing.replace("`", "")
