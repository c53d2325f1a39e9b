"""`meter mcp`: a meter, or a gate, as tools for coding agents."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from easeml_meter.cli.common import PATH, MeterPlace, open_remote, place_options
from easeml_meter.core.people import Role
from easeml_meter.errors import Denied

if TYPE_CHECKING:
    from easeml_meter.meter import MeterVerbs


@click.command()
@click.option(
    "--root",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    default=Path(),
    help="The agent may hand in files below this folder only. Default: this one.",
)
@click.option("--gate", type=PATH, metavar="LEDGER", help="Serve this ledger of meter gate.")
@click.option("--honour", is_flag=True, help="Serve files that the agent can read, trusting it.")
@place_options
def mcp(root: Path, gate: Path | None, honour: bool, place: MeterPlace) -> None:
    """Serve a meter to a coding agent (Model Context Protocol, over stdin and stdout).

    Tools: meter_plan, meter_status, meter_check, meter_submit, meter_gate; none of a labeler. Give
    the agent a developer's token (METER_TOKEN) and a server (METER_SERVER). With --gate: gate and
    gate_status, on result files; the tools of a meter, too, if there is a server.
    """
    from easeml_meter.client.gate import Gate
    from easeml_meter.integrations.agents import GateTools, Tools
    from easeml_meter.integrations.mcp import serve

    if gate is not None and not honour:
        raise Denied(
            "an agent of this account can read the results and the ledger: let a protected job ask "
            "the gate, or trust the agent (--honour)"
        )
    keeping = None if gate is None else GateTools(Gate(gate), root)
    alone = gate is not None and place.server is None
    serve(None if alone else Tools(_meter(place, honour=honour), root), keeping)


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
