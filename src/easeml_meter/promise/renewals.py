"""Renewals: which rows the next test set has, and so how many trees of histories share delta.

Test sets are numbered from 1, and so are the batches of rows that labelers deliver. Which batches a
test set has, and how many answers it gives, is all that renewals differ in.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from easeml_meter.errors import invalid
from easeml_meter.promise.schema import Setting, Settings

_MOST_SHARING = 10**6


class Fresh(Settings, frozen=True, kw_only=True):
    """A new test set when one is spent: each has a delta of its own."""

    noun: ClassVar[str] = "test set"
    """What people call the rows that answer for a while."""
    rolls: ClassVar[bool] = False
    """Whether batches follow each other without end."""
    joined: ClassVar[bool] = False
    """Whether rows ever join a test set."""
    anew: ClassVar[bool] = False
    """Whether every step has rows of its own."""

    def gives(self, budget: Any, number: int) -> int | None:
        """Return how many answers a test set gives; None: no end."""
        return None if isinstance(budget.steps, str) else budget.steps

    def batches(self, number: int) -> range:
        """Return the numbers of the batches that a test set has."""
        return range(number, number + 1)

    def joins(self, number: int) -> bool:
        """Whether rows of the test set before stay in use in this one."""
        return False

    def leaves(self, number: int) -> int:
        """Return how many batches leave when this test set begins."""
        return 0

    def last_sharing(self, number: int) -> int:
        """Return the last test set that has rows of this one."""
        return number

    def first_sharing(self, budget: Any, number: int) -> int:
        """Return the first test set whose answers may share rows or a delta with this one's."""
        return number

    def stage(self, number: int) -> int:
        """Return 1 for a test set that has more rows than the first of its delta, else 0."""
        return 0


class EveryStep(Fresh, frozen=True, kw_only=True):
    """A new test set for every step: the paper's resampling, a baseline and no meter."""

    every_step: Annotated[bool, Setting("a new test set for every step (a baseline)")] = True
    anew: ClassVar[bool] = True


class Window(Fresh, frozen=True, kw_only=True):
    """A rolling test set: the last batches, of which the oldest leaves when one arrives."""

    window: Annotated[int, Setting("batches in use at a time", least=1, most=_MOST_SHARING)]
    answers: Annotated[int, Setting("answers for each batch", least=1, most=_MOST_SHARING)] = 1
    noun: ClassVar[str] = "window"
    rolls: ClassVar[bool] = True
    joined: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.window * self.answers > _MOST_SHARING:
            raise invalid("window", self.window, f"at most {_MOST_SHARING:,} answers in a window")

    def gives(self, budget: Any, number: int) -> int:
        """Return the answers for each batch."""
        return self.answers

    def batches(self, number: int) -> range:
        """Return the last batches that have come; the first window comes at once."""
        return range(number, number + self.window)

    def joins(self, number: int) -> bool:
        """Whether a batch joins those that stay: not the first window."""
        return number > 1

    def leaves(self, number: int) -> int:
        """Return how many batches leave: the oldest one."""
        return int(number > 1)

    def last_sharing(self, number: int) -> int:
        """Return the last window with a batch of this one."""
        return number + self.window - 1

    def first_sharing(self, budget: Any, number: int) -> int:
        """Return the first window of those that share a batch or a delta with this one."""
        return max(1, number - max(self.window, int(budget.steps)) + 1)


class TopUp(Fresh, frozen=True, kw_only=True):
    """Fresh labels join a spent test set once, and it answers again."""

    then: Annotated[int, Setting("answers after fresh labels have joined", least=1, most=10**9)]
    joined: ClassVar[bool] = True

    def gives(self, budget: Any, number: int) -> int | None:
        """Return those of the budget, or those after labels have joined."""
        return self.then if self.stage(number) else super().gives(budget, number)

    def batches(self, number: int) -> range:
        """Return its own batch, and that of the test set it tops up."""
        return range(number - self.stage(number), number + 1)

    def joins(self, number: int) -> bool:
        """Whether it tops up the one before: every second one does."""
        return number % 2 == 0

    def last_sharing(self, number: int) -> int:
        """Return the top-up."""
        return number + number % 2

    def stage(self, number: int) -> int:
        """Return 1 for a top-up."""
        return int(self.joins(number))


Renewal = Fresh | EveryStep | Window | TopUp
