"""`meter gate`: an exit code by what was told of a model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from easeml_meter.cli.common import (
    PATH,
    Command,
    MeterPlace,
    echo_json,
    json_option,
    open_meter,
    place_options,
    tenant_option,
)

if TYPE_CHECKING:
    from easeml_meter.core.gate import GateVerdict


def gate_options(command: Command) -> Command:
    """Add the options of a gate, and of what it writes."""
    for option in reversed(
        (
            click.option(
                "--fail-above",
                type=int,
                metavar="BAND",
                help="Exit with 6 if the answer is a higher band, or none.",
            ),
            click.option(
                "--most-loss",
                type=float,
                metavar="LOSS",
                help="Exit with 6 unless the true loss is promised to be at most this.",
            ),
            click.option("--summary", type=PATH, help="Write Markdown, for a pull request."),
            click.option("--junit", type=PATH, help="Write a JUnit report."),
        )
    ):
        command = option(command)
    return command


@click.command()
@click.option("--model", required=True, help="Name of the model, as it was submitted.")
@gate_options
@tenant_option
@place_options
@json_option
def gate(model: str, tenant: int | None, place: MeterPlace, as_json: bool, **options: Any) -> None:
    """Let a model pass by what was told of it: free, and repeatable.

    At a meter that asks a condition, such as "n > 0.8 +/- 0.01", no option is needed.

    Exit code 0: it passes. 6: it does not, or there is no reading to go by. 4: nothing was told
    of it yet.
    """
    from easeml_meter.core.gate import Gate

    # A gate looks at an answer that was given: however often a pipeline runs, nothing is charged.
    wanted = Gate(options["fail_above"], options["most_loss"])
    verdict = open_meter(place).gate(model, wanted, tenant=tenant)
    if as_json:
        echo_json(verdict.to_dict())
    close(verdict, options, shown=not as_json)


def close(verdict: GateVerdict, options: Mapping[str, Any], *, shown: bool) -> None:
    """Show and write what was asked for, and exit with 6 if the model does not pass."""
    from easeml_meter.core.gate import CLOSED
    from easeml_meter.report import gate as written

    if shown:
        click.echo("\n".join(filter(None, (verdict.sentence, verdict.note))))
    if options["summary"] is not None:
        # A runner's summary file is shared by all steps of its job.
        with options["summary"].open("a", encoding="utf-8") as file:
            file.write(written.markdown(verdict))
    if options["junit"] is not None:
        options["junit"].write_text(written.junit(verdict), encoding="utf-8")
    if not verdict.passed:
        click.get_current_context().exit(CLOSED)
