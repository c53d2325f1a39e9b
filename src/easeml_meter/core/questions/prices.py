"""What each question costs a test set that may be asked several, in nats.

Of delta, a history of questions and answers has a share D left, which only the questions asked so
far decide. A question is accepted while its tail t is at most D. It then leaves

    D' = (D - t) / b          where a reading has b consistent answers,
    D' = min(D - t, D / 2)    for pass or fail: a model that can pass wrongly leads on by "fail".

At each node of the tree, the event of its question and the shares of its consistent answers thus
come to at most D; so over the whole tree they come to at most delta (Theorem 4), whichever
questions the developer chooses. Whether one is accepted tells nothing: no answer decides it.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from easeml_meter.core.questions.question import Question

UNIT = 1e-9
"""Nats are entered in the books as whole numbers of these, rounded up: they add up anywhere."""
CLOSED = 10**18
"""Entered where a question has used up all that was left."""
_FORECAST = 1_000
"""Answers to one question that are counted ahead."""
_MOST = 100_000
"""Answers that are promised at most."""


@dataclass(frozen=True, slots=True)
class Price:
    """What one question costs next, and how much there is for it."""

    question: str
    nats: float
    """By how much an answer to it lowers what is left for every question. The last answer to a
    question lowers it by more than was left for that one."""
    left: float
    """How much is left for this question; below 0 it is refused."""
    answers: int
    """How many answers that is if nothing else is asked."""
    closes: bool = False
    """Whether nothing at all can be asked after it."""

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        return asdict(self)


@dataclass(frozen=True)
class Prices:
    """The questions of one test set, with the failure probability that they share."""

    questions: tuple[Question, ...]
    labels: int
    delta: float

    @cached_property
    def _tails(self) -> tuple[float, ...]:
        return tuple(question.log_tail(self.labels) for question in self.questions)

    def _share(self, spent: int) -> float:
        """Return log D."""
        return -math.inf if spent >= CLOSED else math.log(self.delta) - spent * UNIT

    def allows(self, spent: int, number: int) -> bool:
        """Whether a question can be asked after this much was spent."""
        return self._tails[number] <= self._share(spent)

    def after(self, spent: int, number: int) -> int:
        """Return what is spent once a question was answered, whatever the answer is."""
        share = self._share(spent)
        left = self.questions[number].log_left(share, self._tails[number])
        if left == -math.inf:
            return CLOSED
        return math.ceil((math.log(self.delta) - left) / UNIT) + 1  # more than rounding can hide

    def price(self, spent: int, number: int, name: str) -> Price:
        """Return what a question costs now; one that closes the test set, all that is left."""
        left = self._share(spent) - self._tails[number]
        if left < 0:
            return Price(name, 0.0, 0.0, 0)
        following = self.after(spent, number)
        closes = not any(self.allows(following, each) for each in range(len(self.questions)))
        nats = left if following == CLOSED else (following - spent) * UNIT
        answers = 0
        while self.allows(spent, number) and answers < _FORECAST:
            spent, answers = self.after(spent, number), answers + 1
        return Price(name, nats, left, answers, closes)

    def promised(self, spent: int) -> int:
        """Return how many answers follow, whatever is asked."""
        return bisect_right(self._needed, self._share(spent))

    @cached_property
    def _needed(self) -> list[float]:
        """The log of the share that is needed for one answer, for two, .., up to delta."""
        found: list[float] = []
        most, needed = math.log(self.delta), max(self._tails)
        while needed <= most and len(found) < _MOST:
            found.append(needed)
            pairs = zip(self.questions, self._tails, strict=True)
            needed = max(question.log_needed(found[-1], tail) for question, tail in pairs)
        return found

    def battery(self, spent: int) -> float:
        """Return the share of the nats that is left for the question that needs fewest."""
        least = min(self._tails)
        return max(0.0, self._share(spent) - least) / (math.log(self.delta) - least)
