"""Commands load only what they use."""

from __future__ import annotations

import subprocess
import sys

import pytest
from click.testing import CliRunner

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
    ],
)
def test_a_command_that_does_not_exist_is_guessed(typed: str, said: str) -> None:
    found = CliRunner().invoke(meter, [typed])
    assert found.exit_code == 2
    assert said in found.output
