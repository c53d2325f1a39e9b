"""The counts, against brute force over everything that can happen, and against closed forms."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.promise import sums

from easeml_meter.errors import InvalidInput
from easeml_meter.promise import solve
from easeml_meter.promise.budgets import Steps
from easeml_meter.promise.numbers.plain import log_sum
from easeml_meter.promise.shapes import MOST_DEPTH, Climb, heaviest, log_of
from easeml_meter.spec import MeterSpec

# --- The definitions, written down a second time, as plainly as possible ---
#
# A *run* is one thing that can happen in a session: the list of what the developer was told at
# each step, with the band whose tolerance that answer promises (None: it promises nothing).
# Signals are 0, 1, ..., m-1 here. Two outcomes give no reading: a test loss ABOVE the ceiling, and
# a loss of one's own that FAILED.

Step = tuple[int | str, int | None]
ABOVE, FAILED = -1, -2
SILENT: dict[int, Step] = {ABOVE: ("above", None), FAILED: ("failed", None)}
Run = list[Step]
Rule = Callable[[tuple[int, ...]], Run]


def runs(
    rule: Rule, signals: int, steps: int, *, ceiling: bool = False, may_fail: bool = False
) -> Iterator[Run]:
    """Yield what is told, for every sequence of measurements."""
    outcomes = [*range(signals), *[ABOVE] * ceiling, *[FAILED] * may_fail]
    for measured in itertools.product(outcomes, repeat=steps):
        yield rule(measured)


def regular(measured: tuple[int, ...]) -> Run:
    """Tell each measurement."""
    return [SILENT.get(m, (m, m)) for m in measured]


def incremental(measured: tuple[int, ...]) -> Run:
    """Tell the largest measurement so far."""
    told: Run = []
    worst = 0
    for signal in measured:
        if signal in SILENT:
            told.append(SILENT[signal])
        else:
            worst = max(worst, signal)
            told.append((worst, worst))
    return told


def models_by_level(
    all_runs: Iterable[Run], signals: int, known: Callable[[int, Sequence[Any]], Any]
) -> tuple[int, ...]:
    """Count the distinct models, each at the smallest tolerance that can come back for it.

    `known` says what of the answers so far, at step t, the next model may depend on.
    """
    level: dict[Any, int] = {}
    for run in all_runs:
        told = [answer for answer, _ in run]
        for t, (_, promised) in enumerate(run):
            model = known(t, told[:t])
            if promised is not None:
                level[model] = min(level.get(model, signals), promised)
    return tuple(list(level.values()).count(k) for k in range(signals))


def everything(_: int, told: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(told)


def last(window: int) -> Callable[[int, Sequence[Any]], Any]:
    return lambda t, told: (t, tuple(told[max(0, t - window) :]))


def all_but(undone: Sequence[int]) -> Callable[[int, Sequence[Any]], Any]:
    """The developer forgets what the undone steps (numbered from 1) have told."""
    return lambda t, told: (t, tuple(a for i, a in enumerate(told, 1) if i not in undone))


# --- What the product says ---


def spec(signals: int, steps: int, **options: Any) -> MeterSpec:
    tolerances = [0.01 * k for k in range(1, signals + 1)]
    return MeterSpec.uniform(
        signals=signals,
        tolerance=tolerances,
        steps=steps,
        delta=0.01,
        **{"count": "all"} | options,
    )


def counted(given: MeterSpec) -> tuple[int, ...]:
    found = [round(math.exp(count)) for count in sums.log_models(given)]
    return tuple(found + [0] * (given.signals - len(found)))


SIZES = [(signals, steps) for signals in range(1, 5) for steps in range(1, 6)]
RULES: dict[str, Rule] = {"regular": regular, "incremental": incremental}
protocols = pytest.mark.parametrize("protocol", RULES)
ceilings = pytest.mark.parametrize("ceiling", [None, 0.1], ids=["no ceiling", "ceiling"])


@protocols
@ceilings
def test_a_model_for_all_that_was_told_or_for_what_is_remembered(
    protocol: str, ceiling: float | None
) -> None:
    for signals, steps in SIZES:
        happening = list(runs(RULES[protocol], signals, steps, ceiling=ceiling is not None))
        given = spec(signals, steps, ceiling=ceiling, protocol=protocol)
        assert counted(given) == models_by_level(happening, signals, everything)
        for memory in (0, 1, 2, 3, 9):
            expected = models_by_level(happening, signals, last(memory))
            assert counted(given.replace(memory=memory)) == expected, (signals, steps, memory)


@protocols
@pytest.mark.parametrize(("signals", "steps"), [(1, 4), (2, 4), (3, 4), (4, 3)])
@ceilings
def test_a_loss_of_ones_own_may_fail_and_that_is_an_answer(
    signals: int, steps: int, ceiling: float | None, protocol: str
) -> None:
    rule = RULES[protocol]
    happening = runs(rule, signals, steps, ceiling=ceiling is not None, may_fail=True)
    expected = models_by_level(happening, signals, everything)
    given = spec(signals, steps, ceiling=ceiling, protocol=protocol, loss="losses.py:mine")
    assert counted(given) == expected


def schedules(steps: int) -> list[tuple[int, ...]]:
    every = range(1, steps + 1)
    return [s for size in range(1, steps + 1) for s in itertools.combinations(every, size)]


def undo(rule: Rule, schedule: Sequence[int]) -> Rule:
    """The meter of a developer who undoes the steps of a schedule: their signals leave no trace."""

    def with_undone(measured: tuple[int, ...]) -> Run:
        told: Run = []
        for at in range(len(measured)):
            kept = [m for i, m in enumerate(measured[:at], 1) if i not in schedule]
            told.append(rule((*kept, measured[at]))[-1])
        return told

    return with_undone


@protocols
@pytest.mark.parametrize(("signals", "steps"), [(1, 4), (2, 4), (3, 3), (4, 3), (3, 4)])
@ceilings
def test_fixed_reverts(signals: int, steps: int, ceiling: float | None, protocol: str) -> None:
    rule = RULES[protocol]
    for schedule in schedules(steps):
        happening = runs(undo(rule, schedule), signals, steps, ceiling=ceiling is not None)
        expected = models_by_level(happening, signals, all_but(schedule))
        given = spec(signals, steps, ceiling=ceiling, protocol=protocol, reverts=schedule)
        assert counted(given) == expected, schedule


def pairs_by_signal(
    all_runs: Iterable[Run], signals: int, known: Callable[[int, Sequence[Any]], Any]
) -> tuple[int, ...]:
    """Count, as the paper does, the pairs of a model and a signal that can come back for it."""
    pairs = set()
    for run in all_runs:
        told = [answer for answer, _ in run]
        pairs |= {(known(t, told[:t]), answer) for t, answer in enumerate(told)}
    return tuple(sum(answer == k for _, answer in pairs) for k in range(signals))


@protocols
def test_published_pairs(protocol: str) -> None:
    for signals, steps in SIZES:
        expected = pairs_by_signal(runs(RULES[protocol], signals, steps), signals, everything)
        assert counted(spec(signals, steps, protocol=protocol, published=True)) == expected


@protocols
@pytest.mark.parametrize(("signals", "steps"), [(1, 4), (2, 4), (3, 3), (4, 3)])
def test_published_pairs_with_fixed_reverts(signals: int, steps: int, protocol: str) -> None:
    rule = RULES[protocol]
    for schedule in schedules(steps):
        happening = runs(undo(rule, schedule), signals, steps)
        expected = pairs_by_signal(happening, signals, all_but(schedule))
        given = spec(signals, steps, protocol=protocol, published=True, reverts=schedule)
        assert counted(given) == expected, schedule


@pytest.mark.parametrize("published", [False, True])
@protocols
@pytest.mark.parametrize("tenants", [(1,), (2, 3), (1, 1, 1), (4, 1)])
def test_isolated_tenants_add_up(tenants: tuple[int, ...], protocol: str, published: bool) -> None:
    options = {"protocol": protocol, "published": published}
    each = [counted(spec(3, steps, **options)) for steps in tenants]
    together = counted(spec(3, sum(tenants), tenants=tenants, **options))
    assert together == tuple(map(sum, zip(*each, strict=True)))


@protocols
def test_a_hand_over_of_checkpoints_saves_nothing(protocol: str) -> None:
    plain = sums.log_models(spec(3, 5, protocol=protocol))
    shared = spec(3, 5, protocol=protocol, tenants=(2, 3), handover=True)
    assert sums.log_models(shared) == pytest.approx(plain)


@pytest.mark.parametrize("protocol", ["independent", "resampling"])
def test_without_adaptivity_there_are_as_many_models_as_steps(protocol: str) -> None:
    assert counted(spec(3, 7, protocol=protocol)) == (7, 0, 0)


# --- Large counts: closed forms against dynamic programming, logarithms against big integers ---

walked_steps = st.integers(1, 60)
some_signals = st.integers(1, 8)


@given(some_signals, walked_steps)
def test_regular_closed_form(signals: int, steps: int) -> None:
    (closed,) = sums.log_models(spec(signals, steps))
    walked = sum(signals**length for length in range(steps))
    assert closed == pytest.approx(math.log(walked), rel=1e-14, abs=1e-14)


@given(
    some_signals,
    walked_steps,
    st.integers(0, 20),
    st.integers(2, 8),
    st.sampled_from([1, Fraction(1, 3)]),
)
def test_climbs_in_closed_form_are_those_that_are_walked(
    m: int, last: int, first: int, b: int, rho: Fraction | int
) -> None:
    """Two answers, all answers, and as many of drawn ones as are consistent."""
    shape = Climb(m, 2 if rho != 1 else min(b, max(2, m)), Fraction(rho))
    walked: dict[int, Fraction] = {}
    for counts in itertools.islice(shape.layers(), min(first, last), last + 1):
        for top, count in counts.items():
            walked[top] = walked.get(top, Fraction(0)) + count * Fraction(rho) ** top
    found = shape.log_mass(min(first, last), last)
    assert {top: math.exp(log) for top, log in found.items()} == pytest.approx(walked, rel=1e-12)


@given(some_signals, st.integers(1, 12), st.integers(0, 2), st.integers(2, 4))
def test_layers_are_what_the_cells_lead_to(m: int, steps: int, silent: int, b: int) -> None:
    shape = Climb(m, b, silent=silent)
    total = log_of(heaviest(shape, Steps(steps=steps), steps))
    found = log_sum(list(shape.log_mass(0, steps - 1).values()))
    assert found == pytest.approx(total, rel=1e-12, abs=1e-12)


@given(some_signals, st.integers(1, 400), st.booleans())
def test_answers_of_a_walk_are_the_most(signals: int, labels: int, running_max: bool) -> None:
    options = {"protocol": "incremental" if running_max else "regular", "ceiling": 0.1}
    plain: dict[str, Any] = {"signals": signals, "tolerance": 0.2, "steps": 1, "delta": 0.1}
    meter = MeterSpec.uniform(**plain | options).meter
    try:
        found = solve.steps(meter, labels)
    except InvalidInput:
        found = 0
    goal = math.log(0.1)
    if found:
        assert solve.log_failure(solve.with_steps(meter, found), labels) <= goal
    assert solve.log_failure(solve.with_steps(meter, found + 1), labels) > goal


@given(st.integers(1, 60), st.integers(1, 2000))
def test_log_geometric_against_big_integers(ratio: int, terms: int) -> None:
    exact = terms if ratio == 1 else (ratio**terms - 1) // (ratio - 1)
    found = sums.log_geometric(ratio, terms)
    assert found == pytest.approx(math.log(exact), rel=1e-14, abs=1e-14)


def test_counts_with_millions_of_digits_are_never_written_out() -> None:
    (each, *_) = sums.log_models(spec(50, 10**6, published=True))
    assert each == pytest.approx(10**6 * math.log(50) - math.log(49), rel=1e-15)
    many = sums.log_models(spec(50, 10**6, protocol="incremental", published=True))
    assert many[-1] == pytest.approx(math.log(math.comb(50 + 10**6 - 1, 50)), rel=1e-15)


def test_too_long_a_walk_is_refused_in_one_line() -> None:
    long = spec(3, MOST_DEPTH + 1, protocol="incremental", ceiling=0.1)
    with pytest.raises(InvalidInput, match=r"^steps: 10001 given, counted .*: at most 10,000$"):
        sums.log_models(long)


@given(st.lists(st.integers(0, 10**30), min_size=1, max_size=6))
def test_log_sum_is_the_log_of_the_sum(counts: list[int]) -> None:
    found = log_sum([log_of(count) for count in counts])
    assert found == pytest.approx(log_of(sum(counts)), rel=1e-14, abs=1e-14)


@pytest.mark.parametrize(
    ("logs", "expected"),
    [
        ([-math.inf], -math.inf),
        ([-math.inf, -math.inf], -math.inf),
        ([-math.inf, 3.0], 3.0),
        ([-20_000.0, -20_000.0], -20_000.0 + math.log(2)),
        ([1e6, -1e6], 1e6),
    ],
)
def test_log_sum_far_from_one(logs: list[float], expected: float) -> None:
    assert log_sum(logs) == pytest.approx(expected)


@pytest.mark.parametrize(
    "options",
    [
        {"memory": 9_999, "steps": 10_000, "protocol": "incremental", "signals": 101},
        {"tenants": (20_000, 20_001, 20_002), "steps": 60_003, "protocol": "incremental"}
        | {"signals": 20, "ceiling": 0.5},
        {"tenants": tuple(range(1, 500)), "steps": 499 * 250, "protocol": "incremental"}
        | {"signals": 20, "ceiling": 0.5},
    ],
)
def test_a_count_that_would_take_long_is_refused_before_anything_is_built(
    monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]
) -> None:
    """1 KB from anybody cost a server 18 seconds and 3 GB."""

    def built(*_: object) -> None:
        raise AssertionError

    plain: dict[str, Any] = {"signals": 5, "tolerance": 0.05, "delta": 0.05}
    spec = MeterSpec.uniform(**(plain | options))
    monkeypatch.setattr(Climb, "layers", built)
    with pytest.raises(InvalidInput, match=r"^(steps|memory): \S+ given, counted step by step"):
        sums.log_models(spec)


def test_teams_of_one_size_are_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """4 KB with 500 teams cost a server 10 seconds."""
    plain: dict[str, Any] = {"signals": 5, "tolerance": 0.05, "delta": 0.05, "ceiling": 0.5}
    spec = MeterSpec.uniform(**plain, steps=7, tenants=(3, 4), protocol="incremental")
    many = spec.replace(steps=700, tenants=(3, 4) * 100)
    both, plainly, walks = sums.log_models(spec), Climb.layers, []

    def walked(self: Climb, *given: int) -> Iterator[Mapping[int, int]]:
        walks.append(self)
        return plainly(self, *given)

    monkeypatch.setattr(Climb, "layers", walked)
    found = sums.log_models(many)
    assert found == pytest.approx([each + math.log(100) for each in both])
    assert len(walks) == 2
    with pytest.raises(InvalidInput, match=r"^tenants: '1,001 teams' given, at most 1,000$"):
        spec.replace(steps=1001, tenants=(1,) * 1001)
