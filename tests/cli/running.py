"""Run a command in this process, and see what a person or a program would see."""

from __future__ import annotations

import json
from typing import Any

import pytest

from easeml_meter.cli import main

Captured = pytest.CaptureFixture[str]


def run(capsys: Captured, *arguments: str) -> tuple[int, str, str]:
    """Give exit code, stdout and stderr."""
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    captured = capsys.readouterr()
    assert isinstance(stopped.value.code, int)
    return stopped.value.code, captured.out, captured.err


def plan_json(capsys: Captured, *arguments: str) -> Any:
    """Give what `meter plan --json` answers."""
    code, out, err = run(capsys, "plan", *arguments, "--json")
    assert (code, err) == (0, "")
    return json.loads(out)
