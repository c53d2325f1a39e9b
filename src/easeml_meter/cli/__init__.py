"""The command `meter`: one module per group of commands; they format, they never compute."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module

import click

from easeml_meter import __version__
from easeml_meter.errors import MeterError

# Where each command lives. Loaded when used, so that `meter --help` stays fast.
_COMMANDS = {
    "plan": ("easeml_meter.cli.plan", "How many labels the hidden test set needs."),
    "compare": ("easeml_meter.cli.plan", "All meters side by side, with a chart."),
}


class _LazyGroup(click.Group):
    """A group that imports a command's module only when that command is run."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        command = getattr(import_module(_COMMANDS[cmd_name][0]), cmd_name)
        return command if isinstance(command, click.Command) else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in _COMMANDS.items()])


@click.group(
    cls=_LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    invoke_without_command=True,
)
@click.version_option(__version__, prog_name="meter")
@click.pass_context
def meter(context: click.Context) -> None:
    """Keep machine-learning teams honest about overfitting.

    Exit codes: 0 done, 1 failed, 2 wrong input (one line says what was wrong).
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; every failure is one line on stderr and an exit code."""
    try:
        code = meter.main(arguments, prog_name="meter", standalone_mode=False)
    except MeterError as error:
        _fail(str(error), error.exit_code)
    except click.ClickException as error:
        _fail(error.format_message(), 2)
    except (click.Abort, KeyboardInterrupt):
        _fail("interrupted", 130)
    except BrokenPipeError:
        sys.exit(0)
    sys.exit(code if isinstance(code, int) else 0)


def _fail(message: str, code: int) -> None:
    line = " ".join(message.split())
    click.echo(f"meter: {line}", err=True)
    sys.exit(code)
