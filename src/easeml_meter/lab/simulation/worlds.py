"""Worlds: hidden test sets and models whose true loss is known, drawn as counts over cells.

A test set matters only through how many of its examples lie in each *cell*: examples on which the
last fresh model has the same loss, and which got the same score from all models voted for so far.
Given those counts, a new model splits every cell by a binomial draw. So a session of T models
costs some T^2 draws instead of n T, whatever n is, and has exactly the law of n separate examples
(a test holds it against those).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from easeml_meter.errors import invalid
from easeml_meter.promise.meter import Meter

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

WORLDS = ("coins", "correlated", "graded")
_EDGE = 1e-7
"""How far, as a share of eps, a true loss stands beyond where one more error breaks the promise."""


@dataclass(frozen=True)
class World:
    """How models err: their true losses, what one shares with the next, the grades of a loss."""

    loss: float
    """The true loss of a fresh model."""
    target: float
    """The true loss of a model that combines what was learnt."""
    upward: bool = True
    """Whether combined models try to look worse on the test set than they are, or better."""
    share: float = 1.0
    """The share of predictions that are drawn anew from one fresh model to the next."""
    grades: int = 1
    """The loss of an example is one of 0, 1/grades, ..., 1; with one grade, 0 or 1."""

    def __post_init__(self) -> None:
        for name in ("loss", "target"):
            value = getattr(self, name)
            if not (math.isfinite(value) and 0 < value < 1):
                raise invalid("true loss", value, "a number between 0 and 1 (both excluded)")
        if not (math.isfinite(self.share) and 0 < self.share <= 1):
            raise invalid("share", self.share, "a share above 0, up to 1")

    @property
    def spread(self) -> float:
        """The standard deviation of a fresh model's loss on one example."""
        law = grade_law(np.array([self.loss]), self.grades)[0]
        values = np.arange(self.grades + 1) / self.grades
        return float(np.sqrt(law @ (values - self.loss) ** 2))


@dataclass(frozen=True)
class Models:
    """One model for each session: `units / scale` is its loss on the test set."""

    units: Integers
    true: Floats
    """Its true loss."""
    scale: int

    @property
    def test(self) -> Floats:
        """The losses on the test sets."""
        return self.units / self.scale


def world_of(
    meter: Meter,
    labels: int,
    kind: str | None = None,
    *,
    loss: float | None = None,
    share: float | None = None,
) -> World:
    """Build the world of this kind in which the promise is hardest to keep, unless told a loss.

    One model's test loss is the least certain for a true loss of one half. With a ceiling c, the
    model to fear has a true loss of c + eps and looks as if it stayed below c; others ask with
    models at the ceiling, where one answer more can be had.
    """
    if kind is None:
        kind = "coins" if meter.sample.zero_one else "graded"
    if kind not in WORLDS:
        raise invalid("world", kind, f"one of {', '.join(WORLDS)}")
    if kind == "graded" and meter.sample.zero_one:
        allowed = f'needs a loss such as "brier" in the specification, not "{meter.sample.loss}"'
        raise invalid("world", kind, allowed)
    if share is not None and kind != "correlated":
        raise invalid("share", share, "only for the correlated world")
    grades = 4 if kind == "graded" else 1
    kept = 1.0 if kind != "correlated" else 0.3 if share is None else share
    if loss is not None:
        return World(loss, loss, share=kept, grades=grades)
    question = meter.question
    eps, limit = float(question.tolerances[0]), question.limit
    ceiling = 1.0 if limit is None else float(limit)
    if ceiling + eps < 0.5:
        worst = math.floor(ceiling * labels + 1e-9) / labels + eps * (1 + _EDGE)
        return World(ceiling, worst, upward=False, share=kept, grades=grades)
    middle = 0.5 if eps <= 0.25 else (1 - eps) / 2
    aligned = math.ceil((middle + eps) * labels) / labels - eps * (1 + _EDGE)
    worst = aligned if 0 < aligned < 1 else middle
    return World(worst, worst, share=kept, grades=grades)


def grade_law(loss: Floats, grades: int) -> Floats:
    """Return the probabilities of the grades 0..grades for models of these true losses.

    A coin with one grade. With more, the number of heads in `grades` throws of a coin whose own
    bias is drawn for each example from a beta distribution of weight 1 and mean `loss`.
    """
    if grades == 1:
        return np.stack([1 - loss, loss], axis=-1)
    columns = []
    for heads in range(grades + 1):
        tails = grades - heads
        product = np.full_like(loss, float(math.comb(grades, heads)))
        for i in range(heads):
            product *= loss + i
        for i in range(tails):
            product *= 1 - loss + i
        columns.append(product / math.factorial(grades))
    return np.stack(columns, axis=-1)


class Cells:
    """Many test sets at once, each known by the counts of its examples over cells.

    Axes of the two arrays: session, grade of the last fresh model, score. `chances` are the true
    probabilities of the cells, so the true loss of every model built from them is known.
    """

    def __init__(self, world: World, labels: int, sessions: int, rng: Generator) -> None:
        self.world, self.labels, self.rng = world, labels, rng
        self.counts: Integers = np.full((sessions, 1, 1), labels, dtype=np.int64)
        self.chances: Floats = np.ones((sessions, 1, 1))

    @property
    def sessions(self) -> int:
        """The number of test sets."""
        return len(self.counts)

    @property
    def scale(self) -> int:
        """Losses on the test set are whole multiples of 1 / scale."""
        return self.labels * self.world.grades

    def fresh(self, loss: Floats | None = None, share: float | None = None) -> None:
        """Draw a new model for every session; a share of its predictions is new."""
        world = self.world
        loss = np.full(self.sessions, world.loss) if loss is None else loss
        share = world.share if share is None else share
        law = grade_law(loss, world.grades)
        if self.counts.shape[1] == 1 or share == 1:
            self.counts = self._graded(self.counts.sum(axis=1), law)
            self.chances = self.chances.sum(axis=1)[:, None, :] * law[:, :, None]
            return
        redrawn = self.rng.binomial(self.counts, share)
        self.counts = self.counts - redrawn + self._graded(redrawn.sum(axis=1), law)
        moved = self.chances.sum(axis=1)[:, None, :] * law[:, :, None]
        self.chances = (1 - share) * self.chances + share * moved

    def _graded(self, pool: Integers, law: Floats) -> Integers:
        """Split the examples of every score by the new model's grade."""
        found = np.zeros((len(pool), law.shape[1], pool.shape[1]), dtype=np.int64)
        used = np.flatnonzero(pool.any(axis=0))
        inside = slice(used[0], used[-1] + 1) if len(used) else slice(0, 0)
        rest, left = pool[:, inside], np.ones(len(pool))
        for grade in range(law.shape[1] - 1, 0, -1):
            chance = np.clip(law[:, grade] / np.maximum(left, 1e-300), 0, 1)
            found[:, grade, inside] = self.rng.binomial(rest, chance[:, None])
            rest = rest - found[:, grade, inside]
            left = left - law[:, grade]
        found[:, 0, inside] = rest
        return found

    def last(self) -> Models:
        """Return the last fresh models."""
        grades = np.arange(self.counts.shape[1])
        units = np.einsum("sgv,g->s", self.counts, grades)
        true = np.einsum("sgv,g->s", self.chances, grades) / self.world.grades
        return Models(units, true, self.scale)

    def vote(self, weights: Integers) -> None:
        """Add the last fresh model's grade, times a weight for each session, to the scores."""
        grades, width = self.counts.shape[1:]
        low = min(0, int(weights.min())) * (grades - 1)
        high = max(0, int(weights.max())) * (grades - 1)
        counts = np.zeros((self.sessions, grades, width + high - low), dtype=np.int64)
        chances = np.zeros(counts.shape)
        for weight in np.unique(weights):
            rows = np.flatnonzero(weights == weight)
            for grade in range(grades):
                start = grade * int(weight) - low
                counts[rows, grade, start : start + width] = self.counts[rows, grade]
                chances[rows, grade, start : start + width] = self.chances[rows, grade]
        self.counts, self.chances = counts, chances

    def combined(self) -> Models:
        """Return the models that err where the scores say it hurts most.

        They err on the cells of the highest scores (or the lowest, to look better than they are),
        and on a random share of the last one, so that the true loss is the world's target.
        """
        counts, chances = self.counts.sum(axis=1), self.chances.sum(axis=1)
        if not self.world.upward:
            counts, chances = counts[:, ::-1], chances[:, ::-1]
        above = np.cumsum(chances[:, ::-1], axis=1)[:, ::-1]  # mass of a cell and all above it
        target = self.world.target
        cell = np.maximum((above >= target).sum(axis=1) - 1, 0)
        rows = np.arange(self.sessions)
        beyond = np.where(np.arange(counts.shape[1]) > cell[:, None], counts, 0).sum(axis=1)
        share = (target - (above[rows, cell] - chances[rows, cell])) / chances[rows, cell]
        partly = self.rng.binomial(counts[rows, cell], np.clip(share, 0, 1))
        units = (beyond + partly) * self.world.grades
        return Models(units, np.full(self.sessions, target), self.scale)

    def forget(self) -> None:
        """Forget all scores."""
        self.counts = self.counts.sum(axis=2, keepdims=True)
        self.chances = self.chances.sum(axis=2, keepdims=True)

    def copy(self) -> Self:
        """Copy; the copy draws from the same generator."""
        twin = type(self)(self.world, self.labels, self.sessions, self.rng)
        twin.counts, twin.chances = self.counts, self.chances
        return twin

    def keep(self, rows: Flags, other: Self) -> None:
        """Take the cells of these sessions from another state of the same test sets."""
        where = rows[:, None, None]
        self.counts = np.where(where, other.counts, self.counts)
        self.chances = np.where(where, other.chances, self.chances)
