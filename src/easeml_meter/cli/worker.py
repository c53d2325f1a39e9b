"""`meter worker`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from easeml_meter.cli.common import write_privately
from easeml_meter.cli.server import given_settings, settings_options
from easeml_meter.errors import not_installed


@click.command()
@click.option(
    "--heartbeat",
    type=float,
    default=10.0,
    show_default=True,
    help="Seconds between signs of life; after three missed ones, another worker takes over.",
)
@settings_options(
    *("database", "executor", "files", "folder", "key"),
    *("log_level", "model_minutes", "shutdown_seconds"),
)
def worker(settings_file: Path | None, heartbeat: float, **flags: Any) -> None:
    """Run the submissions that wait on a server, on this machine.

    Any number of workers on any number of machines share the work; each team's submissions are
    answered in order. A worker needs what the server has: its PostgreSQL, its files (a shared
    folder or a URL) and a copy of its key file. The settings are those of meter serve, and come
    from the same places.

    SIGTERM and Ctrl-C let the current submission finish, or put it back.
    """
    settings = given_settings(settings_file, flags)
    write_privately()
    try:
        from easeml_meter.server.worker import run
    except ImportError as error:
        raise not_installed("a worker needs", error, "server") from error
    run(settings, click.echo, heartbeat=heartbeat)
