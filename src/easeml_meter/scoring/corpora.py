"""Losses of a whole test set: 1 minus recall, precision, F1, AUC, or an average over classes.

Such a loss is no sum over rows. What is summed up row group by row group are counts of whole
numbers, which need no order; the loss is a fraction of them, without rounding. The loss of a ROC
curve is its distance from the curve of the same model on the validation set.
"""

from __future__ import annotations

import io
import operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np

from easeml_meter.corpus import Corpus
from easeml_meter.errors import InvalidInput, invalid
from easeml_meter.scoring.classes import Classes
from easeml_meter.scoring.losses import Array, Loss, Output
from easeml_meter.scoring.outputs import read_labels


@dataclass(frozen=True)
class Tally:
    """How often classes occur, are predicted, and are predicted rightly; one class, or all."""

    corpus: Corpus
    hits: tuple[int, ...] = ()
    support: tuple[int, ...] = ()
    predicted: tuple[int, ...] = ()

    def __add__(self, other: Tally) -> Tally:
        if not self.hits or not other.hits:
            return self if self.hits else other
        return Tally(
            self.corpus,
            _sum(self.hits, other.hits),
            _sum(self.support, other.support),
            _sum(self.predicted, other.predicted),
        )

    @property
    def counted(self) -> int:
        """What the score is counted of: of the class that has least, if it is an average."""
        of = self.predicted if self.corpus.name == "precision" else self.support
        return min(of, default=0)

    def mean(self, _units: int) -> Fraction:
        """Return 1 minus the score."""
        scores = [
            _score(self.corpus, *each)
            for each in zip(self.hits, self.support, self.predicted, strict=True)
        ]
        if not scores:
            raise _undefined(self.corpus)
        weights = self.corpus.weights(len(scores))
        return 1 - sum(map(operator.mul, weights, scores), Fraction(0))


def _score(corpus: Corpus, hits: int, support: int, predicted: int) -> Fraction:
    if corpus.name in ("f1", "macro-f1"):
        hits, of = 2 * hits, support + predicted
    else:
        of = predicted if corpus.name == "precision" else support
    if not of:
        raise _undefined(corpus)
    return Fraction(hits, of)


def _undefined(corpus: Corpus) -> InvalidInput:
    what = "some class" if corpus.kind.averaged else repr(corpus.positive)
    row = "is predicted" if corpus.name == "precision" else "has the label"
    return InvalidInput(f"{corpus.word}: no row {row} {what}: there is nothing to count it of")


def _sum(first: Sequence[int], second: Sequence[int]) -> tuple[int, ...]:
    return tuple(a + b for a, b in zip(first, second, strict=True))


@dataclass(frozen=True)
class Ranks:
    """The probabilities that positives and all others were given: their order is the AUC."""

    corpus: Corpus
    positives: tuple[Array, ...] = field(default=(), repr=False)
    others: tuple[Array, ...] = field(default=(), repr=False)

    def __add__(self, other: Self) -> Self:
        both = self.positives + other.positives, self.others + other.others
        return type(self)(self.corpus, *both)

    @property
    def counted(self) -> int:
        """The rows of the smaller class."""
        return min(sum(map(len, self.positives)), sum(map(len, self.others)))

    def mean(self, _units: int) -> Fraction:
        """Return 1 minus the share of pairs that are ordered rightly; a tie is half a pair."""
        self._check()
        positives, others = np.concatenate(self.positives), np.sort(np.concatenate(self.others))
        below = np.searchsorted(others, positives, "left").sum(dtype=np.int64)
        not_above = np.searchsorted(others, positives, "right").sum(dtype=np.int64)
        return 1 - Fraction(int(below) + int(not_above), 2 * len(positives) * len(others))

    def _check(self) -> None:
        if not self.counted:
            line = "rows of two classes are needed to count it of"
            raise InvalidInput(f"{self.corpus.word}: {line}")


@dataclass(frozen=True)
class RocCurve(Ranks):
    """A ROC curve: the shares of positives and of all others at or above every threshold."""

    def mean(self, _units: int) -> Fraction:
        """Return how far a curve is from itself."""
        self._check()
        return Fraction(0)

    def beside(self, visible: RocCurve) -> CurveDistance:
        """Return how far it is from that on the validation set.

        The distance is the largest difference of the true positive rates, or of the false positive
        rates, at any threshold. If every rate here is within eps of its true one, then, by the
        triangle inequality, the distance is within eps of that of the true curve.
        """
        self._check()
        pairs = (self.positives, visible.positives), (self.others, visible.others)
        return CurveDistance(max(_apart(*each) for each in pairs), self.counted)

    def to_bytes(self) -> bytes:
        """Return it as it is kept for the retrospective."""
        stream = io.BytesIO()
        np.savez(stream, positives=_joined(self.positives), others=_joined(self.others))
        return stream.getvalue()

    @classmethod
    def from_bytes(cls, corpus: Corpus, data: bytes) -> Self:
        """Read what `to_bytes` gave."""
        with np.load(io.BytesIO(data), allow_pickle=False) as found:
            return cls(corpus, (found["positives"],), (found["others"],))


@dataclass(frozen=True)
class CurveDistance:
    """How far two curves are apart."""

    distance: Fraction
    counted: int
    """The rows of the smaller class, in the test set."""

    def mean(self, _units: int) -> Fraction:
        """Return the distance."""
        return self.distance


def _joined(parts: Sequence[Array]) -> Array:
    return np.concatenate(parts) if parts else np.empty(0)


def _apart(here: Sequence[Array], there: Sequence[Array]) -> Fraction:
    """Return the largest difference of two shares at or above a threshold, over all thresholds."""
    first, second = (np.sort(_joined(each)) for each in (here, there))
    places = np.concatenate([first, second])
    ours, theirs = (np.searchsorted(each, places).astype(np.int64) for each in (first, second))
    crossed = ours * len(second) - theirs * len(first)
    return Fraction(int(np.abs(crossed).max()), len(first) * len(second))


@dataclass(frozen=True)
class CorpusLoss(Loss):
    """1 minus a score of the whole test set."""

    rescales: ClassVar[bool] = False
    corpus: Corpus
    classes: tuple[str, ...] = ()
    """The class list in force, as texts; empty until `within` says it."""

    def __post_init__(self) -> None:
        if self.corpus.problem is not None:
            raise invalid("loss", self.name, self.corpus.problem)

    @property
    def name(self) -> str:
        """Name it as a spec does."""
        return self.corpus.text

    @property
    def output(self) -> Output:
        """A class; for AUC and ROC curve, probabilities."""
        return Output.PROBABILITIES if self.corpus.ranked else Output.CLASS

    @property
    def unit(self) -> int:
        """Whole numbers are counted."""
        return 1

    def within(self, classes: Sequence[object]) -> CorpusLoss:
        """Return it with the class list in force."""
        names = tuple(map(str, classes))
        if self.corpus.positive and self.corpus.positive not in names:
            shown = ", ".join(names[:5])
            raise invalid("loss", self.name, f"one of the classes, {shown}")
        if len(self.corpus.weights(len(names))) != len(names):
            raise invalid("loss", self.name, f"a weight for each of {len(names)} classes")
        return replace(self, classes=names)

    @property
    def nothing(self) -> Any:
        """No counts."""
        return self._kind(self.corpus)

    @property
    def _kind(self) -> type[Tally | Ranks]:
        if self.corpus.curve:
            return RocCurve
        return Ranks if self.corpus.ranked else Tally

    def sums(self, predictions: Array, labels: Array) -> Any:
        """Count."""
        if self.corpus.ranked:
            place = self.classes.index(self.corpus.positive)
            positive = labels == place
            given = predictions[:, place]
            return self._kind(self.corpus, (given[positive],), (given[~positive],))
        if self.corpus.kind.averaged:
            size = len(self.classes)
            every = (labels[predictions == labels], labels, predictions)
            return Tally(self.corpus, *(_occurring(each, size) for each in every))
        place = self.classes.index(self.corpus.positive)
        positive, called = labels == place, predictions == place
        every = (positive & called, positive, called)
        return Tally(self.corpus, *((int(np.count_nonzero(each)),) for each in every))

    def of_labels(self, labels: Array) -> Any:
        """Count labels alone, as if all were predicted rightly."""
        if self.corpus.ranked:
            positive = labels == self.classes.index(self.corpus.positive)
            return self._kind(self.corpus, (labels[positive],), (labels[~positive],))
        return self.sums(labels, labels)

    def _losses(self, predictions: Array, labels: Array) -> Any:
        raise AssertionError(f"{self.name}: a row alone has no such loss")


def counted_in(
    loss: Loss, classes: Classes | None, columns: Iterable[Any], *, secret: bool = True
) -> int | None:
    """Return how much there is in labels of what a score is counted of; None: they do not say."""
    if not isinstance(loss, CorpusLoss):
        return None
    if classes is None:
        needed = f"the loss {loss.name} needs the class list: give the validation set first"
        raise invalid("classes", "none", needed)
    found = loss.within(classes.values)
    if not loss.corpus.kind.sealed:
        return None
    total = found.nothing
    for column in columns:
        total += found.of_labels(read_labels(column, found, classes, secret=secret))
    return int(total.counted)


def _occurring(codes: Array, size: int) -> tuple[int, ...]:
    """Count each class; a label outside the list is of none."""
    return tuple(map(int, np.bincount(codes.astype(np.intp), minlength=size)[:size]))
