"""The command `meter`: one module per group of commands; they format, they never compute."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from easeml_meter.cli.lazy import LazyGroup
from easeml_meter.errors import MeterError
from easeml_meter.version import __version__

# Where each command lives. Loaded when used, so that `meter --help` stays fast.
_COMMANDS = {
    "demo": ("easeml_meter.cli.demo", "A story of overfitting, told in seconds."),
    "plan": ("easeml_meter.cli.plan", "How many labels the hidden test set needs."),
    "compare": ("easeml_meter.cli.compare", "All meters side by side; why one needs its labels."),
    "init": ("easeml_meter.cli.meters", "Make a meter in a folder, or on a server."),
    "key": ("easeml_meter.cli.keys", "Keys for sealed test sets: make one, or change a meter's."),
    "seal": ("easeml_meter.cli.testsets", "Seal labelled rows as a test set (labelers)."),
    "testset": ("easeml_meter.cli.testsets", "Test sets: add, requests, inputs, notices, fetch."),
    "validation": ("easeml_meter.cli.testsets", "Hand in or replace the validation set."),
    "submit": ("easeml_meter.cli.submissions", "Submit predictions or a model, get an answer."),
    "gate": ("easeml_meter.cli.gate", "Keep or discard a new version, by two result files."),
    "promote": ("easeml_meter.cli.submissions", "Compare the next models with one that passed."),
    "status": ("easeml_meter.cli.history", "The budget left, all answers so far, what to do now."),
    "history": ("easeml_meter.cli.history", "All answers, test set by test set."),
    "diff": ("easeml_meter.cli.history", "Compare two submissions on a released test set."),
    "report": ("easeml_meter.cli.history", "Draw the answers: html, svg, badges."),
    "handover": ("easeml_meter.cli.meters", "Show what a hand-over costs, and record it."),
    "audit": ("easeml_meter.cli.history", "Verify the chain of disclosures."),
    "release": ("easeml_meter.cli.testsets", "Release a spent test set to the developers."),
    "login": ("easeml_meter.cli.tokens", "Log in to a server, with a password or a token."),
    "logout": ("easeml_meter.cli.tokens", "Log out of a server."),
    "meters": ("easeml_meter.cli.meters", "Your meters on a server."),
    "archive": ("easeml_meter.cli.meters", "Give a meter up before its first answer (admins)."),
    "user": ("easeml_meter.cli.users", "Accounts on a server (admins)."),
    "seat": ("easeml_meter.cli.users", "Who has which role at a meter (admins)."),
    "token": ("easeml_meter.cli.tokens", "Your tokens on a server, for scripts and jobs."),
    "serve": ("easeml_meter.cli.server", "Run a server for teams."),
    "worker": ("easeml_meter.cli.server", "Run a server's queued submissions, on any machine."),
    "doctor": ("easeml_meter.cli.server", "Check a server's key, sandbox, database, disk, files."),
    "backup": ("easeml_meter.cli.backup", "Back up a meter's folder, or a server."),
    "restore": ("easeml_meter.cli.backup", "Restore a backup; answers given since still count."),
    "mcp": ("easeml_meter.cli.mcp", "A meter as tools for a coding agent."),
    "completion": ("easeml_meter.cli.completion", "Completion of commands in a shell."),
    "lab": ("easeml_meter.cli.lab", "Attack the promise; redraw the paper's evaluation."),
}

_LONGEST = 450


@click.group(
    cls=LazyGroup,
    lazy=_COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"]},
    invoke_without_command=True,
)
@click.version_option(__version__, prog_name="meter")
@click.option(
    "--folder",
    "-C",
    type=click.Path(path_type=Path),
    help="Folder of the meter. Default: this one, or METER_FOLDER.",
)
@click.option(
    "--server",
    envvar="METER_SERVER",
    help="Use a meter on a server, not in a folder. [METER_SERVER]",
)
@click.option("--meter", "meter_name", envvar="METER_NAME", help="Its name or id. [METER_NAME]")
@click.option(
    "--ca",
    envvar="METER_CA",
    type=click.Path(path_type=Path),
    help="Certificate of your own authority (PEM). [METER_CA]",
)
@click.pass_context
def meter(context: click.Context, /, **_: object) -> None:
    """Keep machine-learning teams honest about overfitting.

    The commands of a meter also take -C, --server, --meter and --ca.

    Exit codes: 0 done, 1 failed, 2 wrong input, 3 test set spent, 4 not possible now,
    5 not allowed, 6 told, and not good enough; one line on stderr says what was wrong.
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; every failure is one line on stderr and an exit code.

    With --json the line is JSON, as the server would answer.
    """
    try:
        code = meter.main(arguments, prog_name="meter", standalone_mode=False)
    except MeterError as error:
        _fail(str(error), error.exit_code, error.word)
    except click.MissingParameter as error:
        asked = error.ctx.command_path if error.ctx else "meter"
        _fail(f"{error.format_message().rstrip('.')}: see {asked} --help", 2, "invalid")
    except click.exceptions.NoArgsIsHelpError as error:  # a group without its command
        click.echo(error.format_message())
        code = 0
    except click.ClickException as error:
        _fail(error.format_message(), 2, "invalid")
    except (click.Abort, KeyboardInterrupt):
        _fail("interrupted", 130)
    except BrokenPipeError:  # whoever read the output, such as head, has seen enough
        sys.exit(0)
    except OSError as error:  # a disk that fills up or a file that vanishes, whatever was going on
        where = f"{error.filename}: " if error.filename else ""
        _fail(f"{where}{error.strerror or error}", 1)
    sys.exit(code if isinstance(code, int) else 0)


def _fail(message: str, code: int, word: str = "failed") -> None:
    line = " ".join(message[:_LONGEST].split())
    if len(message) > _LONGEST:  # somebody gave 10 MB: what is allowed stands at the end
        line = f"{line[:200]} ... {' '.join(message[-200:].split())}"
    if "--json" in sys.argv:
        line = json.dumps({"error": word, "message": line, "exit_code": code})
        if "gate" in sys.argv:  # its JSON is one object on stdout, whatever it says
            click.echo(line)
            sys.exit(code)
    else:
        line = f"meter: {line}"
    click.echo(line, err=True)
    sys.exit(code)
