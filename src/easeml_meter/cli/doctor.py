"""`meter doctor`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from easeml_meter.cli.common import echo_either, json_option
from easeml_meter.cli.server import given_settings, settings_options
from easeml_meter.core.doctor import healthy
from easeml_meter.service.actor import SYSTEM

if TYPE_CHECKING:
    from easeml_meter.server.settings import Settings
    from easeml_meter.service.doctor import Installation


@click.command()
@settings_options()
@json_option
def doctor(settings_file: Path | None, as_json: bool, **flags: Any) -> None:
    """Check a server's or worker's key, sandbox, database, disk, files and proxy.

    Prints one line for each: ok, warn or fail, what was found, and what to do. Exits with 1 if
    a check failed. Changes nothing; a small file is written where sealed files are kept, and
    removed. The settings are those of meter serve, and come from the same places: run it on the
    same machine, as the same account. /readyz answers with the cheap checks.
    """
    from easeml_meter.service.doctor import examine

    findings = examine(SYSTEM, installation(given_settings(settings_file, flags)))
    sound = healthy(findings)
    shown = {"ok": sound, "checks": [asdict(each) for each in findings]}
    echo_either(as_json, shown, *(each.line for each in findings))
    raise click.exceptions.Exit(0 if sound else 1)


def installation(settings: Settings) -> Installation:
    """Return what there is to examine."""
    from easeml_meter.service.doctor import Installation

    return Installation(
        folder=settings.folder,
        database=settings.database_url,
        files=settings.files_place,
        key=settings.key_file,
        room=settings.room,
        trusted_proxy=settings.trusted_proxy,
        allowed_host=settings.allowed_host,
        exposed=settings.exposed,
        in_the_clear=settings.in_the_clear,
    )
