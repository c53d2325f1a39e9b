"""Dependency trees, node by node, against the closed forms."""

from __future__ import annotations

import math

import pytest

from easeml_meter.lab.meters import Protocol, equal_edges, gap_meter
from easeml_meter.lab.trees import paper_trees, tree
from easeml_meter.promise.compare import all_answers


def test_the_trees_of_the_paper() -> None:
    regular, incremental = paper_trees()
    assert [node.name for node in regular.nodes] == ["H0", "1", "2", "1-1", "1-2", "2-1", "2-2"]
    assert (regular.published, regular.distinct) == (6, 3)
    assert (incremental.published, incremental.distinct) == (5, 3)
    assert [node.name for node in incremental.nodes if node.pruned] == ["2-1"]


def counted(signals: int, steps: int, protocol: Protocol) -> int:
    meter = gap_meter(equal_edges(signals), [0.01], budget=steps, delta=0.1, protocol=protocol)
    return round(sum(math.exp(each.log_count) for each in all_answers(meter)))


@pytest.mark.parametrize("signals", [1, 2, 3, 4])
@pytest.mark.parametrize("steps", [1, 2, 3, 4, 5])
def test_sizes(signals: int, steps: int) -> None:
    regular = tree(signals, steps, Protocol.REGULAR)
    assert regular.published == sum(signals**t for t in range(1, steps + 1))
    assert regular.distinct == counted(signals, steps, Protocol.REGULAR)
    incremental = tree(signals, steps, Protocol.INCREMENTAL)
    assert incremental.published == math.comb(signals + steps, signals) - 1
    assert incremental.distinct == counted(signals, steps, Protocol.INCREMENTAL)


def test_parents_stand_in_the_middle_of_their_children() -> None:
    nodes = {node.history: node for node in tree(3, 3, Protocol.REGULAR).nodes}
    for history, node in nodes.items():
        children = [nodes[(*history, k)].x for k in (1, 2, 3) if (*history, k) in nodes]
        if children:
            assert node.x == pytest.approx(sum(children) / 3)
