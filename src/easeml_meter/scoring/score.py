"""The loss of predictions on labels that come row group by row group; two models compared there.

Each row group is a task of its own that gives a whole number, the exact sum of its losses. Whole
numbers add up to the same in any order, so a process pool, a cluster and a plain loop agree to the
bit. A task reads its labels itself: with another executor they exist where the task runs, and only
while it runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from easeml_meter.conditions import Comparison
from easeml_meter.errors import MeterError
from easeml_meter.scoring.classes import Classes
from easeml_meter.scoring.columns import ColumnForm
from easeml_meter.scoring.losses import MOST_ROWS, UNIT, Loss, Sums
from easeml_meter.scoring.outputs import Expected, read_labels
from easeml_meter.scoring.predictions import Content
from easeml_meter.scoring.silence import silence
from easeml_meter.tables.groups import LARGEST, Clusters, Strata

_SLICE_ROWS = min(1 << 17, MOST_ROWS)
_SLICE_VALUES = 1 << 20


class Unscorable(MeterError):
    """A label does not fit the loss, or the loss or the model failed on hidden rows.

    Which one, and where, depends on those rows, so it is not said. This is an answer ("no
    reading"), to be booked like any other.
    """


def unscorable() -> Unscorable:
    """Say the same of every failure.

    To be raised after the failure was handled, not while it is: a cluster sends the context of an
    error along, whether it is shown or not.
    """
    return Unscorable("no reading: the hidden rows cannot be scored with this model and this loss")


class InStep(Protocol):
    """Predictions that are handed out in step with row groups of labels."""

    @property
    def expected(self) -> Expected:
        """What was checked."""

    def batches(self, sizes: Iterable[int]) -> Iterator[NDArray[Any]]:
        """Yield, for each size, that many next predictions."""


MapFunction = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]


@dataclass(frozen=True)
class Score:
    """The sums of losses over `count` examples, in whole units."""

    sums: Any
    """`Sums`, or what else the loss sums up to: something with a mean."""
    count: int
    unit: int = 1
    """How many units make a loss of 1."""

    @property
    def mean(self) -> Fraction:
        """The mean loss, exactly."""
        found: Fraction = self.sums.mean(self.count * self.unit)
        return found

    @property
    def counted(self) -> int:
        """What the mean is counted of: all examples, or of a score such as precision fewer."""
        return int(getattr(self.sums, "counted", self.count))

    def beside(self, visible: Score) -> Score:
        """Return it as it is told, given that on the validation set, which most losses ignore."""
        found = getattr(self.sums, "beside", None)
        return self if found is None else replace(self, sums=found(visible.sums))


@dataclass(frozen=True)
class LossTotals:
    """The losses of some rows, added up cluster by cluster, in units of 1/UNIT.

    Only of clusters that have such a row: of 10^7 clusters, a row group has few.
    """

    codes: NDArray[np.int64] = field(repr=False)
    values: NDArray[Any] = field(repr=False)

    @classmethod
    def of(cls, clusters: Clusters, units: Iterable[NDArray[np.int64]]) -> LossTotals:
        """Add up the losses of rows, given in slices, by the clusters of these rows."""
        codes, places = np.unique(clusters.codes, return_inverse=True)
        # So many losses fit into 63 bits; of a stratum there may be more.
        kind = np.int64 if len(clusters.codes) <= LARGEST else object
        totals, row = np.zeros(len(codes), kind), 0
        for each in units:
            np.add.at(totals, places[row : row + len(each)], each)
            row += len(each)
        return cls(codes, totals)

    @staticmethod
    def score(totals: Iterable[LossTotals], clusters: Clusters) -> Score:
        """Return the score of all rows: the loss of one example is the mean of a cluster.

        Strata are no examples: their means are added up by their weights.
        """
        values = np.zeros(clusters.count, object if isinstance(clusters, Strata) else np.int64)
        for each in totals:
            values[each.codes] += each.values
        if isinstance(clusters, Strata):
            return Score(Weighed(clusters.weighed(values) / UNIT), len(clusters.codes))
        return Score(Sums(_exact_sum(clusters.means(values))), clusters.count, UNIT)


@dataclass(frozen=True)
class Weighed:
    """The loss of a test set with strata: the sum of weight times mean loss."""

    loss: Fraction

    def mean(self, _units: int) -> Fraction:
        """Return it."""
        return self.loss


def _exact_sum(units: NDArray[np.int64]) -> int:
    """Add up values of at most UNIT: each piece fits into 63 bits, all together need not."""
    starts = range(0, len(units), MOST_ROWS)
    return sum(int(units[at : at + MOST_ROWS].sum()) for at in starts)


@dataclass(frozen=True)
class Task:
    """One row group; everything in it can be sent to another process."""

    loss: Loss
    classes: Classes | None
    predictions: NDArray[Any] = field(repr=False)
    labels: Any = field(repr=False)
    first_row: int
    revealed: bool
    form: ColumnForm | None
    clusters: Clusters | None = field(default=None, repr=False)
    """The clusters of these rows, numbered as in the whole set."""

    def total(self) -> Any:
        """Sum up the losses of this row group, in units of the loss, or cluster by cluster."""
        group = self.labels.read() if hasattr(self.labels, "read") else self.labels
        if len(group) != len(self.predictions):
            raise ValueError(f"{len(group)} labels for {len(self.predictions)} predictions")
        if not len(group):
            return self.loss.nothing if self.clusters is None else LossTotals.of(self.clusters, [])
        try:
            with nullcontext() if self.revealed else silence():
                return self._total_on(group)
        except (Exception, SystemExit):  # whatever it is, it depends on labels
            if self.revealed:
                raise
        raise unscorable() from None

    def _total_on(self, group: Any) -> Any:
        labels = read_labels(
            group,
            self.loss,
            self.classes,
            form=self.form,
            first_row=self.first_row,
            known_only=self.revealed,
            secret=not self.revealed,
        )
        if self.clusters is not None:
            slices = _slices(self.predictions, len(labels))
            units = (self.loss.units(self.predictions[each], labels[each]) for each in slices)
            return LossTotals.of(self.clusters, units)
        return total_loss(self.loss, self.predictions, labels)


def total_loss(loss: Loss, predictions: NDArray[Any], labels: NDArray[Any]) -> Any:
    """Sum up the losses of any number of examples, a slice at a time."""
    slices = _slices(predictions, len(labels))
    return sum((loss.sums(predictions[each], labels[each]) for each in slices), loss.nothing)


def _slices(predictions: NDArray[Any], rows: int) -> Iterator[slice]:
    """Cut rows into slices that take little memory while their losses are computed."""
    width = max(1, predictions[:1].size)
    size = max(1, min(_SLICE_ROWS, _SLICE_VALUES // width))
    return (slice(at, at + size) for at in range(0, rows, size))


def score(
    predictions: InStep,
    label_groups: Iterable[Any],
    *,
    map_function: MapFunction = map,
    revealed: bool = False,
    clusters: Clusters | None = None,
) -> Score:
    """Score checked predictions on labels, row group by row group.

    A group is an array, or has a length and a method `read` that returns one and is called only
    inside its task. `map_function` is `map` or the `map` of any executor. `revealed`: the labels
    are the developer's own, so errors may say which row was wrong; otherwise every failure is the
    same `Unscorable`. `clusters`: those of all rows, where one example is a cluster.
    """
    expected = predictions.expected
    count = 0
    groups: list[Any] = []

    def sizes() -> Iterator[int]:
        for group in label_groups:
            groups.append(group)
            yield len(group)

    def tasks() -> Iterator[Task]:
        nonlocal count
        for batch in predictions.batches(sizes()):
            group = groups.pop()
            loss, classes, form = expected.loss, expected.classes, expected.form
            here = None if clusters is None else clusters.part(count, count + len(batch))
            yield Task(loss, classes, batch, group, count + 1, revealed, form, here)
            count += len(batch)

    totals = map_function(Task.total, tasks())
    if clusters is not None:
        found = LossTotals.score(totals, clusters)
    else:
        found = Score(sum(totals, expected.loss.nothing), count, expected.loss.unit)
    if count != expected.rows:
        raise ValueError(f"{count} labels for {expected.rows} predictions")
    return found


def compare(new: Content, old: Content, label_groups: Iterable[Any]) -> Comparison:
    """Compare two models by a loss of 0 or 1, row group by row group."""
    groups = list(label_groups)
    sizes = [len(group) for group in groups]
    found: Comparison | None = None
    # Whatever goes wrong depends on labels, so it is not said, also not as the cause of an error.
    with suppress(Exception, SystemExit), silence():
        found = sum(_compared(new, old, groups, sizes), Comparison())
    if found is None:
        raise unscorable()
    return found


def differing(new: Content, old: Content) -> NDArray[np.bool_]:
    """Return on which rows two models predict different things."""
    (ours,), (theirs,) = new.batches([new.rows]), old.batches([old.rows])
    unlike = ours != theirs
    return np.asarray(unlike if unlike.ndim == 1 else unlike.any(axis=1), bool)


def compare_known(new: Content, old: Content, places: NDArray[np.int64], labels: Any) -> Comparison:
    """Compare two models where the labels of some rows are known, those of `places`.

    Rows without one count as if both were right or both wrong: where they predict the same, so it
    is. If they differ on more rows than have labels, that is for the caller to see.
    """
    found: Comparison | None = None
    with suppress(Exception, SystemExit), silence():
        expected = new.expected
        codes = read_labels(labels, expected.loss, expected.classes, form=expected.form)
        (ours,), (theirs,) = new.batches([new.rows]), old.batches([old.rows])
        both = ours[places], theirs[places]
        wrong, before = (np.asarray(expected.loss(each, codes), bool) for each in both)
        found = Comparison(
            rows=new.rows,
            gained=int(np.count_nonzero(before & ~wrong)),
            lost=int(np.count_nonzero(wrong & ~before)),
            differing=int(np.count_nonzero(differing(new, old))),
        )
    if found is None:
        raise unscorable()
    return found


def losses_of(predictions: Content, label_groups: Iterable[Any]) -> NDArray[np.float64]:
    """Return the loss of every example: for a test set that is released, and no other."""
    groups, expected = list(label_groups), predictions.expected
    found: list[NDArray[np.float64]] = []
    with suppress(Exception, SystemExit), silence():
        batches = predictions.batches([len(group) for group in groups])
        for group, values in zip(groups, batches, strict=True):
            labels = read_labels(group, expected.loss, expected.classes, form=expected.form)
            found.append(np.asarray(expected.loss(values, labels), np.float64))
    if len(found) != len(groups):
        raise unscorable()
    return np.concatenate([*found, np.empty(0)])


def _compared(
    new: Content, old: Content, groups: list[Any], sizes: list[int]
) -> Iterator[Comparison]:
    expected, first = new.expected, 1
    for group, ours, theirs in zip(groups, new.batches(sizes), old.batches(sizes), strict=True):
        labels = read_labels(
            group,
            expected.loss,
            expected.classes,
            form=expected.form,
            first_row=first,
            known_only=False,
            secret=True,
        )
        wrong, before = (np.asarray(expected.loss(each, labels), bool) for each in (ours, theirs))
        unlike = ours != theirs
        yield Comparison(
            rows=len(labels),
            gained=int(np.count_nonzero(before & ~wrong)),
            lost=int(np.count_nonzero(wrong & ~before)),
            differing=int(np.count_nonzero(unlike if unlike.ndim == 1 else unlike.any(axis=1))),
        )
        first += len(labels)
