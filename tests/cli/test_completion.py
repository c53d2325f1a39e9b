"""`meter completion` prints what a shell understands."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from click.testing import CliRunner

from easeml_meter.cli import meter


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_a_script(shell: str) -> None:
    found = CliRunner().invoke(meter, ["completion", shell])
    assert found.exit_code == 0
    assert "_METER_COMPLETE" in found.output


def test_bash_completes_commands() -> None:
    code = "from easeml_meter.cli import meter; meter(prog_name='meter')"
    typed = {"_METER_COMPLETE": "bash_complete", "COMP_WORDS": "meter sub", "COMP_CWORD": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **typed},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "plain,submit" in done.stdout
