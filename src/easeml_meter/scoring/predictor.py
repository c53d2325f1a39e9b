"""Models that are submitted instead of predictions: what all have in common, and a function as one.

A `Predictor` maps record batches of inputs to record batches of predictions, laid out as in a file
of predictions (`predictions.Predictions.open`). Which model it is, is decided by `digest`, taken of
the submitted bytes alone; what it predicts on hidden inputs never is looked at for that.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from easeml_meter.checks import finite, whole
from easeml_meter.errors import InvalidInput, MeterError, invalid
from easeml_meter.tables.source import excerpt

HIDDEN_FAILURE = "the model failed on hidden inputs"


class ModelFailed(InvalidInput):
    """The model crashed, took too long or answered wrongly.

    On visible inputs the message says how, with what it wrote to stderr. On hidden inputs nothing
    of it may reach the developer: there it is the answer "no reading".
    """


class SandboxUnavailable(MeterError):
    """This machine cannot run submitted models safely, so it does not run them.

    No answer: nothing of the model was started, so it tells nothing of any row.
    """


@dataclass(frozen=True)
class Limits:
    """What one run of a model may use."""

    seconds: float = 60.0
    """Wall clock. Each process also gets this much CPU time per thread, and a second."""
    memory: int = 4 << 30
    """Bytes of address space of each process, and of memory of all of them together."""
    processes: int = 64
    file_bytes: int = 1 << 30
    """Size of one file, and of all of /tmp."""
    threads: int = 2
    """Threads an ONNX model computes with; a command is told by OMP_NUM_THREADS."""

    def __post_init__(self) -> None:
        finite("seconds", self.seconds)
        if self.seconds <= 0:
            raise invalid("seconds", self.seconds, "a number above 0")
        for name in ("memory", "processes", "file_bytes", "threads"):
            whole(name, getattr(self, name), at_least=1)


class Predictor(Protocol):
    """A model. It can be pickled, so that it can be run on another machine."""

    @property
    def digest(self) -> str:
        """SHA-256 (hex) of the submitted bytes: what makes two submissions the same."""

    def check(self, inputs: pa.Schema) -> None:
        """Refuse, in one line that says why, a model that cannot take these input columns.

        Called once per submission, before any input is touched; what is wrong here costs nothing.
        Also where the machine lacks what running it takes.
        """

    def predict(
        self, inputs: pa.Schema, batches: Iterable[pa.RecordBatch], limits: Limits, *, hidden: bool
    ) -> Iterator[pa.RecordBatch]:
        """Run the model once over all of `batches`, whose columns are `inputs`; stream its answers.

        Raises `ModelFailed` for whatever goes wrong with it. `hidden`: nothing it writes but its
        predictions goes anywhere, and the error has no details. Batches of predictions need not
        match those of the inputs in size; rows come in the same order, as many as there were.
        Closing the iterator ends the run.
        """


@dataclass(frozen=True)
class FunctionModel:
    """A trusted function: inputs, a record batch, to predictions, one per row.

    Predictions are an array of pyarrow or numpy, a list, or a record batch laid out as a file of
    predictions is. The function judges each row by itself. It is not sandboxed, and no limits
    apply. It cannot be digested, so `identity` says which model it is, such as a commit and the
    digest of its weights.
    """

    function: Callable[[pa.RecordBatch], Any] = field(repr=False)
    identity: str

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise invalid("function", self.function, "a function of a record batch needed")
        if not isinstance(self.identity, str) or not self.identity.strip():
            raise invalid("identity", self.identity, "a text that no other model has needed")

    @property
    def digest(self) -> str:
        """SHA-256 of the identity, in hex."""
        return hashlib.sha256(f"function|{self.identity}".encode()).hexdigest()

    def check(self, inputs: pa.Schema) -> None:
        """Take any inputs: only the function knows which ones it needs."""

    def predict(
        self, inputs: pa.Schema, batches: Iterable[pa.RecordBatch], limits: Limits, *, hidden: bool
    ) -> Iterator[pa.RecordBatch]:
        """Call the function on each batch."""
        for batch in batches:
            try:
                answers = _as_batch(self.function(batch))
            except (Exception, SystemExit) as error:
                line = "the model failed"
                if not hidden:
                    line += f": {type(error).__name__}: {excerpt(str(error), 300)}"
                raise ModelFailed(line) from (None if hidden else error)
            yield answers


def _as_batch(answers: Any) -> pa.RecordBatch:
    if isinstance(answers, pa.RecordBatch):
        return answers
    if isinstance(answers, pa.ChunkedArray):
        answers = answers.combine_chunks()
    elif np.ma.is_masked(answers):
        answers = pa.array(answers.tolist())  # missing, whatever lies under the mask
    elif not isinstance(answers, pa.Array):
        answers = np.asarray(answers)
        if answers.ndim == 2:
            flat = pa.array(np.ascontiguousarray(answers).reshape(-1))
            answers = pa.FixedSizeListArray.from_arrays(flat, answers.shape[1])
        else:
            answers = pa.array(answers)
    return pa.RecordBatch.from_arrays([answers], ["prediction"])
