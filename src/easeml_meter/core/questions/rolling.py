"""The gap on a rolling test set: each step adds a batch of labels and releases the oldest one.

The window of a step is its last W batches. A model depends on what has been released, which is
independent of the window, and on the answers of the last W - 1 steps, which are not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from easeml_meter.checks import whole
from easeml_meter.core.questions.bands import Bands, InBands
from easeml_meter.core.questions.question import Option, check_tried_once
from easeml_meter.errors import invalid
from easeml_meter.promise.assumptions import (
    COMMON_ASSUMPTIONS,
    PUBLIC_INPUTS,
    RIGHT_OR_WRONG,
)
from easeml_meter.promise.budgets import Steps
from easeml_meter.promise.meter import Meter
from easeml_meter.promise.numbers.rounding import at_most
from easeml_meter.promise.renewals import Window
from easeml_meter.promise.samples import Rows
from easeml_meter.promise.schema import exact
from easeml_meter.spec import MeterSpec

if TYPE_CHECKING:
    from easeml_meter.core.questions.planning import Plan

MAX_WINDOW = 10**6


@dataclass(frozen=True)
class Rolling(InBands):
    """The size is that of one batch; steps are those that share one delta, such as a year's."""

    bands: Bands
    window: int
    """How many batches are in use at a time, W."""
    submissions: int = 1
    """Submissions that are answered for each batch, q."""
    silent: int = 0
    """Answers without a reading, which can come at any step."""
    public: bool = False
    """Whether developers see the inputs of the window."""

    options = (
        Option("rolling", bool, "Each step adds a batch of labels, and frees one."),
        Option("window", int, "With --rolling: batches in use at a time."),
        Option("batch", int, "With --rolling: labels a batch that you have."),
        Option("submissions", int, "With --rolling: answers for each batch. Default: 1."),
    )
    size_option = "batch"

    @classmethod
    def asked(cls, given: dict[str, Any]) -> Self:
        if given.pop("rolling") is not True:
            raise invalid("rolling", False, "true, or leave it out")
        if "window" not in given:
            raise invalid("window", None, "give the number of batches in use, such as 52")
        return cls(Bands.asked(given), given.pop("window"), given.pop("submissions", 1))

    @classmethod
    def completed(cls, given: dict[str, Any]) -> dict[str, Any]:
        """Without steps, a tolerance is promised for as many as one window has."""
        if "batch" in given and "tolerance" not in given:
            return {"steps": given.get("window")} | given
        return given

    def meter(self, plan: Plan, given: dict[str, Any]) -> MeterSpec:
        check_tried_once(plan)
        return self.bands.spec().replace(
            steps=plan.budget.steps,
            delta=plan.budget.delta,
            window=self.window,
            submissions=self.submissions,
        )

    def __post_init__(self) -> None:
        whole("window", self.window, at_least=1)
        whole("submissions", self.submissions, at_least=1)
        if self.window * self.submissions > MAX_WINDOW:
            raise invalid("window", self.window, f"at most {MAX_WINDOW:,} submissions in a window")

    @classmethod
    def of_meter(cls, spec: MeterSpec) -> Self | None:
        if spec.window is None:
            return None
        bands = Bands(spec.tolerances[0], spec.signals, spec.edges, spec.drawn)
        public = spec.inputs == "public"
        return cls(bands, spec.window, spec.submissions, spec.silent_answers, public)

    def around(self, spec: MeterSpec) -> tuple[str, ...]:
        """Nothing: its own words say who sees the inputs, and what delta is for."""
        return ()

    @property
    def statistic(self) -> str:
        last = "last batch" if self.window == 1 else f"last {self.window:,} batches"
        return f"the gap between validation loss and the loss on the {last}"

    @property
    def unit(self) -> str:
        return "labels a batch"

    @property
    def answers(self) -> tuple[str, ...]:
        return (*self.bands.answers, *(["no reading"] if self.silent else []))

    @property
    def promised(self) -> str:
        return (
            f"each model's loss on its window is within {at_most(self.tolerance)} of its "
            "true loss, averaged over the window."
        )

    @property
    def assumptions(self) -> tuple[str, ...]:
        """Drift is allowed, feedback into what is sampled is not."""
        _, *common = COMMON_ASSUMPTIONS
        return (
            "each batch is a random sample of its time, and developers learn nothing about a batch "
            "in use except the meter's answers; what has left the window is known to them",
            *common,
            RIGHT_OR_WRONG,
            *self.bands.assumptions,
            "batches are independent of each other and do not react to answers: no deployed model "
            "changes what is sampled",
            *([PUBLIC_INPUTS] if self.public else []),
            "delta covers the first so many windows; as many further ones cost another delta",
        )

    def together(self, steps: int) -> str:
        """Say that further windows are not among them."""
        return f"in {windows_together(steps, 1)}"

    def notes(self, steps: int, size: int, nats: float) -> tuple[str, ...]:
        batches = "1 batch" if self.window == 1 else f"{self.window:,} batches"
        return (f"the first step needs {batches}, {size * self.window:,} labels",)

    def composed(self, steps: int, delta: float) -> Meter:
        """Return a meter on a rolling test set; drift inside a window is allowed."""
        return Meter(
            question=self.bands.gap(),
            budget=Steps(steps=steps),
            sample=Rows(models=bool(self.silent)),
            renewal=Window(window=self.window, answers=self.submissions),
            delta=exact(delta),
        )


def windows_together(steps: int, number: int) -> str:
    """Name this window, those that share its delta, and all before them.

    Nothing smaller is proved of the later ones alone: once a promise was broken, more models are
    possible than were counted.
    """
    last = -(-number // steps) * steps
    return "the first window" if last == 1 else f"the first {last:,} windows together"
