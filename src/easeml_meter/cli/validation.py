"""`meter validation`: hand in or replace the validation set."""

from __future__ import annotations

from pathlib import Path

import click

from easeml_meter.cli.common import MeterPlace, file_argument, open_meter, place_options


@click.group()
def validation() -> None:
    """The validation set: hand in the first one, replace it."""


@validation.command(name="set")
@file_argument("file")
@click.option("--label", required=True, help="Name of the label column.")
@click.option("--id", "id_column", help="Name of the id column, to join predictions by.")
@place_options
def set_(file: Path, label: str, id_column: str | None, place: MeterPlace) -> None:
    """Hand in the first validation set."""
    row = open_meter(place).set_validation(file, label=label, id_column=id_column)
    click.echo(f"validation set {row.number}: {row.rows:,} rows, used from the next submission")


@validation.command()
@file_argument("file")
@click.option("--label", help="Name of the label column. Default: as before.")
@click.option("--id", "id_column", help='Name of the id column; "" for none. Default: as before.')
@click.option("--reset", is_flag=True, help="Also reset an incremental meter, if resets are left.")
@place_options
def replace(
    file: Path, label: str | None, id_column: str | None, reset: bool, place: MeterPlace
) -> None:
    """Replace the validation set; this takes effect with the next submission."""
    row = open_meter(place).replace_validation(file, label=label, id_column=id_column, reset=reset)
    click.echo(f"validation set {row.number}: {row.rows:,} rows, used from the next submission")
