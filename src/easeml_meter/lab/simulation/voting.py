"""Developers against scores of a whole test set (F1, AUC, ROC curves, ...), strata and a judge.

Rows are *known*, so that every model is right there, or a guess. Each probe guesses at random; its
answer says whether it was lucky on the test set. The last model is the vote of all probes, those
without luck with a negative vote: truly as good as each of them, and luckier than any. All is
measured by the meter's own losses and told by its own rules.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Self

import numpy as np
import pyarrow as pa
from msgspec.structs import replace
from numpy.random import Generator
from numpy.typing import NDArray

from easeml_meter.lab.simulation.worlds import Flags
from easeml_meter.promise import ledger
from easeml_meter.promise.gap import BELOW
from easeml_meter.promise.meter import Meter
from easeml_meter.promise.numbers.scores import rows_for
from easeml_meter.promise.questions import Measured, Shown
from easeml_meter.promise.samples import Judge, Parts, Rows
from easeml_meter.scoring.corpora import CorpusLoss, RocCurve
from easeml_meter.scoring.judged import POOL, Judged
from easeml_meter.scoring.losses import parse_loss
from easeml_meter.scoring.score import LossTotals
from easeml_meter.tables.groups import Strata, StrataNamed

Codes = NDArray[np.int64]
_HARD_POSITIVES = ("recall", "f1", "auc", "roc")
"""Scores that are least certain if all negatives are known."""
_LOW, _MIDDLE, _HIGH = 0.1, 0.5, 0.9
"""Probabilities that models give where their order counts."""
_CAREFUL = Fraction(4, 5)
"""How often the judge errs, as a share of what sealing lets pass."""


_AVERAGES = ("balanced-accuracy", "macro-recall", "macro-f1", "weighted")
PLAYED = ("recall", "precision", "f1", "auc", "roc", *_AVERAGES)
"""Scores whose worlds are known here."""
MOST_CLASSES = 20
"""All pairs of classes are looked at."""


@dataclass(frozen=True)
class VotingRows:
    """A test set, or everything there is, as codes of classes; `known` rows are no guess."""

    truth: Codes
    known: NDArray[np.bool_]
    labels: Codes
    """What the loss takes: the truth, or pairs of label and the judge's word."""
    strata: Strata | None = None
    """Which stratum each row is in, if there are any."""


@dataclass(frozen=True)
class VotingWorld:
    """The rows and models of one meter."""

    meter: Meter
    known: Fraction = Fraction(0)
    """The share of rows that are known, of those that could be a guess."""

    @classmethod
    def of(cls, meter: Meter) -> Self:
        """Return the world in which a meter's promise is hardest to keep: near its floor."""
        score, limit = meter.sample.measured.score, meter.question.limit
        if not meter.sample.classes:
            positive = score.positive if score is not None else "1"
            classes = (f"not {positive}", positive)
            meter = replace(meter, sample=replace(meter.sample, classes=classes))
        guessed = Fraction(1, len(meter.sample.classes))
        right = Fraction(0) if limit is None or score is None else 1 - limit
        if score is not None and score.name == "f1":
            right = right / (2 - right)
        known = max(Fraction(0), (right - guessed) / (1 - guessed))
        # Of all its rows, what is true is found by counting.
        return cls(meter, known.limit_denominator(20))

    @property
    def sample(self) -> Rows:
        """What is drawn."""
        return self.meter.sample

    @property
    def classes(self) -> int:
        """How many classes there are, all equally frequent."""
        return len(self.sample.classes)

    @cached_property
    def score(self) -> CorpusLoss:
        """The loss that is made of a score."""
        found = parse_loss(self.sample.loss)
        if not isinstance(found, CorpusLoss):
            raise AssertionError("such a meter has a judge, or a score of the whole test set")
        return found.within(self.sample.classes)

    def rows(self, size: int) -> int:
        """Return how many rows to draw; labels and pool, if there is a judge."""
        if self.sample.parts is not None:
            return size
        pool = self.sample.unlabelled
        return size + pool if pool else rows_for(size, 1 / self.classes)

    def drawn(self, size: int, count: int, random: Generator) -> VotingRows | None:
        """Draw a test set of this size; None: sealing refuses it."""
        if isinstance(self.sample, Judge):
            return self._judged(self.sample, size, count, random)
        if self.sample.parts is not None:
            return self._stratified(self.sample.parts, size, random)
        truth = random.integers(self.classes, size=count)
        rows = VotingRows(
            truth, self._known(truth, random.random(count) < float(self.known)), truth
        )
        if self.sample.fixes_rows and self.score.of_labels(truth).counted < size:
            return None
        return rows

    def _judged(self, sample: Judge, size: int, count: int, random: Generator) -> VotingRows | None:
        most = sample.judge_error
        truth = random.integers(self.classes, size=count)
        errs = random.random(count) < float(_CAREFUL * most)
        word = np.where(errs, (truth + 1) % self.classes, truth)
        pairs = np.stack([np.where(np.arange(count) < size, truth, POOL), word], axis=1)
        if not sample.allows(Judged().of_labels(pairs).wrong, size):
            return None
        return VotingRows(truth, np.zeros(count, dtype=np.bool_), pairs)

    def _stratified(self, parts: Parts, size: int, random: Generator) -> VotingRows:
        """Draw each stratum for itself; nobody knows a row."""
        named = StrataNamed(parts.column, parts.names, parts.weights)
        sizes = parts.rows(size)
        column = np.repeat(list(sizes), list(sizes.values()))
        strata = named.of([pa.record_batch({named.column: pa.array(column)})])
        truth = random.integers(self.classes, size=len(column))
        return VotingRows(truth, np.zeros(len(column), dtype=np.bool_), truth, strata)

    def _known(self, truth: Codes, easy: NDArray[np.bool_]) -> NDArray[np.bool_]:
        score = self.sample.measured.score
        if score is None or score.name not in _HARD_POSITIVES:
            return easy
        found: NDArray[np.bool_] = easy | (truth != self._positive)
        return found

    @property
    def _positive(self) -> int:
        return self.score.classes.index(self.score.corpus.positive)

    @cached_property
    def truth(self) -> Fraction:
        """The true loss of every model: that on all pairs of label and guess, each as frequent."""
        every = itertools.product(range(self.classes), repeat=2)
        easy, all_of = self.known.numerator, self.known.denominator
        told = [(label, guess, i < easy) for label, guess in every for i in range(all_of)]
        truth, guesses = (np.array([each[k] for each in told]) for k in (0, 1))
        known = self._known(truth, np.array([each[2] for each in told]))
        if self.sample.estimated or self.sample.parts:  # how often guesses err
            return Fraction(int(np.count_nonzero(truth != guesses)), len(truth))
        found: Fraction = self._beside(self._sums(VotingRows(truth, known, truth), guesses)).mean(1)
        return found

    def measured(self, rows: VotingRows, guesses: Codes, size: int) -> Fraction | None:
        """Return the loss on a test set; None: it has too little of what the score counts."""
        sums = self._sums(rows, guesses)
        if self.sample.measured.unsized and sums.counted < size:
            return None
        found: Fraction = self._beside(sums).mean(1)
        return found

    def _beside(self, sums: Any) -> Any:
        """Return a curve as its distance from the one that developers claim."""
        return sums.beside(self._claimed) if self.sample.measured.curve else sums

    @property
    def first_edge(self) -> Fraction:
        """Where the first band ends; 0 if it is the only one."""
        return (*self.meter.question.ends[1:-1], Fraction(0))[0]

    @cached_property
    def claimed(self) -> Fraction:
        """The validation loss that developers claim; of a curve it is 0, the distance from itself.

        An edge of the bands lies at the true loss, unless the floor does.
        """
        if self.sample.measured.curve:
            return Fraction(0)
        return max(Fraction(0), self.truth - self.first_edge)

    @cached_property
    def _claimed(self) -> RocCurve:
        """A curve that finds more positives than there are: an edge lies at the true distance."""
        share = Fraction(1, 2) + self.first_edge
        found = [_HIGH] * share.numerator + [_LOW] * (share.denominator - share.numerator)
        return RocCurve(self.score.corpus, (np.array(found),), (np.array([_MIDDLE]),))

    def _sums(self, rows: VotingRows, guesses: Codes) -> Any:
        said = np.where(rows.known, rows.truth, guesses)
        if self.sample.estimated:
            return Judged().sums(said, rows.labels)
        if rows.strata is not None:
            units = parse_loss(self.sample.loss).units(said, rows.labels)
            return LossTotals.score([LossTotals.of(rows.strata, [units])], rows.strata).sums
        if not self.score.corpus.ranked:
            return self.score.sums(said, rows.labels)
        # Negatives stand in the middle, so each positive is above all of them or below.
        chance = np.where(said == self._positive, _HIGH, _LOW)
        chance[rows.truth != self._positive] = _MIDDLE
        columns = [chance if i == self._positive else 1 - chance for i in range(self.classes)]
        return self.score.sums(np.stack(columns, axis=1), rows.labels)


def broken_of(meter: Meter, size: int, runs: int, random: Generator) -> Flags:
    """Return in which sessions some answer of a meter breaks its promise."""
    return broken_sessions(VotingWorld.of(meter), size, runs, random)


def broken_sessions(world: VotingWorld, size: int, runs: int, random: Generator) -> Flags:
    """Return in which sessions some answer breaks its promise.

    A test set that sealing refuses breaks none: nothing is told of it.
    """
    count = world.rows(size)
    drawn = (world.drawn(size, count, random) for _ in range(runs))
    broken = (rows is not None and _broken(world, size, rows, random) for rows in drawn)
    return np.fromiter(broken, dtype=np.bool_, count=runs)


def _broken(world: VotingWorld, size: int, rows: VotingRows, random: Generator) -> bool:
    each = np.arange(len(rows.truth))
    # Votes that tie are decided at random: by less than one of them.
    votes = random.random((len(each), world.classes)) / 2
    meter, at = world.meter, ledger.start(world.meter)
    while ledger.may(meter, at):
        if ledger.left(meter, at) == 1:
            guesses = votes.argmax(axis=1)
        else:
            guesses = random.integers(world.classes, size=len(each))
        test = world.measured(rows, guesses, size)
        shown = Shown(size, world.claimed)
        decided = ledger.decide(meter, at, Measured(shown, test, few=test is None))
        if test is not None and _is_broken(world, decided.answer, test):
            return True
        votes[each, guesses] += 1 if decided.answer == "1" else -1
        at = decided.after
    return False


def _is_broken(world: VotingWorld, answer: str, test: Fraction) -> bool:
    question = world.meter.question
    tolerance = question.tolerances[0]
    if answer == BELOW:
        return world.truth < (question.limit or 0) - tolerance
    return abs(test - world.truth) > tolerance
