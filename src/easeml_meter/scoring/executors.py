"""Where the tasks of a scoring run: in this process, in others, on a dask cluster.

A task is sent with all it needs and gives back one whole number; which executor ran it shows in
nothing. Results come in the order of the tasks, and only so many tasks exist at a time that memory
does not grow with the number of rows.
"""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol
from weakref import WeakSet

from easeml_meter.errors import InvalidInput, MeterError, invalid

_ALLOWED = (
    "one of inline, processes, processes:NUMBER, dask:tcp://HOST:PORT, dask:tls://HOST:PORT needed"
)
_MOST_PROCESSES = 1024
_PATIENCE = 30
"""Seconds to wait for a cluster's scheduler, and for its first worker."""


class Executor(Protocol):
    """What runs tasks."""

    def map(self, function: Callable[[Any], Any], tasks: Iterable[Any]) -> Iterator[Any]:
        """Return the results in the order of `tasks`, which are taken as there is room for them.

        An error of a task comes back as itself. Ending early cancels what has not begun.
        """


def open_executor(text: str | None = None) -> AbstractContextManager[Executor]:
    """Open the executor that `text` names: "inline" (also None), "processes", "processes:4", ...

    "processes" takes one for each core. "dask:tcp://host:port" names the scheduler of a cluster
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
    if kind == "dask" and re.fullmatch(r"(tcp|tls)://[^/\s]+:[0-9]{1,5}", rest):
        return _dask(rest)
    raise invalid("executor", text, _ALLOWED)


class _Inline:
    def map(self, function: Callable[[Any], Any], tasks: Iterable[Any]) -> Iterator[Any]:
        return map(function, tasks)


@dataclass(frozen=True)
class _Ahead:
    """Sends tasks ahead of their results, `most` of them at most."""

    submit: Callable[..., Any]
    most: int
    lost: tuple[type[BaseException], ...]
    """What is raised when a worker, not a task, has failed."""

    _begun: WeakSet[Any] = field(default_factory=WeakSet, init=False)

    def map(self, function: Callable[[Any], Any], tasks: Iterable[Any]) -> Iterator[Any]:
        results = self._results(function, tasks)
        self._begun.add(results)
        return results

    def close(self) -> None:
        """Cancel what is under way: its results may be held by an error's traceback."""
        for results in list(self._begun):
            results.close()

    def _results(self, function: Callable[[Any], Any], tasks: Iterable[Any]) -> Iterator[Any]:
        sent: deque[Any] = deque()
        try:
            for task in tasks:
                if len(sent) >= self.most:
                    yield sent[0].result()
                    sent.popleft()
                sent.append(self.submit(run_task, function, task))
            while sent:
                yield sent[0].result()
                sent.popleft()
        except self.lost as error:
            line = "the workers died or were lost, perhaps for want of memory: nothing was scored"
            raise MeterError(f"{line} ({type(error).__name__})") from None
        finally:
            for future in sent:  # a failed one, too: a cluster keeps its task until then
                future.cancel()


def run_task(function: Callable[[Any], Any], task: Any) -> Any:
    """Run a task in its worker; only its own error leaves, without what led to it.

    That may quote what it was working on, or be of a type that is known there alone.
    """
    try:
        return function(task)
    except Exception as error:
        error.__cause__ = error.__context__ = None
        raise


@contextmanager
def _processes(count: int) -> Iterator[Executor]:
    import multiprocessing
    import signal
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
    try:
        with closing(_Ahead(pool.submit, 2 * count, (BrokenProcessPool,))) as executor:
            yield executor
    finally:
        pool.shutdown(cancel_futures=True)


@contextmanager
def _dask(address: str) -> Iterator[Executor]:
    try:
        import dask
        from distributed import CancelledError, Client, KilledWorker
    except ImportError:
        needed = "needs dask: pip install 'easeml-meter[cluster]'"
        raise InvalidInput(f"executor: dask:{address} given, {needed}") from None
    # Predictions travel inside their tasks: what is stored on a worker is lost with it.
    with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1TB"}):
        try:
            client = Client(  # type: ignore[no-untyped-call]
                address, timeout=_PATIENCE, set_as_default=False
            )
        except OSError:
            line = f"executor: no dask scheduler answers at {address}: check address and network"
            raise MeterError(line) from None
        with client:
            try:
                client.wait_for_workers(1, timeout=_PATIENCE)
            except TimeoutError:
                line = f"executor: the dask scheduler at {address} has no workers: start some"
                raise MeterError(line) from None

            # Tasks of lost workers run elsewhere anyway; `retries` would repeat failed ones, too,
            # until an answer pleases. Not pure: nothing is looked up by its content.
            submit = partial(client.submit, pure=False, retries=0)

            threads = sum(client.nthreads().values())  # type: ignore[no-untyped-call]
            lost = (KilledWorker, CancelledError)
            with closing(_Ahead(submit, 2 * max(1, threads), lost)) as executor:
                yield executor
