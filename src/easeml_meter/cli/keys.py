"""`meter key`: keys of people who may open sealed test sets, and of meters and servers."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from easeml_meter.cli.common import (
    echo_either,
    echo_json,
    embedded_meter,
    file_argument,
    json_option,
    opened_home,
    server_site,
    site_options,
    typed_folder,
    used_server,
    write_privately,
)
from easeml_meter.cli.lazy import HelpfulGroup
from easeml_meter.service.actor import SYSTEM


@click.group(cls=HelpfulGroup)
def key() -> None:
    """Keys that sealed test sets are opened with: make one, or change that of a meter."""


@key.command()
@file_argument("file")
@json_option
def new(file: Path, as_json: bool) -> None:
    """Make a key in FILE, which only you can read, and print its public half."""
    from easeml_meter.vault.keys import Identity

    identity = Identity.new()
    identity.write(file)
    shown = {"file": str(file), "recipient": str(identity.recipient)}
    echo_either(as_json, shown, identity.recipient)


@key.command()
@site_options
@json_option
def rotate(
    folder: Path | None, settings_file: Path | None = None, *, as_json: bool, **flags: Any
) -> None:
    """Let a new key take the place of a meter's or a server's, for all that is sealed to it.

    Stop servers and workers first, and give the workers the new key afterwards. Answers, budgets
    and fingerprints of rows stay as they are. Interrupted at any point, run it again. The former
    key stays in a file beside the new one, as backups made before can be read with it only.
    """
    from easeml_meter.service.backup import Place
    from easeml_meter.service.keys import rotate_key
    from easeml_meter.storage.store import alone, sqlite_url

    folder = typed_folder(folder)
    home = embedded_meter(folder, settings_file, flags)
    if home is not None:
        with alone(sqlite_url(home.database)), opened_home(home) as place:
            done = rotate_key(SYSTEM, place, home.key)
    else:
        settings = used_server(folder, settings_file, flags)
        write_privately()
        with alone(settings.database_url), server_site(settings) as site:
            done = rotate_key(SYSTEM, Place.of_site(site), settings.key_file, site)
    if as_json:
        echo_json({**asdict(done), "former": str(done.former)})
        return
    click.echo(f"{done.files} files are sealed to the new key, {done.recipient}")
    for name in done.unopened:
        click.echo(f"warning: {name}: neither key opens it", err=True)
    click.echo(
        f"the former key is now {done.former}: backups made until now need it, so keep it with "
        "them, away from here, and make a new backup"
    )
    if home is None:
        click.echo("workers refuse to start until they have the new key file")
