"""Losses in [0, 1], one number per example, and sums of them that do not depend on any order.

A 0-1 loss is counted. Every other loss of one example is rounded to the nearest multiple of
2**-40 and summed in whole numbers: whole numbers add up to the same in every order and under every
split into row groups, so all executors agree to the bit. The rounded loss is itself a loss in
[0, 1] of one example, so the promise holds for it as it stands; it differs by less than 1e-12.
"""

from __future__ import annotations

import importlib
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from functools import cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from easeml_meter.corpus import PLANNED_ONLY, Corpus, why_not
from easeml_meter.errors import InvalidInput, MeterError
from easeml_meter.tables.source import excerpt

UNIT = 1 << 40
"""Losses other than 0-1 are summed in multiples of 1/UNIT."""
MOST_ROWS = 1 << 22
"""So many losses of at most UNIT each fit into 63 bits."""

Array = NDArray[Any]


class Output(StrEnum):
    """What a loss asks of a prediction."""

    CLASS = "class"  # its code
    RANKED = "ranked classes"  # codes of the k best, best first
    PROBABILITIES = "probabilities"  # one per class, in the order of the class list
    REAL = "real"  # a finite number
    ANY = "any"  # whatever the file holds; only for a loss of one's own


class LossFailed(MeterError):
    """A loss of one's own raised, or returned what is no loss."""


@dataclass(frozen=True)
class Sums:
    """The sum of losses, in units: whole, so in no need of an order."""

    losses: int = 0

    def __add__(self, other: Sums) -> Sums:
        return Sums(self.losses + other.losses)

    def mean(self, units: int) -> Fraction:
        """Return the mean loss, exactly; `units` are those of all examples."""
        return Fraction(self.losses, units)


@dataclass(frozen=True)
class Loss(ABC):
    """A loss; called with predictions and labels of one batch, it gives one loss per example.

    What it is summed up to has a mean; of most losses it is that of the losses of all examples.
    """

    zero_one: ClassVar[bool] = False
    reads_labels: ClassVar[bool] = True
    """False: what is submitted says by itself how good it is, and sets have ids only."""
    rescales: ClassVar[bool] = True
    """Whether probabilities are divided by their sum; that would part ties where ranks count."""
    judged: ClassVar[bool] = False
    """Whether labels come in pairs with the word of a judge."""

    @property
    @abstractmethod
    def name(self) -> str:
        """Name it as a spec does; `parse_loss(loss.name) == loss`."""

    @property
    @abstractmethod
    def output(self) -> Output:
        """Say what predictions must be; labels are codes of classes, numbers or anything."""

    def __call__(self, predictions: Array, labels: Array) -> Array:
        """Return the loss of each example, in [0, 1]."""
        losses: Array = self._losses(predictions, labels)
        return losses

    @abstractmethod
    def _losses(self, predictions: Array, labels: Array) -> Any: ...

    @property
    def unit(self) -> int:
        """How many units of a total make a loss of 1."""
        return 1 if self.zero_one else UNIT

    @property
    def span(self) -> tuple[float, float] | None:
        """The declared range of predictions and labels."""
        return None

    @property
    def ranks(self) -> int:
        """How many ranked classes it looks at."""
        return 1

    def within(self, classes: Sequence[object]) -> Loss:
        """Return it with the class list in force, which most losses need not know."""
        return self

    @property
    def nothing(self) -> Any:
        """The sums of no examples."""
        return Sums()

    def units(self, predictions: Array, labels: Array) -> NDArray[np.int64]:
        """Return the loss of each row in units of 1/UNIT, also where it is 0 or 1."""
        return np.rint(self(predictions, labels) * float(UNIT)).astype(np.int64)

    def sums(self, predictions: Array, labels: Array) -> Any:
        """Sum up, in units, exactly; at most MOST_ROWS examples at a time."""
        losses = self(predictions, labels)
        if self.zero_one:
            return Sums(int(np.count_nonzero(losses)))
        return Sums(int(np.rint(losses * UNIT).astype(np.int64).sum()))


@dataclass(frozen=True)
class ZeroOne(Loss):
    """1 for a wrong class."""

    zero_one: ClassVar[bool] = True
    name = "0-1"
    output = Output.CLASS

    def _losses(self, predictions: Array, labels: Array) -> Any:
        return np.not_equal(predictions, labels)


@dataclass(frozen=True)
class TopK(Loss):
    """1 if the label is not among the k classes ranked first."""

    k: int
    zero_one: ClassVar[bool] = True
    output = Output.RANKED

    def __post_init__(self) -> None:
        if isinstance(self.k, bool) or not isinstance(self.k, int) or self.k < 1:
            raise _refuse(f"top-{self.k}", "k must be a whole number, 1 or more")

    @property
    def name(self) -> str:
        """Name it as a spec does."""
        return f"top-{self.k}"

    @property
    def ranks(self) -> int:
        """How many ranked classes it looks at."""
        return self.k

    def _losses(self, predictions: Array, labels: Array) -> Any:
        missed = np.not_equal(predictions[:, 0], labels)
        for place in range(1, self.k):
            missed &= predictions[:, place] != labels
        return missed


@dataclass(frozen=True)
class Absolute(Loss):
    """|prediction - label| as a share of the declared range."""

    low: float
    high: float
    word: ClassVar[str] = "absolute"
    output = Output.REAL

    def __post_init__(self) -> None:
        for edge in (self.low, self.high):
            if isinstance(edge, bool) or not isinstance(edge, int | float):
                raise _refuse(self.word, f"{excerpt(edge)} as an edge of the range, needs a number")
        object.__setattr__(self, "low", float(self.low))
        object.__setattr__(self, "high", float(self.high))
        if not (self.low < self.high and math.isfinite(self.high - self.low)):
            raise _refuse(self.name, f"a finite range needed, as in {self.word}[0,100]")

    @property
    def name(self) -> str:
        """Name it as a spec does."""
        return f"{self.word}[{_plain(self.low)},{_plain(self.high)}]"

    @property
    def span(self) -> tuple[float, float]:
        """The declared range."""
        return self.low, self.high

    def _losses(self, predictions: Array, labels: Array) -> Any:
        return np.abs(predictions - labels) / (self.high - self.low)


@dataclass(frozen=True)
class Squared(Absolute):
    """The square of the absolute error as a share of the declared range."""

    word: ClassVar[str] = "squared"

    def _losses(self, predictions: Array, labels: Array) -> Any:
        return np.square(super()._losses(predictions, labels))


@dataclass(frozen=True)
class Reported(Absolute):
    """How much a score that somebody else measured lacks of the best one, as a share of the range.

    A higher score is better.
    """

    word: ClassVar[str] = "score"
    reads_labels: ClassVar[bool] = False

    def _losses(self, predictions: Array, labels: Array) -> Any:
        return (self.high - predictions) / (self.high - self.low)


@dataclass(frozen=True)
class ReportedZeroOne(Loss):
    """1 for a score of 0, and 0 for a score of 1; there are no others."""

    zero_one: ClassVar[bool] = True
    reads_labels: ClassVar[bool] = False
    name = "score[0-1]"
    output = Output.REAL
    span = (0.0, 1.0)

    def _losses(self, predictions: Array, labels: Array) -> Any:
        return predictions == 0


@dataclass(frozen=True)
class Brier(Loss):
    """Half the squared distance of the probabilities from the label's corner of the simplex.

    With two classes it is (p - y)**2, the Brier score of the probability p of one of them.
    """

    name = "brier"
    output = Output.PROBABILITIES

    def _losses(self, predictions: Array, labels: Array) -> Any:
        # Row by row whatever the number of rows: each sum runs over one row's own memory.
        squares = np.add.reduce(np.square(predictions), axis=1)
        known = labels < predictions.shape[1]
        places = np.where(known, labels, 0).astype(np.intp)
        of_label = np.where(known, predictions[np.arange(len(places)), places], 0.0)
        return np.clip((squares - 2 * of_label + 1) / 2, 0.0, 1.0)


@dataclass(frozen=True)
class Custom(Loss):
    """A function of one's own: (predictions, labels) of a batch -> losses in [0, 1].

    The function must judge each example by itself. It is held by name, so that it reaches other
    processes; its module must be importable there.
    """

    function: str
    needs: Output = Output.ANY

    def __post_init__(self) -> None:
        _load(self.function)

    @property
    def name(self) -> str:
        """Name it as a spec does."""
        return self.function + ("" if self.needs is Output.ANY else f"[{self.needs}]")

    @property
    def output(self) -> Output:
        """Say what the function asks of predictions."""
        return self.needs

    def unfit(self, predictions: Array, labels: Array) -> int | None:
        """Return the place of the first prediction that has no loss with any of these labels."""
        unfit, raised = np.ones(len(predictions), bool), False
        for at in range(len(labels)):
            some = predictions[unfit]
            if not len(some):
                return None
            try:
                losses = self._call(some, np.repeat(labels[at : at + 1], len(some), axis=0))
            except LossFailed:
                raised = True
            else:
                unfit[unfit] = ~((losses >= 0) & (losses <= 1))
        if not unfit.any() or not raised or len(predictions) == 1:
            return int(np.argmax(unfit)) if unfit.any() else None
        half = len(predictions) // 2  # the function failed as a whole: find out on which
        first = self.unfit(predictions[:half], labels)
        if first is not None:
            return first
        second = self.unfit(predictions[half:], labels)
        return None if second is None else half + second

    def _call(self, predictions: Array, labels: Array) -> Array:
        try:
            losses = np.asarray(_load(self.function)(predictions, labels), dtype=np.float64)
        except Exception as error:
            raise self._failed(f"raised {type(error).__name__}") from None
        if losses.shape != (len(labels),):
            raise self._failed(f"returned shape {losses.shape} for {len(labels)} examples")
        return losses

    def _losses(self, predictions: Array, labels: Array) -> Any:
        losses = self._call(predictions, labels)
        if not np.isfinite(losses).all():
            raise self._failed("returned a loss that is not finite")
        if len(losses) and not (losses.min() >= 0 and losses.max() <= 1):
            raise self._failed("returned a loss outside [0, 1]")
        return losses

    def _failed(self, what: str) -> LossFailed:
        return LossFailed(f"loss {excerpt(self.function)} {what}: one number in [0, 1] each needed")


_RANGE = re.compile(r"(absolute|squared|score)\[([^,\[\]]{1,40}),([^,\[\]]{1,40})\]")
_RANGED = {each.word: each for each in (Absolute, Squared, Reported)}
_FUNCTION = re.compile(r"([A-Za-z_][\w.]*:[A-Za-z_]\w*)(?:\[([a-z ]{1,20})\])?")
_LONGEST_NAME = 500
_NEEDS = {need.value: need for need in (Output.CLASS, Output.PROBABILITIES, Output.REAL)}
_KNOWN = (
    "0-1, top-3, absolute[0,100], squared[-1,1], brier, score, score[0-1], score[0,10], "
    "recall[CLASS], precision[CLASS], f1[CLASS], auc[CLASS], roc[CLASS], balanced-accuracy, "
    "macro-f1 or package.module:function"
)


def parse_loss(text: str, **parameters: Any) -> Loss:
    """Read a loss as a spec names it.

    "0-1", "top-3", "absolute[0,100]", "squared[-1,1]", "brier", "score" (from 0 to 1),
    "score[0-1]" (0 or 1), "score[0,10]", "f1[fraud]" and other scores of a whole test set,
    "package.module:function". The parameters may also come
    by name: `parse_loss("top-k", k=3)`, `parse_loss("squared", low=0, high=1)`. A function gets
    predictions and labels in the form of the label columns (`forms`); with "[class]" after its
    name, places in the class list; with "[real]", finite numbers; with "[probabilities]", one row
    of probabilities per example and places as labels.
    """
    if not isinstance(text, str):
        raise _refuse(text, f"known: {_KNOWN}")
    try:
        if text == "top-k" and parameters:
            return TopK(**parameters)
        if text in _RANGED and parameters:
            return _RANGED[text](**parameters)
    except TypeError:
        allowed = "k for top-k, low and high for absolute, squared and score"
        raise _refuse(f"{text} with {', '.join(parameters)}", allowed) from None
    if parameters:
        raise _refuse(f"{text} with {', '.join(parameters)}", "it takes no parameters")
    if (corpus := Corpus.parse(text)) is not None:
        from easeml_meter.scoring.corpora import CorpusLoss  # which is a loss itself

        return CorpusLoss(corpus)
    if (why := why_not(text) or PLANNED_ONLY.get(text.partition("[")[0])) is not None:
        raise _refuse(text, why)
    if text == "0-1":
        return ZeroOne()
    if text == "brier":
        return Brier()
    if text == "score":
        return Reported(0, 1)
    if text == ReportedZeroOne.name:
        return ReportedZeroOne()
    if len(text) < 20 and (ranked := re.fullmatch(r"top-([1-9][0-9]*)", text)):
        return TopK(int(ranked[1]))
    if ranged := _RANGE.fullmatch(text):
        try:
            low, high = float(ranged[2]), float(ranged[3])
        except ValueError:
            raise _refuse(text, f"two numbers needed, as in {ranged[1]}[0,100]") from None
        return _RANGED[ranged[1]](low, high)
    if len(text) < _LONGEST_NAME and (function := _FUNCTION.fullmatch(text)):
        need = function[2]
        if need is not None and need not in _NEEDS:
            raise _refuse(text, f"in brackets one of {', '.join(_NEEDS)}")
        return Custom(function[1], _NEEDS[need] if need else Output.ANY)
    if text == "top-k":
        raise _refuse(text, "say which k, as in top-3")
    if text in ("absolute", "squared"):
        raise _refuse(text, f"say the range of labels and predictions, as in {text}[0,100]")
    raise _refuse(text, f"known: {_KNOWN}")


def output_of(text: str) -> Output:
    """Return what a loss, by its name, asks of predictions; a function is not imported for that."""
    function = _FUNCTION.fullmatch(text) if len(text) < _LONGEST_NAME else None
    return _NEEDS.get(function[2], Output.ANY) if function else parse_loss(text).output


def check_allowed(text: str, allowed: Collection[str]) -> None:
    """Refuse a function that is not among those allowed, before importing its module runs code."""
    function = _FUNCTION.fullmatch(text) if len(text) < _LONGEST_NAME else None
    if function and function[1] not in allowed:
        raise _refuse(text, "a function that this server allows: see allowed_loss in its settings")


def names_as_labels(loss: str) -> bool:
    """Whether the labels of a loss, by its name, are names: text, and no numbers to calculate with.

    The function of a loss of one's own is not imported: a labeler's machine need not have it.
    """
    if Corpus.parse(loss) is not None:  # what is in brackets is a class
        return True
    return not (_RANGE.fullmatch(loss) or loss.endswith(f"[{Output.REAL}]"))


@cache
def _load(name: str) -> Callable[[Array, Array], Any]:
    module_name, _, function_name = name.partition(":")
    try:
        module = importlib.import_module(module_name)
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        raise _refuse(name, f"its module cannot be imported ({excerpt(reason, 80)})") from None
    function = getattr(module, function_name, None)
    if not callable(function):
        raise _refuse(name, "no such function in that module")
    return function  # type: ignore[no-any-return]


def _refuse(given: object, allowed: str) -> InvalidInput:
    return InvalidInput(f"loss: {excerpt(given, 80)} given, {allowed}")


def _plain(number: float) -> str:
    return str(int(number)) if number.is_integer() and abs(number) < 1e15 else repr(number)
