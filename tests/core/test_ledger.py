"""The books: what is accepted, what is left, and that all of it together costs at most delta."""

from __future__ import annotations

import functools
import math
import random
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from easeml_meter.core.ledger import Account, Ledger
from easeml_meter.core.questions.kinds import question_of
from easeml_meter.core.questions.planning import labels_needed, required_labels
from easeml_meter.core.signals import ABOVE_CEILING, NO_READING
from easeml_meter.errors import InvalidInput
from easeml_meter.spec import MeterSpec

BY_BAND = [0.05, 0.1, 0.15, 0.2, 0.25]
METERS: dict[str, dict[str, Any]] = {
    "regular": {},
    "regular, convex": {"loss": "brier"},
    "regular, ceiling": {"ceiling": 0.2},
    "regular, own loss": {"loss": "module:function"},
    "incremental": {"protocol": "incremental"},
    "incremental, nonuniform": {"protocol": "incremental", "tolerance": BY_BAND},
    "tenants": {"tenants": (6, 4)},
    "handover": {"tenants": (6, 4), "handover": True},
}


def meter(**options: Any) -> MeterSpec:
    """Ten steps, five signals, all histories counted, and what is different."""
    usual: dict[str, Any] = {"signals": 5, "tolerance": 0.05, "delta": 0.05, "count": "all"}
    return MeterSpec.uniform(**{"steps": 10} | usual | options)


def at_its_size(spec: MeterSpec, more: int = 0) -> Ledger:
    """The ledger of a test set just as large as the plan asks, or larger."""
    return Ledger(spec, required_labels(spec).labels + more)


@functools.cache
def books(name: str) -> Ledger:
    """The ledger of one of the meters above."""
    return at_its_size(meter(**METERS[name]))


def coin_of(seed: int) -> random.Random:
    return random.Random(seed)  # noqa: S311  nothing is secret here


def session(
    ledger: Ledger, coin: random.Random, usual: float, most: int = 2000
) -> Iterator[Account]:
    """Yield the account before each accepted submission and at the end.

    Answers are the usual one with this probability, else any other that may come.
    """
    account = Account()
    while ledger.may_submit(account) and account.steps < most:
        yield account
        first, *others = ledger.rules.answers(account.state)
        answer = coin.choice(others) if others and coin.random() > usual else first
        account = ledger.record(account, answer)
    yield account


coins = st.integers(0, 10**6).map(coin_of)
usually = st.sampled_from([0.0, 0.2, 0.5, 0.8, 0.95])
some = settings(max_examples=30)
every = pytest.mark.parametrize("name", METERS)


# --- What is promised is kept ---


@every
@some
@given(coin=coins, usual=usually)
def test_a_plain_meter_answers_exactly_the_promised_steps(
    name: str, coin: random.Random, usual: float
) -> None:
    *_, last = session(books(name), coin, usual)
    assert last.steps == books(name).promised() == (6 if name == "tenants" else 10)


@pytest.mark.parametrize("name", METERS)
def test_too_few_labels_are_refused_before_the_first_answer(name: str) -> None:
    spec = meter(**METERS[name])
    needed = required_labels(spec).labels
    Ledger(spec, needed)
    with pytest.raises(InvalidInput, match="too few to promise 10 steps"):
        Ledger(spec, needed - 60)  # the exact tail moves in lattice steps of 10 labels
    with pytest.raises(InvalidInput, match="too few"):
        Ledger(spec, 0)


@pytest.mark.parametrize("protocol", ["independent", "resampling"])
def test_what_is_not_a_meter_keeps_no_books(protocol: str) -> None:
    with pytest.raises(InvalidInput, match="only meters answer submissions"):
        Ledger(meter(protocol=protocol), 10**6)


# --- Refusals follow from answers ---


@every
@some
@given(coin=coins, usual=usually)
def test_a_refusal_follows_from_the_history_alone(
    name: str, coin: random.Random, usual: float
) -> None:
    """Other books and the same answers: the same account and the same decision at every step."""
    ledger = books(name)
    other = Ledger(ledger.spec, ledger.labels)
    account, answers = Account(), []
    while account.steps < 30 and ledger.may_submit(account):
        first, *others = ledger.rules.answers(account.state)
        answers.append(coin.choice(others) if others and coin.random() > usual else first)
        account = ledger.record(account, answers[-1])
    for length in range(len(answers)):
        assert other.may_submit(other.replay(answers[:length]))
    replayed = other.replay(answers)
    assert replayed == account
    assert other.may_submit(replayed) == ledger.may_submit(account)
    assert other.battery(replayed) == ledger.battery(account)


# --- The battery and the steps shown ---


@every
@some
@given(coin=coins, usual=usually)
def test_the_battery_and_the_steps_left_agree_with_what_is_accepted(
    name: str, coin: random.Random, usual: float
) -> None:
    ledger = books(name)
    before = 1.0
    for account in session(ledger, coin, usual, 40):
        battery, left = ledger.battery(account), ledger.steps_left(account)
        assert 0 <= battery <= 1
        assert (left >= 1) == ledger.may_submit(account)
        assert left >= ledger.promised() - account.steps
        if not ledger.may_submit(account):
            assert (battery, left) == (0, 0)
        assert battery == pytest.approx(1 - account.steps / ledger.promised())
        assert battery <= before
        before = battery


# --- Entering answers ---


@every
def test_impossible_answers_are_refused_and_change_nothing(name: str) -> None:
    ledger, account = books(name), Account()
    possible = ledger.rules.answers(account.state)
    for answer in {0, 6, -4, 99, NO_READING, ABOVE_CEILING, 1, 5} - set(possible):
        with pytest.raises(InvalidInput, match="answer"):
            ledger.record(account, answer)
    assert account == Account()


def test_an_incremental_meter_never_goes_back() -> None:
    ledger = books("incremental")
    account = ledger.replay([1, 4])
    with pytest.raises(InvalidInput, match="3 given"):
        ledger.record(account, 3)
    account = ledger.record(account, 5)
    assert (account.steps, account.state.top) == (3, 5)


# --- Tenants ---


def test_each_tenant_has_its_own_steps_and_history() -> None:
    ledger = books("tenants")
    assert (ledger.promised(1), ledger.promised(2)) == (6, 4)
    first, second = Account(tenant=1), Account(tenant=2)
    for _ in range(4):
        second = ledger.record(second, 5)
    assert ledger.steps_left(first) == 6  # what the other one was told costs this one nothing
    assert ledger.battery(second) < ledger.battery(first)
    assert ledger.replay([5] * 4, tenant=2) == second
    assert not books("tenants").may_submit(books("tenants").replay([1] * 4, tenant=2))
    assert books("tenants").may_submit(books("tenants").replay([1] * 5, tenant=1))


def test_with_handover_all_tenants_are_one() -> None:
    ledger = books("handover")
    assert ledger.promised(1) == ledger.promised(2) == 10
    assert ledger.labels == books("regular").labels
    assert ledger.steps_left(ledger.replay([1] * 9, tenant=2)) == 1


# --- Rolling test sets ---


def test_each_window_answers_its_submissions_and_the_battery_is_steady() -> None:
    spec = meter(window=4, submissions=3, count="consistent")
    labels = labels_needed(spec, 1)
    assert labels == 4 * labels_needed(spec, 2)
    with pytest.raises(InvalidInput, match="too few"):
        Ledger(spec, labels - 4)
    ledger, account = Ledger(spec, labels + 3), Account()
    for left in (3, 2, 1):
        assert (ledger.steps_left(account), ledger.battery(account)) == (left, 1.0)
        account = ledger.record(account, 1)
    assert not ledger.may_submit(account)
    assert (ledger.steps_left(account), ledger.battery(account)) == (0, 1.0)


def test_models_that_may_fail_have_one_more_answer_in_a_window() -> None:
    spec = meter(window=4, count="consistent")
    failing = spec.replace(models=True)
    more = question_of(failing).log_models(10) - question_of(spec).log_models(10)
    assert more == pytest.approx(3 * math.log(3 / 2))
    assert question_of(failing).answers[-1] == "no reading"
