"""Strangers' bytes, decoded by a child process with limits: whatever ends it is one refusal.

A helper forks the children: a fresh interpreter, with nothing of our environment and no file of
ours, so that neither holds a secret. It has the libraries already, and one thread; a fork takes
some milliseconds. A child reads its work from memory that both share, and writes to a pipe.
"""

from __future__ import annotations

import atexit
import gc
import json
import math
import os
import pickle
import resource
import signal
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NoReturn

from easeml_meter import errors
from easeml_meter.errors import MeterError, TooLarge

if TYPE_CHECKING:
    import pyarrow as pa

_SECONDS = 20
"""Of processor time, for any file."""
_BYTES_A_SECOND = 5 << 20
"""A larger file has more time: so many bytes are read even on a slow machine."""
_PATIENCE = 30
"""Times the processor time: a child beside busy neighbours may take so long by the clock."""
_ALIKE = {
    # The usual pool takes 1 GiB of addresses at once.
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    # Whoever forks has one thread.
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
    "OPENBLAS_NUM_THREADS": "1",
}
_PROGRAM = "from easeml_meter.tables.apart import main; main()"
_MOST_FILES = 3
# Whoever sends ten files must not get ten times the memory.
_some_at_a_time = threading.BoundedSemaphore(3)

Work = Callable[..., "tuple[Any, pa.Table | None]"]
"""What a child does: it returns what JSON can say, and a table."""


def start() -> None:
    """Start the helper, unless it is there: a server does so before it opens key and database."""
    _helper.start()


def answer_apart(
    work: Work,
    *given: object,
    size: int,
    memory: int,
    source: str,
    remedy: str = "write it again, with fewer rows",
) -> tuple[Any, pa.Table | None]:
    """Have a function of ours, named by its module, called by a child; return what it returns.

    `size` is how many bytes it reads, and `memory` how many more it may take than these. Refusals
    say where they come from, and what helps: `source`, `remedy`.

    Raises:
        MeterError: what the function raised.
        TooLarge: the child died, of its limits or of what it read.
    """
    import pyarrow as pa

    seconds = _SECONDS + math.ceil(size / _BYTES_A_SECOND)
    with _some_at_a_time, forked(_answer, work, given, memory=memory, seconds=seconds) as stream:
        if (line := stream.readline()).endswith(b"\n"):
            answer = json.loads(line)
            if "refused" in answer:
                kind: type[MeterError] = getattr(errors, answer["refused"])
                raise kind(answer["line"])
            if "failed" in answer:
                raise RuntimeError(f"the child failed: {answer['failed']}")
            with suppress(OSError, ValueError):  # it ended while it wrote
                table = pa.ipc.open_stream(stream).read_all() if answer["table"] else None
                return answer["value"], table
    raise TooLarge(
        f"{source}: more than {memory >> 20:,} MB of memory or {seconds} seconds are needed to "
        f"read it, or it is damaged: {remedy} (setting most_decoded_bytes of the server)"
    )


@contextmanager
def forked(
    work: Callable[..., None],
    *given: object,
    memory: int,
    seconds: float,
    patience: float | None = None,
    stdin: IO[bytes] | None = None,
) -> Iterator[IO[bytes]]:
    """Have `work(stream, *given)` called by a child, and read what it writes to the stream.

    Its first argument beside the stream is `stdin`, if there is one. It ends when nobody reads any
    more, after so many seconds of processor time, and after `patience` by the clock.
    """
    reading, writing = os.pipe()
    with open(reading, "rb") as stream, open(writing, "wb", buffering=0) as its:
        with open(os.memfd_create("work"), "w+b") as todo:
            patience = _PATIENCE * seconds if patience is None else patience
            pickle.dump((memory, seconds, patience, work, given), todo)
            todo.flush()
            files = [todo.fileno(), its.fileno(), *([stdin.fileno()] if stdin else [])]
            called = (each for each in (work, *given) if callable(each))
            _helper.ask(files, *(each.__module__ for each in called))
        its.close()
        yield stream


class _Helper:
    """The process that forks.

    Each message is one request, and its answer goes another way: threads and forks may share it.
    """

    def __init__(self) -> None:
        self._starting = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None

    def start(self, before: socket.socket | None = None) -> socket.socket:
        """Start it, unless it runs; return its socket, another one than before."""
        with self._starting:
            if self._socket is not None and self._socket is not before:
                return self._socket
            if self._socket is not None and self._process is not None:
                self._socket.close()
                self._process.poll()
            self._socket, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            places = [os.path.abspath(place) for place in sys.path if place]
            with its:
                self._process = subprocess.Popen(  # noqa: S603 - this module, by this interpreter
                    [sys.executable, "-P", "-c", _PROGRAM, str(its.fileno())],
                    env={"PYTHONPATH": os.pathsep.join(places), **_ALIKE},
                    cwd="/",
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    pass_fds=[its.fileno()],
                    start_new_session=True,
                )
            atexit.register(self._end)
            return self._socket

    def ask(self, files: Sequence[int], *modules: str) -> None:
        """Have it load modules that the child needs, and fork one that gets these files."""
        asking, named = self.start(), " ".join(modules).encode()
        try:
            socket.send_fds(asking, [named], files)
        except OSError:  # something ended it
            socket.send_fds(self.start(before=asking), [named], files)

    def _end(self) -> None:
        """Let go of it: it ends when all have who could ask."""
        if self._socket is not None and self._process is not None:
            self._socket.close()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(1)


_helper = _Helper()


# --- In the helper ---


def main() -> None:
    """Fork a child for each request, until nobody is left who could ask."""
    asking = socket.socket(fileno=int(sys.argv[1]))
    # Its server ends it; until then the server may answer what it has accepted.
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the children
    loaded: set[bytes] = set()
    while True:
        message, files, _, _ = socket.recv_fds(asking, 4096, _MOST_FILES)
        if not message:
            return
        if not loaded:  # with the first request: a server that reads no files needs no libraries
            _load()
        if message not in loaded:
            with suppress(Exception):  # the child will miss it, too, and says so
                for name in message.decode().split():
                    import_module(name)
            gc.collect()
            gc.freeze()
            loaded.add(message)
        if not os.fork():
            asking.close()
            _work(files)
        for number in files:
            os.close(number)


def _load() -> None:
    """Have all libraries that children need, so that none of them loads any."""
    import numpy as np
    import pyarrow as pa

    # With its first array, pyarrow imports pandas, if there is one: in each child, at great cost.
    sys.meta_path.insert(0, _WithoutPandas())
    pa.array(np.zeros(1))
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    import pyarrow.parquet  # noqa: F401


def _out_of_memory(error: BaseException | None) -> bool:
    """Whether memory ended where something seemed damaged."""
    return error is not None and (
        isinstance(error, MemoryError) or _out_of_memory(error.__context__)
    )


class _WithoutPandas:
    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError(name, name=name)


def _work(files: Sequence[int]) -> NoReturn:
    """Do what the first file says; leave without tidying up."""
    code = 1
    with suppress(BaseException):  # whoever asked notices that something is missing
        for each in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD):
            signal.signal(each, signal.SIG_DFL)
        with open(files[0], "rb") as todo, open(files[1], "wb") as stream:
            todo.seek(0)
            memory, seconds, patience, work, given = pickle.load(todo)  # noqa: S301 - from our own
            signal.setitimer(signal.ITIMER_REAL, patience)
            _limit(memory, seconds)
            work(stream, *files[2:], *given)
        code = 0
    os._exit(code)


def _limit(memory: int, seconds: float) -> None:
    """Give this process so much more than it has now, for good."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    most = pages * resource.getpagesize() + memory
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(seconds),) * 2)
    signal.setitimer(signal.ITIMER_PROF, seconds)  # to a part of a second
    for each in (resource.RLIMIT_FSIZE, resource.RLIMIT_CORE):
        resource.setrlimit(each, (0, 0))


def _answer(stream: IO[bytes], work: Work, given: Sequence[object]) -> None:
    """Write one line of JSON, and the table after it; nothing where memory ends."""
    import pyarrow as pa

    table = None
    try:
        value, table = work(*given)
        answer = {"value": value, "table": table is not None}
    except MeterError as error:
        if _out_of_memory(error):
            raise MemoryError from None
        known = next(kind for kind in type(error).__mro__ if hasattr(errors, kind.__name__))
        answer = {"refused": known.__name__, "line": str(error)}
    except MemoryError:
        raise
    except Exception as error:
        # Without its message, which may quote what nobody should read in a log.
        where = "".join(traceback.format_tb(error.__traceback__)[-3:])
        answer = {"failed": f"{type(error).__name__}\n{where}"}
    stream.write(json.dumps(answer).encode() + b"\n")
    if table is not None:
        with pa.ipc.new_stream(stream, table.schema) as writer:
            writer.write_table(table)
