"""The kernel: what an answer may cost, and the exact tests that decide it.

An answer that claims something ("keep", "ok", "pass") is given only if the hidden rows reject, at a
level that was fixed before they were read, that its claim is false. Levels come from one rule
(docs/mathematics.md, "Levels"): what an answer stakes is a, the share of delta that is left is a
after a claim and share - a after none. Whoever acts on the answers, and whatever they submit, some
claim of a test set is false with probability delta at most.

Numbers are fractions. A bar (the least wins, the most errors) is found with floats whose error is
bounded, and with whole numbers where the bound cannot tell. It depends on nothing but the level and
the number of cases, so neither the bar nor the time it takes tells how many were won. This module
needs the standard library alone, so that it can be audited by itself.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

HALF = Fraction(1, 2)
MOST_DELTA = Fraction(1, 4)
"""Above it the corner rules do not cover a pool that is drawn from without replacement."""
_FEW, _TINY, _CLOSE = 50, 1e-200, 1e-9
_ERROR = 1e-12
"""What floats are trusted to, in logarithms, besides what grows with the number of cases."""


# --- levels -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Stake:
    """What is left of delta at a gate, where a claim ("keep") is rare.

    Attributes:
        share: What is left.
        asked: Answers so far, voided ones included.
        since: Answers without a claim since the last claim.
    """

    share: Fraction
    asked: int = 0
    since: int = 0

    def level(self, looks: int | None) -> Fraction:
        """Return the level of the next answer: 0 where no look is left."""
        if looks is None:
            return self.share / (11 + self.since)
        return self.share / (looks - self.asked) if self.asked < looks else Fraction(0)

    def after(self, level: Fraction, claimed: bool) -> Stake:
        """Return what is left after an answer at this level."""
        share = level if claimed else self.share - level
        return Stake(share, self.asked + 1, 0 if claimed else self.since + 1)


@dataclass(frozen=True, slots=True)
class Alarms:
    """What is left where a claim ("ok") is usual, and the k-th answer without one closes the set.

    Attributes:
        asked: Answers so far.
        rung: At which of them there was an alarm, counted from 1.
    """

    asked: int = 0
    rung: tuple[int, ...] = ()

    def level(self, delta: Fraction, shares: Sequence[Fraction], steps: int | None) -> Fraction:
        """Return the level of the next answer: 0 where the set is closed or no step is left.

        With T steps and j alarms there are C(T-1, j) histories to share between. Without an end an
        alarm u answers after the one before (or the start) has the share q(u); these sum to 1.
        """
        if len(self.rung) >= len(shares) or (steps is not None and self.asked >= steps):
            return Fraction(0)
        level = delta * shares[len(self.rung)]
        if steps is not None:
            return level / math.comb(steps - 1, len(self.rung))
        for before, at in zip((0, *self.rung), self.rung, strict=False):
            level *= waited(at - before)
        return level

    def after(self, claimed: bool) -> Alarms:
        """Return what is left after an answer."""
        asked = self.asked + 1
        return Alarms(asked, self.rung if claimed else (*self.rung, asked))


def waited(answers: int) -> Fraction:
    """Return the share of an alarm that comes so many answers after the one before: q(u)."""
    return Fraction(10, (9 + answers) * (10 + answers))


ALARM_SHARES = (Fraction(1, 2), Fraction(1, 4), Fraction(1, 4))
"""How three alarms divide delta, by the alarms so far."""


def alarm_shares(alarms: int) -> tuple[Fraction, ...]:
    """Return how so many alarms divide delta: by halves, the last twice."""
    halves = [Fraction(1, 2**number) for number in range(1, alarms)]
    return (*halves, 1 - sum(halves, Fraction(0)))


# --- binomial bars ------------------------------------------------------------------------------


def least_wins(cases: int, level: Fraction, share: Fraction = HALF) -> int | None:
    """Return the least w with P(Bin(cases, share) >= w) <= level; None if there is none."""
    if level >= 1:
        return 0
    if level <= 0 or not _rare(cases, cases, share, level):
        return None
    # Near the normal quantile, then in growing steps to a bracket, then halved.
    mean, spread = float(cases * share), math.sqrt(float(cases * share * (1 - share)))
    guess = mean + spread * math.sqrt(max(0.0, -2 * _log(level)))
    low, high, step = 0, cases, 1 + int(spread / 8)  # not rare at low, rare at high
    middle = min(max(1, int(guess)), cases - 1)
    while high - low > 1:
        if _rare(cases, middle, share, level):
            high, middle = middle, max(middle - step, (low + middle) // 2)
        else:
            low, middle = middle, min(middle + step, -(-(middle + high) // 2))
        step *= 2
        middle = min(max(low + 1, middle), high - 1)
    return high


def most_errors(cases: int, claim: Fraction, level: Fraction) -> int | None:
    """Return the most e with P(Bin(cases, claim) <= e) <= level; None if not even 0 errors do."""
    right = least_wins(cases, level, 1 - claim)
    return None if right is None else cases - right


def bar_not_worse(cases: int, disputed: int, margin: Fraction, level: Fraction) -> int | None:
    """Return the least wins that show a new model to be worse by less than `margin`.

    A fifth of the level bounds the share of disputed cases from above; the rest is a sign test at
    the worst share of wins that is left. Where the bound itself is below the margin, 0 will do.
    """
    fifth = level / 5

    def excluded(thousandths: int) -> bool:
        share = Fraction(thousandths, 1000)
        return _rare(cases, cases - disputed, 1 - share, fifth)

    share = _worst_share(Fraction(first(excluded, 0, 1000), 1000), -margin)
    return 0 if share is None else least_wins(disputed, level - fifth, share)


def bar_better_by(cases: int, disputed: int, margin: Fraction, level: Fraction) -> int | None:
    """Return the least wins that show a new model to be better by more than `margin`."""
    fifth = level / 5

    def excluded(below: int) -> bool:
        return _rare(cases, disputed, Fraction(1000 - below, 1000), fifth)

    share = _worst_share(Fraction(1000 - first(excluded, 0, 1000), 1000), margin)
    return None if share is None else least_wins(disputed, level - fifth, share)


def bars_of_change(cases: int, change: Fraction, level: Fraction) -> tuple[int | None, ...]:
    """Return, for every number of disputed cases, the least wins that show n - o > change.

    All of them at once: neither they nor the time they take depends on how many are disputed. They
    are those of the sign test, `bar_not_worse` and `bar_better_by`, each looked for from the one
    before it on.
    """
    margin, fifth = abs(change), Fraction(0) if change == 0 else level / 5
    thousandths, wins = 0, 0
    tail, limit = _Tail(level - fifth), _Tail(fifth)
    bars: list[int | None] = []
    for disputed in range(cases + 1):
        share: Fraction | None = HALF
        if change < 0:
            while thousandths < 1000 and not limit.rare(
                cases, cases - disputed, 1 - Fraction(thousandths, 1000)
            ):
                thousandths += 1
            share = _worst_share(Fraction(thousandths, 1000), -margin)
        elif change > 0:
            while thousandths < 1000 and limit.rare(
                cases, disputed, Fraction(thousandths + 1, 1000)
            ):
                thousandths += 1
            share = _worst_share(Fraction(thousandths, 1000), margin)
        if share is None:
            bars.append(0)
            continue
        while wins <= disputed and not tail.rare(disputed, wins, share):
            wins += 1
        # Only where the worst share falls, as more are disputed, can fewer wins do.
        while change > 0 and wins and tail.rare(disputed, wins - 1, share):
            wins -= 1
        bars.append(wins if wins <= disputed else None)
    return tuple(bars)


def _worst_share(limit: Fraction, margin: Fraction) -> Fraction | None:
    """Return the share of wins at which n - o is the margin, if so many at the limit are disputed.

    None: too few are disputed for the new model to be worse by the margin.
    """
    if margin < 0 and limit < -margin:
        return None
    if not limit:
        return Fraction(margin > 0)
    return min(Fraction(1), max(Fraction(0), HALF + margin / (2 * limit)))


class _Tail:
    """A binomial tail, moved by one case or one win at a time: tells where to look closely."""

    def __init__(self, level: Fraction) -> None:
        self._level, self._place = level, (-1, -1, HALF)
        self._tail = self._density = 0.0

    def rare(self, cases: int, wins: int, share: Fraction) -> bool:
        """Return what `_rare` does."""
        level = float(self._level)
        if cases < _FEW or not 0 < cases * share < wins <= cases or level < _TINY:
            return _rare(cases, wins, share, self._level)
        self._move(cases, wins, share)
        if abs(self._tail - level) > _CLOSE * level:
            return self._tail < level
        return _rare(cases, wins, share, self._level)

    def _move(self, cases: int, wins: int, share: Fraction) -> None:
        """What is added is known to 1e-15 of the tail, so 10^5 moves leave it good to 1e-10."""
        n, w, before = self._place
        self._place = (cases, wins, share)
        if before != share or not 0 <= cases - n <= 1 or abs(wins - w) > 1 or not 0 < w < n:
            log_density = _log_density(cases, wins, share)
            self._tail = math.exp(_log_tail(cases, wins, share)[0])
            self._density = math.exp(log_density)
            return
        p = float(share)
        if cases > n:
            self._tail += self._density * w * (1 - p) / (n - w + 1)
            self._density *= (n + 1) * (1 - p) / (n + 1 - w)
        if wins > w:
            self._tail -= self._density
            self._density *= (cases - w) * p / ((w + 1) * (1 - p))
        elif wins < w:
            self._density *= w * (1 - p) / ((cases - w + 1) * p)
            self._tail += self._density


def first(holds: Callable[[int], bool], low: int, high: int) -> int:
    """Return the first whole number from which on something holds; `high` if it never does."""
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle + 1, high)
    return low


def _rare(cases: int, wins: int, share: Fraction, level: Fraction) -> bool:
    """Return whether P(Bin(cases, share) >= wins) <= level, exactly."""
    if wins <= 0 or share >= 1:
        return wins > cases or level >= 1
    if wins > cases or share <= 0:
        return True
    if wins > cases * share:
        log_tail, error = _log_tail(cases, wins, share)
        limit = _log(level)
        if abs(log_tail - limit) > error:
            return log_tail < limit
    elif level < MOST_DELTA and cases * share > 1:
        # A binomial number reaches its mean with probability 1/4 at least (Greenberg, Mohri 2014).
        return False
    whole: int = share.denominator**cases
    return _sum_from(cases, wins, share) * level.denominator <= level.numerator * whole


def _sum_from(cases: int, wins: int, share: Fraction) -> int:
    """Return P(Bin(cases, share) >= wins) times denominator^cases, a whole number."""
    right, wrong = share.numerator, share.denominator - share.numerator
    term: int = right**cases
    total = term
    for won in range(cases, wins, -1):
        term = term * won * wrong // ((cases - won + 1) * right)
        total += term
    return total


def _log_tail(cases: int, wins: int, share: Fraction) -> tuple[float, float]:
    """Return ln P(Bin(cases, share) >= wins), wins above the mean, and a bound on its error.

    The density times a falling series of ratios. Its largest error is the
    cancellation of two logarithms near wins - mean, which is known exactly.
    """
    rest = cases - wins
    odds = float(share / (1 - share))
    total = term = 1.0
    for lost in range(rest):
        term *= (rest - lost) / (wins + 1 + lost) * odds
        total += term
        if term < 1e-18 * total:
            break
    return _log_density(cases, wins, share) + math.log(total), _ERROR + 2e-15 * cases


def _log_density(cases: int, wins: int, share: Fraction) -> float:
    """Return ln P(Bin(cases, share) = wins), by Loader (2000)."""
    rest = cases - wins
    distance = float(wins - cases * share)
    log_density = wins * math.log1p(-distance / wins)
    if rest:
        log_density += rest * math.log1p(distance / rest)
        log_density += 0.5 * math.log(cases / (2 * math.pi * wins * rest))
        log_density += _stirling(cases) - _stirling(wins) - _stirling(rest)
    return log_density


_EXACT_STIRLING = [0.0] + [
    math.lgamma(k + 1) - (k + 0.5) * math.log(k) + k - 0.5 * math.log(2 * math.pi)
    for k in range(1, 16)
]


def _stirling(k: int) -> float:
    """Return ln k! minus Stirling's formula; 0 for k = 0."""
    if k < 16:
        return _EXACT_STIRLING[k]
    square = k * k
    return (1 / 12 - (1 / 360 - (1 / 1260 - (1 / 1680) / square) / square) / square) / k


def _log(value: Fraction) -> float:
    """Return the logarithm of a fraction of any size."""
    return math.log(value.numerator) - math.log(value.denominator) if value else -math.inf


# --- bets: scores, several runs a case, clusters --------------------------------------------------


def bet_sizes(cases: int, margin: Fraction = Fraction(0)) -> tuple[Fraction, ...]:
    """Return the bets that are mixed: 4/5, 2/5, .., as many as so many cases can tell apart."""
    count = 1
    while 4 * cases > 9 * 4**count:
        count += 1
    return tuple(Fraction(4, 5) / 2**number / (1 + margin) for number in range(count))


def bets_pay(
    differences: Sequence[float],
    exactly: Callable[[], Iterable[Fraction]],
    level: Fraction,
    margin: Fraction = Fraction(0),
    sizes: Sequence[Fraction] | None = None,
) -> bool:
    """Return whether bets on a mean difference above `margin` multiply their stake by 1 / level.

    Differences lie in [-1, 1], in any order. `exactly` returns them as fractions; it is called only
    where the floats cannot tell, which happens about once in 10^9 answers.
    """
    sizes = bet_sizes(len(differences), margin) if sizes is None else sizes
    away, log1p = float(margin), math.log1p
    apart = [difference - away for difference in differences]
    # The largest bet, which is the first, turns most over.
    logs = [math.fsum([log1p(size * each) for each in apart]) for size in map(float, sizes)]
    turnover = math.fsum(abs(log1p(float(sizes[0]) * each)) for each in apart)
    wealth = mixed(logs)
    # A factor is at least 1/5, so its relative error is 5 times that of what is added to 1.
    error = _ERROR + 4e-15 * (turnover + len(differences))
    if abs(wealth + _log(level)) > error:
        return wealth > -_log(level)
    return e_value(exactly(), sizes, margin) * level >= 1


def mixed(logs: Sequence[float]) -> float:
    """Return the logarithm of the mean of numbers whose logarithms are given."""
    top = max(logs)
    return top + math.log(math.fsum(math.exp(log - top) for log in logs) / len(logs))


def e_value(
    differences: Iterable[Fraction], sizes: Sequence[Fraction], margin: Fraction
) -> Fraction:
    """Return the mean over the bets of what each multiplied its stake by."""
    counts = Counter(differences)
    grown = Fraction(0)
    for size in sizes:
        product = Fraction(1)
        for difference, count in counts.items():
            product *= (1 + size * (difference - margin)) ** count
        grown += product
    return grown / len(sizes)


# --- the fold of a ledger -------------------------------------------------------------------------

BETTER, NOT_WORSE, BETTER_BY, AT_LEAST = "better", "not-worse", "better-by", "at-least"


@dataclass(frozen=True)
class Rules:
    """What the arithmetic of a ledger depends on, fixed by its first use.

    Attributes:
        delta: The probability that a claim is false, of all claims of a test set together.
        looks: How many looks there are; None: no end.
        question: "better", or with a margin "not-worse", "better-by" or "at-least".
        margin: By how much; at-least: the bar.
    """

    delta: Fraction = Fraction(1, 10)
    looks: int | None = None
    question: str = BETTER
    margin: Fraction = Fraction(0)

    @property
    def words(self) -> tuple[str, str]:
        """The answers with and without a claim."""
        return ("ok", "alarm") if self.question == NOT_WORSE else ("keep", "discard")


@dataclass(frozen=True)
class State:
    """Where a ledger stands after a line.

    Attributes:
        incumbent: The model to beat: the last one that was kept against the one to beat.
        share: What is left of delta; `since`: discards since the last keep.
        look: Looks so far, over all test sets; `asked`: at this test set.
        set: Number of the test set; `cases` and `ids`: how many it has, and their digest.
        rung: At which looks there was an alarm.
    """

    incumbent: str
    share: Fraction
    look: int = 0
    set: int = 0
    cases: int = 0
    ids: str = ""
    asked: int = 0
    since: int = 0
    rung: tuple[int, ...] = ()

    def level(self, rules: Rules) -> Fraction:
        """Return the level of the next look; 0: there is none."""
        if rules.question == NOT_WORSE:
            return Alarms(self.asked, self.rung).level(rules.delta, ALARM_SHARES, rules.looks)
        return Stake(self.share, self.asked, self.since).level(rules.looks)

    def after(self, rules: Rules, look: Mapping[str, Any], yes: bool) -> State:
        """Return where the answer to a look leaves the ledger.

        A keep moves the model to beat only if it was asked about that one: else it is no chain.
        """
        counted = replace(self, look=self.look + 1, asked=self.asked + 1)
        if rules.question == NOT_WORSE:
            return replace(counted, rung=Alarms(self.asked, self.rung).after(yes).rung)
        left = Stake(self.share, self.asked, self.since).after(self.level(rules), yes)
        incumbent = look["new"] if yes and look["old"] == self.incumbent else self.incumbent
        return replace(counted, share=left.share, since=left.since, incumbent=incumbent)

    def placed(self, rules: Rules, entry: Mapping[str, Any]) -> State:
        """Return it with cases that join, or with a fresh test set and the whole of delta."""
        found = replace(self, cases=entry["cases"], ids=entry["ids"])
        if entry["joined"]:
            return found
        return replace(found, set=self.set + 1, share=rules.delta, asked=0, since=0, rung=())


def fold(rules: Rules, lines: Iterable[Mapping[str, Any]]) -> Iterator[State]:
    """Yield where a ledger stands after each of its lines: names, bits and counts decide it alone.

    A look that was voided stays counted and paid, and keeps nothing: the last model kept by a look
    that is not void is the one to beat.

    Raises:
        ValueError: a line does not follow from those before; it names what does not.
    """
    state: State | None = None
    kept: list[tuple[int, str]] = []
    void: set[int] = set()
    for line in lines:
        if state is None:
            state = State(line["state"]["incumbent"], rules.delta)
            kept.append((0, state.incumbent))
        elif "look" in line:
            level, before = state.level(rules), state.incumbent
            _expect(Fraction(line["share"]) == state.share, "share")
            _expect(Fraction(line["level"]) == level > 0, "level")
            _expect(line["look"] == state.look + 1, "look")
            _expect(line["answer"] in rules.words, "answer")
            _expect(line["by_hand"] == (line["old"] not in (None, before)), "by_hand")
            state = state.after(rules, line, line["answer"] == rules.words[0])
            if state.incumbent != before:
                kept.append((state.look, state.incumbent))
        elif "void" in line:
            _expect(0 < line["void"] <= state.look and line["void"] not in void, "void")
            void.add(line["void"])
            kept = [(look, model) for look, model in kept if look != line["void"]]
            state = replace(state, incumbent=kept[-1][1])
        else:
            state = state.placed(rules, line)
        yield state


def _expect(holds: bool, what: str) -> None:
    if not holds:
        raise ValueError(what)
