"""Two meters that differ in nothing but the labels of their test sets, and one developer of both.

How the developer acts (by commands, over HTTP, with a browser) is up to the test.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, TypeVar
from unittest import mock

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from tests.service.helpers import Labels, condition_spec, small_spec

from easeml_meter.spec import MeterSpec
from easeml_meter.vault.draws import Draws

ROWS = 64
INPUTS_SEED = 5

Action = tuple[str, Any]

guesses = st.lists(st.integers(0, 1), min_size=ROWS, max_size=ROWS)
patient = settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


@dataclass(frozen=True)
class Story:
    """Two test sets, a meter, and what its developer does."""

    labels: list[int]
    flips: list[int]
    todo: list[Action]
    protocol: str
    ceiling: float | None
    elastic: bool
    drawn: bool
    condition: str | None = None
    mixed: bool = False

    @property
    def spec(self) -> MeterSpec:
        """Bands so wide that the two often agree though their losses differ."""
        if self.condition is not None:
            return condition_spec(steps=3, passes=1, inputs="public", question=self.condition)
        if self.mixed:
            also = {"also": ("n > 0.5 +/- 0.25", "n - o at 0 +/- 0.45"), "disagreement": 0.9}
            return small_spec(signals=2, edges=[0.4], steps=3, inputs="public", **also)
        if self.drawn:
            above = None if self.ceiling is None else 1
            drawn = {"signals": 1, "edges": [], "drawn": 0.5, "above": above}
            return small_spec(steps=3, inputs="public", ceiling=self.ceiling, **drawn)
        return small_spec(
            signals=2,
            edges=[0.4],
            steps=3,
            inputs="public",
            protocol=self.protocol,
            ceiling=self.ceiling,
            elastic=self.elastic,
        )

    @property
    def both(self) -> tuple[Labels, Labels]:
        """The labels of the two test sets."""
        first = np.array(self.labels)
        second = first.copy()
        second[self.flips] ^= 1
        return first, second


def one_secret() -> AbstractContextManager[object]:
    """Seal test sets with one secret: edges are drawn alike on both sides."""
    return mock.patch.object(Draws, "published", return_value="07" * 32)


Told = TypeVar("Told", bound=Story)


def stories(
    kind: type[Told],
    *more: st.SearchStrategy[Action],
    validation: int,
    bad: Sequence[str],
    looks: Sequence[str],
) -> st.SearchStrategy[Told]:
    """Draw stories with a validation set of so many rows, bad submissions, and looks around."""
    actions = st.one_of(
        st.tuples(st.just("submit"), st.tuples(guesses, st.integers(0, validation))),
        st.tuples(st.just("check"), st.tuples(guesses, st.integers(0, validation))),
        st.tuples(st.just("repeat"), st.none()),
        st.tuples(st.just("bad"), st.sampled_from(bad)),
        st.tuples(st.just("validation"), st.integers(10, 13)),
        st.tuples(st.just("look"), st.sampled_from(looks)),
        *more,
    )
    return st.builds(
        kind,
        labels=guesses,
        flips=st.lists(st.integers(0, ROWS - 1), max_size=6),
        todo=st.lists(actions, min_size=1, max_size=7),
        protocol=st.sampled_from(["regular", "incremental"]),
        ceiling=st.sampled_from([None, 0.6]),
        elastic=st.booleans(),
        drawn=st.booleans(),
        condition=st.sampled_from([None, None, "n > 0.5 +/- 0.2", "n - o > 0 +/- 0.3"]),
        mixed=st.sampled_from([False, False, True]),
    )
