"""Scores of a whole test set by name, as a loss names them: "f1[fraud]", "macro-recall".

The loss is 1 minus the score. It is no average over rows: it is a ratio of counts, and what it is
counted of decides how well it is known. The loss "roc[fraud]" is a distance: how far the ROC curve
is from that of the same model on the validation set.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Self

_NAMED = re.compile(r"([a-z0-9-]{1,40})(?:\[(.{1,200})\])?", re.DOTALL)
_WEIGHTS = re.compile(r"0?\.[0-9]{1,9}(?:, ?0?\.[0-9]{1,9})+")
WEIGHTED = "weighted"

_RANKING = "a ranking is normalized over all rows: score each query, and take that as the loss"
_CORPUS = "it is no average over rows: score each text, and take that as the loss"
_AVERAGE_PRECISION = (
    "it averages precisions whose denominators the model chooses, and no valid tail is known: "
    "take auc"
)
_UNBOUNDED = (
    "one row can cost any amount, so no tail holds: take brier, or a function of your own "
    "that cuts it off at a largest value"
)
_ERRORS = "errors without a largest value have no tail: take a loss in [0, 1], as squared[0,100]"
_F_BETA = (
    "it weighs the two kinds of errors differently, so its tail is not one binomial's: "
    "take f1, or recall and precision"
)
_OTHER_CLASS = (
    "it is the recall of the other class: of the classes ham and spam, with spam looked for, "
    "recall[ham]"
)

WHY_NOT = {
    "ece": "the calibration error is no average over rows, and no valid tail is known",
    "mcc": "it mixes four shares, and no valid tail is known: take f1 or balanced-accuracy",
    "kappa": "it mixes four shares, and no valid tail is known: take balanced-accuracy",
    "r2": "its denominator is a variance, and no valid tail is known: take a loss in [0, 1]",
    "median": "a quantile needs the whole curve: plan roc, whose inequality covers it",
    "micro-f1": "of one label a row it is the accuracy: take the loss 0-1",
    "sensitivity": "it is the recall: write recall and the positive class, as in recall[fraud]",
    **dict.fromkeys(("ndcg", "map", "mrr"), _RANKING),
    **dict.fromkeys(("bleu", "rouge", "wer"), _CORPUS),
    **dict.fromkeys(("pr-auc", "auprc", "average-precision"), _AVERAGE_PRECISION),
    **dict.fromkeys(("logloss", "log-loss", "cross-entropy", "perplexity"), _UNBOUNDED),
    **dict.fromkeys(("rmse", "mse", "mae", "mape"), _ERRORS),
    **dict.fromkeys(("f2", "f0.5", "f-beta"), _F_BETA),
    **dict.fromkeys(("specificity", "tnr"), _OTHER_CLASS),
}
"""Scores that no meter can promise anything about, or has by another name, and why."""


def why_not(name: str) -> str | None:
    """Say why a score is refused, however it is written; None: nothing is known against it."""
    return WHY_NOT.get(name.partition("[")[0].strip().lower().replace("_", "-"))


PLANNED_ONLY = {
    "accuracy": "take the loss 0-1, whose gap is that of the accuracy",
}


@dataclass(frozen=True, slots=True)
class CorpusKind:
    """What a score is counted of."""

    unit: str
    """What a test set needs enough of."""
    word: str
    """What people call the score."""
    averaged: bool = False
    """Whether it is an average over all classes; else it has a positive class."""
    floor: bool = True
    """Whether a floor makes its tail smaller."""
    sealed: bool = True
    """Whether the labels alone say how much there is of it, so that sealing can check it."""


KINDS = {
    "recall": CorpusKind("positives", "recall"),
    "precision": CorpusKind("predicted positives", "precision", sealed=False),
    "f1": CorpusKind("positives", "F1"),
    "auc": CorpusKind("labels of the smaller class", "AUC"),
    "roc": CorpusKind("labels of each class", "ROC curve", floor=False),
    "balanced-accuracy": CorpusKind("labels of each class", "balanced accuracy", True, False),
    "macro-recall": CorpusKind("labels of each class", "macro recall", True, False),
    # Below a floor on the average, a single class can be anywhere.
    "macro-f1": CorpusKind("labels of each class", "macro F1", True, False),
    WEIGHTED: CorpusKind("labels of each class", "weighted recall", True, False),
}


@dataclass(frozen=True, slots=True)
class Corpus:
    """A score of a whole test set."""

    name: str
    positive: str = ""
    """The class that is looked for, as text; empty for averages over all classes."""
    weighing: str = ""
    """The weights of the classes, as they were written; empty: all weigh the same."""

    @classmethod
    def parse(cls, loss: str) -> Self | None:
        """Read a loss; None: it is an average over rows."""
        found = _NAMED.fullmatch(loss)
        if found is None or found[1] not in KINDS:
            return None
        inside = found[2] or ""
        return cls(WEIGHTED, "", inside) if found[1] == WEIGHTED else cls(found[1], inside)

    @property
    def text(self) -> str:
        """Name it as a spec does."""
        inside = self.positive or self.weighing
        return self.name + (f"[{inside}]" if inside else "")

    def weights(self, classes: int) -> tuple[Fraction, ...]:
        """Return the weight of each of so many classes, in the order of their list."""
        if not self.weighing:
            return (Fraction(1, classes),) * classes
        return tuple(Fraction(each.strip()) for each in self.weighing.split(","))

    @property
    def kind(self) -> CorpusKind:
        """What is known of this score."""
        return KINDS[self.name]

    @property
    def word(self) -> str:
        """What people call it."""
        return self.kind.word

    @property
    def curve(self) -> bool:
        """Whether it is no number, so that its loss is the distance of two curves."""
        return self.name == "roc"

    @property
    def ranked(self) -> bool:
        """Whether it is counted of probabilities, and not of classes."""
        return self.name in ("auc", "roc")

    @property
    def problem(self) -> str | None:
        """What is wrong with how it was written, if anything."""
        if self.name == WEIGHTED:
            if _WEIGHTS.fullmatch(self.weighing) is None:
                return 'weigh the classes, in the order of their list: "weighted[0.5,0.3,0.2]"'
            weights = self.weights(0)
            return None if min(weights) > 0 and sum(weights) == 1 else "the weights must sum to 1"
        if self.kind.averaged and self.positive:
            return f'it is an average over all classes: write "{self.name}"'
        if not self.kind.averaged and not self.positive:
            return f'say which class is the positive one, as in "{self.name}[fraud]"'
        return None

    def counted(self, classes: Sequence[object]) -> str:
        """Say what a test set needs enough of, with the class by name."""
        if self.kind.averaged or not classes:
            return self.kind.unit
        if self.ranked:
            return f"labels {self.positive!r} and as many others"
        called = "predictions" if self.name == "precision" else "labels"
        return f"{called} {self.positive!r}"
