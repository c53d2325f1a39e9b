"""What the sandbox runs for a bundled model: rows come in on stdin, predictions go out on stdout.

It is sent along with the model, so it imports nothing of this package.
"""

from __future__ import annotations

import sys
from typing import Any, BinaryIO

import joblib
import numpy as np
import pyarrow as pa


def run(model: Any, rows: BinaryIO, predictions: BinaryIO) -> None:
    """Predict on each batch of an Arrow stream, and write another one."""
    names = getattr(model, "feature_names_in_", None)
    with pa.ipc.open_stream(rows) as given:
        out = None
        for batch in given:
            columns = [column.to_numpy(zero_copy_only=False) for column in batch.columns]
            inputs = (
                batch.to_pandas()[list(names)] if names is not None else np.column_stack(columns)
            )
            found = pa.array(model.predict(inputs))
            answers = pa.RecordBatch.from_arrays([found], ["prediction"])
            out = out or pa.ipc.new_stream(predictions, answers.schema)
            out.write_batch(answers)
        if out is not None:
            out.close()


if __name__ == "__main__":
    run(joblib.load("model.joblib"), sys.stdin.buffer, sys.stdout.buffer)
