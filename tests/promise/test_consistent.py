"""Consistent histories: against enumeration by the meter's own rules, and the best adversary."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from functools import cache
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.promise import sums
from tests.promise.adversary import Adversary
from tests.promise.sums import possible_bands

from easeml_meter.core.questions.planning import required_labels
from easeml_meter.core.views import read_of
from easeml_meter.lab.meters import gap_of
from easeml_meter.lab.simulation.arena import UNREAD, name_of, number_of
from easeml_meter.promise.gap import Unmerged as UnmergedGap
from easeml_meter.promise.numbers.rounding import as_written
from easeml_meter.promise.questions import Shown, measured_of
from easeml_meter.spec import MeterSpec

GRID = 20
"""Losses, edges and tolerances of the enumeration are whole multiples of 1/20."""
LOSSES = [Fraction(k, GRID) for k in range(GRID + 1)]


def meter(
    edges: tuple[int, ...], tolerance: int | tuple[int, ...], steps: int = 3, **options: Any
) -> MeterSpec:
    """Build a meter from edges and tolerances in twentieths."""
    each = [tolerance] * (len(edges) + 1) if isinstance(tolerance, int) else tolerance
    return MeterSpec.uniform(
        signals=len(edges) + 1,
        edges=[edge / GRID for edge in edges],
        tolerance=[eps / GRID for eps in each],
        steps=steps,
        delta=0.1,
        **options,
    )


ABOVE = number_of("above-ceiling")


# --- Enumeration: every true loss, validation loss and test loss, answered by the rules ---


class Rules:
    """The rule of a meter of bands, in whole numbers; `merges`: without edges near a ceiling."""

    def __init__(self, spec: MeterSpec, *, merges: bool = True) -> None:
        asked = gap_of(spec.meter)
        self.spec, self.asked = spec, asked
        if not merges:
            self.asked = UnmergedGap(**msgspec.structs.asdict(asked))
        self.incremental = asked.climbs_only

    def answer(self, told: int, validation: Any, test: Any) -> int:
        rows = measured_of(Shown(1, as_written(validation)), as_written(test))
        return number_of(self.asked.answer(told, rows, Fraction(0)))

    def after(self, told: int, answer: int) -> int:
        return self.spec.meter.shape.after(told, name_of(answer))


@cache
def consistent(rules: Rules, state: int) -> set[frozenset[int]]:
    """List the sets of answers that break no promise, one set for each place of the truth."""
    found = set()
    for validation in LOSSES:
        told = [rules.answer(state, validation, test) for test in LOSSES]
        reach = [_reach(rules, answer) for answer in told]
        for true in range(GRID + 1):
            answers = {
                told[test]
                for test in range(GRID + 1)
                if _least(rules, told[test]) <= true and abs(test - true) <= reach[test]
            }
            failed = {UNREAD} if rules.spec.may_fail else set()
            found.add(frozenset(answers | failed))
    return {each for each in found if not any(each < other for other in found)}


def _least(rules: Rules, answer: int) -> float:
    """Return the least true loss, in twentieths, that an answer without a band promises."""
    return GRID * float(rules.asked.least_above or 0) - 1e-9 if answer == ABOVE else 0.0


def _reach(rules: Rules, answer: int) -> int:
    """Return how many twentieths a test loss may be from the true loss: all if none is promised.

    A regular meter is planned to keep its first tolerance in every band.
    """
    promised = rules.asked.tolerance_of(name_of(answer))
    if promised is not None and not rules.incremental:
        promised = rules.asked.tolerance[0]
    return GRID if promised is None else int(promised.limit_denominator(GRID) * GRID)


def largest_tree(spec: MeterSpec, weights: tuple[float, ...]) -> float:
    """Weigh the largest tree of consistent histories."""
    rules = Rules(spec)

    @cache
    def tree(steps: int, state: int) -> float:
        if steps == 0:
            return 0.0
        return max(
            weights[state if rules.incremental else 0]
            + sum(tree(steps - 1, rules.after(state, answer)) for answer in answers)
            for answers in consistent(rules, state)
        )

    return tree(spec.steps, 0)


def counted(spec: MeterSpec, weights: tuple[float, ...]) -> float:
    """Weigh what the product counts."""
    logs = [math.log(weight) if weight else -math.inf for weight in weights]
    return math.exp(sums.log_weighed(spec, logs))


EDGES = [(4,), (4, 8), (1, 4), (4, 8, 12), (2, 4, 6), (1, 2, 3), (5, 6, 12)]
PROTOCOLS: dict[str, dict[str, Any]] = {
    "regular": {},
    "incremental": {"protocol": "incremental"},
    "ceiling": {"ceiling": 0.5},
    "ceiling, incremental": {"protocol": "incremental", "ceiling": 0.5},
    "no reading": {"loss": "losses.py:mine"},
    "no reading, incremental": {"protocol": "incremental", "models": True},
    "signed": {"gap": "signed"},
}


@pytest.mark.parametrize("edges", EDGES, ids=str)
@pytest.mark.parametrize("options", PROTOCOLS.values(), ids=PROTOCOLS.keys())
def test_the_count_covers_the_largest_tree(edges: tuple[int, ...], options: dict[str, Any]) -> None:
    spec = meter(edges, 2, steps=4, **options)
    ones = (1.0,) * spec.signals
    tree = largest_tree(spec, ones)
    assert tree <= counted(spec, ones) * (1 + 1e-12)
    assert counted(spec, ones) <= counted(spec.replace(count="all"), ones) * (1 + 1e-12)


@pytest.mark.parametrize(
    "name",
    ["regular", "incremental", "signed", "ceiling"],
)
@pytest.mark.parametrize("edges", [(4,), (4, 8), (4, 8, 12), (2, 4, 6), (1, 2, 3)], ids=str)
def test_the_count_is_the_largest_tree(edges: tuple[int, ...], name: str) -> None:
    """Equally spaced edges: the tree can be had, so no smaller count would do."""
    spec = meter(edges, 2, steps=4, **PROTOCOLS[name])
    ones = (1.0,) * spec.signals
    assert largest_tree(spec, ones) == pytest.approx(counted(spec, ones), rel=1e-12)


@pytest.mark.parametrize("tolerances", [(1, 2, 3), (2, 2, 5), (1, 4, 9), (1, 1, 19)], ids=str)
@pytest.mark.parametrize("options", PROTOCOLS.values(), ids=PROTOCOLS.keys())
def test_the_count_covers_unequal_tolerances(
    tolerances: tuple[int, ...], options: dict[str, Any]
) -> None:
    """Whatever the tails are: a larger tolerance has the smaller one."""
    spec = meter((4, 8), tolerances, steps=4, **options)
    for weights in [(1.0, 1.0, 1.0), (1.0, 0.5, 0.1), (1.0, 0.9, 0.0), (1.0, 0.0, 0.0)]:
        assert largest_tree(spec, weights) <= counted(spec, weights) * (1 + 1e-12)


@pytest.mark.parametrize("edges", [(4,), (4, 8), (4, 8, 12)], ids=str)
def test_edges_that_are_told_near_the_ceiling_make_a_larger_tree(edges: tuple[int, ...]) -> None:
    spec = meter(edges, 2, steps=4, ceiling=0.5)
    assert len(max(consistent(Rules(spec), 0), key=len)) == possible_bands(spec) == 2
    assert len(max(consistent(Rules(spec, merges=False), 0), key=len)) == 3


def test_an_edge_is_left_out_on_both_sides_of_the_validation_loss() -> None:
    """Left out on the upper side alone, the same edge would still cut the lower side."""
    spec = MeterSpec.uniform(tolerance=0.01, edges=(0.005, 0.03), steps=2, delta=0.1, ceiling=0.1)
    loss = Fraction(775, 10_000)  # only .0775 + .005 is within two tolerances of the ceiling
    near = [Fraction(k, 10_000) for k in range(625, 826)]
    assert {Rules(spec).answer(0, loss, test) for test in near} == {1}
    assert {Rules(spec, merges=False).answer(0, loss, test) for test in near} == {1, 2}
    first, above = (read_of(spec.meter, each, Shown(9, loss)) for each in ("1", "above-ceiling"))
    assert first.gap == (0.0, 0.03)
    assert (first.true_loss_at_least, first.true_loss_at_most) == (0.0375, 0.11)
    assert (above.true_loss_at_least, above.true_loss_at_most) == (0.09, None)


def test_one_band_fewer_would_be_too_few() -> None:
    """Bands as wide as the tolerance leave three answers; counted as two, the tree is larger."""
    for options in ({}, {"protocol": "incremental"}):
        spec = meter((2, 4, 6), 2, steps=4, **options)
        assert possible_bands(spec) == 3
        too_few = sum(map(math.exp, sums.log_models(spec, possible=2)))
        assert largest_tree(spec, (1.0,) * 4) > too_few + 0.5


# --- The best adversary of a small world: all data sets, all strategies ---


@pytest.mark.parametrize(
    ("options", "steps", "reached", "bound"),
    [
        ({}, 2, 2.5, 3),
        ({}, 3, 5.0, 7),
        ({"protocol": "incremental"}, 3, 4.5, 6),
        ({"ceiling": 0.5}, 2, 3.0, 3),
        ({"ceiling": 0.5}, 3, 7.0, 7),
        ({"protocol": "incremental", "ceiling": 0.5}, 3, 12.0, 12),
    ],
    ids=[
        *("regular, two steps", "regular, three steps", "incremental, three steps"),
        *("ceiling, two steps", "ceiling, three steps", "ceiling, incremental, three steps"),
    ],
)
def test_the_best_adversary_of_a_small_world(
    options: dict[str, Any], steps: int, reached: float, bound: int
) -> None:
    """In units of one model's tail: what the best strategy reaches, and what is counted."""
    spec = meter((8,), 8, steps=steps, **options)  # one edge
    assert possible_bands(spec) == 2
    adversary = Adversary(spec)
    assert sum(map(math.exp, sums.log_models(spec))) == pytest.approx(bound)
    best = adversary.best(spec)
    assert best / adversary.tails()[0] == reached <= bound


@pytest.mark.parametrize(
    ("edges", "tolerances", "steps"), [((3, 8), (4, 8, 10), 2), ((3, 8), (8, 9, 10), 3)], ids=str
)
def test_the_best_adversary_of_unequal_tolerances(
    edges: tuple[int, ...], tolerances: tuple[int, ...], steps: int
) -> None:
    """Each model counts at the tolerance that its answer can still promise."""
    spec = meter(edges, tolerances, steps=steps, protocol="incremental")
    adversary = Adversary(spec)
    bound = counted(spec, tuple(adversary.tails()))
    assert 0.3 * bound < adversary.best(spec) <= bound < 1


@pytest.mark.parametrize(("steps", "bound"), [(2, 3), (3, 7)])
def test_told_edges_near_the_ceiling_would_break_the_bound(steps: int, bound: int) -> None:
    spec = meter((8,), 8, steps=steps, ceiling=0.5)
    adversary = Adversary(spec)
    adversary.asked = UnmergedGap(**msgspec.structs.asdict(adversary.asked))
    assert adversary.best(spec) / adversary.tails()[0] > bound


@pytest.mark.parametrize(
    ("edges", "steps", "possible", "counted_as", "reached"),
    [((8,), 3, 2, 1, 5.0), ((2, 4), 2, 3, 2, 4.0)],
    ids=["one band too few", "close edges counted as two answers"],
)
def test_the_best_adversary_breaks_too_small_a_count(
    edges: tuple[int, ...], steps: int, possible: int, counted_as: int, reached: float
) -> None:
    """Two edges within two tolerances leave three answers, and all of that bound is reached."""
    spec = meter(edges, 8, steps=steps)
    assert possible_bands(spec) == possible
    adversary = Adversary(spec)
    best = adversary.best(spec) / adversary.tails()[0]
    right, wrong = (
        math.exp(*sums.log_models(spec, possible=each)) for each in (possible, counted_as)
    )
    assert wrong + 0.9 < best == reached <= right + 1e-9


# --- The number of possible bands ---


@given(
    st.lists(st.integers(1, 199), min_size=1, max_size=8, unique=True),
    st.integers(1, 60),
)
def test_possible_bands_of_one_tolerance(edges: list[int], eps: int) -> None:
    """The first-violation count: 1 + the most edges within two tolerances, from one on."""
    inner = sorted(edges)
    spec = MeterSpec.uniform(
        signals=len(inner) + 1,
        edges=[edge / 200 for edge in inner],
        tolerance=eps / 200,
        steps=2,
        delta=0.1,
    )
    near = max(sum(edge <= other < edge + 2 * eps for other in inner) for edge in inner)
    assert possible_bands(spec) == 1 + near
    assert possible_bands(spec.replace(count="all")) == len(inner) + 1


@given(st.lists(st.integers(1, 60), min_size=2, max_size=7), st.integers(1, 7))
def test_possible_bands_of_unequal_tolerances(tolerances: list[int], wide: int) -> None:
    """As many as reach one true gap: all gaps are tried, and those between them."""
    spec = MeterSpec.uniform(
        edges=[wide * (number + 1) / 200 for number in range(len(tolerances) - 1)],
        tolerance=[each / 200 for each in sorted(tolerances)],
        protocol="incremental",
        steps=2,
        delta=0.1,
    )
    ends = itertools.pairwise((Fraction(0), *map(as_written, spec.edges), Fraction(1)))
    each = zip(ends, map(as_written, spec.tolerances), strict=True)
    ranges = [(max(Fraction(0), low - eps), high + eps) for (low, high), eps in each]
    gaps = [Fraction(k, 400) for k in range(401)]
    most = max(sum(lower <= gap < upper for lower, upper in ranges) for gap in gaps)
    assert possible_bands(spec) == most


def test_edges_exactly_two_tolerances_apart_leave_two_bands() -> None:
    """As rationals: 0.3 - 0.1 is less than 0.2 in doubles."""
    spec = MeterSpec.uniform(signals=3, edges=[0.1, 0.3], tolerance=0.1, steps=2, delta=0.1)
    assert possible_bands(spec) == 2
    assert possible_bands(spec.with_tolerances([0.10001] * 3)) == 3


def test_edges_exactly_two_tolerances_apart_are_free_where_losses_are_rounded() -> None:
    """A hair's breadth before the tolerance a promise is broken: they cost a third more labels."""
    spec = MeterSpec.uniform(tolerance=0.05, edges=[0.1, 0.2], steps=10, delta=0.05, loss="brier")
    apart = MeterSpec.uniform(tolerance=0.05, edges=[0.1, 0.3], steps=10, delta=0.05, loss="brier")
    assert possible_bands(spec) == 2
    assert required_labels(spec).labels == required_labels(apart).labels == 1_837


def test_the_published_analysis_counts_all_answers() -> None:
    spec = meter((4, 8), 2, published=True)
    assert possible_bands(spec) == 3
