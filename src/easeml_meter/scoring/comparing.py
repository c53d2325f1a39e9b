"""Two models on the same labels: where one is right and the other wrong, and where they differ."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from easeml_meter.conditions import Comparison
from easeml_meter.scoring.outputs import read_labels
from easeml_meter.scoring.predictions import Predictions
from easeml_meter.scoring.score import unscorable
from easeml_meter.scoring.silence import silence


def compare(new: Predictions, old: Predictions, label_groups: Iterable[Any]) -> Comparison:
    """Compare two models by a loss of 0 or 1, row group by row group.

    Raises:
        Unscorable: a label does not fit the loss.
    """
    groups = list(label_groups)
    sizes = [len(group) for group in groups]
    found: Comparison | None = None
    # Whatever goes wrong depends on labels, so it is not said, also not as the cause of an error.
    with suppress(Exception, SystemExit), silence():
        found = sum(_compared(new, old, groups, sizes), Comparison())
    if found is None:
        raise unscorable()
    return found


def differing(new: Predictions, old: Predictions) -> NDArray[np.bool_]:
    """Return on which rows two models predict different things."""
    (ours,), (theirs,) = new.batches([new.rows]), old.batches([old.rows])
    unlike = ours != theirs
    return np.asarray(unlike if unlike.ndim == 1 else unlike.any(axis=1), bool)


def compare_known(
    new: Predictions, old: Predictions, places: NDArray[np.int64], labels: Any
) -> Comparison:
    """Compare two models where the labels of some rows are known, those of `places`.

    Rows without one count as if both were right or both wrong: where they predict the same, so it
    is. If they differ on more rows than have labels, that is for the caller to see.

    Raises:
        Unscorable: a label does not fit the loss.
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


def losses_of(predictions: Predictions, label_groups: Iterable[Any]) -> NDArray[np.float64]:
    """Return the loss of every example: for a test set that is released, and no other.

    Raises:
        Unscorable: a label does not fit the loss.
    """
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
    new: Predictions, old: Predictions, groups: list[Any], sizes: list[int]
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
