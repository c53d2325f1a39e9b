"""Running a submitted model, and the clock of its run on hidden rows.

A model could tell its developer about hidden rows by how long it takes. So a run on them takes as
long as was decided before it began: from how long the visible run took, which the developer knows.
It is ended when that time is up, and its answer leaves a fixed time later, whatever happened.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

from easeml_meter.conditions import Comparison
from easeml_meter.errors import invalid
from easeml_meter.scoring.executors import Executor, TooLate, open_executor
from easeml_meter.scoring.predictions import Content, Predictions
from easeml_meter.scoring.predictor import Limits, Predictor
from easeml_meter.scoring.running import (
    HiddenRows,
    ShardTask,
    VisibleRows,
    effort,
    imported,
    score_model,
)
from easeml_meter.scoring.score import Score, Unscorable
from easeml_meter.service.submissions.measuring import (
    LONGEST,
    Conditions,
    Losses,
    Measured,
    digest_of,
)

_SETTLING = 4.0
"""Seconds from the end of a hidden run to its answer: its memory and files take time to go."""

_MARGIN = 3.0
"""How much slower than the visible run the hidden one may be."""

_SHORTEST = 2.0


def model_identity(digest: str) -> str:
    """Return what a model with this digest is known by."""
    return digest_of(f"model|{digest}")


@dataclass(frozen=True)
class ModelAttempt:
    """A model that passed its checks."""

    predictor: Predictor
    kept: bytes = field(repr=False)
    suffix: str
    trusted: bool = False

    @property
    def identity(self) -> str:
        """What it predicts on hidden rows is not looked at."""
        return model_identity(self.predictor.digest)

    def content(self) -> bytes:
        """Return the bytes that are kept."""
        return self.kept

    @property
    def predictions(self) -> dict[str, Predictions]:
        """Return none."""
        return {}

    def compare(self, on: Measured, old: Content) -> Comparison | None:
        """Raise `InvalidInput`: a meter that compares takes predictions only."""
        raise invalid("submission", "a model", "only predictions are compared with an old model")

    def validation_loss(self, on: Measured) -> Fraction:
        """Run on the visible rows alone."""
        limits = Limits(seconds=on.conditions.seconds or on.conditions.visible_seconds)
        with on.open_validation() as table:
            hidden = HiddenRows.of(on.sealed, on.hidden_loss, on.classes, on.form)
            visible = VisibleRows.of(table, hidden.inputs)
            on.conditions.progress("running on the validation set", 0, visible.expected.rows)
            return score_model(self.predictor, visible, limits).mean

    def measure(self, on: Measured) -> Losses:
        """Run on the visible rows, then for a fixed time on the hidden ones."""
        conditions = on.conditions
        if conditions.hopeless:
            return Losses(None, None, of_model=True)
        with on.open_validation() as table, open_executor(conditions.executor) as executor:
            hidden = HiddenRows.of(on.sealed, on.hidden_loss, on.classes, on.form)
            visible = VisibleRows.of(table, hidden.inputs)
            found, seconds = self._visible(visible, hidden, executor, conditions)
            seen = found.mean
            conditions.reach(on)
            # How far it got would tell of the rows; the clock does not.
            conditions.progress("running on the test set", 0, seconds + _SETTLING)
            deadline = time.monotonic() + seconds
            test = self._hidden(hidden, deadline, executor)
        losses = Losses.of(seen, found, test, of_model=not self.trusted)
        if not self.trusted:
            # The wait comes last. How long a model ran, how it failed, and how long it took to end
            # it would otherwise add to the time that the developer can measure.
            _leave_after(deadline)
        return losses

    def _visible(
        self, rows: VisibleRows, hidden: HiddenRows, executor: Executor, conditions: Conditions
    ) -> tuple[Score, float]:
        """Run on the visible rows; decide how long the hidden run takes.

        Always in this process: another executor's speed is no measure.
        """
        started = time.monotonic()
        list(executor.map(imported, [None]))  # a worker that starts late would take hidden time
        reach = time.monotonic() - started
        limits = Limits(seconds=conditions.seconds or conditions.visible_seconds)

        def progress(done: int, total: int) -> None:
            conditions.progress("running on the validation set", done, total)

        progress(0, rows.expected.rows)
        started = time.monotonic()
        found = score_model(self.predictor, rows, limits, progress=progress)
        whole = time.monotonic() - started
        if conditions.seconds is not None:
            return found, conditions.seconds
        # The visible set may be much smaller than the hidden one. A run on a single row tells what
        # starting costs apart from what each row costs, so that only the latter is scaled up.
        started = time.monotonic()
        first = next(rows.inputs_of(range(1))).slice(0, 1)
        for _ in self.predictor.predict(rows.inputs, [first], limits, hidden=False):
            pass
        start_up = time.monotonic() - started
        return found, allotted(reach + estimated(whole, start_up, rows, hidden))

    def _hidden(self, rows: HiddenRows, deadline: float, executor: Executor) -> Score | None:
        """Run on the hidden rows; None if that fails, or is not done at the deadline.

        The deadline is one for all shards. Two guards keep it: each run is told to end by then,
        and the executor stops waiting then, for what no limit of a run reaches (reading answers,
        the loss, a worker that hangs).
        """

        def within(function: Callable[[Any], Any], tasks: Iterable[ShardTask]) -> Iterator[Any]:
            return executor.map(function, _hurried(tasks, deadline), until=deadline)

        map_function = executor.map if self.trusted else within
        try:
            return score_model(self.predictor, rows, Limits(), map_function=map_function)
        except (Unscorable, TooLate, SystemExit):
            return None


def _leave_after(deadline: float) -> None:
    """Wait a fixed time from the deadline on; in whole steps of it, should ending take longer."""
    steps = max(1, math.ceil((time.monotonic() - deadline) / _SETTLING))
    wait_until(deadline + steps * _SETTLING)


def wait_until(moment: float) -> None:
    """Wait; tests that do not look at the clock put something quicker in the place of this."""
    while (left := moment - time.monotonic()) > 0:
        time.sleep(left)


def _hurried(tasks: Iterable[ShardTask], deadline: float) -> Iterator[ShardTask]:
    """Allow each task what is left of the time when it starts."""
    for task in tasks:
        left = max(0.01, deadline - time.monotonic())
        yield replace(task, limits=replace(task.limits, seconds=left))


def estimated(whole: float, start_up: float, visible: VisibleRows, hidden: HiddenRows) -> float:
    """Return how many seconds the hidden rows should take, if the visible ones took `whole`.

    A model is started several times for each shard. Shards count as if they ran one after the
    other, although an executor may run several at a time: how many is not known before.
    """
    starts, rows = effort(visible)
    each = max(0.0, whole - start_up * starts) / rows
    starts, rows = effort(hidden)
    return start_up * starts + each * rows


def allotted(estimate: float) -> float:
    """Return the seconds for a run that should take `estimate`, with room to spare."""
    # Powers of two: the answer leaves when this time is up, so it is seen. Rounded so coarsely, it
    # hardly varies from run to run, and what varies is how busy this machine was on visible rows.
    wanted = max(_SHORTEST, _MARGIN * estimate + 1)
    return min(LONGEST, 2.0 ** math.ceil(math.log2(wanted)))


def model_score(predictor: Predictor, on: Measured) -> Score | None:
    """Return a model's losses on the test set, for its release: nothing is secret any more."""
    hidden = HiddenRows.of(on.sealed, on.hidden_loss, on.classes, on.form)
    try:
        return score_model(predictor, hidden, Limits(seconds=LONGEST), again=False)
    except (Unscorable, SystemExit):
        return None
