"""Models that run at once: their process is forked from one that has imported what they import.

To start an interpreter, numpy, pyarrow and onnxruntime in a sandbox takes longer than most of what
tests ask of a model, and a submission starts it five times or more. Here it still runs in a process
of its own, from its files, and ends at its limit of time; nothing is hidden from it. What the
sandbox does is asked in `tests/scoring`, and with the fixture `sandboxed`.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any

import pytest

from easeml_meter.scoring.command import CommandModel
from easeml_meter.scoring.onnx_model import Child
from easeml_meter.scoring.predictor import Limits
from easeml_meter.scoring.sandbox import Run

from .forking import SCRIPT, Forked


class _Model(Forked):
    """A model's program."""

    modules = """
import os
os.environ["ORT_DISABLE_TELEMETRY"] = "1"
import concurrent.futures, numpy, onnxruntime, pandas, pyarrow.compute, runpy
pyarrow.set_memory_pool(pyarrow.system_memory_pool())  # another takes 1 GiB of addresses at once
"""


class WarmRun(Child):
    """A run of a program in Python; what it prints is bytes."""

    def __init__(
        self, words: Sequence[str], folder: Path, limits: Limits, *, keep_stderr: bool
    ) -> None:
        self._tail = b""
        with ExitStack() as its:
            stdin, self.stdin = _pipe()
            self.stdout, stdout = _pipe()
            errors, stderr = _pipe()
            for each in (stdin, stdout, stderr) if keep_stderr else (stdin, stdout, stderr, errors):
                its.enter_context(each)
            started: Any = _Model(
                *(SCRIPT, words, {}), stdin=stdin, stdout=stdout, stderr=stderr, folder=folder
            )
        started.stderr = errors if keep_stderr else None
        self._process = started
        line = f"it took longer than {limits.seconds:g} seconds"
        self._clock = threading.Timer(limits.seconds, self._end_for, [line])
        self._clock.start()


def _pipe() -> tuple[IO[bytes], IO[bytes]]:
    reading, writing = os.pipe()
    return open(reading, "rb"), open(writing, "wb")


def _start(words: Sequence[str], folder: Path, limits: Limits, *, keep_stderr: bool) -> Run:
    """Run a program in Python at once, and everything else in the sandbox.

    So does a worker process of an executor, which would take the answers meant for its parent.
    """
    name, *rest = [word for word in words if word != "-I"]
    python = name in ("python", sys.executable) and rest[0].endswith(".py")
    kind = WarmRun if python and os.getpid() == _OWN else Run
    return kind(rest if kind is WarmRun else words, folder, limits, keep_stderr=keep_stderr)


_OWN = os.getpid()


@pytest.fixture(scope="session", autouse=True)
def _warm() -> Iterator[None]:
    """Start models at once, in this process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CommandModel, "process", staticmethod(_start))
        yield


@contextmanager
def in_the_sandbox() -> Iterator[None]:
    """Run models in the sandbox, as for users."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CommandModel, "process", Run)
        yield


@pytest.fixture
def sandboxed() -> Iterator[None]:
    """Run models in the sandbox, as for users."""
    with in_the_sandbox():
        yield
