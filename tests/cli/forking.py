"""A `meter` that starts and ends at once: a process with all modules forks for each command.

Importing modules takes longer than most commands, and so does taking them apart at the end. Each
command still runs in a process of its own, from its arguments to its exit code; its modules are
there already, and stay until the process is gone.
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
import atexit, gc, importlib, json, os, pkgutil, sys, threading
import alembic.command, httpx, pandas, pyarrow.parquet, rich.markup, rich.table
import easeml_meter.client.meter, easeml_meter.lab.simulation, easeml_meter.meter
import easeml_meter.cli, easeml_meter.report, easeml_meter.server.settings
from easeml_meter.cli import main
from tests.hurry import hurry

for package in (easeml_meter.cli, easeml_meter.report):
    for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        importlib.import_module(module.name)
hurry()
gc.freeze()
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
    code = 1
    try:
        main()
    except SystemExit as done:
        code = done.code or 0
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        # As an interpreter does when it ends, but for the modules.
        threading._shutdown()
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
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
