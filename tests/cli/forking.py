"""A `meter` that starts at once: a process that has imported everything forks for each command.

Importing takes longer than most commands. Each one still runs in a process of its own, from its
arguments to its exit code; only its modules are there already.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]
_FORKING = """
import json, os, sys
import pyarrow.parquet
import easeml_meter.client.meter, easeml_meter.meter, easeml_meter.report.terminal
from easeml_meter.cli import main
from tests.hurry import hurry

hurry()
for line in sys.stdin:
    asked = json.loads(line)
    if child := os.fork():
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
        continue
    os.chdir(asked["folder"])
    os.environ.clear()
    os.environ.update(asked["environment"])
    os.dup2(os.open(asked["given"], os.O_RDONLY), 0)
    os.dup2(os.open(asked["printed"], os.O_WRONLY), 1)
    os.dup2(1, 2)
    sys.stdin = open(0)
    sys.argv = ["meter", *asked["arguments"]]
    sys.exit(main())
"""


class Forking:
    """Runs commands, one after the other."""

    def __init__(self, process: subprocess.Popen[str], folder: Path) -> None:
        self._process = process
        self._given, self._printed = folder / "given", folder / "printed"

    def __call__(
        self, arguments: Sequence[str], folder: Path, given: str, environment: Mapping[str, str]
    ) -> tuple[int, str]:
        """Run a command with this input; return its exit code, and what it printed."""
        self._given.write_text(given, encoding="utf-8")
        self._printed.write_text("")
        asked = {
            "arguments": list(arguments),
            "folder": str(folder),
            "given": str(self._given),
            "printed": str(self._printed),
            "environment": dict(environment),
        }
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        code = int(self._process.stdout.readline())
        return code, self._printed.read_text(encoding="utf-8")


@contextmanager
def forking(folder: Path) -> Iterator[Forking]:
    """Start the process that forks; `folder` is for its files."""
    with subprocess.Popen(
        [sys.executable, "-c", _FORKING],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        yield Forking(process, folder)
        assert process.stdin is not None
        process.stdin.close()
