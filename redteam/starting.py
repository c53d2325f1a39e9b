"""A server of the suite's own, as it runs in production: on PostgreSQL with a worker."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from redteam.target import Target

USUAL = ("setpriv", "--pdeathsig", "TERM", "prlimit", "--nofile=1024:4096")
"""It ends with the suite, and has as many open files as a service has by default."""
SERVED = ("--port=0", "--disk-bytes-per-meter=300000000")
"""Less than a server has by default, so that it can be filled."""
MARK = "redteam-mark"
"""What stands in the server's environment, where no submitted program may find it."""
METER = (sys.executable, "-c", "from easeml_meter.cli import main; main()")


@contextlib.contextmanager
def started(folder: Path, postgresql: str = "") -> Iterator[Target]:
    """Run a server in a folder until the block ends, with the limits that it has by default."""
    shared = ["--folder", str(folder / "site"), "--log-level", "warning"]
    shared += ["--database", postgresql] if postgresql else []
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(_process(folder / "server.log", "serve", *shared, *SERVED))
        assert server.stdout is not None
        token = server.stdout.readline().split()[-1]
        address = server.stdout.readline().split()[-1]
        processes = [server.pid]
        if postgresql:
            worker = stack.enter_context(_process(folder / "worker.log", "worker", *shared))
            assert worker.stdout is not None
            worker.stdout.readline()
            processes.append(worker.pid)
        (folder / "scratch").mkdir()
        yield Target(address, token, tuple(processes), folder / "scratch")


@contextlib.contextmanager
def _process(log: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    with log.open("w") as errors:
        process = subprocess.Popen(  # noqa: S603 - our own server
            [*USUAL, *METER, *arguments],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env=os.environ | {"METER_MARK": MARK},
        )
        try:
            yield process
        finally:
            process.terminate()
            process.wait(60)
            assert process.stdout is not None
            process.stdout.close()
