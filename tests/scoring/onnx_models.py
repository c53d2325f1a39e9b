"""ONNX models for the tests, good and bad, as bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

FLOAT, DOUBLE, INT64, STRING = (
    TensorProto.FLOAT,
    TensorProto.DOUBLE,
    TensorProto.INT64,
    TensorProto.STRING,
)
OPSET, IR = 21, 10

Shape = Sequence[str | int | None] | None


def value(name: str, kind: int, shape: Shape) -> Any:
    return helper.make_tensor_value_info(name, kind, shape)


def constant(name: str, values: Any, dtype: Any = np.float32) -> Any:
    return numpy_helper.from_array(np.asarray(values, dtype), name)


def graph(
    nodes: Sequence[Any], inputs: Sequence[Any], outputs: Sequence[Any], *constants: Any
) -> Any:
    return helper.make_graph(nodes, "g", inputs, outputs, list(constants))


def model(
    body: Any,
    *,
    opset: int = OPSET,
    domains: Mapping[str, int] | None = None,
    functions: Sequence[Any] = (),
) -> Any:
    opsets = [helper.make_opsetid(*each) for each in {"": opset, **(domains or {})}.items()]
    return helper.make_model(body, opset_imports=opsets, functions=list(functions), ir_version=IR)


def content(body: Any, **options: Any) -> bytes:
    data: bytes = model(body, **options).SerializeToString()
    return data


def row_wise(nodes: Sequence[Any], *constants: Any, size: int | None = 3, out: Any = None) -> bytes:
    """From x, a matrix of float32, to y."""
    result = out if out is not None else value("y", FLOAT, ["N", None])
    return content(graph(nodes, [value("x", FLOAT, ["N", size])], [result], *constants))


# --- Good ones ---


def linear(weights: NDArray[Any], kind: int = FLOAT, *, size: Any = "given") -> bytes:
    """The product of x and a matrix."""
    width = weights.shape[0] if size == "given" else size
    body = graph(
        [helper.make_node("MatMul", ["x", "w"], ["scores"])],
        [value("x", kind, ["N", width])],
        [value("scores", kind, ["N", weights.shape[1]])],
        constant("w", weights, weights.dtype),
    )
    return content(body)


def classifier(weights: NDArray[Any]) -> bytes:
    """The place of the largest score, and probabilities."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["z"]),
        helper.make_node("ArgMax", ["z"], ["label"], axis=1, keepdims=0),
        helper.make_node("Softmax", ["z"], ["probabilities"], axis=1),
    ]
    outputs = [
        value("label", INT64, ["N"]),
        value("z", FLOAT, ["N", weights.shape[1]]),
        value("probabilities", FLOAT, ["N", weights.shape[1]]),
    ]
    inputs = [value("x", FLOAT, ["N", weights.shape[0]])]
    return content(graph(nodes, inputs, outputs, constant("w", weights)))


def words(names: Sequence[str], outputs: Sequence[str]) -> bytes:
    """A text per row to another one."""
    lookup = helper.make_node(
        "LabelEncoder",
        ["word"],
        ["label"],
        domain="ai.onnx.ml",
        keys_strings=list(names),
        values_strings=list(outputs),
        default_string="unknown",
    )
    body = graph([lookup], [value("word", STRING, ["N"])], [value("label", STRING, ["N"])])
    return content(body, domains={"ai.onnx.ml": 2})


def by_column() -> bytes:
    """The sum of a, of b twice and, where the text c is "yes", of 1; columns by name."""
    nodes = [
        helper.make_node("Cast", ["b"], ["b_real"], to=FLOAT),
        helper.make_node("Add", ["a", "b_real"], ["ab"]),
        helper.make_node("Add", ["ab", "b_real"], ["abb"]),
        helper.make_node("Equal", ["c", "yes"], ["is"]),
        helper.make_node("Cast", ["is"], ["one"], to=FLOAT),
        helper.make_node("Add", ["abb", "one"], ["sum"]),
    ]
    inputs = [
        value("a", FLOAT, ["N", 1]),
        value("b", INT64, ["N", 1]),
        value("c", STRING, ["N", 1]),
    ]
    yes = constant("yes", ["yes"], object)
    return content(graph(nodes, inputs, [value("sum", FLOAT, ["N", 1])], yes))


# --- Bad ones ---


def external(tensor: Any) -> Any:
    """Say that a tensor's data are in another file."""
    onnx.external_data_helper.set_external_data(tensor, "/etc/passwd")
    tensor.ClearField("raw_data")
    return tensor


def subgraph(*constants: Any, nodes: Sequence[Any] = ()) -> Any:
    """A branch that gives its constant c."""
    last = helper.make_node("Identity", ["c"], ["branch"])
    return graph([*nodes, last], [], [value("branch", FLOAT, [1])], *constants)


def branching(branch: Any) -> bytes:
    """Run one branch or the other; both are the same."""
    nodes = [
        helper.make_node("If", ["condition"], ["z"], then_branch=branch, else_branch=branch),
        helper.make_node("Add", ["x", "z"], ["y"]),
    ]
    return row_wise(nodes, constant("condition", True, bool))


def with_function(body: Sequence[Any], *more: Any, name: str = "twice") -> bytes:
    """Call a function of domain "mine"; `more` functions may be called by it."""
    call = helper.make_node(name, ["x"], ["y"], domain="mine")
    main = graph([call], [value("x", FLOAT, ["N", 3])], [value("y", FLOAT, ["N", 3])])
    functions = [function(name, body), *more]
    return content(main, domains={"mine": 1}, functions=functions)


def function(name: str, body: Sequence[Any]) -> Any:
    opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid("mine", 1)]
    return helper.make_function("mine", name, ["p"], ["q"], list(body), opsets)


def calls(name: str, times: int = 1) -> list[Any]:
    """Nodes that call a function so many times, one after the other."""
    steps = ["p", *(f"step{place}" for place in range(1, times)), "q"]
    return [
        helper.make_node(name, [steps[place]], [steps[place + 1]], domain="mine")
        for place in range(times)
    ]


def zip_map() -> bytes:
    """What scikit-learn's classifiers are turned into unless told otherwise."""
    nodes = [
        helper.make_node("Identity", ["x"], ["scores"]),
        helper.make_node(
            "ZipMap", ["scores"], ["maps"], domain="ai.onnx.ml", classlabels_int64s=[0, 1, 2]
        ),
    ]
    maps = helper.make_sequence_type_proto(
        helper.make_map_type_proto(INT64, helper.make_tensor_type_proto(FLOAT, None))
    )
    body = graph(
        nodes,
        [value("x", FLOAT, ["N", 3])],
        [helper.make_value_info("maps", maps)],
    )
    return content(body, domains={"ai.onnx.ml": 2})


def looping(step: Sequence[Any], *constants: Any, shape: Shape) -> bytes:
    """Repeat without end: from v to w, by `step`."""
    body = graph(
        [*step, helper.make_node("Identity", ["go"], ["go_on"])],
        [value("i", INT64, []), value("go", TensorProto.BOOL, []), value("v", FLOAT, shape)],
        [value("go_on", TensorProto.BOOL, []), value("w", FLOAT, shape)],
        *constants,
    )
    nodes = [
        helper.make_node("Loop", ["", "yes", "x"], ["z"], body=body),
        helper.make_node("ReduceSum", ["z", "axis"], ["y"], keepdims=1),
    ]
    return row_wise(nodes, constant("yes", True, bool), constant("axis", [1], np.int64))


def endless() -> bytes:
    return looping([helper.make_node("Neg", ["v"], ["w"])], shape=["N", 3])


def growing() -> bytes:
    """Twice as many values with each step."""
    return looping([helper.make_node("Concat", ["v", "v"], ["w"], axis=0)], shape=None)


def picky() -> bytes:
    """Fail on rows whose first value is above 0: they are no places in a list of one."""
    nodes = [
        helper.make_node("Cast", ["x"], ["place"], to=INT64),
        helper.make_node("Gather", ["one", "place"], ["y"]),
    ]
    return row_wise(nodes, constant("one", [0.0]), size=1)
