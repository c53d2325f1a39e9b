"""What the commands of a meter share."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from easeml_meter.errors import invalid

if TYPE_CHECKING:
    from easeml_meter.service.meter import Meter

Command = TypeVar("Command", bound=Callable[..., Any])

HONOUR = (
    "Embedded mode is an honour system: this account could read the key that opens the test set."
)


def folder_option(command: Command) -> Command:
    """Add the option that names the meter's folder."""
    return click.option(
        "--folder",
        "-C",
        type=click.Path(path_type=Path),
        default=Path(),
        envvar="METER_FOLDER",
        help="Folder of the meter. Default: this one, or METER_FOLDER.",
    )(command)


def json_option(command: Command) -> Command:
    """Add --json."""
    return click.option("--json", "as_json", is_flag=True, help="Machine-readable answer.")(command)


def file_argument(name: str) -> Callable[[Command], Command]:
    """Add a file as an argument; that it exists is checked where it is read."""
    return click.argument(name, type=click.Path(path_type=Path))


def open_meter(folder: Path) -> Meter:
    """Open the meter of a command, in the role that METER_ROLE names (owner: may do it all)."""
    from easeml_meter.service.meter import Meter
    from easeml_meter.service.roles import Role

    role = os.environ.get("METER_ROLE") or Role.OWNER
    if role not in list(Role):
        raise invalid("METER_ROLE", role[:40], f"one of {', '.join(Role)}")
    return Meter.open(folder, role=Role(role))


def echo_json(data: object) -> None:
    """Print for programs."""
    click.echo(json.dumps(data, indent=2, default=str))


def print_rich(*items: Any) -> None:
    """Print for people, in colour where the terminal has it."""
    from rich.console import Console

    console = Console(highlight=False)
    for item in items:
        console.print(item)


def at_terminal() -> bool:
    """Tell whether a person can be asked."""
    return sys.stdin.isatty() and sys.stdout.isatty()
