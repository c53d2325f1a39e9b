"""Commands of developers: submit, status, history, validation, report, audit."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from easeml_meter.cli.common import (
    Command,
    echo_json,
    file_argument,
    folder_option,
    json_option,
    open_meter,
    print_rich,
)
from easeml_meter.errors import invalid
from easeml_meter.report.words import shown

if TYPE_CHECKING:
    from easeml_meter.core.views import SessionView, Signal


def _tenant_option(command: Command) -> Command:
    return click.option("--tenant", type=int, default=1, help="Number of the tenant. Default 1.")(
        command
    )


@click.command()
@click.option("--test", type=click.Path(path_type=Path), required=True, help="Predictions on it.")
@click.option("--validation", type=click.Path(path_type=Path), required=True, help="And on it.")
@click.option("--model", help="Name of the model. Default: the name of the test file.")
@_tenant_option
@folder_option
@json_option
def submit(test: Path, validation: Path, model: str | None, folder: Path, **options: Any) -> None:
    """Submit predictions on the test set and on the validation set; get a signal.

    Exit code 3: the test set is spent, and the labelers are asked for a fresh one.
    """
    signal = open_meter(folder).submit(
        test,
        validation,
        model=test.stem if model is None else model,
        tenant=options["tenant"],
    )
    if options["as_json"]:
        echo_json(_signal_json(signal))
    else:
        print_rich(signal)


def _signal_json(signal: Signal) -> dict[str, Any]:
    return {
        "answer": signal.name,
        "band": signal.band,
        "gap": signal.gap,
        "tolerance": signal.tolerance,
        "true_gap": signal.true_gap,
        "confidence": signal.confidence,
        "promise": signal.promise,
        "model": signal.model,
        "step": signal.step,
        "generation": signal.generation,
        "tenant": signal.tenant,
        "told_at": signal.told_at.isoformat(),
        "repeated": signal.repeated,
        "battery": signal.battery,
        "steps_left": signal.steps_left,
        "steps_expected": signal.steps_expected,
    }


def _view_json(view: SessionView) -> dict[str, Any]:
    return {
        "meter": view.meter,
        "generation": view.generation,
        "phase": str(view.phase),
        "rows": view.rows,
        "labels_needed": view.labels_needed,
        "battery": view.battery,
        "steps_left": view.steps_left,
        "steps_expected": view.steps_expected,
        "promise": view.promise,
        "assumptions": list(view.assumptions),
        "signals": [_signal_json(signal) for signal in view.signals],
        "retrospective": [truth and vars(truth) for truth in view.retrospective],
    }


@click.command()
@_tenant_option
@folder_option
@json_option
def status(tenant: int, folder: Path, as_json: bool) -> None:
    """Show the battery, the steps promised and expected, and the last signal."""
    view = open_meter(folder).status(tenant=tenant)
    if as_json:
        echo_json(_view_json(view))
    else:
        from easeml_meter.report.terminal import session_terminal

        print_rich(session_terminal(view))


@click.command()
@_tenant_option
@folder_option
@json_option
def history(tenant: int, folder: Path, as_json: bool) -> None:
    """Show everything that was told, test set by test set."""
    views = open_meter(folder).history(tenant=tenant)
    if as_json:
        echo_json([_view_json(view) for view in views])
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
@folder_option
def set_(file: Path, label: str, folder: Path) -> None:
    """Give the first validation set."""
    row = open_meter(folder).set_validation(file, label=label)
    click.echo(f"validation set {row.number}: {row.rows:,} rows, in force from the next submission")


@validation.command()
@file_argument("file")
@click.option("--label", help="Name of the label column. Default: as before.")
@click.option("--reset", is_flag=True, help="Also reset an incremental meter (if resets are left).")
@folder_option
def replace(file: Path, label: str | None, reset: bool, folder: Path) -> None:
    """Replace the validation set, from the next submission on."""
    row = open_meter(folder).replace_validation(file, label=label, reset=reset)
    click.echo(f"validation set {row.number}: {row.rows:,} rows, in force from the next submission")


@click.command()
@click.option("--html", type=click.Path(path_type=Path), help="One self-contained page.")
@click.option("--svg", type=click.Path(path_type=Path), help="The meter, step by step.")
@click.option("--badge", type=click.Path(path_type=Path), help="The last signal as a badge (svg).")
@click.option("--generation", type=int, help="Number of the test set. Default: the one in use.")
@_tenant_option
@folder_option
def report(folder: Path, tenant: int, generation: int | None, **outputs: Path | None) -> None:
    """Draw a session: --html, --svg, --badge."""
    from easeml_meter.report.badges import badge_svg
    from easeml_meter.report.meter import meter_svg
    from easeml_meter.report.page import html_page

    if not any(outputs.values()):
        raise invalid("report", "no output", "give --html, --svg or --badge with a file name")
    view = open_meter(folder).status(generation=generation, tenant=tenant)
    drawn = {"html": html_page, "svg": meter_svg, "badge": badge_svg}
    for kind, path in outputs.items():
        if path is not None:
            try:
                path.write_text(drawn[kind](view), encoding="utf-8")
            except OSError as error:
                raise invalid(kind, str(path), error.strerror or "cannot be written") from None
            click.echo(f"wrote {path}")


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
@folder_option
@json_option
def audit(folder: Path, as_json: bool) -> None:
    """Verify the chain of everything that was disclosed. Exit code 1: something does not fit."""
    found = open_meter(folder).audit()
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
