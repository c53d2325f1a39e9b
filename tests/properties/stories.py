"""Two meters that differ in nothing but the labels of their test sets, and one developer of both.

How the developer acts (by commands, over HTTP, with a browser) is up to the test.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from tests.service.helpers import Labels, small_spec

from easeml_meter.spec import MeterSpec

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

    @property
    def spec(self) -> MeterSpec:
        """Bands so wide that the two often agree though their losses differ."""
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
    )
