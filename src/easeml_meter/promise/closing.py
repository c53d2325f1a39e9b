"""Budgets that follow the answers: a rare answer pays, a usual one is nearly free."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from functools import lru_cache
from typing import Annotated, ClassVar, Literal

from easeml_meter.errors import invalid
from easeml_meter.promise.budgets import MOST_STEPS
from easeml_meter.promise.kernel import Alarms, Stake, alarm_shares
from easeml_meter.promise.schema import NO_END, Exacts, Setting, Settings
from easeml_meter.promise.shapes import Answer, State

_KINDS = ("alarms", "fails", "passes", "keeps")
_MOST_COUNTED = 10_000
_MOST_WALKED = 1_000_000
_NO = ("alarm", "fail", "discard", "no")


class Closing(Settings, frozen=True, kw_only=True):
    """The answer of one kind and this number closes the test set."""

    alarms: Annotated[
        int | None, Setting("this alarm closes the test set", least=1, most=_MOST_COUNTED)
    ] = None
    fails: Annotated[
        int | None, Setting("this fail closes the test set", least=1, most=_MOST_COUNTED)
    ] = None
    passes: Annotated[
        int | None, Setting("this pass closes the test set", least=1, most=_MOST_COUNTED)
    ] = None
    keeps: Annotated[
        int | None, Setting("this keep closes the test set", least=1, most=_MOST_COUNTED)
    ] = None
    steps: Annotated[
        int | Literal["no end"],
        Setting("answers of one test set", least=1, most=MOST_STEPS),
    ] = 10
    shares: Annotated[
        Exacts | None,
        Setting("how alarms divide delta, by how many there were", above=0, most=1),
    ] = None
    start: ClassVar[State] = (0,)
    teams: ClassVar[tuple[int, ...]] = ()
    apart: ClassVar[int] = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        kinds = [kind for kind in _KINDS if getattr(self, kind) is not None]
        if not kinds or (len(kinds) > 1 and set(kinds) != {"passes", "fails"}):
            raise invalid("budget", ", ".join(kinds) or "nothing", f"one of {', '.join(_KINDS)}")
        if self.steps == NO_END and self.closes_on_yes:
            raise invalid("steps", NO_END, "alarms and fails only: levels of claims must fall")
        if self.shares is not None:
            if len(kinds) > 1 or len(self.shares) != getattr(self, kinds[0]):
                raise invalid("shares", len(self.shares), f"one for each of the {kinds[0]}")
            if sum(self.shares) > 1:
                raise invalid("shares", float(sum(self.shares)), "numbers that sum to 1 at most")

    @property
    def last_pass(self) -> int | None:
        """The pass of this number closes the test set."""
        return self.passes

    @property
    def last_alarm(self) -> int | None:
        """The alarm of this number does."""
        return self.alarms

    @property
    def closes_on_yes(self) -> bool:
        """Whether answers that claim something are the rare ones."""
        return self.passes is not None or self.keeps is not None

    @property
    def _most_no(self) -> int | None:
        return self.alarms or self.fails

    @property
    def _most_yes(self) -> int | None:
        return self.passes or self.keeps

    def after(self, spent: State, answer: Answer) -> State:
        """Count the answer, and note at which one a rare one came: (answers, yes, places of no)."""
        asked, *rung = spent if isinstance(spent, tuple) else (spent,)
        asked += 1
        rare = answer in _NO if self._most_no and not self.closes_on_yes else answer not in _NO
        if self._most_no and self.closes_on_yes:  # both close: rung has (yes, no)
            yes, no = rung or (0, 0)
            return (asked, yes + rare, no + (not rare))
        return (asked, *rung, asked) if rare else (asked, *rung)

    def open(self, spent: State) -> bool:
        """Return whether the rare answers so far leave the test set open."""
        _asked, *rung = spent if isinstance(spent, tuple) else (spent,)
        if self._most_no and self._most_yes:
            yes, no = rung or (0, 0)
            return yes < self._most_yes and no < self._most_no
        return len(rung) < (self._most_no or self._most_yes or 0)

    def rare_left(self, spent: State) -> int:
        """Return how many rare answers it takes to close the test set: so many are promised."""
        _, *rung = spent if isinstance(spent, tuple) else (spent,)
        if self._most_no and self._most_yes:
            yes, no = rung or (0, 0)
            return min(self._most_yes - yes, self._most_no - no)
        return (self._most_no or self._most_yes or 0) - len(rung)

    def level(self, spent: State) -> Fraction:
        """Return the share of delta at which the next claim is tested."""
        asked, *rung = spent if isinstance(spent, tuple) else (spent,)
        if not self.open(spent):
            return Fraction(0)
        if self._most_no and not self._most_yes:
            alarms = Alarms(asked, tuple(rung))
            if self.shares is None and self.alarms is None and isinstance(self.steps, int):
                return Fraction(1, _histories(self.steps, self._most_no, None))
            return alarms.level(Fraction(1), self._divided, self._steps)
        if isinstance(self.steps, str):
            raise AssertionError("passes and keeps have an end")
        if self.shares is None:
            return Fraction(1, _histories(self.steps, self._most_no, self._most_yes))
        if asked >= self.steps:
            return Fraction(0)
        return self._scaled[len(rung)]

    @property
    def _steps(self) -> int | None:
        return None if isinstance(self.steps, str) else self.steps

    @property
    def _divided(self) -> tuple[Fraction, ...]:
        return self.shares or alarm_shares(self._most_no or 1)

    @property
    def _scaled(self) -> tuple[Fraction, ...]:
        """Levels by the shares of passes, divided by what they sum to on the heaviest tree."""
        steps, most = self._steps or 1, len(self.shares or ())
        raw = [
            share / math.comb(steps, number + 1) if steps > number else Fraction(0)
            for number, share in enumerate(self.shares or ())
        ]
        # V(t, j) = V(t-1, j) + max(level j, V(t-1, j+1)), by layers.
        row = [Fraction(0)] * (most + 1)
        for _ in range(min(steps, _MOST_COUNTED)):
            row = [row[j] + max(raw[j], row[j + 1]) for j in range(most)] + [Fraction(0)]
        return tuple(level / row[0] for level in raw)


class Shares(Settings, frozen=True, kw_only=True):
    """The gate: an answer stakes what is left of delta over the looks left; a keep pays for it."""

    gate: Annotated[bool, Setting("stake shares of what is left, as a gate does")] = True
    steps: Annotated[
        int | Literal["no end"], Setting("answers of one test set", least=1, most=MOST_STEPS)
    ] = NO_END  # type: ignore[assignment]
    start: ClassVar[State] = (1, 1, 0, 0)
    teams: ClassVar[tuple[int, ...]] = ()
    apart: ClassVar[int] = 1
    last_pass: ClassVar[int | None] = None
    last_alarm: ClassVar[int | None] = None

    def stake(self, spent: State) -> Stake:
        """Return what is left: the state is (numerator, denominator, looks, discards since)."""
        if not isinstance(spent, tuple):
            raise TypeError(spent)
        above, below, asked, since = spent
        return Stake(Fraction(above, below), asked, since)

    def level(self, spent: State) -> Fraction:
        """Return the share of delta that the next answer stakes."""
        return self.stake(spent).level(None if isinstance(self.steps, str) else self.steps)

    def after(self, spent: State, answer: Answer) -> State:
        """Return what is left after an answer."""
        left = self.stake(spent).after(self.level(spent), answer not in _NO)
        return (left.share.numerator, left.share.denominator, left.asked, left.since)

    def open(self, spent: State) -> bool:
        """Return whether a look is left."""
        return self.level(spent) > 0


@lru_cache(maxsize=1024)
def _histories(steps: int, fails: int | None, passes: int | None) -> int:
    """Count the false claims on the heaviest tree, where the last of these answers closes."""
    if fails is None or passes is None:
        # sum of C(T-1, i): over i < k for fails, and i <= k for passes.
        last = (passes if fails is None else fails - 1) or 0
        term = total = 1
        for i in range(min(last, steps - 1)):
            term = term * (steps - 1 - i) // (i + 1)
            total += term
        return total
    if steps * passes * fails > _MOST_WALKED:
        most = _MOST_WALKED // (passes * fails)
        raise invalid("steps", steps, f"counted step by step: at most {most:,}")
    # f(t, yes left, no left) = max(1 + f(t-1, y, n-1), f(t-1, y-1, n) + f(t-1, y, n-1)).
    table = [[0] * (fails + 1) for _ in range(passes + 1)]
    for _ in range(steps):
        grown = [[0] * (fails + 1) for _ in range(passes + 1)]
        for yes, no in itertools.product(range(1, passes + 1), range(1, fails + 1)):
            down = table[yes][no - 1]
            grown[yes][no] = max(1 + down, table[yes - 1][no] + down)
        table = grown
    return table[passes][fails]
