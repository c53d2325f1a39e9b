"""Whether a model passes, by what was answered: options and exit code of `submit` and `status`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from easeml_meter.cli.common import (
    PATH,
    Command,
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
