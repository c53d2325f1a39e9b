"""Dependency trees: every model that a developer might submit, by the answers before it.

The paper's Figure 5. Its tree T(m, T) holds one node for each history of 1 to T answers; distinct
models are the histories of 0 to T - 1 answers, since nothing is submitted after the last one.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from easeml_meter.lab.meters import Protocol


@dataclass(frozen=True)
class Node:
    """One node: the answers that lead to it."""

    history: tuple[int, ...]
    x: float
    """Where it stands from left (0) to right (1), so that parents are above their children."""
    pruned: bool
    """Cannot come about: an incremental meter's answers never fall."""
    published: bool
    """Counted by the paper."""
    distinct: bool
    """Counted as a distinct model."""

    @property
    def level(self) -> int:
        """Answers so far."""
        return len(self.history)

    @property
    def name(self) -> str:
        """The answers, such as 1-2; H0 for the first model, which follows none."""
        return "-".join(map(str, self.history)) or "H0"


@dataclass(frozen=True)
class Tree:
    """The tree of one meter, the pruned nodes included."""

    title: str
    nodes: tuple[Node, ...]

    @property
    def published(self) -> int:
        """The paper's size of the tree, |T(m, T)|."""
        return sum(node.published for node in self.nodes)

    @property
    def distinct(self) -> int:
        """How many distinct models there are."""
        return sum(node.distinct for node in self.nodes)

    def at_level(self, level: int) -> list[Node]:
        """List the nodes that are left after so many answers."""
        return [node for node in self.nodes if node.level == level and not node.pruned]


def tree(signals: int, steps: int, protocol: Protocol) -> Tree:
    """Build the tree of a regular or an incremental meter."""
    nodes = []
    for level in range(steps + 1):
        width = signals**level
        histories = itertools.product(range(1, signals + 1), repeat=level)
        for place, history in enumerate(histories):
            falls = any(later < first for first, later in itertools.pairwise(history))
            pruned = falls and protocol is Protocol.INCREMENTAL
            nodes.append(
                Node(
                    history=history,
                    x=(place + 0.5) / width,
                    pruned=pruned,
                    published=not pruned and level > 0,
                    distinct=not pruned and level < steps,
                )
            )
    title = f"{protocol.capitalize()} meter, m = {signals}, T = {steps}"
    return Tree(title, tuple(nodes))


def paper_trees() -> tuple[Tree, ...]:
    """Return the two trees of the paper's Figure 5."""
    return tree(2, 2, Protocol.REGULAR), tree(2, 2, Protocol.INCREMENTAL)
