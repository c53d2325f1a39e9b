"""`meter validation`: hand in or replace the validation set."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from easeml_meter.cli.common import (
    MeterPlace,
    echo_json,
    file_argument,
    json_option,
    next_step,
    open_meter,
    place_options,
    seal_step,
    submit_step,
)

if TYPE_CHECKING:
    from easeml_meter.core.model import ValidationSet
    from easeml_meter.meter import MeterVerbs


@click.group()
def validation() -> None:
    """The validation set: hand in the first one, replace it."""


@validation.command(name="set")
@file_argument("file")
@click.option("--label", help="Name of the label column. None for a loss made of scores.")
@click.option("--id", "id_column", help="Name of the id column, to join predictions by.")
@click.option("--cluster", help="Column that says which rows belong together, for --clusters.")
@place_options
@json_option
def set_(file: Path, place: MeterPlace, as_json: bool, **options: Any) -> None:
    """Hand in the first validation set."""
    meter = open_meter(place)
    _show(place, meter, meter.set_validation(file, **options), as_json)


@validation.command()
@file_argument("file")
@click.option("--label", help="Name of the label column. Default: as before.")
@click.option("--id", "id_column", help='Name of the id column; "" for none. Default: as before.')
@click.option("--cluster", help="Column that says which rows belong together. Default: as before.")
@place_options
@json_option
def replace(file: Path, place: MeterPlace, as_json: bool, **options: Any) -> None:
    """Replace the validation set; this takes effect with the next submission."""
    meter = open_meter(place)
    _show(place, meter, meter.replace_validation(file, **options), as_json)


def _show(place: MeterPlace, meter: MeterVerbs, given: ValidationSet, as_json: bool) -> None:
    from easeml_meter.core.lifecycle import Phase

    if as_json:
        echo_json({"validation_set": given.number, "rows": given.rows})
        return
    click.echo(f"validation set {given.number}: {given.rows:,} rows, used from the next submission")
    if meter.generations[-1].phase is Phase.REQUESTED:
        next_step(place, seal_step(meter.spec), reader="labelers")
    elif given.number == 1 and meter.spec.inputs == "public":
        next_step(place, "testset inputs --out inputs.parquet")
    else:
        next_step(place, submit_step(meter.spec))
