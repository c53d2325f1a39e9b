"""Scores of a whole test set: recall, precision, F1, averages of classes, AUC, ROC curves.

The question is the gap between such a score on the validation set and on the test set, in bands.
What differs from the gap of a loss is what the labels are counted of, and the tail.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Self

import msgspec

from easeml_meter.checks import finite, listed, whole
from easeml_meter.core.questions.bands import (
    BELOW_FLOOR,
    TOO_FEW,
    TOO_FEW_EXCUSED,
    Bands,
    InBands,
    score_gap,
)
from easeml_meter.core.questions.question import Option
from easeml_meter.corpus import KINDS as SCORES
from easeml_meter.corpus import PLANNED_ONLY, WEIGHTED, why_not
from easeml_meter.errors import invalid
from easeml_meter.promise.assumptions import COMMON_ASSUMPTIONS, FIXED_SIZE
from easeml_meter.promise.budgets import Steps
from easeml_meter.promise.meter import Meter
from easeml_meter.promise.numbers import scores
from easeml_meter.promise.numbers.rounding import as_written, at_least, at_most
from easeml_meter.promise.samples import Rows
from easeml_meter.promise.schema import exact
from easeml_meter.spec import MeterSpec

if TYPE_CHECKING:
    from easeml_meter.core.questions.planning import Plan

MAX_CLASSES = 10_000


@dataclass(frozen=True)
class MetricKind:
    """What a metric is counted of."""

    unit: str
    floor: bool = False
    """Whether a floor makes the tail smaller."""
    classes: bool = False
    """Whether it is an average over classes."""
    silent: str | None = None
    """An answer without a reading that can always come."""


KINDS: dict[str, MetricKind] = {
    "accuracy": MetricKind("labels", floor=True),
    "recall": MetricKind("positives", floor=True),
    "precision": MetricKind("predicted positives", floor=True, silent=TOO_FEW),
    "f1": MetricKind("positives", floor=True),
    "macro-f1": MetricKind("positives of each class", floor=True, classes=True),
    "balanced-accuracy": MetricKind("labels of each class", classes=True),
    "macro-recall": MetricKind("labels of each class", classes=True),
    "weighted": MetricKind("labels of each class"),
    "auc": MetricKind("labels of the smaller class", floor=True),
    "roc": MetricKind("labels of each class"),
}
_OF_POSITIVES = ("recall", "precision", "f1", "accuracy")
"""Scores that are counted of one class alone, however many there are of it."""


@dataclass(frozen=True)
class Metric(InBands):
    """The gap of one score, in bands."""

    name: str
    bands: Bands
    floor: float | None = None
    """Scores below it are answered "below the floor"."""
    classes: int = 1
    """How many classes an average is over."""
    weights: tuple[float, ...] = ()
    """The weights of the classes of a weighted average."""

    options = (
        Option("metric", str, "The gap of a score of the whole test set, such as f1 or auc."),
        Option("floor", float, 'With --metric: answer "below the floor" below it.'),
        Option("classes", int, "With --metric: classes that are averaged. Default: 2."),
        Option("weights", list, "With --metric weighted: weights of the classes, as 0.5,0.3,0.2."),
        Option(
            "prevalence",
            float,
            "With --metric: share of positives, or of the smallest class where all count.",
        ),
        Option("positive", str, "With --metric and --toml: the positive class.", of_meter=True),
    )

    @classmethod
    def asked(cls, given: dict[str, Any]) -> Self:
        """Build it from options; the prevalence, which the plan needs, is checked."""
        name = given.pop("metric")
        if not isinstance(name, str):
            raise invalid("metric", name, f"one of {', '.join(KINDS)}")
        given.pop("positive", None)
        prevalence = given.pop("prevalence", None)
        if prevalence is not None and prevalence > 0.5 and name not in _OF_POSITIVES:
            # Then the other class would be the smaller one.
            raise invalid("prevalence", prevalence, "the share of the smallest class, at most 0.5")
        averaged = name in KINDS and KINDS[name].classes
        return cls(
            name,
            Bands.asked(given),
            floor=given.pop("floor", None),
            classes=given.pop("classes", 2 if averaged else 1),
            weights=listed("weights", given.pop("weights", ())),
        )

    def meter(self, plan: Plan, given: dict[str, Any]) -> MeterSpec:
        return self.bands.spec().replace(
            steps=plan.budget.steps,
            delta=plan.budget.delta,
            tries=plan.budget.tries,
            loss=self._loss(given.get("positive")),
            floor=self.floor,
            rows=plan.rows,
        )

    @property
    def may_be_tried(self) -> bool:
        """Whether the labels alone say how much there is of what it is counted of."""
        return self.name in SCORES and SCORES[self.name].sealed

    def _loss(self, positive: str | None) -> str:
        if self.name in PLANNED_ONLY:
            raise invalid("--toml", self.name, PLANNED_ONLY[self.name])
        if SCORES[self.name].averaged:
            inside = "[0.6,0.4]" if self.name == WEIGHTED else ""
            example = f'loss = "{self.name}{inside}" and classes = ["a", "b"]'
            needed = f"write a meter.toml with the classes by name: {example}"
            raise invalid("--toml", self.name, needed)
        if positive is None:
            raise invalid("positive", None, "name the positive class, as in --positive fraud")
        return f"{self.name}[{positive}]"

    def __post_init__(self) -> None:
        if (why := why_not(self.name)) is not None:
            raise invalid("metric", self.name, why)
        if self.name not in KINDS:
            raise invalid("metric", self.name, f"one of {', '.join(KINDS)}")
        if self.floor is not None:
            finite("floor", self.floor)
            if not self.kind.floor:
                raise invalid("floor", self.floor, f"it saves no label of {self.name}")
            if self.bands.drawn is not None:
                raise invalid("floor", self.floor, "not with drawn edges: nobody has proved it")
            if not 0 < self.floor < 1:
                raise invalid("floor", self.floor, "a score between 0 and 1 (both excluded)")
        whole("classes", self.classes, at_least=2 if self.kind.classes else 1)
        if self.classes > (MAX_CLASSES if self.kind.classes else 1):
            most = f"at most {MAX_CLASSES:,}" if self.kind.classes else "only averages have classes"
            raise invalid("classes", self.classes, most)
        for weight in self.weights:
            finite("weights", weight)
        if bool(self.weights) != (self.name == "weighted"):
            raise invalid("weights", list(self.weights), '"weighted" needs them, no other metric')
        if self.weights and (min(self.weights) <= 0 or sum(self.shares) != 1):
            raise invalid("weights", list(self.weights), "numbers above 0 that sum to 1")
        if len(self.weights) > MAX_CLASSES:
            raise invalid("weights", len(self.weights), f"at most {MAX_CLASSES:,}")

    @property
    def kind(self) -> MetricKind:
        """What is known of this metric."""
        return KINDS[self.name]

    @property
    def counted_classes(self) -> int:
        """Those that are averaged; of a ranking, both."""
        return max(self.classes, 1 if self.name in _OF_POSITIVES else 2)

    @property
    def shares(self) -> tuple[Fraction, ...]:
        """The weight of each class, exactly as written."""
        if self.weights:
            return tuple(as_written(weight) for weight in self.weights)
        return (Fraction(1, self.classes),) * self.classes

    @property
    def statistic(self) -> str:
        return score_gap(self.name, curve=self.name == "roc")

    @property
    def unit(self) -> str:
        return self.kind.unit

    @property
    def answers(self) -> tuple[str, ...]:
        silent = () if self.kind.silent is None else (self.kind.silent,)
        return (*self.bands.answers, *((BELOW_FLOOR,) if self.floor else ()), *silent)

    @property
    def promised(self) -> str:
        within = f"is within {at_most(self.tolerance)} of its true one"
        if self.name == "roc":
            return f"{scores.curve_promise(at_most(self.tolerance))}."
        excuse = ""
        if self.floor is not None:
            some = "with a class " if self.kind.classes else ""
            excuse = f' (or is reported as {some}"{BELOW_FLOOR}", {at_most(self.floor)})'
        if self.kind.silent is not None:
            excuse += TOO_FEW_EXCUSED
        return f"each model's {self.name} on the test set {within}{excuse}."

    @property
    def assumptions(self) -> tuple[str, ...]:
        found = [*COMMON_ASSUMPTIONS, *self.bands.assumptions]
        if self.unit != "labels":  # how many of the rows count is seen once they are drawn
            found.append(FIXED_SIZE)
        if self.floor is not None:
            edge = at_least(self.floor)
            found.append(f"no answer tells a band edge within two tolerances above {edge}")
        return tuple(found)

    def composed(self, steps: int, delta: float) -> Meter:
        """Return a meter of this score; of its classes, only the number matters."""
        gap, loss = self.bands.gap(self.floor), self.name
        names = tuple(map(str, range(max(self.classes, len(self.weights)))))
        if self.name == "accuracy":  # the loss 0-1, whose ceiling the floor is
            ceiling = None if self.floor is None else 1 - as_written(self.floor)
            gap = msgspec.structs.replace(gap, floor=None, ceiling=ceiling)
            loss = "0-1"
        elif self.name == WEIGHTED:
            loss += "[" + ",".join(f"{Decimal(repr(each)):f}" for each in self.weights) + "]"
        elif not self.kind.classes:
            loss, names = f"{self.name}[1]", ()
        rows = Rows(loss=loss, classes=names if self.name != "accuracy" else ())
        return Meter(question=gap, budget=Steps(steps=steps), sample=rows, delta=exact(delta))
