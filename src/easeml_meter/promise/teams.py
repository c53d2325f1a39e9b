"""Teams on one test set: counted apart, or together where they start from each other's models."""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, ClassVar

from easeml_meter.errors import invalid
from easeml_meter.promise.budgets import Run, Steps
from easeml_meter.promise.closing import Closing, Shares
from easeml_meter.promise.schema import Setting, Settings
from easeml_meter.promise.shapes import Answer, State

_MOST_TEAMS = 1_000


class Teams(Settings, frozen=True, kw_only=True):
    """Answers of each team, and whether the teams may start from each other's models."""

    teams: Annotated[tuple[int, ...], Setting("answers of each team", least=1, most=10**9)]
    handover: Annotated[
        bool, Setting("teams may start from each other's models: they share all answers")
    ] = False
    each: Annotated[
        Settings | None, Setting("what closes the test set for a team; none: its answers")
    ] = None
    start: ClassVar[State] = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 2 <= len(self.teams) <= _MOST_TEAMS:
            raise invalid("teams", len(self.teams), f"2 to {_MOST_TEAMS:,} teams")
        if self.each is not None and not isinstance(self.each, Closing | Shares):
            raise invalid("teams", type(self.each).__name__, "closing, shares, or nothing")

    @property
    def _counter(self) -> Closing | Shares:
        """What levels follow, of each team or of all together."""
        if not isinstance(self.each, Closing | Shares):
            raise AssertionError("steps of teams are counted alike")
        return self.each

    @property
    def steps(self) -> int:
        """The answers of all teams."""
        return sum(self.teams)

    @property
    def last_pass(self) -> int | None:
        """The pass of this number closes the test set for a team."""
        return self.of(1).last_pass

    @property
    def last_alarm(self) -> int | None:
        """The alarm of this number does."""
        return self.of(1).last_alarm

    @property
    def apart(self) -> int:
        """How many trees share delta, where levels follow the history of a team."""
        return 1 if self.handover else len(self.teams)

    def of(self, team: int) -> Steps | Closing | Shares:
        """Return the budget of one team, or of all of them together."""
        steps = self.steps if self.handover else self.teams[team - 1]
        return Steps(steps=steps) if self.each is None else self._counter

    def runs(self) -> tuple[Run, ...]:
        """One tree for each team, or one for all; teams of a size are counted once."""
        if self.handover:
            return (Run(1, 0, self.steps - 1),)
        sizes = sorted(set(self.teams))
        return tuple(Run(self.teams.count(size), 0, size - 1) for size in sizes)

    def level(self, spent: State) -> Fraction:
        """Return the share of delta of a team whose levels follow its answers."""
        return self._counter.level(spent) / self.apart

    def after(self, spent: State, answer: Answer) -> State:
        """Return the state of one team's budget after its answer."""
        return spent if self.each is None else self._counter.after(spent, answer)

    def open(self, spent: State) -> bool:
        """Return whether the answers of one team leave the test set open to it."""
        return self.each is None or self._counter.open(spent)
