"""How many models could have been submitted, per feedback rule.

A developer's next model is a function of the answers so far (and of things that do not depend
on the test set). So the models that could ever be submitted are as many as the histories of
answers, and the union bound runs over those. Each history stands at a *level*: the index of the
smallest tolerance that the next answer can still promise. One model needs one event, at that
tolerance ("distinct models"); the paper counts one event for each pair of model and signal
("pairs"), which is larger and never needed.

Counts are exact integers, or natural logarithms of them where they would have millions of digits.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from easeml_meter.errors import invalid
from easeml_meter.spec import MeterSpec, Protocol

MAX_WALK = 10_000
"""Rules without a closed form are counted step by step; beyond this many steps they are refused."""


@dataclass(frozen=True)
class Feedback:
    """A feedback rule as a finite automaton over answers: states, their levels, their moves.

    `moves[s]` holds (next state, number of answers that lead there); state 0 is the start.
    """

    levels: tuple[int, ...]
    moves: tuple[tuple[tuple[int, int], ...], ...]

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


def regular(answers: int) -> Feedback:
    """Any answer can follow any history, and signal 1 is always possible."""
    return Feedback((0,), (((0, answers),),))


def incremental(signals: int, silent: int = 0) -> Feedback:
    """The answer is the running maximum; `silent` further answers leave it where it is."""
    states = range(signals)
    return Feedback(
        tuple(states),
        tuple(tuple((to, 1 + silent * (to == at)) for to in states[at:]) for at in states),
    )


def masked(signals: int, reverts: int, cut: int, *, running_max: bool, silent: int = 0) -> Feedback:
    """Answer signals above `cut` only by "reverted", and undo the step, while reverts are left.

    A state is (reverts used, running maximum); a regular meter has no maximum to remember.
    """
    tops = range(signals) if running_max else range(1)
    places = {state: i for i, state in enumerate(itertools.product(range(reverts + 1), tops))}
    moves = []
    for used, top in places:
        open_signals = cut if used < reverts else signals
        if running_max:
            onward = {places[used, to]: 1 for to in range(top, open_signals)}
        else:
            onward = {places[used, 0]: open_signals}
        if silent:
            onward[places[used, top]] = onward.get(places[used, top], 0) + silent
        if used < reverts:
            onward[places[used + 1, top]] = 1
        moves.append(tuple(onward.items()))
    return Feedback(tuple(top for _, top in places), tuple(moves))


def with_resets(signals: int, resets: int, silent: int = 0) -> Feedback:
    """Count answer sequences of an incremental meter with at most `resets` descents.

    A developer who resets along the way shows at most one descent per reset. While a descent is
    left, the next model may come right after a reset, so it counts at the smallest tolerance.
    """
    places = {
        state: i for i, state in enumerate(itertools.product(range(resets + 1), range(signals)))
    }
    moves, levels = [], []
    for used, last in places:
        onward = {places[used, to]: 1 + silent * (to == last) for to in range(last, signals)}
        if used < resets:
            onward |= {places[used + 1, to]: 1 for to in range(last)}
        moves.append(tuple(onward.items()))
        levels.append(last if used == resets else 0)
    return Feedback(tuple(levels), tuple(moves))


def feedback_of(spec: MeterSpec) -> Feedback:
    """Return the feedback rule that a meter follows (memory, tenants and fixed reverts aside)."""
    silent = spec.silent_answers
    running_max = spec.protocol is Protocol.INCREMENTAL
    if spec.masked_reverts:
        reverts, cut = spec.masked_reverts, spec.mask_above
        return masked(spec.signals, reverts, cut, running_max=running_max, silent=silent)
    if spec.resets:
        return with_resets(spec.signals, spec.resets, silent)
    return incremental(spec.signals, silent) if running_max else regular(spec.signals + silent)


def models(feedback: Feedback, steps: int, reverts: Sequence[int] = ()) -> tuple[int, ...]:
    """Count the distinct models of `steps` steps at each level, exactly, by dynamic programming.

    With `reverts` fixed in advance, a step undone at time t_i adds only the models that could
    stand there, after a history of length t_i - i; the steps kept form the rest of the tree.
    """
    kept = steps - len(reverts)
    undone = [at - index - 1 for index, at in enumerate(reverts)]
    totals = [0] * (max(feedback.levels) + 1)
    lengths = max([kept, *(length + 1 for length in undone)])
    for length, counts in enumerate(itertools.islice(feedback.histories(), lengths)):
        times = (length < kept) + undone.count(length)
        for level, count in enumerate(counts):
            totals[level] += times * count
    return tuple(totals)


def log_geometric(ratio: int, terms: int) -> float:
    """Return the logarithm of 1 + ratio + ... + ratio^(terms-1)."""
    if terms == 0:
        return -math.inf
    if ratio == 1:
        return math.log(terms)
    # ratio^-terms is below the smallest double only where it no longer matters.
    remainder = math.exp(-terms * math.log(ratio))
    return terms * math.log(ratio) + math.log1p(-remainder) - math.log(ratio - 1)


def log(count: int) -> float:
    """Return the logarithm of an exact count of any size; of zero, minus infinity."""
    return math.log(count) if count else -math.inf


def log_models(spec: MeterSpec, steps: int | None = None) -> tuple[float, ...]:
    """Return the logarithm of the count to be union-bounded, at the tolerance of each band.

    `steps` overrides the specification's. Entry k belongs to `spec.tolerances[k]`.
    """
    total = spec.steps if steps is None else steps
    if spec.protocol in (Protocol.INDEPENDENT, Protocol.RESAMPLING):
        return (math.log(total),)
    parts = [total] if spec.handover or not spec.tenants else list(spec.tenants)
    rows = [_log_models_of_one(spec, part) for part in parts]
    return tuple(log_sum(column) for column in zip(*rows, strict=True))


def _log_models_of_one(spec: MeterSpec, steps: int) -> tuple[float, ...]:
    """Count for one developer."""
    pairs = spec.published
    plain = not (spec.silent_answers or spec.masked_reverts or spec.resets)
    if spec.memory is not None and spec.memory < steps:
        early = log_by_walk(feedback_of(spec), spec.memory)
        window = next(itertools.islice(feedback_of(spec).histories(), spec.memory, None))
        late = math.log(steps - spec.memory)
        return tuple(
            log_sum((first, late + log(count))) for first, count in zip(early, window, strict=True)
        )
    if spec.protocol is Protocol.REGULAR and not spec.masked_reverts:
        answers = spec.signals + spec.silent_answers
        effective = [at - index for index, at in enumerate(spec.reverts)]
        tree = log_geometric(answers, steps - len(effective))
        undone = [(at - 1) * math.log(answers) for at in effective]
        each = log_sum([tree, *undone])
        return (each,) * spec.signals if pairs else (each,)
    if plain:
        return tuple(
            log(_incremental_count(level, steps, spec.reverts, pairs=pairs))
            for level in range(spec.signals)
        )
    return log_by_walk(feedback_of(spec), steps, spec.reverts)


def _incremental_count(level: int, steps: int, reverts: Sequence[int], *, pairs: bool) -> int:
    """Count models (or pairs) of the plain incremental meter at one level, exactly.

    Histories of length L that end at signal k = level + 1 are C(k + L - 2, k - 1). A pair of a
    history of length L and signal k is such a history of length L + 1.
    """
    k = level + 1
    kept = steps - len(reverts)
    undone = [at - index for index, at in enumerate(reverts)]
    if pairs:  # C(k+T-1, k), and C(k+t-2, k-1) for each step undone
        return math.comb(k + kept - 1, k) + sum(math.comb(k + at - 2, k - 1) for at in undone)
    if level == 0:  # nothing told yet, or nothing but signal 1: one history of each length
        return steps
    tree = math.comb(k + kept - 2, k) if kept else 0
    return tree + sum(math.comb(k + at - 3, k - 1) for at in undone if at > 1)


def log_by_walk(feedback: Feedback, steps: int, reverts: Sequence[int] = ()) -> tuple[float, ...]:
    """Count step by step, for rules without a closed form."""
    if steps > MAX_WALK:
        raise invalid("steps", steps, f"at most {MAX_WALK:,} for a meter counted step by step")
    return tuple(log(count) for count in models(feedback, steps, reverts))


def has_closed_form(spec: MeterSpec) -> bool:
    """Whether `log_models` takes the same short time for any number of steps."""
    by_walk = spec.masked_reverts or spec.resets
    return not by_walk and (spec.protocol is not Protocol.INCREMENTAL or not spec.silent_answers)


def walk(spec: MeterSpec) -> Iterator[tuple[int, tuple[float, ...]]]:
    """Yield ever more steps, one at a time, with what `log_models` gives for them."""
    feedback = feedback_of(spec)
    totals = list(models(feedback, len(spec.reverts), spec.reverts))
    lengths = itertools.islice(feedback.histories(), MAX_WALK - len(spec.reverts))
    for steps, counts in enumerate(lengths, len(spec.reverts) + 1):
        totals = [total + count for total, count in zip(totals, counts, strict=True)]
        yield steps, tuple(log(total) for total in totals)


def log_sum(logs: Sequence[float]) -> float:
    """Return log(sum(exp(x))), safe for any magnitude."""
    top = max(logs)
    if top == -math.inf:
        return top
    return top + math.log(math.fsum(math.exp(value - top) for value in logs))
