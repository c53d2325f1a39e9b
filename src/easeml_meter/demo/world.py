"""A made-up mail filter, and a developer who tunes it to the validation set without noticing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Numbers = NDArray[Any]

REAL, NOISE = 12, 300
"""Columns that say something about a mail, and columns that say nothing."""
_STRENGTH = 0.4
_TUNED_WEIGHT = 0.4


@dataclass(frozen=True)
class Mails:
    """Mails: what is known of each, and whether it is spam."""

    inputs: Numbers
    spam: Numbers

    @property
    def table(self) -> pa.Table:
        """The columns that mean something, some of them; all would only fill the disk."""
        columns = {f"column_{at}": self.inputs[:, at] for at in range(3)}
        return pa.table({**columns, "spam": self.spam})

    def error(self, filter_: Filter) -> float:
        """Return the share of mails that a filter gets wrong."""
        return float(np.mean(filter_.predict(self.inputs) != self.spam))


@dataclass(frozen=True)
class Filter:
    """A linear filter on some of the columns."""

    name: str
    columns: Numbers
    weights: Numbers

    def predict(self, inputs: Numbers) -> Numbers:
        """Return which mails are spam."""
        return (inputs[:, self.columns] @ self.weights > 0).astype(np.int64)


class MailWorld:
    """Draws mails: columns are independent given whether a mail is spam."""

    def __init__(self, seed: int = 3) -> None:
        self._rng = np.random.default_rng(seed)

    def draw(self, count: int) -> Mails:
        """Draw fresh mails."""
        spam = self._rng.integers(0, 2, count)
        inputs = self._rng.normal(size=(count, REAL + NOISE))
        inputs[:, :REAL] += _STRENGTH * (2 * spam[:, None] - 1)
        return Mails(inputs, spam)


def honest(train: Mails) -> Iterator[Filter]:
    """Yield filters that get better: more columns, weights from the training mails."""
    for count in (3, 6, REAL):
        yield _fitted(f"{count} good columns", train, np.arange(count))


def tuned(train: Mails, validation: Mails) -> Iterator[Filter]:
    """Yield filters with columns that happen to look good on the validation mails."""
    base = _fitted("", train, np.arange(REAL))
    weights = base.weights / np.abs(base.weights).mean()
    luck = (2 * validation.spam - 1) @ validation.inputs[:, REAL:] / len(validation.spam)
    best = np.argsort(-np.abs(luck))
    for count in (5, 15, 30, 50, 80):
        chosen = best[:count]
        yield Filter(
            f"{count} lucky columns",
            np.concatenate([base.columns, REAL + chosen]),
            np.concatenate([weights, _TUNED_WEIGHT * np.sign(luck[chosen])]),
        )


def _fitted(name: str, train: Mails, columns: Numbers) -> Filter:
    """Fit by least squares, with a little ridge."""
    inputs, target = train.inputs[:, columns], 2 * train.spam - 1
    weights = np.linalg.solve(inputs.T @ inputs + np.eye(len(columns)), inputs.T @ target)
    return Filter(name, columns, weights)
