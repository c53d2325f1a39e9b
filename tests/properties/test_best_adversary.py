"""Every form of meter against the best of all strategies, in worlds of a few examples.

What the planner promises must be at least the probability that the exactly optimal adversary
breaks a promise. It plays by the meter's own rules on every data set. The bound is checked with the
tails of that world, which are the smallest that are true, and with the planner's own.
Drawn edges have an adversary of their own in `stats/test_draws.py`.
"""

from __future__ import annotations

import itertools
import math
from functools import cache
from typing import Any

import pytest
from tests.promise import sums
from tests.promise.adversary import Adversary, Question
from tests.promise.sums import log_failure, possible_bands
from tests.promise.test_consistent import meter

from easeml_meter.spec import MeterSpec

INCREMENTAL: dict[str, Any] = {"protocol": "incremental"}

ALONE: dict[str, tuple[MeterSpec, float]] = {
    "regular": (meter((8,), 8), 5.0),
    "regular, signed": (meter((8,), 8, gap="signed"), 5.0),
    "regular, all answers": (meter((4, 8), 8, steps=2, count="all"), 3.0),
    "regular, close edges": (meter((2, 4), 8, steps=2), 4.0),
    "regular, by band": (meter((8,), (8, 9)), 5.0),
    "ceiling": (meter((8,), 8, ceiling=0.5), 7.0),
    "incremental": (meter((8,), 8, **INCREMENTAL), 4.5),
    "incremental, by band": (meter((3, 8), (8, 9, 10), **INCREMENTAL), 3.0),
    "incremental, ceiling": (meter((8,), 8, **INCREMENTAL, ceiling=0.5), 12.0),
}
"""A meter of one developer, and how many tails of one model the best strategy reaches."""


def bound_of(spec: MeterSpec, adversary: Adversary) -> float:
    """Return the promise in this world; the planner's own, whose tails are larger, is no less."""
    logs = [math.log(tail) if tail else -math.inf for tail in adversary.tails()]
    bound = math.exp(sums.log_weighed(spec, logs)) * (1 + 1e-12)
    assert bound <= math.exp(log_failure(spec, len(adversary.losses) - 1)) * (1 + 1e-9)
    return bound


@pytest.mark.parametrize("name", ALONE)
def test_one_developer(name: str) -> None:
    spec, reached = ALONE[name]
    adversary = Adversary(spec)
    best = adversary.best(spec)
    assert best <= bound_of(spec, adversary)
    assert best / adversary.tails()[0] == pytest.approx(reached)


# --- Several developers, and those who forget ---


def outcomes(adversary: Adversary, state: int) -> set[Question]:
    """List what any model and any validation loss make of the data sets, each once."""
    found = (adversary.questions(state, model) for model in adversary.worlds)
    return {tuple(sorted(question)) for questions in found for question in questions}


@pytest.mark.parametrize("protocol", ["regular", "incremental"])
@pytest.mark.parametrize("tenants", [(1, 2), (2, 2)], ids=str)
def test_isolated_teams(tenants: tuple[int, int], protocol: str) -> None:
    """Neither knows the other's answers: together they fail where one of them does."""
    spec = meter((8,), 8, steps=sum(tenants), tenants=tenants, protocol=protocol)
    adversary = Adversary(spec, examples=4)
    every = (1 << len(adversary.worlds)) - 1
    alone = spec.replace(tenants=(), steps=2)
    best = max(
        broken.bit_count() / len(adversary.worlds) + adversary.best(alone, every & ~broken)
        for broken in broken_by(adversary, tenants[0])
    )
    assert adversary.best(alone) < best <= bound_of(spec, adversary)


def broken_by(adversary: Adversary, steps: int) -> set[int]:
    """List the sets of data sets on which a strategy of one or two steps breaks a promise."""
    if steps == 1:
        return set(adversary.endings(0))
    found = set()
    for question in adversary.questions(0, 0):  # the first model is any
        first = sum(wrong for _, _, wrong in question)
        parts = [
            {ending & right for ending in adversary.endings(adversary.meter.shape.after(0, answer))}
            for answer, right, _ in question
        ]
        found |= {first | sum(chosen) for chosen in itertools.product(*parts)}
    return found


@pytest.mark.parametrize("edges", [(8,), (4, 8)], ids=str)
def test_a_developer_who_remembers_one_answer(edges: tuple[int, ...]) -> None:
    """The third model follows from the second answer alone, whatever the first one was."""
    spec = meter(edges, 8, steps=3, memory=1)
    adversary = Adversary(spec, examples=4)
    asked = outcomes(adversary, 0)
    endings = adversary.endings(0)

    @cache
    def last(spared: int) -> int:
        return max((spared & wrong).bit_count() for wrong in endings)

    @cache
    def second(spared: int) -> set[tuple[int, tuple[tuple[str, int], ...]]]:
        """List, for each second model: where it breaks its promise, and what is left by answer."""
        found = set()
        for question in asked:
            wrong = sum(wrong for _, _, wrong in question)
            left = tuple((answer, right & spared) for answer, right, _ in question)
            found.add(((wrong & spared).bit_count(), tuple(each for each in left if each[1])))
        return found

    best = 0
    for question in adversary.questions(0, 0):
        first = sum(wrong.bit_count() for _, _, wrong in question)
        for chosen in itertools.product(*(second(right) for _, right, _ in question)):
            windows: dict[str, int] = {}
            for answer, spared in (each for _, left in chosen for each in left):
                windows[answer] = windows.get(answer, 0) | spared
            reached = sum(broken for broken, _ in chosen) + sum(map(last, windows.values()))
            best = max(best, first + reached)
    with_memory = best / len(adversary.worlds)
    assert with_memory <= bound_of(spec, adversary)
    assert with_memory <= adversary.best(spec.replace(memory=None))


@pytest.mark.parametrize("edges", [(8,), (3, 8)], ids=str)
@pytest.mark.parametrize("protocol", ["regular", "incremental"])
def test_teams_that_hand_over(edges: tuple[int, ...], protocol: str) -> None:
    """Each question may go to either team, as if both had known all answers from the start.

    That is no less than they can reach. Each team has a running maximum of its own.
    """
    spec = meter(edges, 8, steps=3, tenants=(2, 1), protocol=protocol)
    adversary = Adversary(spec)

    @cache
    def most(states: tuple[int, int], left: tuple[int, int], spared: int) -> int:
        found = 0
        for team in (0, 1):
            if not left[team]:
                continue
            rest = (left[0] - (team == 0), left[1] - (team == 1))
            if not any(rest):
                endings = adversary.endings(states[team])
                found = max(found, *((spared & wrong).bit_count() for wrong in endings))
                continue
            for model in adversary.worlds if sum(left) < spec.steps else (0,):
                for question in adversary.questions(states[team], model):
                    reached = 0
                    for answer, right, wrong in question:
                        after = adversary.meter.shape.after(states[team], answer)
                        both = (after, states[1]) if team == 0 else (states[0], after)
                        reached += (spared & wrong).bit_count()
                        reached += most(both, rest, spared & right) if spared & right else 0
                    found = max(found, reached)
        return found

    best = most((0, 0), (2, 1), (1 << len(adversary.worlds)) - 1)
    tail = adversary.tails()[0]
    shared = math.exp(sums.log_geometric(possible_bands(spec), spec.steps)) * tail
    assert best / len(adversary.worlds) <= shared * (1 + 1e-12)
