"""Commands load only what they use."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner
from tests.cli.running import run

from easeml_meter.cli import meter


def test_help_does_not_load_the_client() -> None:
    code = (
        "import sys; from easeml_meter.cli import meter; "
        "meter.main(['status', '--help'], standalone_mode=False); "
        "assert not {'httpx', 'easeml_meter.client', 'sqlalchemy'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("pln", "no command 'pln': did you mean 'plan'?"),
        ("stauts", "did you mean 'status'?"),
        ("qqqq", "no command 'qqqq': see meter --help"),
        ("help", "no command 'help': did you mean '--help'?"),
        ("list", "no command 'list': did you mean 'status'?"),
        ("check", "no command 'check': did you mean 'submit --check'?"),
        ("version", "no command 'version': did you mean '--version'?"),
        ("eval", "no command 'eval': did you mean 'submit'?"),
        ("testset list", "no command 'list': did you mean 'requests'?"),
        ("testset ad", "no command 'ad': did you mean 'add'?"),
        ("validation val.csv", "no command 'val.csv': did you mean 'set val.csv'?"),
    ],
)
def test_a_command_that_does_not_exist_is_guessed(typed: str, said: str) -> None:
    found = CliRunner().invoke(meter, typed.split())
    assert found.exit_code == 2
    assert said in found.output


@pytest.mark.parametrize("group", ["testset", "key", "user", "seat", "token", "validation", "lab"])
def test_a_group_alone_shows_its_help(capsys: pytest.CaptureFixture[str], group: str) -> None:
    code, out, err = run(capsys, group)
    assert (code, out, err) == run(capsys, group, "--help")
    assert (code, err) == (0, "")
    assert f"Usage: meter {group}" in out


RUN_ON = {"serve", "worker", "mcp"}
"""They run until they are stopped, and have no result."""
SCRIPTS = {"completion"}
"""Their result is a program for a shell."""


def commands_of(command: click.Command, *path: str) -> Iterator[tuple[str, click.Command]]:
    """Yield all commands below a group, with their names."""
    if not isinstance(command, click.Group):
        yield " ".join(path), command
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        found = command.get_command(context, name)
        assert found is not None
        yield from commands_of(found, *path, name)


def test_every_command_with_a_result_has_json_for_programs() -> None:
    without = {
        name
        for name, command in commands_of(meter)
        if not any("--json" in each.opts for each in command.params)
    }
    assert without == RUN_ON | SCRIPTS
