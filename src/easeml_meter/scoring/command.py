"""A submitted command: inputs go in as an Arrow stream on stdin, predictions come out likewise."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import stat
import tempfile
import threading
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, ClassVar

import pyarrow as pa

from easeml_meter.scoring.answers import CutShort, Unreadable, read_answers
from easeml_meter.scoring.bundle import Bundle
from easeml_meter.scoring.predictor import (
    HIDDEN_FAILURE,
    Limits,
    ModelFailed,
    SandboxUnavailable,
)
from easeml_meter.scoring.sandbox import Run, missing

_SHOWN = 500


@dataclass(frozen=True)
class CommandModel:
    """A `Predictor` that runs a bundle in the sandbox."""

    bundle: Bundle
    process: ClassVar[type[Run]] = Run

    @property
    def digest(self) -> str:
        """SHA-256 (hex) of the bundle."""
        return self.bundle.digest

    def check(self, inputs: pa.Schema) -> None:
        """Refuse if this machine has no sandbox; any columns can be sent to a command."""
        if lacks := missing():
            raise SandboxUnavailable(lacks)

    def predict(
        self, inputs: pa.Schema, batches: Iterable[pa.RecordBatch], limits: Limits, *, hidden: bool
    ) -> Iterator[pa.RecordBatch]:
        """Run the command once, and stream what it answers. To be used from one thread."""
        with _own_folder() as folder:
            self.bundle.unpack(folder)
            with self.process(self.bundle.words, folder, limits, keep_stderr=not hidden) as run:
                feed = _Feed(run.stdin, inputs, batches)
                feed.start()
                try:
                    reason = yield from _answers(run, feed, limits)
                finally:
                    feed.wanted = False
                    run.stop()
                    feed.join()
                if feed.error:
                    raise feed.error
                if reason and not hidden and run.tail:
                    reason += f"; the end of stderr: {run.tail[-_SHOWN:]}"
        if reason:
            raise ModelFailed(HIDDEN_FAILURE if hidden else f"the model failed: {reason}")


@contextmanager
def _own_folder() -> Iterator[Path]:
    """Give an empty folder for the files of one run, where no other account can look."""
    with tempfile.TemporaryDirectory(prefix="meter-run-", dir=_runs()) as name:
        held = os.open(name, os.O_RDONLY)
        try:
            fcntl.flock(held, fcntl.LOCK_SH)  # for as long as this process lives, at most
            yield Path(name)
        finally:
            os.close(held)


def _runs() -> Path:
    """Return the folder of all runs of this account, made if there is none.

    Raises:
        SandboxUnavailable: there is something else in its place, perhaps another account's.
    """
    path = Path(tempfile.gettempdir(), f"meter-runs-{os.geteuid()}")
    with suppress(FileExistsError):
        path.mkdir(mode=0o700)
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
        raise SandboxUnavailable(f"{path}: not a folder of this account alone: remove it")
    return path


def clear_runs() -> None:
    """Remove what runs left behind whose process was killed; other processes may have some."""
    for folder in _runs().iterdir():
        with suppress(FileNotFoundError, BlockingIOError):
            held = os.open(folder, os.O_RDONLY)
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(held)


def _answers(run: Run, feed: _Feed, limits: Limits) -> Generator[pa.RecordBatch, None, str]:
    """Yield the answers, and return what was wrong, if anything."""
    rows, cut = 0, ""
    try:
        for batch in read_answers(run.stdout, feed.reaches, limits.seconds):
            if run.over:
                break
            rows += batch.num_rows
            yield batch
    except CutShort as error:
        cut = str(error)
    except Unreadable as error:
        return run.over or str(error)
    code = run.wait()
    if run.over:
        return run.over
    if code:
        return f"it ended with exit code {code}{_signal(code)}"
    if not cut and feed.reaches(rows + 1):
        feed.join()
        return f"{rows:,} predictions written, {feed.rows:,} needed, one per row of input"
    return cut


def _signal(code: int) -> str:
    with suppress(ValueError):
        return f" ({signal.Signals(code - 128).name})"
    return ""


class _Feed(threading.Thread):
    """Writes the inputs to a command, and counts them."""

    def __init__(
        self, sink: IO[bytes], inputs: pa.Schema, batches: Iterable[pa.RecordBatch]
    ) -> None:
        super().__init__(name="feed", daemon=True)
        self.rows = 0
        self.error: Exception | None = None
        """What went wrong with the inputs: no fault of the command's."""
        self.wanted = True
        self._done = False
        self._moved = threading.Condition()
        self._sink, self._inputs, self._batches = sink, inputs, batches

    def reaches(self, rows: int) -> bool:
        """Whether there are so many rows; waits until that is known."""
        with self._moved:
            self._moved.wait_for(lambda: self.rows >= rows or self._done)
            return self.rows >= rows

    def run(self) -> None:
        """Write everything; when nobody reads any more, only count."""
        rest = self._counted()
        try:
            try:
                writer = pa.ipc.new_stream(self._sink, self._inputs)
                for batch in rest:
                    writer.write_batch(batch)
                    self._sink.flush()
                writer.close()
                self._sink.close()
            except BrokenPipeError:
                for _ in rest:
                    pass
        except Exception as error:  # raised again where the answers are asked for
            self.error = error
        finally:
            with suppress(BrokenPipeError):
                self._sink.close()
            with self._moved:
                self._done = True
                self._moved.notify_all()

    def _counted(self) -> Iterator[pa.RecordBatch]:
        for batch in self._batches:
            if not self.wanted:
                return
            with self._moved:
                self.rows += batch.num_rows
                self._moved.notify_all()
            yield batch
