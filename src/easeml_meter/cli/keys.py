"""`meter key`: keys of people who may open sealed test sets."""

from __future__ import annotations

from pathlib import Path

import click

from easeml_meter.cli.common import file_argument


@click.group()
def key() -> None:
    """Keys of people who may open sealed test sets."""


@key.command()
@file_argument("file")
def new(file: Path) -> None:
    """Make a key in FILE, which only you can read, and print its public half."""
    from easeml_meter.vault.keys import Identity

    identity = Identity.new()
    identity.write(file)
    click.echo(identity.recipient)
