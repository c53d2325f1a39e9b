"""A question as a value: all that options, the planner, the books and reports ask of it.

Every answer multiplies the histories that the next step can follow; a step is safe after a history
if its tail is below the share of delta that the history has. So a kind of question is its alphabet,
its tail, its rule and its words; `kinds` finds it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

from easeml_meter.errors import invalid
from easeml_meter.promise import solve
from easeml_meter.promise.assumptions import delta_words, inputs_assumption
from easeml_meter.promise.numbers.rounding import at_most
from easeml_meter.spec import MeterSpec

if TYPE_CHECKING:
    from easeml_meter.core.questions.planning import Plan
    from easeml_meter.promise.meter import Meter


@dataclass(frozen=True)
class Option:
    """An option of the planner that asks a question, or belongs to one."""

    name: str
    """As Python has it: `judge_error` is `--judge-error` on the command line."""
    kind: type
    """What it takes; `bool` is a flag, `list` are numbers with commas between them."""
    about: str
    """What it does, for the help of `meter plan`."""
    of_meter: bool = False
    """Whether it is for the meter that is made of the plan, and not for the plan."""


class Question(ABC):
    """One kind of question; its subclasses are frozen dataclasses.

    The gap of every variant of a meter is one of them, so what the planner and the reports need
    beyond a tail has a usual form here, which a question overrides.
    """

    options: ClassVar[tuple[Option, ...]] = ()
    """The option that asks for it, and those that go with that one only."""
    has_bands: ClassVar[bool] = False
    """Whether options give it bands, so that their tolerance can be asked for."""
    size_option: ClassVar[str] = "labels"
    """The option that gives the size, where the steps or the tolerance are asked for."""
    usual: ClassVar[bool] = False
    """Whether meters ask it that no other kind says are its own."""

    @classmethod
    def asked(cls, given: dict[str, Any]) -> Question:
        """Build the question from options, and take those out that it understands."""
        raise AssertionError(f"no option asks for {cls.__name__}")

    @classmethod
    def completed(cls, given: dict[str, Any]) -> dict[str, Any]:
        """Return the options given, with those that follow from others."""
        return given

    def meter(self, plan: Plan, given: dict[str, Any]) -> MeterSpec:
        """Return a meter that asks what the options asked, for the steps and delta of a plan.

        Raises:
            InvalidInput: An option is missing, or no meter asks this.
        """
        raise invalid("--toml", self.statistic[:200], "no meter asks this yet")

    @classmethod
    def of_meter(cls, spec: MeterSpec) -> Question | None:
        """Return the question if a meter asks one of this kind; None: it does not."""
        return None

    @property
    @abstractmethod
    def statistic(self) -> str:
        """What is measured, in words."""

    @property
    @abstractmethod
    def answers(self) -> tuple[str, ...]:
        """Every answer that can be given."""

    @property
    @abstractmethod
    def promised(self) -> str:
        """What holds of every answer, as the end of a sentence."""

    @property
    @abstractmethod
    def assumptions(self) -> tuple[str, ...]:
        """Everything the promise rests on, in plain words."""

    def around(self, spec: MeterSpec) -> tuple[str, ...]:
        """What the promise of a meter that asks it rests on besides."""
        return (*inputs_assumption(spec.meter.sample), delta_words(spec.meter))

    @property
    def unit(self) -> str:
        """What the planned size counts."""
        return "labels"

    @property
    def counted_classes(self) -> int:
        """Of how many classes a test set has to hold as many rows as the planned size."""
        return 1

    @property
    def tolerance(self) -> float | None:
        """How far a reading may be off; None: the question says so itself."""
        return None

    @property
    def tolerances(self) -> tuple[float, ...]:
        """That of each band, if the smallest ones can be asked for; empty: they cannot."""
        return ()

    def with_tolerances(self, tolerances: Sequence[float]) -> Self:
        """Return the question with other tolerances."""
        raise AssertionError(f"{self.statistic} has no bands")

    @property
    def may_be_tried(self) -> bool:
        """Whether several tries at sealing can be planned: not where it has nothing to check."""
        return True

    def together(self, steps: int) -> str:
        """Say which answers share the probability of the promise, as part of a sentence."""
        return "in its one step" if steps == 1 else f"in all {steps:,} steps together"

    @property
    def promised_points(self) -> float | None:
        """By how much the truth may be worse than the validation set says, in points, at best."""
        return None

    @property
    def headline(self) -> str:
        """The sentence that will be printed with the best answer; empty: there is none."""
        return ""

    @property
    def below_headline(self) -> str:
        """What else is to be said first; empty: nothing."""
        return ""

    def notes(self, steps: int, size: int, nats: float) -> tuple[str, ...]:
        """What else a reader of a plan wants to know; exp(-nats) is the failure it allows."""
        return ()

    @abstractmethod
    def composed(self, steps: int, delta: float) -> Meter:
        """Return the meter that asks it so many times: what is counted, and bounded."""

    @property
    def terms(self) -> solve.Terms:
        """How the promise is counted."""
        return solve.terms

    def for_steps(self, steps: int) -> Self:
        """Return the question as it is asked in so many steps."""
        return self

    def details(self, plan: Plan) -> dict[str, Any]:
        """Return what a plan of this question says besides in JSON."""
        return {}

    @property
    def brief(self) -> str:
        """What is asked, in a few words."""
        return self.statistic

    @property
    def facts(self) -> dict[str, str]:
        """What is asked, as a table has it: names, and what stands beside them."""
        facts = {"question": self.statistic, "answers": ", ".join(self.answers)}
        return facts if self.tolerance is None else {"tolerance": at_most(self.tolerance), **facts}

    def settings(self, plan: Plan) -> dict[str, str]:
        """What else was planned, as a table has it."""
        return {}


def check_tried_once(plan: Plan) -> None:
    """Refuse a meter for a plan with several tries at sealing, where sealing checks nothing."""
    if plan.budget.tries > 1:
        given = f"{plan.budget.tries} tries"
        raise invalid("--toml", given, "a meter has one: leave out --tries")
