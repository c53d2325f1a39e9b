"""A plain arena to compare with: one number for every example, where the lab counts them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Self

import numpy as np
from numpy.random import Generator

from easeml_meter.lab.simulation.worlds import (
    Cells,
    Flags,
    Floats,
    Integers,
    Models,
    World,
    grade_law,
)

Chances = dict[tuple[int, int], float]


class Bits(Cells):
    """The same as `Cells`, with one number for every example instead of counts; slow and plain."""

    def __init__(self, world: World, labels: int, sessions: int, rng: Generator) -> None:
        self.world, self.labels, self.rng = world, labels, rng
        self.grades: Integers = np.zeros((sessions, labels), dtype=np.int64)
        self.scores: Integers = np.zeros((sessions, labels), dtype=np.int64)
        self.laws: list[Chances] = [{(0, 0): 1.0}] * sessions
        self.begun = False

    @property
    def sessions(self) -> int:
        return len(self.grades)

    def fresh(self, loss: Floats | None = None, share: float | None = None) -> None:
        loss = np.full(self.sessions, self.world.loss) if loss is None else loss
        share = (self.world.share if share is None else share) if self.begun else 1.0
        self.begun = True
        law = grade_law(loss, self.world.grades)
        shape = self.grades.shape
        drawn = (self.rng.random(shape)[:, :, None] > np.cumsum(law, axis=1)[:, None, :-1]).sum(2)
        if share < 1:
            drawn = np.where(self.rng.random(shape) < share, drawn, self.grades)
        self.grades = drawn
        laws = []
        for old, row in zip(self.laws, law, strict=True):
            new = {key: (1 - share) * chance for key, chance in old.items()}
            for (_, score), chance in old.items():
                for grade, part in enumerate(row):
                    key = (grade, score)
                    new[key] = new.get(key, 0.0) + share * chance * float(part)
            laws.append(new)
        self.laws = laws

    def last(self) -> Models:
        true = [
            sum(grade * chance for (grade, _), chance in law.items()) / self.world.grades
            for law in self.laws
        ]
        return Models(self.grades.sum(axis=1), np.array(true), self.scale)

    def vote(self, weights: Integers) -> None:
        self.scores = self.scores + weights[:, None] * self.grades
        self.laws = [
            dict(_voted(law, weight))
            for law, weight in zip(self.laws, weights.tolist(), strict=True)
        ]

    def combined(self) -> Models:
        side = 1 if self.world.upward else -1
        target, units = self.world.target, []
        for scores, law in zip(self.scores, self.laws, strict=True):
            by_score: dict[int, float] = {}
            for (_, score), chance in law.items():
                by_score[side * score] = by_score.get(side * score, 0.0) + chance
            above = 0.0
            for cut in sorted(by_score, reverse=True):
                if above + by_score[cut] >= target:
                    break
                above += by_score[cut]
            at_cut = self.rng.random(self.labels) < (target - above) / by_score[cut]
            errs = (side * scores > cut) | ((side * scores == cut) & at_cut)
            units.append(int(errs.sum()) * self.world.grades)
        return Models(np.array(units), np.full(self.sessions, target), self.scale)

    def forget(self) -> None:
        self.scores = np.zeros_like(self.scores)
        self.laws = [dict(_forgotten(law)) for law in self.laws]

    def copy(self) -> Self:
        twin = type(self)(self.world, self.labels, self.sessions, self.rng)
        twin.grades, twin.scores, twin.laws = self.grades, self.scores, self.laws
        twin.begun = self.begun
        return twin

    def keep(self, rows: Flags, other: Cells) -> None:
        assert isinstance(other, Bits)
        self.grades = np.where(rows[:, None], other.grades, self.grades)
        self.scores = np.where(rows[:, None], other.scores, self.scores)
        triples = zip(rows.tolist(), other.laws, self.laws, strict=True)
        self.laws = [theirs if taken else ours for taken, theirs, ours in triples]


def _voted(law: Chances, weight: int) -> Iterator[tuple[tuple[int, int], float]]:
    for (grade, score), chance in law.items():
        yield (grade, score + weight * grade), chance


def _forgotten(law: Chances) -> Iterator[tuple[tuple[int, int], float]]:
    for grade in {key[0] for key in law}:
        yield (grade, 0), sum(chance for key, chance in law.items() if key[0] == grade)
