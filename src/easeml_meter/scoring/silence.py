"""Nothing that a stranger's code prints about hidden rows goes anywhere."""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout

_lock = threading.Lock()
_undo = ExitStack()
_inside = 0


@contextmanager
def silence() -> Iterator[None]:
    """Drop what is printed or warned of in this process; on hidden labels it would tell of them.

    Threads share both streams, so the first one in turns them off, and the last one out on again.
    """
    global _inside  # noqa: PLW0603
    with _lock:
        if not _inside:
            nowhere = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
            _undo.callback(nowhere.close)
            _undo.enter_context(redirect_stdout(nowhere))
            _undo.enter_context(redirect_stderr(nowhere))
            _undo.enter_context(warnings.catch_warnings(action="ignore"))
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if not _inside:
                _undo.close()
