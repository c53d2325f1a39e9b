"""A submitted ONNX model: looked at, fitted to the columns, and run in a process of its own.

Where there is no bubblewrap, that is a plain child process with the same limits. A model holds no
code of its own, operators that would are refused; so what runs is onnxruntime, started with nothing
but the model's folder and no variable of ours.
"""

from __future__ import annotations

import hashlib
import json
import shlex
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path

import pyarrow as pa

from easeml_meter.errors import InvalidInput
from easeml_meter.scoring.bundle import Bundle, BundledFile
from easeml_meter.scoring.command import CommandModel
from easeml_meter.scoring.losses import Output
from easeml_meter.scoring.onnx_checks import (
    LARGEST_FILE,
    NUMERIC,
    Tensor,
    inspect,
    inspect_apart,
    listing,
    too_large,
)
from easeml_meter.scoring.onnx_inputs import Feed, feeds_for, made_up, packed, schema_of
from easeml_meter.scoring.outputs import Expected
from easeml_meter.scoring.predictor import (
    HIDDEN_FAILURE,
    Limits,
    ModelFailed,
    SandboxUnavailable,
)
from easeml_meter.scoring.sandbox import Run
from easeml_meter.tables.source import Given, about, source_of, stamp_of


class Child(Run):
    """A run without a sandbox; the program sets its own limits but the one on the wall clock."""

    def __init__(
        self, words: Sequence[str], folder: Path, limits: Limits, *, keep_stderr: bool
    ) -> None:
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


_RUNNER = Path(__file__).with_name("onnx_runner.py")
_WORDS = ("-I", "onnx_runner.py", "model.onnx", "plan.json")
_MOST_ROWS = 1 << 13
_MOST_BYTES = 16 << 20
"""What the model is given at a time: enough to keep its threads busy, little enough for caches."""
_TRIAL = Limits(seconds=30)
_PREFERRED = ("probabilities", "output_probability", "probability", "probs", "scores")


@dataclass(frozen=True)
class OnnxModel:
    """A `Predictor` for a file whose outputs fit the loss; only `open` and `of` make it."""

    content: bytes = field(repr=False)
    inputs: tuple[Tensor, ...]
    output: Tensor
    width: int | None
    """Values of a prediction: 0 for a single one, None for any number."""

    @classmethod
    def open(cls, path: Given, expected: Expected, *, apart: bool = False) -> OnnxModel:
        """Read a file and check all of it that can be checked without running it.

        `apart`: a stranger sent it, so a child looks at it.
        """
        size = stamp_of(path, "model")[2]
        with about(path):
            if size > LARGEST_FILE:
                raise too_large(size)
            with source_of(path).open("rb") as file:
                return cls.of(file.read(LARGEST_FILE + 1), expected, apart=apart)

    @classmethod
    def of(cls, content: bytes, expected: Expected, *, apart: bool = False) -> OnnxModel:
        """Check the content of a file."""
        found = inspect_apart(content) if apart else inspect(content)
        output, width = _output_for(found.outputs, expected)
        return cls(content, found.inputs, output, width)

    @cached_property
    def digest(self) -> str:
        """SHA-256 (hex) of the file."""
        return hashlib.sha256(self.content).hexdigest()

    def check(self, inputs: pa.Schema) -> None:
        """Refuse columns that do not fit the model, and a model that does not run on a made-up row.

        Some models refuse texts or numbers they have not seen in training: if it is only about
        the values, it runs on no rows at all.
        """
        feeds = feeds_for(self.inputs, inputs)
        row = made_up(feeds)
        start = time.monotonic()
        failure = self._trial(feeds, row)
        if failure and time.monotonic() - start < _TRIAL.seconds:
            failure = self._trial(feeds, row.slice(0, 0)) and failure
        if failure:
            raise InvalidInput(f"on a made-up row of these columns, {failure}")

    def _trial(self, feeds: tuple[Feed, ...], row: pa.RecordBatch) -> str | None:
        try:
            for _ in self._run(feeds, [row], _TRIAL):
                pass
        except ModelFailed as error:
            return str(error)
        return None

    def predict(
        self, inputs: pa.Schema, batches: Iterable[pa.RecordBatch], limits: Limits, *, hidden: bool
    ) -> Iterator[pa.RecordBatch]:
        """Run the model once over all of `batches`, and stream its predictions."""
        feeds = feeds_for(self.inputs, inputs)
        row_bytes = sum(feed.row_bytes for feed in feeds) + 4 * (self.width or 0)
        rows = max(1, min(_MOST_ROWS, _MOST_BYTES // row_bytes))
        reason = None
        try:
            yield from self._run(feeds, packed(feeds, batches, rows), limits, hidden=hidden)
        except ModelFailed as error:
            reason = HIDDEN_FAILURE if hidden else str(error)
        if reason:  # raised here so that it carries nothing else along
            raise ModelFailed(reason)

    def _run(
        self,
        feeds: tuple[Feed, ...],
        batches: Iterable[pa.RecordBatch],
        limits: Limits,
        *,
        hidden: bool = False,
    ) -> Iterator[pa.RecordBatch]:
        if find_spec("onnxruntime") is None:  # on a worker: here the file was inspected with it
            raise SandboxUnavailable("no onnxruntime here: pip install 'easeml-meter[onnx]'")
        plan = {
            "threads": limits.threads,
            "seconds": limits.seconds,
            "memory": limits.memory,
            "output": self.output.name,
            "width": self.width,
            "shapes": {feed.name: feed.shape for feed in feeds},
        }
        files = (
            BundledFile("model.onnx", self.content),
            BundledFile("onnx_runner.py", _RUNNER.read_bytes()),
            BundledFile("plan.json", json.dumps(plan).encode()),
        )
        bundle = Bundle(shlex.join([sys.executable, *_WORDS]), files)
        # Where there is bubblewrap, but it fails, that is an error and not a reason to go without.
        command = CommandModel(bundle) if shutil.which("bwrap") else PlainCommand(bundle)
        return command.predict(schema_of(feeds), batches, limits, hidden=hidden)


def _output_for(outputs: tuple[Tensor, ...], expected: Expected) -> tuple[Tensor, int | None]:
    """Choose the output that is the prediction, and how many values each has; or refuse all."""
    kind = expected.loss.output
    size = len(expected.class_list) if expected.classes else 0
    plain = [tensor for tensor in outputs if tensor.kind in (*NUMERIC, "bool", "str")]
    single = [tensor for tensor in plain if _is_single(tensor)]
    scores = [tensor for tensor in plain if _holds(tensor, size)]
    scores.sort(key=lambda tensor: tensor.name not in _PREFERRED)
    found: list[tuple[Tensor, int | None]] = []
    wanted = "names of classes [?]"
    match kind:
        case Output.CLASS if expected.class_list.ordered or not _texts(single):
            expected.class_list.check_order("integers or scores")
            wanted = f"classes as integers or text [?], or scores as float [?, {size}]"
            found = [(tensor, 0) for tensor in single if not tensor.kind.startswith("float")]
            found += [(tensor, size) for tensor in scores]
        case Output.CLASS:  # only names say which class is meant
            found = [(tensor, 0) for tensor in _texts(single)]
        case Output.RANKED | Output.PROBABILITIES:
            expected.class_list.check_order("scores")
            wanted = f"{'scores' if kind is Output.RANKED else kind.value} as float [?, {size}]"
            found = [(tensor, size) for tensor in scores]
        case Output.REAL:
            wanted = "numbers [?] or [?, 1]"
            found = [(tensor, 0) for tensor in single if tensor.kind in NUMERIC]
        case _:
            wanted = "numbers or text [?] or [?, ?]"
            found = [(t, None) for t in plain if t.shape is None or len(t.shape) in (1, 2)]
    if not found:
        hint = ""
        if any(tensor.kind == "sequence" for tensor in outputs):
            hint = ": export it with zipmap=False"
        raise InvalidInput(f"model outputs {listing(outputs)} given, {wanted} needed{hint}")
    return found[0]


def _texts(tensors: list[Tensor]) -> list[Tensor]:
    return [tensor for tensor in tensors if tensor.kind == "str"]


def _is_single(tensor: Tensor) -> bool:
    return tensor.shape is None or len(tensor.shape) == 1 or tensor.shape[1:] in ((1,), (None,))


def _holds(tensor: Tensor, size: int) -> bool:
    floating = tensor.kind.startswith("float")
    return floating and (tensor.shape is None or tensor.shape[1:] in ((size,), (None,)))
