"""Where the tasks of a scoring run: in this process, in others, on a dask cluster.

A task is sent with all it needs and gives back one whole number; which executor ran it shows in
nothing. Results come in the order of the tasks, and only so many tasks exist at a time that memory
does not grow with the number of rows.
"""

from __future__ import annotations

import logging
import os
import re
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache, partial
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Protocol
from weakref import WeakSet

from easeml_meter.errors import InvalidInput, MeterError, Unreachable, invalid
from easeml_meter.scoring.silence import be_heard

_ALLOWED = "one of inline, processes, processes:NUMBER, dask:tls://HOST:PORT needed"
_TLS = "distributed.comm.tls"
_MOST_PROCESSES = 1024
_PATIENCE = 30
"""Seconds to wait for a cluster's scheduler, and for its first worker."""
_GRACE = 5.0
"""Seconds that processes have to clean up after themselves once nobody waits for them."""


class TooLate(Exception):
    """A result was not there in time."""


class Executor(Protocol):
    """What runs tasks."""

    def map(
        self, function: Callable[[Any], Any], tasks: Iterable[Any], *, until: float | None = None
    ) -> Iterator[Any]:
        """Return the results in the order of `tasks`, which are taken as there is room for them.

        An error of a task comes back as itself. Ending early cancels what has not begun. A result
        that is missing when `time.monotonic()` reaches `until` is `TooLate`: nobody waits for it
        any longer, and what can be killed from here is killed.
        """


def open_executor(text: str | None = None) -> AbstractContextManager[Executor]:
    """Open the executor that `text` names: "inline" (also None), "processes", "processes:4", ...

    "processes" takes one for each core. "dask:tls://host:port" names the scheduler of a cluster
    whose workers have this package and see the files of the sealed test sets under the same name.
    """
    if text in (None, "inline"):
        return nullcontext(_Inline())
    kind, _, rest = str(text).partition(":")
    if text == "processes":
        return _processes(os.cpu_count() or 1)
    if kind == "processes" and re.fullmatch("[1-9][0-9]{0,3}", rest):
        if int(rest) > _MOST_PROCESSES:
            raise invalid("executor", text, f"at most {_MOST_PROCESSES} processes")
        return _processes(int(rest))
    if kind == "dask" and (found := re.fullmatch(r"(tcp|tls)://([^/\s]+):[0-9]{1,5}", rest)):
        if found[1] == "tcp" and not _is_loopback(found[2].strip("[]")):
            needed = "dask:tcp takes anybody, so it is for this machine only (127.0.0.1)"
            raise invalid("executor", text, f"{needed}: dask:tls://HOST:PORT needed")
        return _dask(rest)
    raise invalid("executor", text, _ALLOWED)


def _is_loopback(host: str) -> bool:
    with suppress(ValueError):
        return ip_address(host).is_loopback
    return host == "localhost"


class _Inline:
    def map(
        self, function: Callable[[Any], Any], tasks: Iterable[Any], *, until: float | None = None
    ) -> Iterator[Any]:
        if until is None:
            return map(function, tasks)
        return (_aside(function, task, until) for task in tasks)


def _aside(function: Callable[[Any], Any], task: Any, until: float) -> Any:
    """Run a task in a thread of its own, and give up on it when its time is over.

    A sandbox can be killed in time, but not the code of ours that reads a model's last answer, nor
    a loss that hangs: in the thread that answers, they would hold up the answer.
    """
    if time.monotonic() >= until:
        raise TooLate
    future: Future[Any] = Future()

    def run() -> None:
        try:
            future.set_result(function(task))
        except BaseException as error:  # raised again where the result is awaited
            future.set_exception(error)

    thread = threading.Thread(target=run, name="task", daemon=True)
    thread.start()
    try:
        return _result_of(future, until)
    finally:
        if not future.done():  # too late, or interrupted
            _abandon(thread)


def _abandon(thread: threading.Thread) -> None:
    """Kill the processes that a thread has started; then it ends by itself."""
    be_heard()
    with suppress(OSError):  # it ended meanwhile
        children = Path(f"/proc/self/task/{thread.native_id}/children").read_text()
        for child in children.split():
            os.kill(int(child), signal.SIGKILL)


def _result_of(future: Any, until: float | None) -> Any:
    if until is None:
        return future.result()
    if (left := until - time.monotonic()) <= 0:
        raise TooLate
    try:
        return future.result(timeout=left)
    except TimeoutError:
        if future.done() and time.monotonic() < until:  # an error of the task itself
            raise
    raise TooLate


def run_task(function: Callable[[Any], Any], task: Any) -> Any:
    """Run a task in its worker; only its own error leaves, without what led to it.

    That may quote what it was working on, or be of a type that is known there alone.
    """
    try:
        return function(task)
    except Exception as error:
        error.__cause__ = error.__context__ = None
        raise


@dataclass(frozen=True)
class _Ahead:
    """Sends tasks ahead of their results, `most` of them at most."""

    submit: Callable[..., Any]
    most: int
    lost: tuple[type[BaseException], ...]
    """What is raised when a worker, not a task, has failed."""

    run: Callable[..., Any] = run_task
    """What runs a task in its worker, and what reads the result here."""
    read: Callable[[Any], Any] = lambda result: result
    _begun: WeakSet[Any] = field(default_factory=WeakSet, init=False)

    def map(
        self, function: Callable[[Any], Any], tasks: Iterable[Any], *, until: float | None = None
    ) -> Iterator[Any]:
        results = self._results(function, tasks, until)
        self._begun.add(results)
        return results

    def close(self) -> None:
        """Cancel what is under way: its results may be held by an error's traceback."""
        for results in list(self._begun):
            results.close()

    def _results(
        self, function: Callable[[Any], Any], tasks: Iterable[Any], until: float | None
    ) -> Iterator[Any]:
        sent: deque[Any] = deque()
        try:
            for task in tasks:
                if len(sent) >= self.most:
                    yield self.read(_result_of(sent[0], until))
                    sent.popleft()
                sent.append(self.submit(self.run, function, task))
            while sent:
                yield self.read(_result_of(sent[0], until))
                sent.popleft()
        except self.lost as error:
            line = "the workers died or were lost, perhaps for want of memory: nothing was scored"
            raise Unreachable(f"{line} ({type(error).__name__})") from None
        finally:
            for future in sent:  # a failed one, too: a cluster keeps its task until then
                future.cancel()


@contextmanager
def _processes(count: int) -> Iterator[Executor]:
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor
    from concurrent.futures.process import BrokenProcessPool

    pool = ProcessPoolExecutor(
        count,
        # A fork would copy this process's secrets, and its threads' locks as they happen to be.
        mp_context=multiprocessing.get_context("spawn"),
        # Ctrl-C reaches the workers, too: they end at once, and without a traceback.
        initializer=signal.signal,
        initargs=(signal.SIGINT, signal.SIG_DFL),
    )
    sent: WeakSet[Future[Any]] = WeakSet()

    def submit(*task: Any) -> Future[Any]:
        future = pool.submit(*task)
        sent.add(future)
        return future

    try:
        with closing(_Ahead(submit, 2 * count, (BrokenProcessPool,))) as executor:
            yield executor
    finally:
        workers = list((pool._processes or {}).values())
        busy = not all(future.done() for future in sent)
        pool.shutdown(wait=not busy, cancel_futures=True)
        if busy:
            # To wait for them would delay an answer that is due. Killed at once, they would leave
            # their sandboxes' folders behind.
            killing = threading.Timer(_GRACE, _kill, [workers])
            killing.daemon = True
            killing.start()


def _kill(workers: list[Any]) -> None:
    for worker in workers:
        worker.kill()


_asking: ContextVar[int | None] = ContextVar("_asking", default=None)
"""The thread that has opened a cluster; what the library does for it inherits this."""
_PLAIN = {
    "builtins": ("bytes", "int", "tuple"),
    "easeml_meter.corpus": ("Corpus",),
    "easeml_meter.scoring.corpora": ("Ranks", "RocCurve", "Tally"),
    "easeml_meter.scoring.judged": ("Estimate",),
    "easeml_meter.scoring.losses": ("Sums",),
    "easeml_meter.scoring.score": ("LossTotals",),
    "numpy": ("dtype", "ndarray"),
    "numpy._core.multiarray": ("_reconstruct", "scalar"),
    "numpy._core.numeric": ("_frombuffer",),
    "numpy.core.multiarray": ("_reconstruct", "scalar"),  # of numpy 1
    "numpy.core.numeric": ("_frombuffer",),
}
"""All that is taken from a cluster: sums and counts, and what arrays of them are made of."""


class NotPlain(AttributeError):
    """A cluster sent what is no number."""


def _allow_plain(event: str, given: tuple[Any, ...]) -> None:
    """Refuse, wherever the library unpickles what it was sent, all that could do something."""
    if event == "pickle.find_class" and _asking.get() not in (None, threading.get_ident()):
        module, name = given
        if name not in _PLAIN.get(module, ()):
            raise NotPlain(f"{module}.{name}"[:200])


@cache
def _watch_unpickling() -> None:
    sys.addaudithook(_allow_plain)


def told(function: Callable[[Any], Any], task: Any) -> tuple[str, Any]:
    """Run a task of a cluster: an error comes back by its name and line, as a value does."""
    try:
        return "", function(task)
    except MeterError as error:
        return type(error).__name__, str(error)


def _as_itself(answer: tuple[str, Any]) -> Any:
    name, found = answer
    if not name:
        return found
    kinds = [MeterError]
    for kind in kinds:
        kinds += kind.__subclasses__()
    raise next((kind for kind in kinds if kind.__name__ == name), MeterError)(str(found))


def connect(address: str) -> Any:
    """Connect to a cluster's scheduler."""
    from distributed import Client

    until = time.monotonic() + _PATIENCE
    while True:
        try:
            return Client(address, timeout=_PATIENCE, set_as_default=False)  # type: ignore[no-untyped-call]
        except OSError:
            line = f"executor: no dask scheduler answers at {address}: check address and network"
            raise Unreachable(line) from None
        except AssertionError:
            # The scheduler tells everybody of keys that somebody cancels. Told in one breath with
            # the greeting, distributed's own assertion that it is greeted by one message fails.
            if time.monotonic() >= until:
                raise


@contextmanager
def _asked_here() -> Iterator[None]:
    before = _asking.set(threading.get_ident())
    try:
        yield
    finally:
        _asking.reset(before)


@contextmanager
def _dask(address: str) -> Iterator[Executor]:
    try:
        import dask
        from distributed import CancelledError, KilledWorker
        from distributed.comm.core import CommClosedError
    except ImportError:
        needed = "needs dask: pip install 'easeml-meter[cluster]'"
        raise InvalidInput(f"executor: dask:{address} given, {needed}") from None
    # A scheduler that is lost is told in one line of ours, not by tracebacks of the library.
    logging.getLogger("distributed.client").setLevel(logging.CRITICAL)
    keys = ("ca-file", "client.cert", "client.key")
    if address.startswith("tls:") and not all(dask.config.get(f"{_TLS}.{key}") for key in keys):
        needed = f"certificates of both sides needed: set {_TLS}.{{{','.join(keys)}}} of dask"
        raise InvalidInput(f"executor: dask:{address} given, {needed}")
    _watch_unpickling()
    # Predictions travel inside their tasks: what is stored on a worker is lost with it.
    quiet = dask.config.set({"distributed.admin.large-graph-warning-threshold": "1TB"})
    with quiet, _asked_here(), connect(address) as client:
        try:
            client.wait_for_workers(1, timeout=_PATIENCE)
        except TimeoutError:
            line = f"executor: the dask scheduler at {address} has no workers: start some"
            raise Unreachable(line) from None

        # Tasks of lost workers run elsewhere anyway; `retries` would repeat failed ones, too,
        # until an answer pleases. Not pure: nothing is looked up by its content.
        submit = partial(client.submit, pure=False, retries=0)

        threads = sum(client.nthreads().values())
        # A scheduler that dies while it hands over a result closes the connection.
        lost = (KilledWorker, CancelledError, CommClosedError, NotPlain)
        most = 2 * max(1, threads)
        with closing(_Ahead(submit, most, lost, told, _as_itself)) as executor:
            yield executor
