"""`meter audit`: verify the chain of everything that was disclosed."""

from __future__ import annotations

from typing import Any

import click

from easeml_meter.cli.common import (
    MeterPlace,
    echo_json,
    json_option,
    open_meter,
    place_options,
)
from easeml_meter.report.words import shown

_KEEP = "keep the last digest of meter audit --json elsewhere: a rewritten chain does not have it"
_MEND = "ask who can write to the books what was done; meter restore brings a backup back"


def _details(details: dict[str, Any]) -> str:
    """Return the short details of an audit link; --json has them all, in full."""
    named = {"generation": "test set", "number": "validation set"}
    words = [
        f"{named.get(name, name)} {shown(str(value), 24)}"
        for name, value in details.items()
        if name not in ("digest", "submission") and isinstance(value, str | int)
    ]
    return f": {', '.join(words)}" if words else ""


@click.command()
@place_options
@json_option
def audit(place: MeterPlace, as_json: bool) -> None:
    """Verify the chain of everything that was disclosed. Exit code 1: something does not match."""
    found = open_meter(place).audit()
    if as_json:
        links = [
            {
                "number": link.number,
                "at": link.at,
                "event": link.event,
                "details": link.details,
                "digest": link.digest,
            }
            for link in found.links
        ]
        echo_json({"sound": not found.problems, "problems": found.problems, "links": links})
    else:
        for link in found.links:
            click.echo(f"{link.number:4} {link.at[:19]} {link.event}{_details(link.details)}")
        for problem in found.problems:
            click.echo(f"problem: {problem}")
        click.echo("the chain is sound" if not found.problems else "the chain is NOT sound")
        click.echo(f"Next: {_MEND if found.problems else _KEEP}")
    if found.problems:
        raise click.exceptions.Exit(1)
