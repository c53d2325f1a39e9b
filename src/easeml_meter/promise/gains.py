"""What a gate finds: the least gain that is kept, and the cases that a gain takes.

A change wins a share `losses + gain` of all cases and loses `losses`. The chance that it is kept is
the sum over k of P(k cases are disputed) times P(of these it wins the bar of k or more).
Floats plan; whole numbers decide (`promise.kernel`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction

from easeml_meter.checks import whole
from easeml_meter.errors import invalid
from easeml_meter.promise.kernel import MOST_DELTA, Stake, least_wins
from easeml_meter.promise.numbers.plain import at_most, first, log_density, log_upper, upper_end

LOSSES = 0.02
"""The share of cases that get worse, where nothing else is known."""
POWER = 0.8
ANSWERS: tuple[int | None, ...] = (1, 10, 20, 100, None)
"""What is planned where nobody says how many: None is no end."""
MOST_CASES = 1_000_000
_LARGE = 0.2
_FINE = 2e-5
_NEVER = 1e-12


# --- levels ---------------------------------------------------------------------------------------


def levels(delta: Fraction, answers: int | None) -> tuple[Fraction, Fraction]:
    """Return the level of the first answer, and of the second after a keep: 0 if there is none."""
    start = Stake(delta)
    level = start.level(answers)
    return level, start.after(level, claimed=True).level(answers)


def after_discards(delta: Fraction, answers: int | None, discards: int) -> Fraction:
    """Return the level of an answer after so many discards and no keep."""
    stake = Stake(delta)
    for _ in range(discards):
        stake = stake.after(stake.level(answers), claimed=False)
    return stake.level(answers)


def fewest_cases(level: Fraction) -> int:
    """Return how many cases have to be won, and none lost, to be kept at all: log2(1 / level)."""
    return (math.ceil(1 / level) - 1).bit_length()


# --- power ----------------------------------------------------------------------------------------


def kept(cases: int, level: Fraction, gain: float, losses: float = LOSSES) -> float:
    """Return the probability that a change with this gain is kept."""
    disputed = gain + 2 * losses
    if not 0 < disputed <= 1 + _NEVER or not 0 < level < 1:
        return 0.0
    disputed = min(disputed, 1 - _NEVER)
    won = min((gain + losses) / disputed, 1 - _NEVER)
    odds, limit = disputed / (1 - disputed), float(level)
    spread = math.sqrt(cases * disputed * (1 - disputed)) + 1
    low = max(0, int(cases * disputed - 7 * spread))
    high = min(cases, int(cases * disputed + 7 * spread) + 1)
    # At k disputed cases: the bar, the tails at it for a fair coin and for the change, and the
    # densities one below it. One more case moves all of them by one term.
    bar = least_wins(low, level)
    bar = low + 1 if bar is None else bar
    luck, right = _upper(low, bar, 0.5), _upper(low, bar, won)
    luck_below, right_below = (math.exp(log_density(low, bar - 1, p)) for p in (0.5, won))
    weight = math.exp(log_density(cases, low, disputed))
    total = weight * right
    for k in range(low, high):
        luck += luck_below / 2
        right += right_below * won
        grown = (k + 1) / (k + 2 - bar)
        luck_below *= grown / 2
        right_below *= grown * (1 - won)
        if luck > limit:
            grown = (k + 2 - bar) / bar
            luck_below *= grown
            right_below *= grown * won / (1 - won)
            luck -= luck_below
            right -= right_below
            bar += 1
        weight *= (cases - k) / (k + 1) * odds
        total += weight * right
    return min(1.0, total)


def _upper(cases: int, wins: int, share: float) -> float:
    """Return P(Bin(cases, share) >= wins)."""
    if wins > cases * share:
        return math.exp(log_upper(cases, wins, share))
    return 1 - at_most(cases, wins - 1, share)


def least_gain(
    cases: int, level: Fraction, losses: float = LOSSES, power: float = POWER
) -> float | None:
    """Return the least gain that is kept with this probability; None: not even the largest is."""
    low, most = 0.0, 1 - 2 * losses
    high = min(most, 4 / math.sqrt(cases))  # a guess that many cases need not search above
    if kept(cases, level, high, losses) < power:
        low, high = high, most
        if high <= low or kept(cases, level, high, losses) < power:
            return None
    while high - low > _FINE:
        middle = (low + high) / 2
        if kept(cases, level, middle, losses) >= power:
            high = middle
        else:
            low = middle
    return high


def cases_for(
    gain: float, level: Fraction, losses: float = LOSSES, power: float = POWER
) -> int | None:
    """Return how many cases a gain takes to be kept with this probability; None: too many."""

    def enough(cases: int) -> bool:
        return kept(cases, level, gain, losses) >= power

    if gain <= 0 or not 0 < level < 1:
        return None
    high = fewest_cases(level)
    while not enough(high):
        high *= 2
        if high > MOST_CASES:
            return None
    found = first(enough, high // 2, high)
    while enough(found - 1):  # the power has teeth, since bars are whole numbers
        found -= 1
    return found


# --- plans ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Reach:
    """What so many cases find in so many answers.

    Attributes:
        answers: How many; None: no end.
        first: The least gain that is kept; None: none is.
        second: The same for the answer right after a first keep at the first answer.
        half: The cases that half of `first` takes.
    """

    answers: int | None
    first: float | None
    second: float | None
    half: int | None


def reach(cases: int, delta: Fraction, answers: int | None) -> Reach:
    """Plan what so many cases find."""
    level, next_level = levels(delta, answers)
    gain = least_gain(cases, level)
    second = least_gain(cases, next_level) if next_level else None
    return Reach(answers, gain, second, cases_for(gain / 2, level) if gain else None)


def reaches(cases: int, delta: Fraction, answers: int | None = None) -> list[Reach]:
    """Plan one answer and so many; or one, 10, 20, 100 and no end.

    Raises:
        InvalidInput: so few cases can show nothing.
    """
    rows = planned(delta, answers)
    whole("labels", cases, at_least=1)
    count = ANSWERS[1] if answers is None else answers
    level = levels(delta, count)[0]
    if cases < (fewest := fewest_cases(level)):
        said = "one answer" if count == 1 else f"{count:,} answers"
        needed = f"{fewest} at least, {cases_for(_LARGE, level):,} for a gain of 20 points"
        raise invalid("labels", cases, f"too few to show anything in {said}: {needed}")
    return [reach(cases, delta, each) for each in rows]


def planned(delta: Fraction, answers: int | None) -> tuple[int | None, ...]:
    """Return which numbers of answers a plan has rows for.

    Raises:
        InvalidInput: no gate has this delta, or so few answers.
    """
    if not 0 < delta <= MOST_DELTA:
        raise invalid("delta", float(delta), "0.25 at most for a gate, 75 % sure")
    if answers is None:
        return ANSWERS
    whole("steps", answers, at_least=1)
    return tuple(dict.fromkeys((1, answers)))


@dataclass(frozen=True, slots=True)
class Need:
    """What a gain takes in so many answers: cases, for the first keep and for the second."""

    answers: int | None
    first: int | None
    second: int | None

    def to_dict(self) -> dict[str, int | None]:
        """Return it for programs."""
        return asdict(self)


def need(gain: float, delta: Fraction, answers: int | None) -> Need:
    """Plan the cases that a gain takes."""
    level, next_level = levels(delta, answers)
    return Need(answers, cases_for(gain, level), cases_for(gain, next_level))


# --- noise ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Noise:
    """How an unchanged system flips between two runs of the same cases.

    Attributes:
        cases: How many there are.
        runs: How many times they were run.
        flips: How many flip between two runs, on average over all pairs of runs.
    """

    cases: int
    runs: int
    flips: float

    @property
    def share(self) -> float:
        """The share of cases that flip."""
        return self.flips / self.cases

    @property
    def interval(self) -> tuple[float, float]:
        """The share in all cases of this kind: Clopper and Pearson's 95 %."""
        n, few, many = self.cases, math.floor(self.flips), math.ceil(self.flips)
        return 1 - upper_end(n, n - few, 0.025), upper_end(n, many, 0.025)

    @property
    def luck(self) -> float:
        """How far luck moves the score between two runs, 95 times in 100."""
        return 1.96 * math.sqrt(self.share / self.cases)

    @property
    def greedy(self) -> float:
        """How often the second run scores higher than the first: that is no tie, and by halves."""
        n, share = self.cases, self.share
        ties = math.fsum(
            math.exp(log_density(n, k, share) + log_density(k, k // 2, 0.5))
            for k in range(0, n + 1, 2)
        )
        return (1 - ties) / 2

    def least_gain(self, cases: int, level: Fraction, runs: int = 1) -> float | None:
        """Return the least gain that is kept where so many runs of a case are put together.

        Half of what flips are losses. The vote or mean of r runs divides flips by about r.
        """
        return least_gain(cases, level, LOSSES + self.share / runs / 2)


def noise(results: Sequence[Sequence[int]]) -> Noise:
    """Count flips between runs: of each run, in the same order, which cases were right."""
    runs, cases = len(results), len(results[0])
    # Of r runs of which s were right, s (r - s) pairs differ.
    differ = sum(right * (runs - right) for right in map(sum, zip(*results, strict=True)))
    return Noise(cases, runs, differ / math.comb(runs, 2))
