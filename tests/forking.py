"""Programs that start and end at once: a process with all modules forks for each of them.

Importing the modules of a command, or of a server, takes longer than most of what tests ask of it,
and so does taking them apart at the end. A forked program still runs in a process of its own, from
its arguments to its exit code; its modules are there already, and stay until the process is gone.
It waits for no disk, and hashes passwords quickly.
"""

from __future__ import annotations

import atexit
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import IO, Any

ROOT = Path(__file__).parents[1]
METER = "from easeml_meter.cli import main; main()"
"""A program that is `meter`."""
HURRIED = f"from tests.hurry import hurry; hurry(); {METER}"
"""One whose answers to models leave as soon as they are known."""
SCRIPT = """
import os, runpy, sys
del sys.argv[0]
sys.path.insert(0, os.path.dirname(sys.argv[0]))
runpy.run_path(sys.argv[0], run_name="__main__")
"""
"""A program that runs a file, named first, as Python does."""

MODULES = """
import gc, importlib, pkgutil
import alembic.command, httpx, pandas, pyarrow.parquet, rich.markup, rich.table
import easeml_meter.cli, easeml_meter.client.meter, easeml_meter.lab.simulation, easeml_meter.meter
import easeml_meter.report, easeml_meter.server.serve, easeml_meter.tables.apart, tests.hurry

for package in (easeml_meter.cli, easeml_meter.report):
    for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        importlib.import_module(module.name)
easeml_meter.tables.apart.start()  # one helper for all of them
import pytest
from tests.hurry import quicken
quicken(pytest.MonkeyPatch())
"""
"""What the process imports that forks commands and servers."""

_FORKING = """
import atexit, ctypes, gc, json, os, resource, signal, socket, sys, threading
gc.collect()
gc.freeze()


def run(asked, own):
    for number, given in enumerate(own):
        os.dup2(given, number)
        os.close(given)
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # it ends with the tests: PR_SET_PDEATHSIG
    os.chdir(asked["folder"])
    os.environ.clear()
    os.environ.update(asked["environment"])
    if asked["files"]:
        resource.setrlimit(resource.RLIMIT_NOFILE, (asked["files"], asked["files"]))
    sys.stdin = open(0)
    # Not those of before, which remember that what they wrote to can seek.
    sys.stdout = open(1, "w", encoding=sys.stdout.encoding)
    sys.stderr = open(2, "w", buffering=1, encoding="utf-8", errors="backslashreplace")
    sys.argv = ["meter", *asked["arguments"]]
    exec(asked["program"], {"__name__": "__main__"})


asking = socket.socket(fileno=int(sys.argv[1]))
while True:
    content, own, _, _ = socket.recv_fds(asking, 1 << 20, 3)
    if not content:
        break
    asked = json.loads(content)
    if child := asked.get("ended"):
        found, status = os.waitpid(child, os.WNOHANG)
        asking.send(json.dumps(os.waitstatus_to_exitcode(status) if found else None).encode())
        continue
    if child := os.fork():
        asking.send(json.dumps(child).encode())
        for each in own:
            os.close(each)
        continue
    asking.close()
    code = 0
    try:
        run(asked, own)
    except SystemExit as done:
        code = done.code or 0
        if not isinstance(code, int):
            print(code, file=sys.stderr)
            code = 1
    except BaseException:
        code = 1
        sys.excepthook(*sys.exc_info())
    finally:
        # As an interpreter does when it ends, but for the modules.
        threading._shutdown()
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
"""


class _Forking:
    """The process that forks, with these modules."""

    def __init__(self, modules: str) -> None:
        self._socket, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with its:
            self._process = subprocess.Popen(
                [sys.executable, "-c", modules + _FORKING, str(its.fileno())],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[its.fileno()],
            )
        self._one_at_a_time = threading.Lock()
        atexit.register(self._end)

    def ask(self, descriptors: Sequence[int] = (), **asked: Any) -> Any:
        with self._one_at_a_time:
            socket.send_fds(self._socket, [json.dumps(asked).encode()], descriptors)
            return json.loads(self._socket.recv(100))

    def _end(self) -> None:
        self._socket.close()
        self._process.wait()


@cache
def _forking(modules: str) -> _Forking:
    return _Forking(modules)


def _pipe() -> tuple[IO[str], IO[str]]:
    """Return the end to read from, and the one to write to."""
    reading, writing = os.pipe()
    return open(reading), open(writing, "w")


def _rest(pipe: IO[str] | None) -> str:
    if pipe is None or pipe.closed:
        return ""
    with pipe:
        return pipe.read()


class Forked:
    """A program that was forked; it has what tests use of a `subprocess.Popen`."""

    modules = MODULES

    def __init__(
        self,
        program: str,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        *,
        stdin: IO[Any] | None = None,
        stdout: IO[Any] | None = None,
        stderr: IO[Any] | None = None,
        folder: Path | None = None,
        files: int | None = None,
    ) -> None:
        """Run Python with arguments, in a folder; it may open so many files.

        It reads from nothing and prints into pipes, unless files are given.
        """
        self.returncode: int | None = None
        self._one_at_a_time = threading.Lock()
        self.stdout: IO[str] | None = None
        self.stderr: IO[str] | None = None
        with ExitStack() as ours:
            if stdin is None:
                stdin = ours.enter_context(open(os.devnull))
            if stdout is None:
                self.stdout, stdout = _pipe()
                ours.enter_context(stdout)
            if stderr is None:
                self.stderr, stderr = _pipe()
                ours.enter_context(stderr)
            self.pid: int = _forking(self.modules).ask(
                [stdin.fileno(), stdout.fileno(), stderr.fileno()],
                program=program,
                arguments=list(arguments),
                environment=dict(environment),
                folder=str(folder or Path.cwd()),
                files=files,
            )

    def poll(self) -> int | None:
        with self._one_at_a_time:  # its end is told once
            if self.returncode is None:
                self.returncode = _forking(self.modules).ask(ended=self.pid)
            return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        begun = time.monotonic()
        pause = 0.0005
        while (code := self.poll()) is None:
            if timeout is not None and time.monotonic() > begun + timeout:
                raise subprocess.TimeoutExpired("meter", timeout)
            time.sleep(pause)
            pause = min(2 * pause, 0.05)
        return code

    def send_signal(self, what: signal.Signals) -> None:
        if self.poll() is None:
            os.kill(self.pid, what)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def communicate(self) -> tuple[str, str]:
        """Read what it still prints into its pipes, and wait for its end."""
        with ThreadPoolExecutor(2) as reading:
            printed, errors = reading.map(_rest, (self.stdout, self.stderr))
        self.wait()
        return printed, errors


def run(
    arguments: Sequence[str],
    environment: Mapping[str, str] = os.environ,
    *,
    program: str = METER,
    given: str = "",
    folder: Path | None = None,
    merged: bool = False,
) -> subprocess.CompletedProcess[str]:
    """Run `meter`, or another program, to its end; merged, its errors are among its output."""
    with ExitStack() as files:
        stdin, stdout, stderr = (
            files.enter_context(tempfile.TemporaryFile("w+", encoding="utf-8")) for _ in range(3)
        )
        stdin.write(given)
        stdin.seek(0)
        ends = stdout if merged else stderr
        done = Forked(
            *(program, arguments, environment),
            stdin=stdin,
            stdout=stdout,
            stderr=ends,
            folder=folder,
        )
        code = done.wait()
        for each in (stdout, stderr):
            each.seek(0)
        return subprocess.CompletedProcess(arguments, code, stdout.read(), stderr.read())


_SHIM = """#!{python} -IS
import os, socket, sys
name, given = os.path.basename(sys.argv[0]), sys.argv[1:]
if name != "meter" and not (given and given[0].endswith(".py")):
    os.execv({python!r}, [{python!r}, *given])  # -c, -m, what is piped in
import json
asked = json.dumps([name, given, os.getcwd(), dict(os.environ)]).encode()
with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
    server.connect({address!r})
    socket.send_fds(server, [len(asked).to_bytes(4, "big")], [0, 1, 2])
    server.sendall(asked)
    sys.exit(int(server.makefile().read()))
"""


class _Shims:
    """A folder with `meter` and `python` for PATH; each is forked, with the files it was given."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="meter-shims-")
        atexit.register(self._folder.cleanup)
        self.folder = Path(self._folder.name)
        address = str(self.folder / "socket")
        self._listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        atexit.register(self._listening.close)
        self._listening.bind(address)
        self._listening.listen(16)
        for name in ("meter", "python"):
            path = self.folder / name
            path.write_text(_SHIM.format(python=sys.executable, address=address))
            path.chmod(0o755)
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            threading.Thread(target=self._run, args=(client,), daemon=True).start()

    def _run(self, client: socket.socket) -> None:
        with client:
            size, given, _, _ = socket.recv_fds(client, 4, 3)
            with client.makefile("rb") as stream:
                asked = json.loads(stream.read(int.from_bytes(size, "big")))
            name, arguments, folder, environment = asked
            # What a script finds beside its interpreter is forked, too.
            beside = f"import sys; sys.executable = {str(self.folder / 'python')!r}\n"
            program = METER if name == "meter" else beside + SCRIPT
            with ExitStack() as files:
                stdin, stdout, stderr = (
                    files.enter_context(open(each, "r+b", buffering=0)) for each in given
                )
                forked = Forked(
                    *(program, arguments, environment),
                    stdin=stdin,
                    stdout=stdout,
                    stderr=stderr,
                    folder=Path(folder),
                )
            client.sendall(str(forked.wait()).encode())


@cache
def shims() -> Path:
    """Give a folder for the front of PATH: there `meter` and `python FILE.py` start at once.

    A signal to one of them does not reach what was forked for it.
    """
    return _Shims().folder
