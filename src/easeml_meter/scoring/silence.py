"""Nothing that a stranger's code prints about hidden rows goes anywhere."""

from __future__ import annotations

import os
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from typing import IO, Any
from weakref import WeakSet

_lock = threading.Lock()
_undo = ExitStack()
_inside = 0
_heard: WeakSet[threading.Thread] = WeakSet()


@contextmanager
def silence() -> Iterator[None]:
    """Drop what is printed or warned of in this process; on hidden labels it would tell of them.

    Threads share both streams, so the first one in turns them off, and the last one out on again.
    """
    global _inside  # noqa: PLW0603
    with _lock:
        _heard.discard(threading.current_thread())
        if not _inside:
            nowhere = _Nowhere()
            _undo.callback(nowhere.close)
            _undo.enter_context(redirect_stdout(_muted(sys.stdout, nowhere)))
            _undo.enter_context(redirect_stderr(_muted(sys.stderr, nowhere)))
            _undo.enter_context(warnings.catch_warnings(action="ignore"))
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if not _inside:
                _heard.clear()
                _undo.close()


def be_heard() -> None:
    """Let this thread print although another one, which it no longer waits for, is silenced.

    Until all others are out, or until it scores on hidden labels itself.
    """
    with _lock:
        _heard.add(threading.current_thread())


class _Nowhere:
    """The null device, opened only when something is printed: hardly any loss prints."""

    def __init__(self) -> None:
        self._opened: IO[str] | None = None

    def __getattr__(self, name: str) -> Any:
        if self._opened is None:
            self._opened = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
        return getattr(self._opened, name)

    def close(self) -> None:
        if self._opened is not None:
            self._opened.close()


def _muted(stream: Any, nowhere: Any) -> Any:
    return nowhere if stream is None else _Muted(stream, nowhere)


class _Muted:
    """A stream that only the threads in `_heard` still reach."""

    def __init__(self, stream: Any, nowhere: Any) -> None:
        self._stream, self._nowhere = stream, nowhere

    def __getattr__(self, name: str) -> Any:
        heard = threading.current_thread() in _heard
        return getattr(self._stream if heard else self._nowhere, name)
