"""Several questions on one test set and one budget, in any order that a developer chooses.

Which question is asked after a history is fixed by the history, so at each node of the tree there
is one event, of the question asked there, and as many branches as it has consistent answers.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Self

from easeml_meter.core.questions.kinds import question_of
from easeml_meter.core.questions.passing import PassFail
from easeml_meter.core.questions.question import Question, Words
from easeml_meter.core.signals import Rules
from easeml_meter.errors import invalid
from easeml_meter.spec import MeterSpec
from easeml_meter.stats import passing
from easeml_meter.stats.counting import log_geometric

MAX_QUESTIONS = 20


@dataclass(frozen=True)
class Mixed(Question):
    """Any of these questions at each step."""

    questions: tuple[Question, ...]
    names: tuple[str, ...] = ()
    """What a submission calls them; empty: they have no meter."""

    def __post_init__(self) -> None:
        if not 2 <= len(self.questions) <= MAX_QUESTIONS:
            raise invalid("question", f"{len(self.questions)} of them", f"2 to {MAX_QUESTIONS}")
        for question in self.questions:
            if question.consistent is None or question.unit != "labels":
                raise invalid("question", question.statistic, "not to be mixed with others")

    @classmethod
    def of_meter(cls, spec: MeterSpec) -> Self | None:
        """Return all questions of a meter that asks several."""
        return cls(tuple(map(question_of, spec.each)), spec.questions) if spec.also else None

    def rules(self, spec: MeterSpec) -> Rules:
        """Return the rule of the usual question, which is the first."""
        return self.questions[0].rules(spec)

    @property
    def statistic(self) -> str:
        """All of them."""
        return "; ".join(question.statistic for question in self.questions)

    @property
    def words(self) -> Words:
        """Each answer is to one of them."""
        listed = "; ".join(self.names or (each.statistic for each in self.questions))
        return Words(
            tells="any of these, as a submission asks",
            meaning=f"Each answer is to one of these questions: {listed}.",
            caption=f"One column per step, each the answer to one of these questions: {listed}.",
            heading=listed,
            remains="each answer holds of it",
        )

    @property
    def answers(self) -> tuple[str, ...]:
        """All of theirs, each once."""
        every = (answer for question in self.questions for answer in question.answers)
        return tuple(dict.fromkeys(every))

    @property
    def consistent(self) -> int | Fraction:
        """The most that any of them has."""
        return max(question.consistent or 1 for question in self.questions)

    @property
    def promised(self) -> str:
        """Each promise for the answers to its question."""
        parts = (f'to "{each.statistic}": {each.promised}' for each in self.questions)
        return "of the answers " + " And of those ".join(parts)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """All of theirs, each once."""
        every = (line for question in self.questions for line in question.assumptions)
        return tuple(dict.fromkeys(every))

    def work(self, size: int) -> float:
        """Add up what the questions cost."""
        return sum(question.work(size) for question in self.questions)

    def log_models(self, steps: int) -> float:
        """Count the nodes of the largest tree.

        A model that can pass wrongly leads on by "fail" only, so conditions alone have 2^(T-1). One
        reading with b >= 2 consistent answers is an event and b branches: 1 + b + .. + b^(T-1).
        """
        if all(isinstance(question, PassFail) for question in self.questions):
            return passing.log_models(steps)
        return log_geometric(self.consistent, steps)

    def log_tail(self, size: int) -> float:
        """Return the largest tail."""
        return max(question.log_tail(size) for question in self.questions)

    def log_tail_from(self, size: int) -> float:
        """Return the same for this size and all larger ones."""
        return max(question.log_tail_from(size) for question in self.questions)

    def enough(self, nats: float) -> int:
        """Return what is enough for the question that needs most."""
        return max(question.enough(nats) for question in self.questions)
