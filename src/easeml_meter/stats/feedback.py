"""Feedback rules as automata: which answers can follow which histories.

Only the *first* broken promise matters. Before it, every test loss is within its tolerance of the
true loss. So of all answers to a model only those near its true gap can have come, and a history
with any other answer needs no event in the union bound. `possible_bands` is how many bands remain,
wherever the truth lies; the rules below are those of *consistent* histories. With `count = "all"`
every band remains. Where the edges of each answer are drawn, `draws` adds how many are expected.
"""

from __future__ import annotations

import itertools
import math
import sys
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np

from easeml_meter.spec import Count, MeterSpec, Protocol
from easeml_meter.stats.rounding import as_written

CLOSE = Fraction(1, 10**9)
"""Edges this close to two tolerances apart count as closer, if losses are not exact fractions."""

Range = tuple[Fraction, Fraction]
"""True gaps, the lower end in and the upper end out."""
Moves = tuple[tuple[int, int], ...]
Choice = tuple[int, Moves]
"""The level of the next model, and where its answers lead."""


@lru_cache(maxsize=1024)  # a ledger asks at every hand-over, a search for tolerances at every try
def possible_bands(spec: MeterSpec) -> int:
    """Return how many bands can be told of one model while no promise is broken.

    It is the largest number of bands that reach the same true gap. Where edges near a ceiling are
    left out, one band and "above the ceiling" are possible there, which are two as well.
    """
    ranges = reaches(spec)
    # The number of half-open ranges around a point is largest at the lower end of one of them: as
    # many as have begun there, but for those that have ended. Anybody may ask for many bands.
    lowers, uppers = sorted(lower for lower, _ in ranges), sorted(upper for _, upper in ranges)
    most = max(bisect_right(lowers, at) - bisect_right(uppers, at) for at in lowers)
    return max(2, most) if spec.merges else most


def reaches(spec: MeterSpec) -> list[Range]:
    """Return, for each band, the true gaps of which it can be told while no promise is broken.

    Band k is told of a true gap g only if some gap in it is within eps_k of g. A regular meter is
    planned as if every band had the first tolerance, which keeps the larger ones, too. Ends are
    rationals, because edges exactly two tolerances apart leave two bands, not three.
    """
    if spec.published or spec.count is Count.ALL:
        return [(Fraction(0), Fraction(2))] * spec.signals
    wider = 1 + CLOSE if spec.rounds else 1
    by_band = spec.protocol is Protocol.INCREMENTAL
    tolerances = spec.tolerances if by_band else spec.tolerances[:1] * spec.signals
    return [
        (max(Fraction(0), as_written(band.lower) - eps), as_written(band.upper) + eps)
        for band, tolerance in zip(spec.bands, tolerances, strict=True)
        for eps in (as_written(tolerance) * wider,)
    ]


@dataclass(frozen=True)
class Feedback:
    """A feedback rule as a finite automaton over answers: states, their levels, their moves.

    `moves[s]` holds (next state, number of answers that lead there); state 0 is the start. Where
    the answers depend on what the developer does or where the truth lies, `choices[s]` lists the
    alternatives, of which only one happens, and `moves[s]` covers them all.
    """

    levels: tuple[int, ...]
    moves: tuple[Moves, ...]
    choices: tuple[tuple[Choice, ...], ...] = ()

    def histories(self) -> Iterator[list[int]]:
        """Yield, for each length 0, 1, 2, ..., the exact number of histories at each level."""
        counts = [1] + [0] * (len(self.levels) - 1)
        while True:
            per_level = [0] * (max(self.levels) + 1)
            for level, count in zip(self.levels, counts, strict=True):
                per_level[level] += count
            yield per_level
            following = [0] * len(counts)
            for count, moves in zip(counts, self.moves, strict=True):
                if count:
                    for target, answers in moves:
                        following[target] += answers * count
            counts = following

    def log_largest(self, log_weights: Sequence[float]) -> Iterator[float]:
        """Yield, for 1, 2, 3, ... steps, how much the heaviest tree over all choices weighs.

        A model weighs what `log_weights` says of its level. Weights are logarithms; the results
        are raised by their rounding error.
        """
        every = [choice for choices in self.choices for choice in choices]
        first = np.cumsum([0, *map(len, self.choices[:-1])])
        # One row for each move: short lists of moves are filled up with moves that weigh nothing.
        shape = max(len(moves) for _, moves in every), len(every)
        targets, answers = np.zeros(shape, dtype=np.intp), np.full(shape, -np.inf)
        for column, (_, moves) in enumerate(every):
            for row, (to, count) in enumerate(moves):
                targets[row, column], answers[row, column] = to, math.log(count)
        models = np.array([log_weights[level] for level, _ in every])
        trees = np.full(len(self.levels), -np.inf)
        error = 0.0
        while True:
            below = np.logaddexp.reduce(trees[targets] + answers, axis=0)
            trees = np.maximum.reduceat(np.logaddexp(models, below), first)
            found = float(trees[0])
            # Each sum is wrong by a rounding error of it, or of a weight that is larger.
            error += (2 + shape[0]) * sys.float_info.epsilon * (1 + max(abs(found), abs(models[0])))
            yield found + error


def regular(answers: int) -> Feedback:
    """Any answer can follow any history, and signal 1 is always possible."""
    return Feedback((0,), (((0, answers),),))


def incremental(signals: int, silent: int = 0, possible: int | None = None) -> Feedback:
    """The answer is the running maximum; `silent` further answers leave it where it is.

    Of `possible` bands, the lowest ones from the maximum on give the largest tree: the higher the
    maximum, the fewer answers follow, and none promises less.
    """
    states = range(signals)
    possible = signals if possible is None else possible
    return Feedback(
        tuple(states),
        tuple(
            tuple((to, 1 + silent * (to == at)) for to in states[at : at + possible])
            for at in states
        ),
    )


def with_resets(
    signals: int, resets: int, silent: int = 0, possible: int | None = None
) -> Feedback:
    """Count answer sequences of an incremental meter with at most `resets` resets.

    A developer has one strategy: after each history it resets or it does not, and the next model
    counts at the tolerance of the maximum that is then left. Covering both, a model counts at the
    smallest tolerance while a reset is left, and a reset shows only where the answer falls.
    """
    possible = signals if possible is None else possible
    places = {
        state: i for i, state in enumerate(itertools.product(range(resets + 1), range(signals)))
    }

    def told(used: int, last: int) -> dict[int, int]:
        bands = range(last, min(last + possible, signals))
        return {places[used, to]: 1 + silent * (to == last) for to in bands}

    moves, choices, levels = [], [], []
    for used, last in places:
        stays = told(used, last)
        alternatives = [(last, tuple(stays.items()))]
        falls: dict[int, int] = {}
        if used < resets:
            alternatives.append((0, tuple(told(used + 1, 0).items())))
            falls = {places[used + 1, to]: 1 for to in range(min(last, possible))}
        moves.append(tuple((stays | falls).items()))
        choices.append(tuple(alternatives))
        levels.append(last if used == resets else 0)
    return Feedback(tuple(levels), tuple(moves), tuple(choices))


def feedback_of(spec: MeterSpec, possible: int | None = None) -> Feedback:
    """Return the feedback rule that a meter follows (memory, tenants and fixed reverts aside)."""
    possible = possible_bands(spec) if possible is None else possible
    silent = spec.silent_answers
    running_max = spec.protocol is Protocol.INCREMENTAL
    if spec.resets:
        return with_resets(spec.signals, spec.resets, silent, possible)
    if running_max:
        return incremental(spec.signals, silent, possible)
    return regular(possible + silent)
