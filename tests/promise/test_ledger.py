"""From a log of answers: what is accepted, what is left, and that refusals follow from answers."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from easeml_meter.errors import InvalidInput
from easeml_meter.promise import ledger, solve
from easeml_meter.promise.ledger import Snapshot
from easeml_meter.promise.meter import Meter
from easeml_meter.promise.proofs import log_counts

_BANDS = "edges = [0.05, 0.1, 0.2]"
METERS = {
    "regular": f'{{ask = "gap", tolerance = 0.05, {_BANDS}}}',
    "ceiling": f'{{ask = "gap", tolerance = 0.05, {_BANDS}, ceiling = 0.3}}',
    "drawn": '{ask = "gap", tolerance = 0.05, drawn = 0.2}',
    "worst": f'{{ask = "gap", tolerance = 0.05, {_BANDS}, worst = true}}',
    "own loss": f'{{ask = "gap", tolerance = 0.05, {_BANDS}}}\nsample = {{loss = "m:f"}}',
    "precision": f'{{ask = "gap", tolerance = 0.1, {_BANDS}}}\nsample = {{loss = "precision[a]"}}',
    "teams": f'{{ask = "gap", tolerance = 0.05, {_BANDS}}}\nbudget = {{teams = [10, 4]}}',
    "window": f'{{ask = "gap", tolerance = 0.05, {_BANDS}}}\nrenewal = {{window = 3, answers = 4}}',
    "condition": '{ask = "n > 0.8 +/- 0.05"}',
    "two passes": '{ask = "n > 0.8 +/- 0.05"}\nbudget = {passes = 2}',
    "change": '{ask = "n - o at 0, 0.1 +/- 0.05", disagreement = 0.2}',
    "alarm": '{ask = "alarm"}',
    "gate": '{ask = "keep"}\nbudget = {gate = true, steps = 9}',
}
CLOSING = ("two passes", "alarm")
coins = st.integers(0, 10**6).map(random.Random)
usually = st.sampled_from([0.0, 0.2, 0.5, 0.8, 0.95])


def meter(name: str) -> Meter:
    return Meter.loads("question = " + METERS[name])


def played(on: Meter, coin: random.Random, usual: float) -> list[tuple[str, Snapshot]]:
    """Answers that may come, each with where it leads: the usual one with this probability."""
    at, log = ledger.start(on), []
    while ledger.may(on, at):
        first, *others = ledger.answers(on, at)
        answer = coin.choice(others) if others and coin.random() > usual else first
        at = ledger.step(on, at, answer)
        log.append((answer, at))
    return log


@pytest.mark.parametrize("name", METERS)
@settings(max_examples=30)
@given(coin=coins, usual=usually)
def test_a_log_folds_to_where_its_answers_lead(
    name: str, coin: random.Random, usual: float
) -> None:
    on = meter(name)
    log = played(on, coin, usual)
    assert ledger.fold(on, [answer for answer, _ in log]) == log[-1][1]
    assert ledger.fold(on, ["baseline", *(answer for answer, _ in log)]) == log[-1][1]  # is free
    most = ledger.most_answers(on, ledger.start(on))
    assert len(log) == most or (name in CLOSING and len(log) < (most or 0))


@pytest.mark.parametrize("name", METERS)
@settings(max_examples=30)
@given(coin=coins, usual=usually)
def test_what_is_left_comes_whatever_is_answered(
    name: str, coin: random.Random, usual: float
) -> None:
    on = meter(name)
    log = played(on, coin, usual)
    places = [ledger.start(on), *(at for _, at in log)]
    batteries = [ledger.battery(on, at) for at in places]
    assert batteries == sorted(batteries, reverse=True)
    for number, at in enumerate(places):
        assert 0 <= ledger.left(on, at) <= len(log) - number
        assert (ledger.left(on, at) > 0) == ledger.may(on, at)
    assert ledger.battery(on, places[-1]) == (name == "window")


@pytest.mark.parametrize("name", METERS)
def test_an_answer_that_cannot_come_is_refused(name: str) -> None:
    on, at = meter(name), ledger.start(meter(name))
    possible = ledger.answers(on, at)
    for answer in {"0", "7", "-1", "99", "no-reading", "above-ceiling", "ok"} - {*possible}:
        with pytest.raises(InvalidInput, match="after this history"):
            ledger.step(on, at, answer)


def test_the_worst_band_so_far_never_falls() -> None:
    on = meter("worst")
    at = ledger.fold(on, ["1", "3"])
    assert ledger.answers(on, at) == ("3", "4")
    with pytest.raises(InvalidInput, match="'2' given"):
        ledger.step(on, at, "2")


def test_a_team_alone_has_its_own_answers_and_history() -> None:
    on = meter("teams")
    assert [ledger.left(on, ledger.start(on, team)) for team in (1, 2)] == [10, 4]
    assert not ledger.may(on, ledger.fold(on, ["1"] * 4, team=2))
    assert ledger.may(on, ledger.fold(on, ["1"] * 4, team=1))


@pytest.mark.parametrize("name", ["regular", "ceiling", "drawn", "worst", "teams", "window"])
def test_books_with_too_few_labels_answer_nothing(name: str) -> None:
    on = meter(name)
    size = solve.labels(on) * (3 if name == "window" else 1)
    ledger.check_size(on, size)
    with pytest.raises(InvalidInput, match="too few"):
        ledger.check_size(on, size - 60)


def test_after_a_top_up_there_are_the_answers_of_the_second_stage() -> None:
    on = Meter.loads(f"question = {METERS['regular']}\nrenewal = {{then = 3}}")
    size = solve.labels(on)
    ledger.check_size(on, size)
    ledger.check_size(on, solve.labels(on, 1), stage=1)
    assert ledger.left(on, ledger.start(on, stage=1)) == 3
    assert ledger.level(on, ledger.start(on, stage=1)) < ledger.level(on, ledger.start(on))


@pytest.mark.parametrize("name", ["regular", "ceiling", "drawn", "worst", "teams", "condition"])
@pytest.mark.parametrize("renewal", ["", "renewal = {then = 3}", "renewal = {window = 3}"])
def test_the_levels_of_all_events_sum_to_delta(name: str, renewal: str) -> None:
    """Before and after a top-up together, and over all windows that share a delta."""
    try:
        on = Meter.loads(f"question = {METERS[name]}\n{renewal}")
    except InvalidInput:
        assert renewal  # nobody proved these pairs
        assert name in ("teams", "condition")
        return
    counts = log_counts(on.shape, on.budget, on.renewal)
    stages = {stage for stage, _ in counts}
    total = sum(
        math.exp(count) * float(ledger.level(on, ledger.start(on, stage=stage)))
        for (stage, _), count in counts.items()
    )
    assert total == pytest.approx(float(on.delta), rel=1e-6)
    assert total <= float(on.delta) * (1 + 1e-12)
    assert len(stages) == 1 + ("then" in renewal)
