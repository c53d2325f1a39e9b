"""ONNX files as strangers write them: what can be refused by looking at them, before any is run.

Nothing here loads a model into onnxruntime; what these checks cannot see, such as a loop without
end, is left to the limits of the process that runs it.
"""

from __future__ import annotations

import math
from collections import ChainMap, Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any

from easeml_meter.errors import InvalidInput, MeterError
from easeml_meter.scoring.onnx_layout import MOST_MESSAGES, DamagedModel, TooManyParts, count_parts
from easeml_meter.tables.wording import excerpt

LARGEST_FILE = 512 * 10**6
MOST_PARTS = 250_000
"""Nodes, attributes and tensors of a model, its functions written out wherever they are called."""
DEEPEST = 50
"""Functions that call functions."""
MOST_VALUES = 1 << 28
"""Values of one tensor that is made of constants: 1 GiB of float32."""
MOST_DIMENSIONS = 64

_DOMAINS = ("", "ai.onnx", "ai.onnx.ml", "com.microsoft")
_SHAPE_INPUTS = {"ConstantOfShape": 0, "Expand": 1, "OneHot": 1, "Tile": 1}
"""Which input says how many values a node makes, or how many times as many as it takes."""
_KINDS = {
    **{f"INT{bits}": f"int{bits}" for bits in (8, 16, 32, 64)},
    **{f"UINT{bits}": f"uint{bits}" for bits in (8, 16, 32, 64)},
    "FLOAT16": "float16",
    "FLOAT": "float32",
    "DOUBLE": "float64",
    "BOOL": "bool",
    "STRING": "str",
}
"""Types of tensors that numpy knows, by the name ONNX has for them."""
NUMERIC = tuple(kind for kind in _KINDS.values() if kind not in ("bool", "str"))
_PER_BYTE = {"UINT4": 2, "INT4": 2, "FLOAT4E2M1": 2, "UINT2": 4, "INT2": 4}

Key = tuple[str, str, str]
Constants = ChainMap[str, Any]


@dataclass(frozen=True)
class Tensor:
    """An input or output of a model."""

    name: str
    kind: str
    """The name of a type of numpy, "str", or another name for what cannot be used."""
    shape: tuple[int | None, ...] | None
    """None where any size goes; no shape at all where the model does not say."""

    def __str__(self) -> str:
        sizes = "?" if self.shape is None else ", ".join(str(size or "?") for size in self.shape)
        return f"{excerpt(self.name, 40)} {self.kind}[{sizes}]"


def listing(tensors: Sequence[Tensor]) -> str:
    """Name the first few."""
    shown = ", ".join(map(str, tensors[:5]))
    return shown if len(tensors) <= 5 else f"{shown} and {len(tensors) - 5:,} more"


@dataclass(frozen=True)
class Interface:
    """What a model takes and gives."""

    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]


def inspect(content: bytes) -> Interface:
    """Check all of a file that can be checked without running it; give what it takes and gives."""
    if not (find_spec("onnx") and find_spec("onnxruntime")):
        raise MeterError("ONNX models need the extra onnx: pip install 'easeml-meter[onnx]'")
    import onnx

    if len(content) > LARGEST_FILE:
        raise too_large(len(content))
    try:
        count_parts(content, onnx.ModelProto.DESCRIPTOR)
    except TooManyParts:
        line = f"more than {MOST_MESSAGES:,} nodes, attributes, tensors, types and texts given"
        raise InvalidInput(f"{line}, fewer needed") from None
    except DamagedModel:
        raise _damaged() from None
    try:
        model = onnx.load_model_from_string(content)
    except Exception:  # a parser that meets nonsense may raise anything
        raise _damaged() from None
    if not model.graph.output:
        raise _damaged()
    _check_parts(model)
    try:
        onnx.checker.check_model(content)
    except Exception as error:  # of many types, some not even errors of onnx
        line = " ".join(str(error).split())
        raise InvalidInput(f"no valid ONNX model: {excerpt(line, 200)}") from None
    # Before IR version 4 constants had to be listed as inputs too.
    constant = {tensor.name for tensor in model.graph.initializer}
    inputs = tuple(_tensor(info) for info in model.graph.input if info.name not in constant)
    return Interface(inputs, tuple(map(_tensor, model.graph.output)))


def too_large(size: int) -> InvalidInput:
    """Refuse a file for its size."""
    most = f"{LARGEST_FILE // 10**6} MB or less"
    return InvalidInput(f"{-(-size // 10**6):,} MB given, {most} needed for an ONNX model")


def _damaged() -> InvalidInput:
    return InvalidInput("no ONNX model, or a damaged one: export it again")


def _tensor(info: Any) -> Tensor:
    which = info.type.WhichOneof("value")
    if which != "tensor_type":
        return Tensor(info.name, (which or "unknown").removesuffix("_type"), None)
    said = info.type.tensor_type
    name = _type_name(said.elem_type)
    shape = None
    if said.HasField("shape"):
        shape = tuple(size.dim_value if size.dim_value > 0 else None for size in said.shape.dim)
    return Tensor(info.name, _KINDS.get(name, name.lower()), shape)


def _check_parts(model: Any) -> None:
    """Go through all that onnxruntime reads; count functions as often as they are called."""
    functions = {(_domain(each.domain), each.name, each.overload): each for each in model.functions}
    walk = _Walk(functions)
    walk.graph(model.graph, Constants())
    total, first_calls = walk.count, walk.calls
    bodies: dict[Key, tuple[int, Counter[Key]]] = {}
    for key, function in functions.items():
        before, walk.calls = walk.count, Counter()
        walk.nodes(function.node, Constants())
        walk.attributes(function.attribute_proto, Constants())
        bodies[key] = walk.count - before, walk.calls
    sizes: dict[Key, int] = {}
    total += sum(times * _size(key, bodies, sizes) for key, times in first_calls.items())
    _check_count(total)


@dataclass
class _Walk:
    """A walk through parts of a model, that stops at the first one to be refused."""

    functions: dict[Key, Any]
    count: int = 0
    calls: Counter[Key] = field(default_factory=Counter)
    """Of the graph or function at hand."""

    def seen(self) -> None:
        self.count += 1
        _check_count(self.count)

    def graph(self, graph: Any, outer: Constants) -> None:
        constants = outer.new_child()
        for tensor in graph.initializer:
            self.tensor(tensor)
            constants[tensor.name] = tensor
        for sparse in graph.sparse_initializer:
            self.sparse(sparse)
        self.nodes(graph.node, constants)

    def nodes(self, nodes: Iterable[Any], constants: Constants) -> None:
        for node in nodes:
            self.seen()
            key = (_domain(node.domain), node.op_type, node.overload)
            if key in self.functions:
                self.calls[key] += 1
            elif node.domain not in _DOMAINS:
                given = f"operator {excerpt(f'{node.domain}.{node.op_type}')}"
                raise InvalidInput(f"{given} given, only those of onnxruntime itself are run")
            self.attributes(node.attribute, constants)
            if node.op_type == "Constant":
                if len(node.output) != 1:
                    raise InvalidInput(
                        f"a Constant with {len(node.output)} outputs given, 1 needed"
                    )
                for attribute in node.attribute:
                    constants[node.output[0]] = attribute
            _check_size(node, constants)

    def attributes(self, attributes: Iterable[Any], constants: Constants) -> None:
        for attribute in attributes:
            self.seen()
            if attribute.HasField("t"):
                self.tensor(attribute.t)
            if attribute.HasField("sparse_tensor"):
                self.sparse(attribute.sparse_tensor)
            if attribute.HasField("g"):
                self.graph(attribute.g, constants)
            for tensor in attribute.tensors:
                self.tensor(tensor)
            for sparse in attribute.sparse_tensors:
                self.sparse(sparse)
            for graph in attribute.graphs:
                self.graph(graph, constants)

    def sparse(self, sparse: Any) -> None:
        self.tensor(sparse.values)
        self.tensor(sparse.indices)
        if _values(sparse.dims) > MOST_VALUES:  # onnxruntime writes out its zeros
            raise _too_many("a sparse tensor", sparse.values.name, _values(sparse.dims))

    def tensor(self, tensor: Any) -> None:
        import onnx

        self.seen()
        name = excerpt(tensor.name, 40)
        if tensor.external_data or tensor.data_location == onnx.TensorProto.EXTERNAL:
            line = f"tensor {name} kept in another file, all data must be in the model itself"
            raise InvalidInput(f"{line}: save it with save_as_external_data=False")
        if _held(tensor) != _values(tensor.dims) or any(size < 0 for size in tensor.dims):
            dims = " x ".join(map(str, tensor.dims)) or "one value"
            raise InvalidInput(f"tensor {name}: {excerpt(dims)} declared, other data given")


def _check_count(count: int) -> None:
    if count > MOST_PARTS:
        raise InvalidInput(f"more than {MOST_PARTS:,} nodes and tensors given, fewer needed")


def _domain(name: str) -> str:
    return "" if name == "ai.onnx" else name


def _size(
    key: Key,
    bodies: dict[Key, tuple[int, Counter[Key]]],
    sizes: dict[Key, int],
    depth: int = 0,
) -> int:
    """Count the parts of a function with all that it calls, as onnxruntime writes them out."""
    if depth > DEEPEST:
        line = f"function {excerpt(key[1])}: calls of calls deeper than {DEEPEST}, or without end"
        raise InvalidInput(line)
    if key not in sizes:
        own, calls = bodies[key]
        called = (times * _size(each, bodies, sizes, depth + 1) for each, times in calls.items())
        sizes[key] = own + sum(called)
    return sizes[key]


def _values(dims: Sequence[int]) -> int:
    if len(dims) > MOST_DIMENSIONS:
        raise InvalidInput(f"{len(dims):,} dimensions given, {MOST_DIMENSIONS} at most")
    return math.prod(dims)


def _type_name(number: int) -> str:
    from onnx import TensorProto

    try:
        name: str = TensorProto.DataType.Name(number)
    except ValueError:
        return f"type {number}"
    return name


def _held(tensor: Any) -> int:
    """Count the values that a tensor has data for; -1 where that is no whole number of them."""
    from onnx import helper

    name, declared = _type_name(tensor.data_type), _values(tensor.dims)
    if name == "STRING":
        return len(tensor.string_data)
    try:
        kind = helper.tensor_dtype_to_np_dtype(tensor.data_type)
        stored = helper.tensor_dtype_to_field(tensor.data_type)
    except KeyError:  # undefined, or newer than this version of onnx
        return -1
    per_byte = _PER_BYTE.get(name, 1)
    if tensor.HasField("raw_data"):
        items, rest = divmod(len(tensor.raw_data), kind.itemsize)
    else:
        items, rest = divmod(len(getattr(tensor, stored)), 2 if kind.kind == "c" else 1)
    if rest:
        return -1
    return declared if items == -(-declared // per_byte) else items * per_byte


def _check_size(node: Any, constants: Constants) -> None:
    """Refuse a node that, by constants alone, makes a gigantic tensor."""
    made = 0
    if node.op_type in _SHAPE_INPUTS:
        made = abs(_values(_constant(node, _SHAPE_INPUTS[node.op_type], constants)))
    elif node.op_type in ("RandomNormal", "RandomUniform"):
        made = max((_values(each.ints) for each in node.attribute), default=0)
    elif node.op_type == "Range":
        ends = [_constant(node, place, constants) for place in range(3)]
        if all(len(end) == 1 for end in ends) and ends[2][0]:
            (start,), (stop,), (step,) = ends
            made = int(max(0, min((stop - start) / step, 1e30)))  # else less than none, or -inf
    if made > MOST_VALUES:
        raise _too_many("operator", node.op_type, made)


def _constant(node: Any, place: int, constants: Constants) -> list[Any]:
    """Return the few numbers that an input is known to be, or none."""
    from onnx import TensorProto, numpy_helper

    given = constants.get(node.input[place]) if place < len(node.input) else None
    if given is None:
        return []
    if not isinstance(given, TensorProto):
        if given.ints:
            return list(given.ints[:MOST_DIMENSIONS])
        if not given.HasField("t"):
            return [given.i] if given.HasField("i") else [given.f] if given.HasField("f") else []
        given = given.t
    if _values(given.dims) > MOST_DIMENSIONS:
        return []
    try:
        array = numpy_helper.to_array(given)
    except Exception:  # segments, and texts that are none
        raise _damaged() from None
    numbers = array.ravel().tolist() if array.dtype.kind in "iuf" else []
    return [number for number in numbers if math.isfinite(number)]


def _too_many(what: str, name: str, values: int) -> InvalidInput:
    count = f"{values:,}" if values < 10**30 else "more than 10^30"
    made = f"{what} {excerpt(name, 40)}: {count} values made of constants"
    return InvalidInput(f"{made}, {MOST_VALUES:,} at most")
