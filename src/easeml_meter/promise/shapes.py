"""Shapes: which answers stay consistent with every promise, and how many histories that leaves.

Only the first broken promise matters. Before it, the truth leaves few answers possible; a *cell* is
one such set, with the claim that may be broken there. A shape lists its cells at each state of the
answers so far, and knows how much they sum to over a run of depths. `heaviest` is the recursion of
the theorem itself, over cells alone: every closed form is tested against it, and a budget whose
levels follow the history is checked by it. (docs/mathematics.md, "Levels".)
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar, NamedTuple, Protocol

from easeml_meter.errors import invalid

Answer = str
State = tuple[int, ...] | int
"""What a log of answers folds to, for a question or a budget: small whole numbers."""
MOST_WALKED, MOST_DEPTH = 1_000_000, 10_000
"""Steps times bands, and steps, of a shape without a closed form: more takes too long."""


class Cell(NamedTuple):
    """One place where the truth may be: the claim that may be broken there, and what may be told.

    `leads` has each consistent answer, and how many of it there are (a mean where edges are drawn).
    """

    claim: int | None
    leads: Mapping[Answer, Fraction | int]


@dataclass(frozen=True)
class Flat:
    """Readings: a truth leaves `b` answers on average, and nothing is remembered.

    Attributes:
        b: How many answers one truth leaves.
        alphabet: How many answers there are in all; None: not a fixed set.
    """

    b: Fraction
    alphabet: int | None = None
    start: ClassVar[int] = 0

    def cells(self, told: int) -> tuple[Cell, ...]:
        """Every truth is of one kind."""
        return (Cell(0, {"band": self.b}),)

    def after(self, told: int, answer: Answer) -> int:
        """Nothing is remembered."""
        return 0

    def log_mass(self, first: int, last: int) -> Mapping[int, float]:
        """Sum b^first + .. + b^last."""
        terms = last - first + 1
        if self.b == 1:
            return {0: math.log(terms)}
        rate = math.log1p(float(self.b - 1)) if self.b < 2 else math.log(self.b)
        grown = (first + terms) * rate
        return {0: grown + math.log(-math.expm1(-terms * rate)) - math.log(self.b - 1)}

    def with_silent(self, more: int) -> Flat:
        """Add answers that promise nothing, and may come whatever the truth is."""
        return replace(
            self,
            b=self.b + more,
            alphabet=None if self.alphabet is None else self.alphabet + more,
        )


@dataclass(frozen=True)
class Verdict:
    """Claims: a false one leads on by "no" alone, a true one by both answers."""

    start: ClassVar[int] = 0
    alphabet: ClassVar[int] = 2

    def cells(self, told: int) -> tuple[Cell, ...]:
        """A false claim, and a true one."""
        return (Cell(0, {"no": 1}), Cell(None, {"no": 1, "yes": 1}))

    def after(self, told: int, answer: Answer) -> int:
        """Nothing is remembered."""
        return 0

    def log_mass(self, first: int, last: int) -> Mapping[int, float]:
        """The heaviest tree has all its events at the last depth."""
        return {0: last * math.log(2)}

    def with_silent(self, more: int) -> Verdict:
        """Whatever cannot be measured is "no"."""
        return self


@dataclass(frozen=True)
class Climb:
    """The worst band so far, of m: it stays, or rises to one of the next b - 1.

    With drawn edges it rises by one, and that is consistent `rho` of the times. Each of `silent`
    answers leaves it where it is.
    """

    m: int
    b: int = 2
    rho: Fraction = Fraction(1)
    silent: int = 0
    start: ClassVar[int] = 0

    @property
    def alphabet(self) -> int | None:
        """Bands of drawn edges are no fixed set."""
        return self.m + self.silent if self.rho == 1 else None

    @property
    def possible(self) -> Fraction:
        """How many answers one truth leaves on average, were each about its own model."""
        return self.rho + (1 if self.rho < 1 else self.b - 1) + self.silent

    def cells(self, told: int) -> tuple[Cell, ...]:
        """One cell at each height."""
        leads = self._leads(told)
        return (Cell(told, {str(top + 1): ways for top, ways in leads.items()}),)

    def after(self, told: int, answer: Answer) -> int:
        """Answers number the bands from 1, heights are counted from 0."""
        return max(told, int(answer) - 1) if answer.isdecimal() else told

    def log_mass(self, first: int, last: int) -> Mapping[int, float]:
        """Sum the histories of these lengths by height: binomials where there is a closed form.

        Of two answers at each height, C(L, top) histories of length L end at a height; of all
        answers, C(L + top - 1, top). What would take long to walk is counted as if all answers were
        possible, which are never fewer.
        """
        if self.b <= 2 and not self.silent:
            return self._binomials(first, last)
        if self.b >= self.m and not self.silent:
            return self._of_all(first, last)
        if last >= MOST_DEPTH or last * self.m > MOST_WALKED:
            if not self.silent:
                return replace(self, b=self.m).log_mass(first, last)
            most = min(MOST_DEPTH, MOST_WALKED // self.m)
            raise invalid("steps", last + 1, f"counted step by step: at most {most:,}")
        total: Counter[int] = Counter()
        for counts in itertools.islice(self.layers(), first, last + 1):
            total.update(counts)
        return self.logs(total)

    def logs(self, counts: Mapping[int, int]) -> Mapping[int, float]:
        """Return logarithms of histories by height: of drawn edges, so many are consistent."""
        log_rho = math.log(self.rho) if self.rho else -math.inf
        return {
            top: log_of(count) + (top * log_rho if top else 0.0) for top, count in counts.items()
        }

    @property
    def walks(self) -> bool:
        """Whether there is no closed form."""
        return bool(self.silent) or 2 < self.b < self.m

    def _binomials(self, first: int, last: int) -> Mapping[int, float]:
        below, all_of, found = 1, 1, {}
        for top in range(min(self.m, last + 1)):  # C(first, top + 1) and C(last + 1, top + 1)
            below = below * (first - top) // (top + 1)
            all_of = all_of * (last + 1 - top) // (top + 1)
            if all_of > below:
                found[top] = all_of - below
        return self.logs(found)

    def _of_all(self, first: int, last: int) -> Mapping[int, float]:
        """Sum C(L + top - 1, top): C(last + top, top + 1) - C(first + top - 1, top + 1)."""
        found = {0: math.log(last - first + 1)}
        below, all_of = max(0, first - 1), last
        for top in range(1, self.m if last else 1):
            below = below * (first + top - 1) // (top + 1)
            all_of = all_of * (last + top) // (top + 1)
            if all_of > below:
                found[top] = log_of(all_of - below)
        return found

    def layers(self, b: int | None = None) -> Iterator[Mapping[int, int]]:
        """Yield, for each length, how many histories end at each height, if edges are not drawn."""
        b = self.b if b is None else b
        counts = [1]
        while True:
            yield {top: count for top, count in enumerate(counts) if count}
            # To a height rises what is below it by less than b: a difference of two sums.
            sums = [0, *itertools.accumulate(counts)]
            counts = [
                (counts[top] if top < len(counts) else 0) * (1 + self.silent)
                + sums[min(top, len(counts))]
                - sums[min(max(0, top + 1 - b), len(counts))]
                for top in range(min(self.m, len(counts) + b - 1))
            ]

    def _leads(self, top: int) -> dict[int, Fraction | int]:
        rise: Fraction | int = self.rho if self.b == 2 and self.rho != 1 else 1
        leads: dict[int, Fraction | int] = {top: 1 + self.silent}
        leads.update(dict.fromkeys(range(top + 1, min(self.m, top + self.b)), rise))
        return leads

    def with_silent(self, more: int) -> Climb:
        """Add answers that promise nothing."""
        return replace(self, silent=self.silent + more)


Shape = Flat | Verdict | Climb


class Levels(Protocol):
    """What the recursion asks of a budget."""

    @property
    def start(self) -> State:
        """The state before the first answer."""
        ...

    def after(self, spent: State, answer: Answer) -> State:
        """Return the state after an answer."""
        ...

    def open(self, spent: State) -> bool:
        """Return whether the answers so far leave the test set open."""
        ...


def heaviest(
    shape: Shape,
    budget: Levels,
    steps: int,
    tail: Callable[[int, State], Fraction | int] = lambda claim, spent: 1,
) -> Fraction | int:
    """Return the most that the tails of consistent histories can sum to: V of the theorem.

    At every node the developer chooses the truth, so the largest cell counts: its tail, and what
    all its consistent answers lead to. Exact; layer by layer, as deep trees overflow a stack.
    """
    layers: list[set[tuple[int, State]]] = [{(shape.start, budget.start)}]
    for _ in range(steps - 1):
        layers.append(
            {
                (shape.after(told, answer), budget.after(spent, answer))
                for told, spent in layers[-1]
                if budget.open(spent)
                for cell in shape.cells(told)
                for answer in cell.leads
            }
        )
    worth: dict[tuple[int, State], Fraction | int] = {}
    for layer in reversed(layers):
        here: dict[tuple[int, State], Fraction | int] = {}
        for told, spent in layer:
            here[told, spent] = 0
            if budget.open(spent):
                here[told, spent] = max(
                    (tail(cell.claim, spent) if cell.claim is not None else 0)
                    + sum(
                        ways
                        * worth.get((shape.after(told, answer), budget.after(spent, answer)), 0)
                        for answer, ways in cell.leads.items()
                    )
                    for cell in shape.cells(told)
                )
        worth = here
    return worth[shape.start, budget.start] if steps else 0


def log_of(value: Fraction | int) -> float:
    """Return the logarithm of a whole number or fraction of any size."""
    if not value:
        return -math.inf
    return math.log(value.numerator) - math.log(value.denominator)
