"""`meter key`: keys of people who may open sealed test sets."""

from __future__ import annotations

from pathlib import Path

import click

from easeml_meter.cli.common import echo_json, file_argument, json_option


@click.group()
def key() -> None:
    """Keys of people who may open sealed test sets."""


@key.command()
@file_argument("file")
@json_option
def new(file: Path, as_json: bool) -> None:
    """Make a key in FILE, which only you can read, and print its public half."""
    from easeml_meter.vault.keys import Identity

    identity = Identity.new()
    identity.write(file)
    if as_json:
        echo_json({"file": str(file), "recipient": str(identity.recipient)})
    else:
        click.echo(identity.recipient)
