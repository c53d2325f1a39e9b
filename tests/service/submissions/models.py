"""Models to submit: commands that predict, and tricks they play."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
from tests.service.helpers import Session, small_spec

from easeml_meter.core.views import Signal
from easeml_meter.scoring.bundle import Bundle, BundledFile
from easeml_meter.service.submissions.kinds import Command, OnnxFile
from easeml_meter.service.submissions.measuring import Conditions
from easeml_meter.spec import MeterSpec

HEAD = """
import sys
import numpy as np
import pyarrow as pa
reader = pa.ipc.open_stream(sys.stdin.buffer)
schema = pa.schema([("prediction", pa.int64())])
writer = pa.ipc.new_stream(sys.stdout.buffer, schema)
rows = 0
for batch in reader:
    x = batch.column("x").to_numpy()
    rows += len(x)
    guess = (x > 0).astype(np.int64)
"""

TAIL = """
    writer.write_batch(pa.RecordBatch.from_arrays([pa.array(guess)], schema=schema))
writer.close()
"""

VISIBLE = 20
"""Rows of the validation set; the test set has another number, by which the programs know it."""


def program(trick: str = "    pass", after: str = "") -> Command:
    """A command that predicts, and does `trick` with each batch; `hidden` tells it which set.

    Batches of a second run are small, so that they pass for visible.
    """
    body = f"    hidden = len(x) > {VISIBLE}\n{trick}"
    text = HEAD + body + TAIL + after
    return Command(Bundle("python predict.py", (BundledFile("predict.py", text.encode()),)))


def hidden_spec(**options: Any) -> MeterSpec:
    return small_spec(models=True, inputs="hidden", **options)


def run(session: Session, submitted: Any, name: str = "model", **conditions: Any) -> Signal:
    conditions.setdefault("seconds", 60.0)
    return session.meter.submit_any(submitted, model=name, conditions=Conditions(**conditions))


def by_x(batch: pa.RecordBatch) -> Any:
    return (batch.column("x").to_numpy() > 0).astype(int)


def fails(batch: pa.RecordBatch) -> Any:
    if batch.num_rows > VISIBLE:
        raise SystemExit("what it saw")
    return by_x(batch)


ON_ALL_ROWS = "    guess = guess if len(x) < 15 else 1 - guess"
"""A trick: each prediction depends on how many rows the batch has, of which a part is fewer."""


def threshold(path: Path) -> OnnxFile:
    """An ONNX model that predicts what `program` does."""
    from onnx import TensorProto, helper

    zero = helper.make_tensor("zero", TensorProto.FLOAT, [], [0.0])
    nodes = [
        helper.make_node("Greater", ["x", "zero"], ["positive"]),
        helper.make_node("Cast", ["positive"], ["label"], to=TensorProto.INT64),
    ]
    return _onnx(path, nodes, [zero])


def on_all_rows(path: Path) -> OnnxFile:
    """An ONNX model with a sum over the rows of a batch, which here counts them."""
    from onnx import TensorProto, helper

    constants = [
        helper.make_tensor("rows", TensorProto.INT64, [1], [0]),
        helper.make_tensor("none", TensorProto.FLOAT, [], [0.0]),
        helper.make_tensor("one", TensorProto.FLOAT, [], [1.0]),
        helper.make_tensor("many", TensorProto.FLOAT, [], [15.0]),
    ]
    nodes = [
        helper.make_node("Mul", ["x", "none"], ["nothing"]),
        helper.make_node("Add", ["nothing", "one"], ["ones"]),
        helper.make_node("ReduceSum", ["ones", "rows"], ["count"]),
        helper.make_node("Add", ["nothing", "count"], ["counts"]),
        helper.make_node("Greater", ["counts", "many"], ["positive"]),
        helper.make_node("Cast", ["positive"], ["label"], to=TensorProto.INT64),
    ]
    return _onnx(path, nodes, constants)


def _onnx(path: Path, nodes: list[Any], constants: list[Any]) -> OnnxFile:
    """Write a graph that makes `label` of `x`, the first column."""
    from onnx import TensorProto, helper, save

    graph = helper.make_graph(
        [helper.make_node("Gather", ["inputs", "first"], ["x"], axis=1), *nodes],
        "model",
        [helper.make_tensor_value_info("inputs", TensorProto.FLOAT, [None, 2])],
        [helper.make_tensor_value_info("label", TensorProto.INT64, [None])],
        [helper.make_tensor("first", TensorProto.INT64, [], [0]), *constants],
    )
    opsets = [helper.make_opsetid("", 17)]
    save(helper.make_model(graph, opset_imports=opsets, ir_version=9), path)
    return OnnxFile(path)
