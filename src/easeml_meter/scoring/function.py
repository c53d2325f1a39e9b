"""A model that is a Python function of the caller's own, run in the caller's process."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from easeml_meter.errors import invalid
from easeml_meter.scoring.predictor import Limits, ModelFailed
from easeml_meter.tables.wording import excerpt


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
