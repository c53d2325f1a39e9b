"""`meter completion`: a script that makes a shell complete commands and options."""

from __future__ import annotations

import click

_WAYS = {
    "bash": 'eval "$(meter completion bash)"   # in ~/.bashrc',
    "zsh": 'eval "$(meter completion zsh)"   # in ~/.zshrc',
    "fish": "meter completion fish > ~/.config/fish/completions/meter.fish",
}


@click.command(
    epilog="\b\n" + "\n".join(_WAYS.values()),
)
@click.argument("shell", type=click.Choice(list(_WAYS)))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the script that makes SHELL complete the commands of meter."""
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"{shell}: no completion for it", context)
    click.echo(kind(context.find_root().command, {}, "meter", "_METER_COMPLETE").source())
