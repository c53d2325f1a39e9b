"""The parts of an ONNX file are counted without making objects of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import TensorProto, helper
from tests.tables.costs import cost_of

from easeml_meter.errors import InvalidInput
from easeml_meter.scoring import onnx_layout
from easeml_meter.scoring.onnx_checks import inspect
from easeml_meter.scoring.onnx_layout import DamagedModel, TooManyParts, count_parts

KIND = onnx.ModelProto.DESCRIPTOR


def model(nodes: int, **attributes: Any) -> bytes:
    """Return a model of so many nodes in a row, each with these attributes."""
    made = [helper.make_node("Relu", [f"x{n}"], [f"x{n + 1}"], **attributes) for n in range(nodes)]
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [None])
        for name in ("x0", f"x{nodes}")
    ]
    graph = helper.make_graph(made, "g", ends[:1], ends[1:])
    return bytes(helper.make_model(graph).SerializeToString())


def field(number: int, content: bytes) -> bytes:
    """Write a field of the wire format."""
    size, prefix = len(content), b""
    while size > 127:
        prefix, size = prefix + bytes([size & 127 | 128]), size >> 7
    return bytes([number << 3 | 2]) + prefix + bytes([size]) + content


def empty_nodes(count: int) -> bytes:
    return field(7, field(1, b"") * count)


@pytest.mark.slow
def test_millions_of_empty_nodes_are_refused_at_little_cost(tmp_path: Path) -> None:
    """Two bytes each in the file; 150 each in memory, before any was counted."""
    path = tmp_path / "model.onnx"
    path.write_bytes(empty_nodes(4_000_000))
    cost = cost_of("onnx", path)
    assert "more than 1,000,000 nodes, attributes, tensors, types and texts given" in cost.refusal
    assert cost.megabytes < 30


def test_each_message_is_one_and_each_text_a_quarter() -> None:
    assert count_parts(empty_nodes(10), KIND) == 12  # with the graph and the model
    assert count_parts(field(2, b"text"), KIND) == 1.25


def test_numbers_cost_nothing() -> None:
    """A forest has millions of them, each in a field of its own."""
    few = count_parts(model(1, numbers=[1, 300, -1], reals=[0.5]), KIND)
    many = count_parts(model(1, numbers=[7, 70_000, -5] * 5000, reals=[0.25] * 3000), KIND)
    assert few == many


def test_there_may_be_so_many_parts_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    content = model(5)
    parts = count_parts(content, KIND)
    monkeypatch.setattr(onnx_layout, "MOST_MESSAGES", parts)
    count_parts(content, KIND)
    monkeypatch.setattr(onnx_layout, "MOST_MESSAGES", parts - 0.25)
    with pytest.raises(TooManyParts):
        count_parts(content, KIND)


def test_messages_within_messages_have_an_end() -> None:
    content = b""
    for _ in range(60):  # graphs in attributes in nodes in graphs
        content = field(1, field(5, field(6, content)))
    with pytest.raises(DamagedModel):
        count_parts(field(7, content), KIND)


def test_every_cut_is_refused_in_one_line() -> None:
    content = model(3)
    assert inspect(content).outputs
    for end in range(len(content)):
        with pytest.raises(InvalidInput, match=r"^[^\n]+$"):
            inspect(content[:end])
