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
import pyarrow as pa
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from tests.service.helpers import Labels, condition_spec, rows, small_spec

from easeml_meter.spec import MeterSpec
from easeml_meter.tables.choosing import NO_LABEL, joined
from easeml_meter.vault.draws import Draws

ROWS = 64
INPUTS_SEED = 5
POOL = 24
"""How many of the rows, the last ones, have the word of a judge alone."""
AVERAGES = ("balanced-accuracy", "macro-recall", "macro-f1", "weighted[0.4,0.6]")
SCORES = ("recall[1]", "precision[1]", "f1[1]", "auc[1]", "roc[1]", *AVERAGES)
JUDGE = "a judge"
STRATA = "strata"

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
    drawn: bool
    condition: str | None = None
    measured: str | None = None
    """A score of the whole test set, a judge or strata, in place of the 0-1 loss."""

    @property
    def spec(self) -> MeterSpec:
        """Bands so wide that the two often agree though their losses differ."""
        if self.measured is not None:
            return measured_spec(self.measured)
        if self.condition is not None:
            if self.condition == "alarm":
                alarm = {"labels": ROWS, "alarms": 2, "delta": 0.25}
                return condition_spec(steps=3, inputs="public", question=self.condition, **alarm)
            return condition_spec(steps=3, passes=1, inputs="public", question=self.condition)
        if self.drawn:
            return small_spec(steps=3, inputs="public", signals=1, edges=[], drawn=0.5)
        return small_spec(
            signals=2,
            edges=[0.4],
            steps=3,
            inputs="public",
            protocol=self.protocol,
            ceiling=self.ceiling,
        )

    @property
    def both(self) -> tuple[Labels, Labels]:
        """The labels of the two test sets."""
        first, flips = np.array(self.labels), np.array(self.flips, dtype=np.int64)
        if self.measured == JUDGE:  # who is right about nearly all of both
            first, flips = _words(), flips % (ROWS - POOL)
        elif self.measured is not None:  # enough of every class, so that both can be sealed
            first[:48], flips = np.arange(48) % 2, 48 + flips % 16
        second = first.copy()
        second[flips] ^= 1
        return first, second


def measured_spec(measured: str) -> MeterSpec:
    """Give a meter of a score of the whole test set, or with a judge."""
    usual = {"signals": 2, "edges": [0.4], "steps": 3, "inputs": "public"}
    if measured == JUDGE:
        judge = {"judge_error": 0.3, "rows": ROWS - POOL, "pool": POOL, "tolerance": 0.6}
        return small_spec(**usual, **judge)
    if measured == STRATA:
        parts = {"stratum": "part", "strata": ["a", "b"], "weights": [0.75, 0.25]}
        return small_spec(**usual, **parts, sizes=[ROWS // 2, ROWS // 2], tolerance=0.35)
    return small_spec(**usual, loss=measured, rows=ROWS, tolerance=0.35)


def visible_rows(spec: MeterSpec, labels: Labels, *, seed: int) -> pa.Table:
    """Give rows with the stratum of each, where the meter has strata: every other one."""
    table = rows(labels, seed=seed)
    if not spec.stratified:
        return table
    return table.append_column("part", pa.array(np.array(["a", "b"])[np.arange(len(labels)) % 2]))


def hidden_rows(spec: MeterSpec, labels: Labels) -> pa.Table:
    """Give the rows of a test set; where there is a judge, its words beside the labels."""
    table = visible_rows(spec, labels, seed=INPUTS_SEED)
    if not spec.judged:
        return table
    known = pa.array(labels, mask=np.arange(ROWS) >= ROWS - POOL)
    return table.set_column(3, "label", known).append_column("judge", pa.array(_words()))


def sealed_rows(spec: MeterSpec, labels: Labels) -> pa.Table:
    """Give the same rows as they are sealed."""
    table = hidden_rows(spec, labels)
    if spec.on_demand:
        return table.set_column(3, NO_LABEL, pa.array(np.zeros(len(labels), dtype=np.int8)))
    if not spec.judged:
        return table
    both = joined(table["label"], table["judge"])
    return table.set_column(3, "label", both).drop_columns(["judge"])


def _words() -> Labels:
    """What the judge says, whose words are the same on both sides."""
    return np.arange(ROWS) % 2


def predicted(spec: MeterSpec, guess: Labels, salt: str = "") -> pa.Table:
    """Give predictions as the meter's loss takes them: classes, or probabilities."""
    columns: dict[str, Any] = {"id": np.arange(len(guess))}
    if spec.loss.startswith(("auc", "roc")):
        chance = 0.25 + guess / 2
        columns |= {"probability_0": 1 - chance, "probability_1": chance}
    else:
        columns["prediction"] = guess
    return pa.table(columns).replace_schema_metadata({"salt": salt})


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
        drawn=st.booleans(),
        condition=st.sampled_from(
            [None, None, "n > 0.5 +/- 0.2", "n - o > 0 +/- 0.3", "alarm"],
        ),
        measured=st.sampled_from([None, None, None, *SCORES, JUDGE, STRATA]),
    )


def measured_story(kind: type[Told], measured: str, looks: Sequence[str] = ()) -> Told:
    """Tell of two test sets with other scores and the same answers, and of a look around."""
    flips, half = [0, 3, 4], np.arange(ROWS) % 2
    # Close to the truth, far from it, and with no positive at all, which has no precision.
    guesses = [half, np.where(np.arange(ROWS) < 12, half, 1 - half), 0 * half]
    todo: list[Action] = [("check", (guesses[0].tolist(), 1))]
    todo += [("submit", (guess.tolist(), 1)) for guess in guesses]
    todo += [("repeat", None), *(("look", look) for look in looks)]
    return kind(half.tolist(), flips, todo, "regular", None, drawn=False, measured=measured)
