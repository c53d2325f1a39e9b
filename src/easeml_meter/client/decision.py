"""What decides a look of a gate: the bar, and the only lines that compare results."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any

from easeml_meter.client.ledger import Settings
from easeml_meter.client.results import Results
from easeml_meter.errors import InvalidInput, Spent
from easeml_meter.promise.kernel import (
    ALARM_SHARES,
    AT_LEAST,
    BETTER,
    BETTER_BY,
    NOT_WORSE,
    State,
    bar_better_by,
    bar_not_worse,
    bet_sizes,
    bets_pay,
    first,
    least_wins,
    mixed,
)

_MOST_PLANNED = 10_000
"""Of more cases, a set that is spent does not say what a fresh one finds."""
_SHOWN = (20, 40, 80)
"""Numbers of disputed cases whose bar is shown, besides the least one: never this look's."""


def decide(settings: Settings, level: Fraction, old: Results | None, new: Results) -> bool:
    """Compare the results; all of them are read, whatever they are.

    NEW has the cases of OLD, in their order.
    """
    if old is None:
        right = sum(new.cases.values())
        bar = least_wins(len(new.cases), level, settings.margin)
        return bar is not None and (len(new.cases) - right if settings.lower else right) >= bar
    if settings.scores:
        low, high = settings.range
        exact = max(abs(low), abs(high)) > 4 * (high - low)  # where floats would cancel
        margin, sizes, found = _bets(settings, old, new, Fraction if exact else float)
        floats = list(map(float, found)) if exact else found
        fractions = lambda: _bets(settings, old, new, Fraction)[2]  # noqa: E731
        return bets_pay(floats, fractions, level, margin, sizes)
    pairs = Counter(zip(old.cases.values(), new.cases.values(), strict=True))
    up, down = pairs[0, 1], pairs[1, 0]
    bar = _bar(settings, len(old.cases), up + down, level)
    return bar is not None and (down if settings.lower else up) >= bar


def _bar(settings: Settings, cases: int, disputed: int, level: Fraction) -> int | None:
    if settings.question == NOT_WORSE:
        return bar_not_worse(cases, disputed, settings.margin, level)
    if settings.question == BETTER_BY:
        return bar_better_by(cases, disputed, settings.margin, level)
    return least_wins(disputed, level)


def _bets(
    settings: Settings, old: Results, new: Results, kind: Any
) -> tuple[Fraction, tuple[Fraction, ...], list[Any]]:
    """Return margin, bets and differences, as floats or as the fractions they stand for.

    Of clusters, each is one factor: the sum over its cases, by the size of the largest one.
    """
    value: Any = float if kind is float else lambda score: Fraction(repr(score))
    scale = kind(settings.range[1] - settings.range[0]) * (-1 if settings.lower else 1)

    def means(results: Results) -> Iterable[Any]:
        values = results.cases.values()
        if type(next(iter(values))) is tuple:
            return (sum(map(value, runs)) / len(runs) for runs in values)
        return values if kind is float else map(value, values)

    found = [(after - before) / scale for before, after in zip(means(old), means(new), strict=True)]
    margin = settings.margin * (-1 if settings.question == NOT_WORSE else 1)
    if not settings.cluster:
        return margin, bet_sizes(len(found), margin), found
    groups: dict[str, list[Any]] = {}
    for case, each in zip(old.cases, found, strict=True):
        groups.setdefault(old.clusters[case], []).append(each - kind(margin))
    largest = max(map(len, groups.values()))
    sizes = tuple(size / (1 + abs(margin)) for size in bet_sizes(len(groups)))
    return Fraction(0), sizes, [sum(values) / largest for values in groups.values()]


def possible(
    settings: Settings, cases: int, level: Fraction, clusters: Mapping[str, str] | None = None
) -> bool:
    """Return whether so many cases could be answered "keep" or "ok" at this level."""
    if level <= 0 or cases < 1:
        return False
    if settings.scores:  # if all cases were won by 1; with 1,000 of them a level has 250 zeros
        groups = dict(clusters or {str(case): str(case) for case in range(min(cases, 1000))})
        low, high = (
            Results(dict.fromkeys(groups, float(end)), groups, settings) for end in settings.range
        )
        return decide(settings, level, *((high, low) if settings.lower else (low, high)))
    if settings.question == AT_LEAST:
        return least_wins(cases, level, settings.margin) is not None
    return any(_bar(settings, cases, disputed, level) is not None for disputed in (cases, 0))


def level_of(settings: Settings, state: State, clusters: Mapping[str, str]) -> Fraction:
    """Return the level of the next look; refuse one that could not say yes to any results.

    Raises:
        InvalidInput: at the first look of a test set: it has too few cases.
        Spent: later.
    """
    level, n = state.level(settings), state.cases
    again = f"A fresh set of {n:,} cases starts again (its own share)."
    if len(state.rung) == len(ALARM_SHARES):
        raise Spent(f"closed: the third alarm. What was ok stays promised. {again}")
    signs = settings.question == BETTER and not settings.scores
    if level == 0:
        looks = settings.looks or 0
        if signs and n <= _MOST_PLANNED:
            again = f"{again[:-1]}: {_found(n, settings.delta, looks)}"
        raise Spent(f"spent: {looks:,} of {looks:,} answers. {again}")
    if possible(settings, n, level, clusters):
        return level
    if not state.asked:
        least = first(lambda cases: possible(settings, cases, level), n, 10**6)
        run = f" in {settings.looks:,} answers" if settings.looks else ""
        needed = f"at least {least:,} are needed{_large_gain(level) if signs else ''}"
        raise InvalidInput(f"{n:,} cases cannot show anything{run}: {needed}")
    luck = ""
    if n < 64 and signs:
        luck = f" ({n} of {n} is luck once in {2**n:,}, the level is once in {1 / level})"
    raise Spent(f"spent: with {n:,} cases no number of wins would do{luck}. {again}")


def _found(cases: int, delta: Fraction, looks: int) -> str:
    """Say what a fresh set of as many cases finds."""
    from easeml_meter.promise.gains import reach
    from easeml_meter.report.gains import points

    gain = points(reach(cases, delta, looks).first)
    return f"gains of {gain} points in {looks:,} answer{'s' if looks > 1 else ''}."


def _large_gain(level: Fraction) -> str:
    """Say what a gain that people would call large takes."""
    from easeml_meter.promise.gains import cases_for

    cases = cases_for(0.2, level)
    return "" if cases is None else f", {cases:,} for a gain of 20 points"


# --- what the next look needs: functions of the level and of public numbers -----------------------


def needs(settings: Settings, state: State) -> tuple[tuple[int, int], ...]:
    """Return examples of what the next keep needs, at fixed numbers of disputed cases."""
    level = state.level(settings)
    if settings.scores or settings.question == NOT_WORSE or not level:
        return ()
    if settings.question == AT_LEAST:
        bar = least_wins(state.cases, level, settings.margin)
        return () if bar is None else ((bar, state.cases),)

    def bar_of(disputed: int) -> int | None:
        return _bar(settings, state.cases, disputed, level)

    least = first(lambda disputed: bar_of(disputed) is not None, 1, state.cases + 1)
    shown = [k for k in (least, *_SHOWN) if least <= k <= state.cases]
    bars = ((bar_of(k), k) for k in dict.fromkeys(shown))
    return tuple((bar, k) for bar, k in bars if bar is not None)[:3]


def least_gain(settings: Settings, state: State) -> float | None:
    """Return the least equal gain of all cases that would pay, where bets decide."""
    level = state.level(settings)
    if not settings.scores or settings.cluster or settings.question == NOT_WORSE or not level:
        return None
    away = float(settings.margin)
    sizes = [float(size) for size in bet_sizes(state.cases, settings.margin)]

    def pays(thousandths: int) -> bool:
        gain = thousandths / 1000 - away
        grown = mixed([state.cases * math.log1p(size * gain) for size in sizes])
        return grown > math.log(level.denominator) - math.log(level.numerator) + 1e-6

    width = float(settings.range[1] - settings.range[0])
    return first(pays, int(1000 * away), 1000) / 1000 * width
