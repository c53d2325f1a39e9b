"""`meter mcp`: a meter as tools for coding agents."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from easeml_meter.cli.common import MeterPlace, open_remote, place_options
from easeml_meter.core.people import Role
from easeml_meter.errors import Denied

if TYPE_CHECKING:
    from easeml_meter.meter import MeterVerbs


@click.command()
@click.option(
    "--root",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    default=Path(),
    help="The agent may submit files below this folder only. Default: this one.",
)
@click.option("--honour", is_flag=True, help="Serve a meter in a folder, trusting the agent.")
@place_options
def mcp(root: Path, honour: bool, place: MeterPlace) -> None:
    """Serve a meter to a coding agent (Model Context Protocol, over stdin and stdout).

    Tools: meter_plan, meter_status, meter_check, meter_submit, meter_gate; none of a labeler. Give
    the agent a developer's token (METER_TOKEN) and a server (METER_SERVER).
    """
    from easeml_meter.integrations.mcp import serve

    serve(_meter(place, honour=honour), root)


def _meter(place: MeterPlace, *, honour: bool) -> MeterVerbs:
    if place.server is not None:
        return open_remote(place)
    # An agent runs as this account, which can read the key beside the books.
    if not honour:
        raise Denied(
            "a meter in a folder hides nothing from an agent of this account: use a server that "
            "runs under another account (--server), or trust the agent (--honour)"
        )
    from easeml_meter.meter import Meter

    return Meter.open(place.folder, role=Role.DEVELOPER)
