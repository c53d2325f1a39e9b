"""From losses to answers: the bands' edges, each protocol's rule, and the counts they add up to."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from easeml_meter.core.signals import (
    ABOVE_CEILING,
    NO_READING,
    Rules,
    State,
    answer_named,
    name_of,
    true_gap,
)
from easeml_meter.errors import InvalidInput
from easeml_meter.spec import MeterSpec
from easeml_meter.stats import counting

OWN_LOSS = "module:function"  # it may fail on hidden data, and that is then an answer
TENTHS = [k / 10 for k in range(1, 10)]


def rules(signals: int = 5, steps: int = 9, **options: Any) -> Rules:
    return Rules(
        MeterSpec.uniform(signals=signals, tolerance=0.1, steps=steps, delta=0.1, **options)
    )


def told(meter: Rules, *losses: tuple[float, float]) -> list[int]:
    """What a developer is told for (validation loss, test loss), one submission after another."""
    state, answers = State(), []
    for validation_loss, test_loss in losses:
        answers.append(meter.answer(state, validation_loss, test_loss))
        state = meter.after(state, answers[-1])
    return answers


# --- Bands: lower edge in, upper edge out ---


@pytest.mark.parametrize(
    ("validation", "test", "band"),
    [
        (Fraction(3, 10), Fraction(6, 10), 4),
        (Fraction(6, 10), Fraction(3, 10), 4),
        (0.3, 0.6, 4),
        (0.4, 0.7, 4),  # 0.7 - 0.4 is 0.29999999999999993 in doubles
        (0.5, 0.8, 4),  # 0.8 - 0.5 is 0.30000000000000004
        (0.0, 0.1 + 0.2, 4),
        (0.0, 0.3, 4),
        (0.0, 0.29999999999999993, 3),
        (Fraction(3, 10), 0.6, 4),
        (Fraction(0), Fraction(3 * 10**20 - 1, 10**21), 3),
        (0.0, 0.0, 1),
        (0.0, 1.0, 10),
        (Fraction(1), Fraction(0), 10),
        (1, 0, 10),
        (0.1, 0.99, 9),
        (0.0, 0.9, 10),
    ],
)
def test_a_gap_on_an_edge_belongs_to_the_band_above(
    validation: float | Fraction, test: float | Fraction, band: int
) -> None:
    meter = rules(10, edges=TENTHS)
    assert meter.answer(State(), validation, test) == band


def test_the_last_band_is_closed_at_one_and_the_first_at_zero() -> None:
    meter = rules(3, edges=[0.05, 0.5])
    assert [meter.band_of(gap) for gap in (0, 0.05, 0.5, 1)] == [1, 2, 3, 3]
    assert rules(1).band_of(1.0) == 1


@given(
    validation=st.integers(0, 10_000),
    test=st.integers(0, 10_000),
    edges=st.lists(st.integers(1, 999), min_size=1, max_size=8, unique=True).map(sorted),
)
def test_bands_are_half_open_whatever_the_edges(
    validation: int, test: int, edges: list[int]
) -> None:
    """The same answer from shares of 10,000 examples as fractions and as doubles."""
    meter = rules(len(edges) + 1, edges=[edge / 1000 for edge in edges])
    band = 1 + sum(abs(validation - test) >= 10 * edge for edge in edges)
    exact = Fraction(validation, 10_000), Fraction(test, 10_000)
    assert meter.answer(State(), *exact) == band
    assert meter.answer(State(), validation / 10_000, test / 10_000) == band


@pytest.mark.parametrize("gap", [-0.1, 1.1, float("nan"), float("inf")])
def test_a_gap_outside_of_zero_to_one_is_refused(gap: float) -> None:
    with pytest.raises(InvalidInput, match="gap"):
        rules().band_of(gap)


@pytest.mark.parametrize("loss", [-0.1, 1.05, 7, float("nan"), float("inf")])
@pytest.mark.parametrize("test_loss", [0.0, 0.1, 0.5, 1.0])
def test_whether_a_validation_loss_is_refused_does_not_depend_on_the_test_loss(
    loss: float, test_loss: float
) -> None:
    with pytest.raises(InvalidInput, match="validation loss"):
        rules(ceiling=0.2).answer(State(), loss, test_loss)


@pytest.mark.parametrize("loss", [-0.125, 1.0625, float("nan")])
def test_a_broken_test_loss_is_refused_without_being_shown(loss: float) -> None:
    with pytest.raises(InvalidInput, match="test loss") as refused:
        rules().answer(State(), 0.5, loss)
    assert str(loss) not in str(refused.value)


def test_gaps_are_exact() -> None:
    assert rules().gap(0.7, 0.4) == Fraction(3, 10)
    assert rules().gap(Fraction(1, 3), Fraction(1, 2)) == Fraction(1, 6)
    assert rules().gap(0.25, Fraction(1, 3)) == Fraction(1, 12)


def test_a_signed_gap_is_how_much_worse_the_test_set_is() -> None:
    signed = rules(gap="signed", edges=[0.1, 0.2, 0.3, 0.4])
    assert signed.gap(0.4, 0.7) == Fraction(3, 10)
    assert signed.gap(0.7, 0.4) == 0
    losses = [(0.4, 0.7), (0.7, 0.4), (0.5, 0.5)]
    assert told(signed, *losses) == [4, 1, 1]
    assert told(rules(edges=[0.1, 0.2, 0.3, 0.4]), *losses) == [4, 4, 1]


# --- Each protocol's rule ---


def test_incremental_tells_the_worst_so_far() -> None:
    meter = rules(protocol="incremental")
    losses = [(0.1, 0.1), (0.0, 0.5), (0.1, 0.1), (0.0, 0.2), (0.0, 0.9), (0.0, 0.0)]
    assert told(meter, *losses) == [1, 3, 3, 3, 5, 5]
    assert meter.answers(State(top=3)) == (3, 4, 5)
    assert [meter.level(State(top=top)) for top in (1, 3, 5)] == [0, 2, 4]
    assert rules().level(State(top=3)) == 0


@pytest.mark.parametrize("protocol", ["regular", "incremental"])
@pytest.mark.parametrize("ceiling", [0.1, 0.3, 0.7])
def test_a_test_loss_at_the_ceiling_is_a_reading_and_above_is_not(
    protocol: str, ceiling: float
) -> None:
    meter = rules(protocol=protocol, ceiling=ceiling)
    at, above = Fraction(str(ceiling)), Fraction(str(ceiling)) + Fraction(1, 10**9)
    assert meter.answer(State(), at, at) == 1
    assert meter.answer(State(), ceiling, ceiling) == 1
    assert meter.answer(State(), above, above) == ABOVE_CEILING
    assert meter.answer(State(), 1.0, ceiling + 1e-9) == ABOVE_CEILING
    assert meter.answer(State(), 1.0, ceiling) > 0  # the validation loss may be anything
    state = State(top=2)
    assert meter.after(state, ABOVE_CEILING) == state
    assert meter.answers(State())[-1] == ABOVE_CEILING


def test_only_a_loss_of_ones_own_may_give_no_reading() -> None:
    assert rules(loss=OWN_LOSS).answers(State()) == (1, 2, 3, 4, 5, NO_READING)
    assert NO_READING not in rules(loss="brier").answers(State())
    meter = rules(loss=OWN_LOSS, protocol="incremental", ceiling=0.3)
    assert meter.answers(State(top=4)) == (4, 5, ABOVE_CEILING, NO_READING)
    assert meter.after(State(top=4), NO_READING) == State(top=4)


EXTRAS: dict[str, dict[str, Any]] = {
    "plain": {},
    "ceiling": {"ceiling": 0.3},
    "own loss": {"loss": OWN_LOSS, "ceiling": 0.3},
}
METERS = {
    f"{protocol}, {name}": {"protocol": protocol, **options}
    for protocol in ("regular", "incremental")
    for name, options in EXTRAS.items()
}


@pytest.mark.parametrize("options", METERS.values(), ids=METERS.keys())
@given(
    losses=st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), max_size=12),
)
def test_every_answer_is_one_of_those_announced(
    options: dict[str, Any], losses: list[tuple[float, float]]
) -> None:
    meter, state = rules(**options), State()
    for validation_loss, test_loss in losses:
        answer = meter.answer(state, validation_loss, test_loss)
        assert answer in meter.answers(state)
        state = meter.after(state, answer)


@pytest.mark.parametrize("options", METERS.values(), ids=METERS.keys())
def test_every_answer_announced_can_come(options: dict[str, Any]) -> None:
    """No history is counted that cannot happen: each answer has losses that lead to it."""
    meter = rules(**options)
    grid = [k / 20 for k in range(21)]
    for history in histories(meter, 2):
        state = after_all(meter, history)
        found = {meter.answer(state, *losses) for losses in itertools.product(grid, grid)}
        if meter.spec.may_fail:
            found.add(meter.unread(state, NO_READING))
        assert found == set(meter.answers(state)), history


# --- What an answer promises ---


def test_tolerances_and_edges_of_an_answer() -> None:
    spec = MeterSpec.uniform(
        signals=3, tolerance=[0.1, 0.2, 0.3], steps=5, delta=0.1, edges=[0.05, 0.5]
    )
    regular = Rules(spec)
    assert [regular.tolerance(answer) for answer in (1, 2, 3)] == [0.1, 0.2, 0.3]
    assert [regular.range_of(answer) for answer in (1, 2, 3)] == [
        (0.0, 0.05),
        (0.05, 0.5),
        (0.5, 1.0),
    ]
    incremental = Rules(spec.replace(protocol="incremental"))
    assert [incremental.range_of(answer) for answer in (1, 3)] == [(0.0, 0.05), (0.0, 1.0)]
    for answer in (ABOVE_CEILING, NO_READING):
        assert regular.tolerance(answer) is None
        assert regular.range_of(answer) is None


def test_the_true_gap_is_the_band_widened_by_the_tolerance() -> None:
    assert true_gap((0.3, 0.5), 0.1) == pytest.approx((0.2, 0.6))
    assert true_gap((0.05, 0.95), 0.1) == (0.0, 1.0)


@pytest.mark.parametrize("answer", [1, 7, ABOVE_CEILING, NO_READING])
def test_names_of_answers_can_be_read_back(answer: int) -> None:
    assert answer_named(name_of(answer)) == answer


def test_answers_without_a_reading_have_words_for_names() -> None:
    names = [name_of(answer) for answer in (3, ABOVE_CEILING, NO_READING)]
    assert names == ["3", "above-ceiling", "no-reading"]


# --- Histories, one by one, are as many as `counting` says ---


def histories(meter: Rules, length: int) -> Iterator[tuple[int, ...]]:
    """Yield every history of answers of this length."""
    if length == 0:
        yield ()
        return
    for history in histories(meter, length - 1):
        for answer in meter.answers(after_all(meter, history)):
            yield (*history, answer)


def after_all(meter: Rules, history: tuple[int, ...]) -> State:
    state = State()
    for answer in history:
        state = meter.after(state, answer)
    return state


def models_by_level(meter: Rules, steps: int) -> Counter[int]:
    return Counter(
        meter.level(after_all(meter, history))
        for length in range(steps)
        for history in histories(meter, length)
    )


WALKS = [
    {
        "signals": signals,
        "steps": steps,
        "protocol": protocol,
        "ceiling": ceiling,
        "loss": loss,
    }
    for signals, steps in [(1, 4), (2, 6), (3, 5), (4, 4), (5, 4)]
    for protocol in ("regular", "incremental")
    for ceiling, loss in [(None, "0-1"), (0.3, "0-1"), (0.3, OWN_LOSS)]
]


@pytest.mark.parametrize("options", WALKS, ids=lambda options: str([*options.values()]))
def test_walking_all_histories_counts_the_models_at_each_level(options: dict[str, Any]) -> None:
    meter = rules(count="all", **options)
    counted = counting.models(meter.spec, meter.spec.steps)
    assert models_by_level(meter, meter.spec.steps) == Counter(dict(enumerate(counted)))


# --- The true loss ---


@pytest.mark.parametrize("gap", ["absolute", "signed"])
@pytest.mark.parametrize("protocol", ["regular", "incremental"])
@pytest.mark.parametrize("options", [{}, {"ceiling": 0.8}])
def test_the_true_loss_lies_where_an_answer_promises_it(
    gap: str, protocol: str, options: dict[str, Any]
) -> None:
    """Every validation, test and true loss of a small world, after every state it can be in."""
    meter = rules(3, 6, protocol=protocol, gap=gap, edges=[0.2, 0.5], **options)
    twentieths = [Fraction(k, 20) for k in range(21)]
    reached = set()
    for state in (State(), State(top=2)):
        for validation, test in itertools.product(twentieths, twentieths):
            answer = meter.answer(state, validation, test)
            told = meter.merging(validation)
            least, most = told.true_loss(answer, validation)
            reached.add((answer, least is None, most is None))
            eps = meter.tolerance(answer)
            if eps is None:
                assert (least, most) == (meter.least_above, None)
                continue
            for true in twentieths:
                if abs(test - true) <= Fraction(str(eps)):
                    assert most is not None
                    assert true <= Fraction(repr(most)) <= 1
                    assert least is None or 0 <= Fraction(repr(least)) <= true
                    edges = told.range_of(answer)
                    assert edges is not None
                    low, high = (Fraction(repr(edge)) for edge in true_gap(edges, eps))
                    assert low <= meter.gap(validation, true) <= high
    # "Above the ceiling" promises something where edges near it are left out.
    silent = {(ABOVE_CEILING, not meter.spec.merges, True)} if "ceiling" in options else set()
    upper_only = protocol == "incremental"
    bands = {(band, upper_only or (gap == "signed" and band == 1), False) for band in (1, 2, 3)}
    assert reached == bands | silent


def test_the_true_loss_is_rounded_outward_and_clipped() -> None:
    meter = rules(3, 6, edges=[0.2, 0.5])
    assert meter.true_loss(1, Fraction(19, 200)) == (0.0, 0.395)
    assert meter.true_loss(2, Fraction(3, 4)) == (0.15, 1.0)
    assert meter.true_loss(3, Fraction(1, 2)) == (0.0, 1.0)
    least, most = meter.true_loss(1, Fraction(2, 3))
    assert least is not None
    assert most is not None
    assert (
        Fraction(repr(least))
        < Fraction(2, 3) - Fraction(3, 10)
        < Fraction(repr(least)) + Fraction(1, 10**14)
    )
    assert (
        Fraction(repr(most)) - Fraction(1, 10**14)
        < Fraction(2, 3) + Fraction(3, 10)
        < Fraction(repr(most))
    )
    assert meter.true_loss(NO_READING, Fraction(0)) == (None, None)


def test_a_gap_with_room_on_one_side_only_bounds_the_true_loss_there() -> None:
    meter = rules(3, 6, edges=[0.2, 0.5])
    assert meter.true_loss(3, Fraction(1, 10)) == (0.5, 1.0)  # the test loss is 0.6 or more
    assert meter.true_loss(3, Fraction(9, 10)) == (0.0, 0.5)  # the test loss is 0.4 or less
    assert [meter.side(3, Fraction(k, 10)) for k in (1, 5, 9)] == [1, 0, -1]
    ceiling = rules(3, 6, edges=[0.2, 0.5], ceiling=0.3)
    assert ceiling.true_loss(1, Fraction(2, 10)) == (0.0, 0.4)
    assert ceiling.true_loss(2, Fraction(3, 10)) == (0.0, 0.2)


def test_a_signed_gap_above_band_1_also_says_how_high_the_true_loss_is_at_least() -> None:
    meter = rules(3, 6, edges=[0.2, 0.5], gap="signed")
    assert meter.true_loss(1, Fraction(3, 10)) == (None, 0.6)
    assert meter.true_loss(2, Fraction(3, 10)) == (0.4, 0.9)
    running = rules(3, 6, edges=[0.2, 0.5], gap="signed", protocol="incremental")
    assert running.true_loss(2, Fraction(3, 10)) == (None, 0.9)


# --- Drawn edges ---

DRAWN = MeterSpec.uniform(signals=1, tolerance=0.1, steps=9, delta=0.1, drawn=0.2)


@given(
    gap=st.integers(0, 1_000).map(lambda k: Fraction(k, 1_000)),
    place=st.integers(0, 10**6 - 1),
    drawn=st.sampled_from([0.05, 0.2, 0.3, 0.123456, 1.0]),
)
def test_a_drawn_band_contains_the_gap_and_is_no_wider_than_said(
    gap: Fraction, place: int, drawn: float
) -> None:
    apart = Fraction(str(drawn))
    meter = Rules(DRAWN.replace(drawn=drawn)).drawing(apart * place / 10**6)
    band = meter.band_of(gap)
    assert band in meter.answers(State())
    lower, upper = (Fraction(str(edge)) for edge in meter.range_of(band) or ())
    assert 0 <= lower <= gap < upper <= 1 or (gap == upper == 1 and lower < 1)
    assert upper - lower <= apart
    for edge in {lower, upper} - {0, 1}:
        assert (edge - apart * place / 10**6) % apart == 0
    inside = [k for k in range(1_001) if meter.band_of(Fraction(k, 1_000)) == band]
    assert all(lower <= Fraction(k, 1_000) <= upper for k in inside)


def test_a_drawn_edge_at_zero_or_one_makes_no_band_of_one_point() -> None:
    at_zero = Rules(DRAWN).drawing(Fraction(0))
    assert at_zero.range_of(at_zero.band_of(0)) == (0.0, 0.2)
    assert at_zero.range_of(at_zero.band_of(1)) == (0.8, 1.0)


def test_what_drawn_edges_promise() -> None:
    meter = Rules(DRAWN).drawing(Fraction("0.031"))
    band = meter.answer(State(), 0.5, 0.75)
    assert (band, meter.range_of(band), meter.tolerance(band)) == (3, (0.231, 0.431), 0.1)
    assert meter.true_loss(band, Fraction(1, 2)) == (0.0, 1.0)
    assert meter.true_loss(band, Fraction(1, 10)) == (0.231, 0.631)
    assert meter.side(band, Fraction(1, 10)) == 1


def test_the_edges_of_a_drawn_band_are_never_made_up() -> None:
    with pytest.raises(AssertionError, match="edges of an answer are needed"):
        Rules(DRAWN).answer(State(), 0.5, 0.75)
    assert rules().drawing(Fraction(1, 10)) == rules()  # fixed edges stay where they are
