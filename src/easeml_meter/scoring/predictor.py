"""Models that are submitted instead of predictions: what all of them have in common.

A `Predictor` maps record batches of inputs to record batches of predictions, laid out as in a file
of predictions (`predictions.Predictions.open`). Which model it is, is decided by `digest`, taken of
the submitted bytes alone; what it predicts on hidden inputs never is looked at for that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from easeml_meter.checks import finite, whole
from easeml_meter.errors import InvalidInput, MeterError, invalid

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
