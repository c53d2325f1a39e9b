"""ONNX files as strangers write them: what can be refused by looking at them, before any is run.

Nothing here loads a model into onnxruntime; what these checks cannot see, such as a loop without
end or a gigantic tensor, is left to the limits of the process that runs it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass, field
from importlib.util import find_spec
from typing import Any

from easeml_meter.errors import InvalidInput, MeterError
from easeml_meter.tables.apart import answer_apart
from easeml_meter.tables.source import excerpt

LARGEST_FILE = 512 * 10**6
_MEMORY = 1 << 30
_TIMES = 4
"""A child may take so many bytes, and so many times the file's."""
MOST_PARTS = 250_000
"""Nodes, attributes and tensors of a model, its functions written out wherever they are called."""
DEEPEST = 50
"""Functions that call functions."""
MOST_DIMENSIONS = 64

_DOMAINS = ("", "ai.onnx", "ai.onnx.ml", "com.microsoft")
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
        model = onnx.load_model_from_string(content)
    except MemoryError:
        raise
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


def inspect_apart(content: bytes) -> Interface:
    """Check a stranger's file, in a child process that has limits."""
    memory = _MEMORY + _TIMES * len(content)
    found, _ = answer_apart(
        *(_inspected, content),
        size=len(content),
        memory=memory,
        source="the ONNX model",
        remedy="export a smaller one",
    )
    inputs, outputs = (tuple(_sent(*tensor) for tensor in tensors) for tensors in found)
    return Interface(inputs, outputs)


def _sent(name: str, kind: str, shape: list[int | None] | None) -> Tensor:
    return Tensor(name, kind, None if shape is None else tuple(shape))


def _inspected(content: bytes) -> tuple[Any, None]:
    return astuple(inspect(content)), None


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
    walk.graph(model.graph)
    total, first_calls = walk.count, walk.calls
    bodies: dict[Key, tuple[int, Counter[Key]]] = {}
    for key, function in functions.items():
        before, walk.calls = walk.count, Counter()
        walk.nodes(function.node)
        walk.attributes(function.attribute_proto)
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

    def graph(self, graph: Any) -> None:
        for tensor in graph.initializer:
            self.tensor(tensor)
        for sparse in graph.sparse_initializer:
            self.sparse(sparse)
        self.nodes(graph.node)

    def nodes(self, nodes: Iterable[Any]) -> None:
        for node in nodes:
            self.seen()
            key = (_domain(node.domain), node.op_type, node.overload)
            if key in self.functions:
                self.calls[key] += 1
            elif node.domain not in _DOMAINS:
                given = f"operator {excerpt(f'{node.domain}.{node.op_type}')}"
                raise InvalidInput(f"{given} given, only those of onnxruntime itself are run")
            self.attributes(node.attribute)

    def attributes(self, attributes: Iterable[Any]) -> None:
        for attribute in attributes:
            self.seen()
            if attribute.HasField("t"):
                self.tensor(attribute.t)
            if attribute.HasField("sparse_tensor"):
                self.sparse(attribute.sparse_tensor)
            if attribute.HasField("g"):
                self.graph(attribute.g)
            for tensor in attribute.tensors:
                self.tensor(tensor)
            for sparse in attribute.sparse_tensors:
                self.sparse(sparse)
            for graph in attribute.graphs:
                self.graph(graph)

    def sparse(self, sparse: Any) -> None:
        self.tensor(sparse.values)
        self.tensor(sparse.indices)

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
