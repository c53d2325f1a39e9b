"""How many models could have been submitted, per feedback rule.

A developer's next model is a function of the answers so far (and of things that do not depend
on the test set). So the models that could ever be submitted are as many as the histories of
answers, and the union bound runs over those. Each history stands at a *level*: the index of the
smallest tolerance that the next answer can still promise. One model needs one event, at that
tolerance ("distinct models"); the paper counts one event for each pair of model and signal
("pairs"), which is larger and never needed.

Counted are the histories that are consistent with every promise so far, as many as `feedback` says
wherever the truth lies: `histories` walks through them, and two closed forms are as many.

Counts are exact integers, or natural logarithms of them where they would have millions of digits.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import lru_cache

from easeml_meter.errors import invalid
from easeml_meter.promise.numbers.plain import log_sum
from easeml_meter.spec import MeterSpec, Protocol
from easeml_meter.stats.feedback import expected_edges, possible_bands

MAX_WALK = 10_000
"""Rules without a closed form are counted step by step; beyond this many steps they are refused."""
_LONGEST_PLAIN = 1_000
"""Up to so many steps, a plain incremental meter is counted by the walk where that is sharper."""
_MOST_WORK = 2_000_000
"""Additions of long whole numbers that a count may take: about a second. Anybody may ask a server
for a plan, so what takes longer is refused before anything is built."""


def histories(spec: MeterSpec, possible: int | None = None) -> Iterator[list[int]]:
    """Yield, for each length 0, 1, 2, ..., the exact number of histories at each level.

    After any history, as many bands are consistent as are `possible`, the lowest ones from the
    running maximum on: the higher the maximum, the fewer answers follow, and none promises less.
    Each answer without a reading is, too, and leaves the maximum where it is.
    """
    possible = possible_bands(spec) if possible is None else possible
    silent = spec.silent_answers
    if spec.protocol is not Protocol.INCREMENTAL:
        counts = [1]
        while True:
            yield counts
            counts = [(possible + silent) * counts[0]]
    counts = [1] + [0] * (spec.signals - 1)
    while True:
        yield counts
        counts = [
            silent * counts[top] + sum(counts[max(0, top + 1 - possible) : top + 1])
            for top in range(spec.signals)
        ]


def models(spec: MeterSpec, steps: int, possible: int | None = None) -> tuple[int, ...]:
    """Count the distinct models of `steps` steps at each level, exactly, history by history.

    Of the reverts that are fixed in advance, a step undone at time t_i adds only the models that
    could stand there, after a history of length t_i - i; the steps kept form the rest of the tree.
    """
    kept = steps - len(spec.reverts)
    undone = [at - index - 1 for index, at in enumerate(spec.reverts)]
    lengths = max([kept, *(length + 1 for length in undone)])
    rows = [
        [((length < kept) + undone.count(length)) * count for count in counts]
        for length, counts in enumerate(itertools.islice(histories(spec, possible), lengths))
    ]
    return tuple(sum(column) for column in zip(*rows, strict=True))


def log_geometric(ratio: int | Fraction, terms: int) -> float:
    """Return the logarithm of 1 + ratio + ... + ratio^(terms-1)."""
    if terms == 0:
        return -math.inf
    if ratio == 1:
        return math.log(terms)
    # ratio^-terms is below the smallest double only where it no longer matters.
    power = terms * math.log1p(ratio - 1)
    return power + math.log(-math.expm1(-power)) - math.log(ratio - 1)


def log(count: int) -> float:
    """Return the logarithm of an exact count of any size; of zero, minus infinity."""
    return math.log(count) if count else -math.inf


@lru_cache(maxsize=1024)  # a search asks for the same count at every size that it tries
def log_models(
    spec: MeterSpec, steps: int | None = None, possible: int | None = None
) -> tuple[float, ...]:
    """Return the logarithm of the count to be union-bounded, at the tolerance of each band.

    `steps` and `possible` bands override what follows from the specification. Entry k belongs to
    `spec.tolerances[k]`.
    """
    total = spec.steps if steps is None else steps
    if spec.protocol in (Protocol.INDEPENDENT, Protocol.RESAMPLING):
        return (math.log(total),)
    possible = possible_bands(spec) if possible is None else possible
    parts = [total] if spec.handover or not spec.tenants else spec.tenants  # a history each
    _check_work(spec, sum(part for part in set(parts) if _is_walked(spec, part, possible)))
    known = {part: _log_models_of_one(spec, part, possible) for part in set(parts)}
    return tuple(log_sum(column) for column in zip(*map(known.get, parts), strict=True))


def log_weighed(
    spec: MeterSpec,
    log_tails: Sequence[float],
    steps: int | None = None,
    possible: int | None = None,
) -> float:
    """Return the logarithm of all that is counted, each model weighed with its band's tail."""
    counts = log_models(spec, steps, possible)
    return log_sum([count + tail for count, tail in zip(counts, log_tails, strict=False)])


def _log_models_of_one(spec: MeterSpec, steps: int, possible: int) -> tuple[float, ...]:
    if spec.memory is not None and spec.memory < steps:
        return tuple(map(log, _with_memory(spec, steps, possible)))
    if spec.protocol is Protocol.REGULAR:
        answers = possible + expected_edges(spec) + spec.silent_answers
        effective = [at - index for index, at in enumerate(spec.reverts)]
        # Of a test set that was topped up, every history goes on from one of the first stage.
        before = spec.topped_up * math.log(answers)
        tree = before + log_geometric(answers, steps - len(effective))
        undone = [(at - 1) * math.log(answers) for at in effective]
        each = log_sum([tree, *undone])
        return (each,) * spec.signals if spec.published else (each,)
    if _is_walked(spec, steps, possible):
        return tuple(map(log, models(spec, steps, possible)))
    # All histories are never fewer than the consistent ones, and have a closed form.
    possible = spec.signals if possible > 2 else possible
    return tuple(
        log(_incremental_count(spec, level, steps, possible)) for level in range(spec.signals)
    )


def _is_walked(spec: MeterSpec, steps: int, possible: int) -> bool:
    """Whether a count of so many steps has no closed form that is taken for it."""
    kept = steps if spec.memory is None else spec.memory
    if spec.protocol is not Protocol.INCREMENTAL or kept < steps:
        return False
    long = steps > _LONGEST_PLAIN and possible > 2
    return not _has_binomials(spec, spec.signals if long else possible)


def _check_work(spec: MeterSpec, steps: int, field: str = "steps") -> None:
    most = _most_steps(spec)
    if steps > most:
        kind = "a meter counted step by step"
        reason = kind if most == MAX_WALK else f"{kind} with so many bands"
        raise invalid(field, steps, f"at most {most:,} for {reason}")


def _most_steps(spec: MeterSpec) -> int:
    tops = spec.signals if spec.protocol is Protocol.INCREMENTAL else 1
    return min(MAX_WALK, _MOST_WORK // (tops * (spec.signals + spec.silent_answers)))


def _incremental_count(spec: MeterSpec, level: int, steps: int, possible: int) -> int:
    """Count models (or pairs) of the plain incremental meter at one level, exactly.

    Histories of length L that end at signal k = level + 1 are C(k + L - 2, k - 1) of all answers,
    and C(L, k - 1) of two possible ones: the maximum stays, or rises by one band. A pair of a
    history of length L and signal k is a history of length L + 1.
    """
    k = level + 1
    kept = steps - len(spec.reverts)
    undone = [at - index for index, at in enumerate(spec.reverts)]
    if spec.published:  # C(k+T-1, k), and C(k+t-2, k-1) for each step undone
        return math.comb(k + kept - 1, k) + sum(math.comb(k + at - 2, k - 1) for at in undone)
    if level == 0:  # nothing told yet, or nothing but signal 1: one history of each length
        return steps
    if possible < spec.signals:
        return math.comb(kept, k) + sum(math.comb(at - 1, level) for at in undone)
    tree = math.comb(k + kept - 2, k) if kept else 0
    return tree + sum(math.comb(k + at - 3, k - 1) for at in undone if at > 1)


def _with_memory(spec: MeterSpec, steps: int, possible: int) -> tuple[int, ...]:
    """Count models that depend on the last `memory` answers only.

    After t answers they are at most the consistent histories of length t, and at most the windows
    of that many answers of any kind: a developer who chooses the validation loss can write what
    happened before into the number of the next band. Both bound the models up to each level.
    """
    memory = spec.memory or 0
    _check_work(spec, memory, "memory")
    every = histories(spec, spec.signals)
    window: list[int] = []
    totals = [0] * (spec.signals if spec.protocol is Protocol.INCREMENTAL else 1)
    for length, counts in enumerate(itertools.islice(histories(spec, possible), steps)):
        if length <= memory:
            window = list(itertools.accumulate(next(every)))
        up_to = list(itertools.accumulate(counts))
        least = [min(pair) for pair in zip(up_to, window, strict=True)]
        full = length >= memory and least == window  # and so it stays: histories only get more
        times = steps - length if full else 1
        for level, (count, below) in enumerate(zip(least, [0, *least], strict=False)):
            totals[level] += times * (count - below)
        if full:
            break
    return tuple(totals)


def has_closed_form(spec: MeterSpec) -> bool:
    """Whether `log_models` takes a short time for any number of steps."""
    if spec.protocol is not Protocol.INCREMENTAL or spec.memory is not None:
        return True
    return _has_binomials(spec, spec.signals)


def _has_binomials(spec: MeterSpec, possible: int) -> bool:
    """Whether the histories of a meter with a running maximum are binomial coefficients."""
    return not spec.silent_answers and possible in (min(2, spec.signals), spec.signals)


def walk(spec: MeterSpec, log_tails: Sequence[float]) -> Iterator[tuple[int, float]]:
    """Yield ever more steps, one at a time, with what `log_weighed` gives for them."""
    most = _most_steps(spec)
    if not most:
        _check_work(spec, 1)
    fewest = len(spec.reverts)
    totals = list(models(spec, fewest)) if fewest else [0] * spec.signals
    lengths = itertools.islice(histories(spec), max(0, most - fewest))
    for steps, counts in enumerate(lengths, fewest + 1):
        totals = [total + count for total, count in zip(totals, counts, strict=False)]
        pairs = zip(totals, log_tails, strict=False)
        yield steps, log_sum([log(total) + tail for total, tail in pairs])
