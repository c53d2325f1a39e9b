"""ONNX models where there is no bubblewrap: a plain child process with the same limits.

A model holds no code of its own, operators that would are refused; so what runs is onnxruntime,
started with nothing but the model's folder and no variable of ours.
"""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from easeml_meter.scoring.command import CommandModel
from easeml_meter.scoring.predictor import Limits
from easeml_meter.scoring.sandbox import Run


class Child(Run):
    """A run without a sandbox; the program sets its own limits but the one on the wall clock."""

    def __init__(
        self, words: Sequence[str], folder: Path, limits: Limits, *, keep_stderr: bool
    ) -> None:
        """Run `words` in `folder`."""
        self._tail = b""
        self._process = subprocess.Popen(  # noqa: S603
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE if keep_stderr else subprocess.DEVNULL,
            cwd=folder,
            env={},
        )
        self.stdin, self.stdout = self._process.stdin, self._process.stdout  # type: ignore[assignment]
        line = f"it took longer than {limits.seconds:g} seconds"
        self._clock = threading.Timer(limits.seconds, self._end_for, [line])
        self._clock.start()

    def wait(self) -> int:
        """Wait for its end; 128 + n is signal n."""
        code = self._process.wait()
        self.stop()
        return code if code >= 0 else 128 - code

    def stop(self) -> None:
        """End it."""
        self._clock.cancel()
        self._process.kill()
        self._process.wait()
        stderr = self._process.stderr
        if stderr is not None and not stderr.closed:
            self._tail = self._tail or stderr.read()

    def _end_for(self, reason: str) -> None:
        self.over = reason
        self._process.kill()

    def _close(self) -> None:
        for file in (self.stdin, self.stdout, self._process.stderr):
            if file is not None:
                with suppress(BrokenPipeError):  # what was not taken any more
                    file.close()


class PlainCommand(CommandModel):
    """A command of ours, not a stranger's, run as a child."""

    process = Child
