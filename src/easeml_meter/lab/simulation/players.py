"""What all simulated developers can do: hand in fresh models, ask about them, combine them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from statistics import NormalDist

import numpy as np

from easeml_meter.lab.meters import gap_of
from easeml_meter.lab.simulation.arena import Arena, TreeNode, answer_to
from easeml_meter.lab.simulation.worlds import Cells, Flags, Floats, Integers, Models
from easeml_meter.promise.bands import DRAWS
from easeml_meter.promise.ledger import Snapshot, most_answers
from easeml_meter.promise.meter import Meter
from easeml_meter.vault.draws import Draws

_POINTS = 32
QUANTILES = tuple(NormalDist().inv_cdf((i + 0.5) / _POINTS) for i in range(_POINTS))
"""Deviations of a test loss from its true value, in standard deviations, all equally likely."""
_MOST_EDGES = 8


@dataclass(frozen=True)
class SimulatedQuestion:
    """A validation loss, and what is learnt from each answer.

    The developer owns the validation set, so the validation loss it reports can be anything in
    [0, 1], and with it the edges of the bands cut the test loss anywhere. A question is found by
    asking the meter's own rules, so it works under any protocol.
    """

    validation: float
    told: dict[int, float]
    """For each answer, the mean deviation of the test loss."""
    kept: dict[int, tuple[float, ...]]
    """For each answer, the deviations still possible."""

    @classmethod
    def of(cls, validation: float, groups: Mapping[int, Sequence[float]]) -> SimulatedQuestion:
        """Return a question from the deviations that lead to each answer."""
        told = {answer: math.fsum(group) / len(group) for answer, group in groups.items()}
        return cls(validation, told, {answer: tuple(group) for answer, group in groups.items()})


def best_question(
    meter: Meter,
    told: int,
    loss: float,
    deviation: float,
    *,
    possible: tuple[float, ...] = QUANTILES,
    rare: float = 0.5,
) -> SimulatedQuestion:
    """Find the question whose answer tells the most about a model of this true loss.

    The most is the largest mean square of what is learnt: that is what a combination of many models
    gains. Less than one half for `rare` pays if unusual signals are dear: then at most that share
    of the deviations still possible gets one.
    """
    best, best_value = SimulatedQuestion(loss, {}, {}), -math.inf
    usual = told + 1
    most = len(possible) if rare >= 0.5 else round(rare * len(possible))
    for validation in _places(meter, loss, deviation, possible, rare):
        groups: dict[int, list[float]] = {}
        for z in possible:
            test = min(1.0, max(0.0, loss + z * deviation))
            answer = answer_to(meter, told, validation, test)
            groups.setdefault(answer, []).append(z)
        if sum(len(group) for answer, group in groups.items() if 0 < answer != usual) > most:
            continue
        found = SimulatedQuestion.of(validation, groups)
        value = math.fsum(len(groups[answer]) * mean**2 for answer, mean in found.told.items())
        if value > best_value + 1e-9:
            best, best_value = found, value
    return best


def understood(
    validation: float,
    gap: tuple[float, float] | None,
    loss: float,
    deviation: float,
    *,
    answer: int,
) -> SimulatedQuestion:
    """Return what was told once its drawn edges are known, which nobody could know before."""
    tests = {z: min(1.0, max(0.0, loss + z * deviation)) for z in QUANTILES}
    left: list[float] = []
    if answer > 0 and gap is not None:
        low, high = gap
        left = [z for z, test in tests.items() if low <= abs(test - validation) < high]
    return SimulatedQuestion.of(validation, {answer: left} if left else {})


def _places(
    meter: Meter, loss: float, deviation: float, possible: tuple[float, ...], rare: float
) -> Iterator[float]:
    """Yield validation losses that put an edge of the bands where it cuts off such a share.

    If any share will do, also at the quarters: a ceiling or a second edge may cut in the middle.
    """
    yield loss
    inner = list(map(float, gap_of(meter).all_edges))
    edges = inner[:: math.ceil(len(inner) / _MOST_EDGES)] if inner else []
    shares = (rare, 1 - rare) if rare < 0.5 else (0.5, 0.25, 0.75)
    for share in shares:
        index = round(share * len(possible))
        if 0 < index < len(possible):
            cut = loss + deviation * (possible[index - 1] + possible[index]) / 2
            places = [cut + side * edge for edge in edges for side in (1, -1)]
            yield from (place for place in places if 0 <= place <= 1)


_TRIED = 64
"""Validation losses that are tried out by whoever aims at drawn edges."""
_ask = lru_cache(maxsize=4096)(best_question)


class Player:
    """One developer at one desk, in many sessions at once."""

    def __init__(self, desk: Arena, cells: Cells, aim: Draws | None = None) -> None:
        """Sit down at the desk; `aim` is taken for the secret of drawn edges, to aim by."""
        self.desk, self.cells, self.aim = desk, cells, aim
        self.world, self.rng, self.labels = cells.world, cells.rng, cells.labels
        self.asked = 0

    def plain(self, true: Floats) -> Floats:
        """Return the validation losses that keep answers to the first band, if that can be.

        The true loss, unless the first band is so narrow that a broken promise would show there.
        """
        question = self.desk.meter.question
        if question.ends[1] >= Fraction(3, 2) * question.tolerances[0]:
            return np.clip(true, 0, 1)
        side = 1 if self.world.upward else -1
        return np.clip(true + side * float(question.tolerances[0]) / 2, 0, 1)

    def hand_in(self, models: Models, which: Flags) -> Integers:
        """Submit models without a question."""
        return self.desk.submit(self.plain(models.true), models, which)

    def questions(
        self,
        loss: float,
        deviation: float,
        possible: Sequence[tuple[float, ...]] | None = None,
    ) -> list[SimulatedQuestion]:
        """Return every session's best question about a model of this true loss.

        `possible` says which deviations of its test loss are still possible in each session.
        """
        if not self.desk.meter.question.numbered:
            every = range(self.desk.sessions)
            return [SimulatedQuestion(self._aimed(each, loss, deviation), {}, {}) for each in every]
        # Sessions at the same place of the tree ask the same.
        best: dict[tuple[TreeNode, tuple[float, ...]], SimulatedQuestion] = {}
        found = []
        for index, place in enumerate(self.desk.places):
            left = QUANTILES if possible is None else possible[index]
            asked = best.get((place, left))
            if asked is None:
                rare, told = self._rare(place.at), place.at.told
                asked = _ask(self.desk.meter, told, loss, deviation, possible=left, rare=rare)
                best[place, left] = asked
            found.append(asked)
        return found

    def _aimed(self, index: int, loss: float, deviation: float) -> float:
        """Return a validation loss far from the true loss, for a question about drawn edges.

        It is moved a little every time, as by a validation set with another example. Whoever
        believes to know the secret looks for one that puts an edge right at the true loss.
        """
        far = 0.0 if loss >= 0.5 else 1.0
        if self.aim is None:
            return abs(far - self.rng.random() / 100)
        apart = float(self.desk.meter.question.draws or 1)
        best, least = far, apart
        for place in (abs(far - k / 1000) for k in range(_TRIED)):
            first = self.aim.place(self.desk.drawn_for(index, place)) * apart / DRAWS
            miss = abs((abs(loss - place) - first + apart / 2) % apart - apart / 2)
            if miss < least:
                best, least = place, miss
            if least < deviation / 2:
                break
        return best

    def understood(
        self,
        questions: Sequence[SimulatedQuestion],
        answers: Integers,
        loss: float,
        deviation: float,
    ) -> list[SimulatedQuestion]:
        """Return the questions with what their answers mean, where only drawn edges say it."""
        if self.desk.meter.question.numbered:
            return list(questions)
        told = zip(questions, self.desk.gaps, answers.tolist(), strict=True)
        return [
            understood(question.validation, gap, loss, deviation, answer=answer)
            for question, gap, answer in told
        ]

    def _rare(self, at: Snapshot) -> float:
        """Return the share of answers that may be unusual; an incremental meter marches seldom.

        In sixteenths, so that few different questions have to be worked out.
        """
        share = 0.5
        if self.desk.meter.question.climbs_only:
            marches = self.desk.meter.question.rungs - at.told - 1
            alone = at._replace(group=())  # each tenant has its own maximum
            steps = most_answers(self.desk.meter, alone) or 0
            share = min(share, marches / max(1, steps - at.answers - 1))
        return max(1, round(16 * share)) / 16

    def ask(self, which: Flags) -> tuple[Integers, list[SimulatedQuestion]]:
        """Submit a fresh model with a question; give answers and questions."""
        self.cells.fresh()
        self.asked += 1
        return self.ask_about(self.questions(self.world.loss, self.deviation), which)

    def ask_about(
        self, questions: Sequence[SimulatedQuestion], which: Flags, crashes: Flags | None = None
    ) -> tuple[Integers, list[SimulatedQuestion]]:
        """Submit the last fresh model, with a validation set for each of these questions."""
        validation = np.array([question.validation for question in questions])
        answers = self.desk.submit(validation, self.cells.last(), which, crashes)
        return answers, self.understood(questions, answers, self.world.loss, self.deviation)

    @property
    def deviation(self) -> float:
        """The standard deviation of a fresh model's test loss."""
        return self.world.spread / math.sqrt(self.labels)

    def finish(self, which: Flags) -> None:
        """Submit the combination of all models asked about.

        Of a single one, combine it with two models nobody asked about, else nothing is new.
        """
        cells = self.cells
        if self.asked == 1:
            cells = cells.copy()
            for _ in range(2):
                cells.fresh(share=1.0)
                cells.vote(np.ones(cells.sessions, dtype=np.int64))
        self.hand_in(cells.combined(), which)

    def rounds(self, most: int | None = None) -> Iterator[tuple[Flags, Flags]]:
        """Yield, until all sessions are over, who submits its combination and who asks further.

        The combination is due when the next answer may be the last one, or when `most` questions
        were asked; then all is forgotten. A session that goes on after it asks again.
        """
        desk = self.desk
        due = np.zeros(desk.sessions, dtype=np.bool_)
        while (ready := desk.open).any():
            full = most is not None and self.asked >= most
            last = ready & (np.ones_like(ready) if full else ~desk.sure & ~due)
            yield last, ready & ~last
            due = last
            if full:
                self.cells.forget()
                self.asked = 0


def told(questions: Sequence[SimulatedQuestion], answers: Integers) -> Floats:
    """Return what each session learnt: the mean deviation of its model's test loss."""
    pairs = zip(questions, answers.tolist(), strict=True)
    return np.array([question.told.get(answer, 0.0) for question, answer in pairs])
