"""The 0-1 loss on a test set with a judge: an estimate from few labels and many words.

estimate(h) = mean over pool of l(h, judge) + mean over labels of (l(h, y) - l(h, judge)).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from easeml_meter.errors import invalid
from easeml_meter.scoring.classes import Classes
from easeml_meter.scoring.losses import Array, Loss, Output
from easeml_meter.spec import MeterSpec
from easeml_meter.tables.choosing import split

POOL = -1
"""The code in place of a label that is not there."""


@dataclass(frozen=True)
class Estimate:
    """Counts, of which the estimate is made."""

    labels: int = 0
    wrong: int = 0
    """Rows with a label that is not what was predicted."""
    contradicted: int = 0
    """Rows with a label where the judge said something else than the model."""
    pool: int = 0
    apart: int = 0
    """Rows of the pool where the judge said something else than the model."""

    def __add__(self, other: Estimate) -> Estimate:
        return Estimate(
            self.labels + other.labels,
            self.wrong + other.wrong,
            self.contradicted + other.contradicted,
            self.pool + other.pool,
            self.apart + other.apart,
        )

    def mean(self, _units: int) -> Fraction:
        """Return the estimated loss; the true one lies between 0 and 1, so this does, too."""
        corrected = Fraction(self.wrong - self.contradicted, self.labels)
        return min(max(Fraction(self.apart, self.pool) + corrected, Fraction(0)), Fraction(1))


@dataclass(frozen=True)
class Judged(Loss):
    """1 for a wrong class, estimated; labels come as pairs of codes, of label and judge."""

    zero_one: ClassVar[bool] = True
    judged: ClassVar[bool] = True
    name = "0-1"
    output = Output.CLASS

    @property
    def nothing(self) -> Estimate:
        """No rows."""
        return Estimate()

    def sums(self, predictions: Array, labels: Array) -> Estimate:
        """Count."""
        label, word = labels[:, 0], labels[:, 1]
        known = label != POOL
        apart = predictions != word
        return Estimate(
            labels=_count(known),
            wrong=_count(known & (predictions != label)),
            contradicted=_count(known & apart),
            pool=_count(~known),
            apart=_count(~known & apart),
        )

    def of_labels(self, labels: Array) -> Estimate:
        """Count labels alone, as if the judge were the model: `wrong` is how often it errs."""
        return self.sums(labels[:, 1], labels)

    def _losses(self, predictions: Array, labels: Array) -> Any:
        raise AssertionError("a row without a label has no loss")


def hidden_loss(loss: Loss, spec: MeterSpec) -> Loss:
    """Return the loss on the test set, which a judge makes another one than on visible rows."""
    return Judged() if spec.meter.sample.estimated else loss


def read_pairs(column: Any, classes: Classes) -> NDArray[Any]:
    """Return the codes of labels and words, side by side."""
    labels, words = split(column)
    codes = np.full((len(words), 2), POOL, np.int64)
    present = labels.is_valid()
    codes[present.to_numpy(zero_copy_only=False), 0] = classes.codes(labels.filter(present))
    codes[:, 1] = classes.codes(words)
    return codes


def judged_in(classes: Classes | None, columns: Iterable[Any]) -> Estimate:
    """Count the labels and the words of a test set: `wrong` is how often the judge errs."""
    if classes is None:
        raise invalid(
            "classes", "none", "a judge needs the class list: give the validation set first"
        )
    loss, total = Judged(), Estimate()
    for column in columns:
        total += loss.of_labels(read_pairs(column, classes))
    return total


def _count(flags: Array) -> int:
    return int(np.count_nonzero(flags))
