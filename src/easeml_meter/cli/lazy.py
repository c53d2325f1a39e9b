"""Groups of commands that are imported only when they are used, so that --help stays fast."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from importlib import import_module
from typing import Any

import click

# What is typed for a command that is called something else; a file, where a group needs a command.
_MEANT = {
    "meter": {
        "help": "--help",
        "version": "--version",
        "list": "status",
        "eval": "submit",
        "check": "submit --check",
    },
    "testset": {"list": "requests"},
}


class HelpfulGroup(click.Group):
    """A group that names the command that was probably meant."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find a command; for one that does not exist, name the one that was probably meant."""
        name = args[0]
        known = self.list_commands(ctx)
        if name not in known and not ctx.resilient_parsing and name[:1].isalnum():
            near = _MEANT.get(self.name or "", {}).get(name)
            if near is None and "." in name and "set" in known:
                near = f"set {name[:40]}"
            near = near or next(iter(difflib.get_close_matches(name, known, 1, 0.5)), None)
            meant = f"did you mean {near!r}?" if near else f"see {ctx.command_path} --help"
            raise click.UsageError(f"no command {name[:40]!r}: {meant}", ctx)
        return super().resolve_command(ctx, args)


class LazyGroup(HelpfulGroup):
    """A group that knows its commands by name: in which module each lives, and what it does."""

    def __init__(self, *args: Any, lazy: Mapping[str, tuple[str, str]], **options: Any) -> None:
        super().__init__(*args, **options)
        self._lazy = lazy

    def list_commands(self, ctx: click.Context) -> list[str]:
        """List the commands in the order given."""
        return list(self._lazy)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command."""
        if cmd_name not in self._lazy:
            return None
        command = getattr(import_module(self._lazy[cmd_name][0]), cmd_name)
        return command if isinstance(command, click.Command) else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Describe the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in self._lazy.items()])
