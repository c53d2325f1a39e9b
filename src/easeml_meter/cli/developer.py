"""Commands of developers: status, history, validation, report, hand-over, audit."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from easeml_meter.cli.common import (
    Place,
    echo_json,
    file_argument,
    json_option,
    open_meter,
    place_options,
    print_rich,
    tenant_option,
)
from easeml_meter.core.views import view_json
from easeml_meter.errors import invalid
from easeml_meter.report.words import shown


@click.command()
@tenant_option
@place_options
@json_option
def status(tenant: int | None, place: Place, as_json: bool) -> None:
    """Show the battery, the steps promised and expected, and the last signal."""
    view = open_meter(place).status(tenant=tenant)
    if as_json:
        echo_json(view_json(view))
    else:
        from easeml_meter.report.terminal import session_terminal

        print_rich(session_terminal(view))


@click.command()
@tenant_option
@place_options
@json_option
def history(tenant: int | None, place: Place, as_json: bool) -> None:
    """Show everything that was told, test set by test set."""
    views = open_meter(place).history(tenant=tenant)
    if as_json:
        echo_json([view_json(view) for view in views])
    elif not views:
        click.echo("nothing was told yet: no test set has been delivered")
    else:
        from easeml_meter.report.terminal import history_terminal

        print_rich(*(history_terminal(view) for view in views))


@click.group()
def validation() -> None:
    """The validation set: give the first one, replace it."""


@validation.command(name="set")
@file_argument("file")
@click.option("--label", required=True, help="Name of the label column.")
@place_options
def set_(file: Path, label: str, place: Place) -> None:
    """Give the first validation set."""
    row = open_meter(place).set_validation(file, label=label)
    click.echo(f"validation set {row.number}: {row.rows:,} rows, in force from the next submission")


@validation.command()
@file_argument("file")
@click.option("--label", help="Name of the label column. Default: as before.")
@click.option("--reset", is_flag=True, help="Also reset an incremental meter (if resets are left).")
@place_options
def replace(file: Path, label: str | None, reset: bool, place: Place) -> None:
    """Replace the validation set, from the next submission on."""
    row = open_meter(place).replace_validation(file, label=label, reset=reset)
    click.echo(f"validation set {row.number}: {row.rows:,} rows, in force from the next submission")


@click.command()
@click.option("--html", type=click.Path(path_type=Path), help="One self-contained page.")
@click.option("--svg", type=click.Path(path_type=Path), help="The meter, step by step.")
@click.option("--badge", type=click.Path(path_type=Path), help="The last signal as a badge (svg).")
@click.option("--generation", type=int, help="Number of the test set. Default: the one in use.")
@tenant_option
@place_options
def report(
    place: Place, tenant: int | None, generation: int | None, **outputs: Path | None
) -> None:
    """Draw a session: --html, --svg, --badge."""
    from easeml_meter.report.badges import badge_svg
    from easeml_meter.report.meter import meter_svg
    from easeml_meter.report.page import html_page

    if not any(outputs.values()):
        raise invalid("report", "no output", "give --html, --svg or --badge with a file name")
    view = open_meter(place).status(generation=generation, tenant=tenant)
    drawn = {"html": html_page, "svg": meter_svg, "badge": badge_svg}
    for kind, path in outputs.items():
        if path is not None:
            try:
                path.write_text(drawn[kind](view), encoding="utf-8")
            except OSError as error:
                raise invalid(kind, str(path), error.strerror or "cannot be written") from None
            click.echo(f"wrote {path}")


@click.command()
@click.argument("giver", type=int)
@click.argument("receiver", type=int)
@click.option("--confirm", is_flag=True, help="Record it; without this, only the cost is told.")
@place_options
@json_option
def handover(giver: int, receiver: int, confirm: bool, place: Place, as_json: bool) -> None:
    """Tell what it costs if tenant GIVER hands a checkpoint to tenant RECEIVER; record it.

    From then on both depend on all answers that either has got, and share what is left.
    """
    found = open_meter(place).hand_over(giver, receiver, confirm=confirm)
    if as_json:
        echo_json({"recorded": confirm, "sentence": found.sentence, **asdict(found)})
    else:
        click.echo(found.sentence)
        click.echo("recorded" if confirm else "nothing was recorded: add --confirm")


def _details(details: dict[str, Any]) -> str:
    """Give the short details of an audit link; --json has them all, in full."""
    named = {"generation": "test set", "number": "validation set"}
    words = [
        f"{named.get(name, name)} {shown(str(value), 24)}"
        for name, value in details.items()
        if name not in ("digest", "submission", "reset") and isinstance(value, str | int)
    ]
    return f": {', '.join(words)}" if words else ""


@click.command()
@place_options
@json_option
def audit(place: Place, as_json: bool) -> None:
    """Verify the chain of everything that was disclosed. Exit code 1: something does not fit."""
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
    if found.problems:
        raise click.exceptions.Exit(1)
