"""The books: what is accepted, what is left, and that all of it together costs at most delta."""

from __future__ import annotations

import functools
import math
import random
import statistics
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from easeml_meter.core.ledger import Account, Ledger
from easeml_meter.core.questions.kinds import question_of
from easeml_meter.core.questions.planning import labels_needed, required_labels
from easeml_meter.core.signals import ABOVE_CEILING, NO_READING, REVERTED
from easeml_meter.errors import InvalidInput
from easeml_meter.spec import MeterSpec
from easeml_meter.stats import counting
from easeml_meter.stats.priors import log_weight
from easeml_meter.stats.tails import log_tail

BY_BAND = [0.05, 0.1, 0.15, 0.2, 0.25]
METERS: dict[str, dict[str, Any]] = {
    "regular": {},
    "regular, hoeffding": {"bound": "hoeffding"},
    "regular, convex": {"loss": "brier"},
    "regular, kl": {"bound": "kl"},
    "regular, ceiling": {"ceiling": 0.2},
    "regular, own loss": {"loss": "module:function"},
    "regular, masked": {"masked_reverts": 3, "mask_above": 2},
    "incremental": {"protocol": "incremental"},
    "incremental, nonuniform": {"protocol": "incremental", "tolerance": BY_BAND},
    "incremental, masked, ceiling": {
        "protocol": "incremental",
        "tolerance": BY_BAND,
        "masked_reverts": 2,
        "mask_above": 2,
        "ceiling": 0.3,
    },
    "incremental, resets": {"protocol": "incremental", "resets": 2},
    "tenants": {"tenants": (6, 4)},
    "handover": {"tenants": (6, 4), "handover": True},
}
PLAIN = [f"plain, {name}" for name in METERS]
ELASTIC = [f"elastic, {name}" for name in METERS]


def meter(**options: Any) -> MeterSpec:
    """Ten steps, five signals, all histories counted, and what is different."""
    usual: dict[str, Any] = {"signals": 5, "tolerance": 0.05, "delta": 0.05, "count": "all"}
    return MeterSpec.uniform(**{"steps": 10} | usual | options)


def at_its_size(spec: MeterSpec, more: int = 0) -> Ledger:
    """The ledger of a test set just as large as the plan asks, or larger."""
    return Ledger(spec, required_labels(spec).labels + more)


@functools.cache
def books(name: str) -> Ledger:
    """The ledger of one of the meters above; an elastic one has some labels to spare."""
    kind, rest = name.split(", ", 1)
    elastic = kind == "elastic"
    return at_its_size(meter(elastic=elastic, **METERS[rest]), more=400 * elastic)


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
plain = pytest.mark.parametrize("name", PLAIN)
elastic = pytest.mark.parametrize("name", ELASTIC)
either = pytest.mark.parametrize("name", [*PLAIN, *ELASTIC])


# --- What is promised is kept ---


@plain
@some
@given(coin=coins, usual=usually)
def test_a_plain_meter_answers_exactly_the_promised_steps(
    name: str, coin: random.Random, usual: float
) -> None:
    *_, last = session(books(name), coin, usual)
    assert last.steps == books(name).promised() == (6 if name == "plain, tenants" else 10)


@elastic
@some
@given(data=st.data())
def test_an_elastic_meter_answers_at_least_the_promised_steps_whatever_comes(
    name: str, data: st.DataObject
) -> None:
    """At the size planned, exactly: not one label to spare."""
    ledger = Ledger(books(name).spec, books(name).labels - 400)
    account = Account()
    while account.steps < ledger.promised():
        assert ledger.may_submit(account)
        if account.state.resets_used < ledger.spec.resets and data.draw(st.booleans()):
            account = ledger.reset(account)
            assert ledger.may_submit(account)
        answers = ledger.rules.answers(account.state)
        account = ledger.record(account, data.draw(st.sampled_from(answers)))


@pytest.mark.parametrize(
    ("tolerance", "steps", "labels", "fewest", "most"),
    [(0.01, 10, 108_080, 15, 30), (0.05, 100, 32_972, 270, 430)],
)
def test_a_predictable_history_goes_on_at_the_published_number_of_labels(
    tolerance: float, steps: int, labels: int, fewest: int, most: int
) -> None:
    """Signal 1 in nine steps of ten: about twice the steps, and three times with more to learn."""
    spec = meter(tolerance=tolerance, delta=tolerance, steps=steps)
    assert required_labels(spec.replace(published=True)).labels == labels
    ledger = Ledger(spec.replace(elastic=True), labels)
    lengths = []
    for seed in range(31):
        *_, last = session(ledger, coin_of(seed), usual=0.9)
        lengths.append(last.steps)
    assert min(lengths) >= steps
    assert fewest <= statistics.median(lengths) <= most


def test_the_more_predictable_the_longer() -> None:
    ledger = Ledger(meter(tolerance=0.05, steps=50, elastic=True), 16_500)
    medians = []
    for usual in (0.2, 0.8, 0.9, 0.95, 1.0):
        ends = [list(session(ledger, coin_of(seed), usual, 5000))[-1] for seed in range(9)]
        medians.append(statistics.median(account.steps for account in ends))
    assert medians[0] == 50
    assert medians == sorted(medians)
    assert medians[2] > 100
    assert medians[3] > 200
    assert medians[4] == 5000


@pytest.mark.parametrize("name", METERS)
@pytest.mark.parametrize("is_elastic", [False, True])
def test_too_few_labels_are_refused_before_the_first_answer(name: str, is_elastic: bool) -> None:
    spec = meter(elastic=is_elastic, **METERS[name])
    needed = required_labels(spec).labels
    Ledger(spec, needed)
    with pytest.raises(InvalidInput, match="too few to promise 10 steps"):
        Ledger(spec, needed - 60)  # the exact tail moves in lattice steps of 10 labels
    with pytest.raises(InvalidInput, match="too few"):
        Ledger(spec, 0)


def test_elastic_needs_more_labels_than_plain() -> None:
    spec = meter()
    with pytest.raises(InvalidInput, match="too few"):
        Ledger(spec.replace(elastic=True), required_labels(spec).labels)


@pytest.mark.parametrize("protocol", ["independent", "resampling"])
def test_what_is_not_a_meter_keeps_no_books(protocol: str) -> None:
    with pytest.raises(InvalidInput, match="only meters answer submissions"):
        Ledger(meter(protocol=protocol), 10**6)


# --- All acceptances together cost at most delta ---

SMALL: dict[str, dict[str, Any]] = {
    "regular": {"signals": 3},
    "two signals": {"signals": 2},
    "regular, ceiling": {"signals": 2, "ceiling": 0.3},
    "regular, own loss": {"signals": 2, "loss": "module:function"},
    "regular, masked": {"signals": 3, "masked_reverts": 2, "mask_above": 1},
    "incremental": {"signals": 3, "protocol": "incremental"},
    "incremental, ceiling": {"signals": 3, "protocol": "incremental", "ceiling": 0.3},
    "incremental, masked": {
        "signals": 3,
        "protocol": "incremental",
        "masked_reverts": 1,
        "mask_above": 1,
    },
    "tenants": {"signals": 3, "tenants": (2, 1)},
    "little for the promise": {"signals": 2, "mixture": (0.02, 0.49, 0.49)},
}


@pytest.mark.parametrize("more", [0, 300])
@pytest.mark.parametrize("options", SMALL.values(), ids=SMALL.keys())
def test_the_tails_of_all_accepted_histories_sum_to_at_most_delta(
    options: dict[str, Any], more: int
) -> None:
    """Every path to its end: with one tolerance, only finitely many histories are accepted."""
    spec = meter(**{"steps": 3, "tolerance": 0.1, "delta": 0.1, "elastic": True} | options)
    ledger = at_its_size(spec, more)
    tail = math.exp(log_tail(spec.tail, ledger.labels, 0.1, spec.ceiling))
    promised = further = 0
    for tenant in range(1, (len(spec.tenants) or 1) + 1):
        open_accounts, length = [Account(tenant=tenant)], 0
        part = ledger.promised(tenant) / spec.steps
        while open_accounts:
            if length < ledger.promised(tenant):
                promised += len(open_accounts)
            else:  # against the two codes, whose share of this length is 1 / (t (t+1))
                further += len(open_accounts)
                share = part * sum(spec.mixture[1:]) / ((length + 1) * (length + 2))
                assert len(open_accounts) * tail <= share * spec.delta
            open_accounts = [
                after
                for account in open_accounts
                for answer in ledger.rules.answers(account.state)
                if ledger.may_submit(after := ledger.record(account, answer))
            ]
            length += 1
    assert promised == round(math.exp(counting.log_sum(counting.log_models(spec))))
    assert promised * tail <= spec.mixture[0] * spec.delta
    assert (promised + further) * tail <= spec.delta
    if more:
        assert further > promised  # the session went on, so the bound was put to the test


@pytest.mark.parametrize("more", [0, 100])
@pytest.mark.parametrize(
    "options",
    [
        {"tolerance": [0.1, 0.15, 0.2]},
        {"tolerance": [0.1, 0.15, 0.2], "masked_reverts": 1, "mask_above": 1},
        {"tolerance": [0.1, 0.15, 0.2], "resets": 1},
        {"tolerance": 0.1, "resets": 1},
    ],
    ids=["nonuniform", "nonuniform, masked", "nonuniform, resets", "resets"],
)
def test_the_same_with_unequal_tolerances_or_resets(options: dict[str, Any], more: int) -> None:
    """Wide bands cost so little that sessions are endless: beyond a depth, bound the rest.

    Resets come when they do most harm.
    """
    depth = 11
    spec = meter(signals=3, protocol="incremental", steps=3, delta=0.1, elastic=True, **options)
    ledger = at_its_size(spec, more)
    tails = [math.exp(log_tail(spec.tail, ledger.labels, eps)) for eps in spec.tolerances]

    def worst(account: Account, fewest: int) -> float:
        """Sum the tails of accepted histories of `fewest` answers or more, from here on."""
        choices = [account]
        if account.state.resets_used < spec.resets:
            choices.append(ledger.reset(account))
        found = [0.0]
        for chosen in choices:
            if chosen.steps < depth and ledger.may_submit(chosen):
                here = tails[ledger.rules.level(chosen.state)] if chosen.steps >= fewest else 0.0
                answers = ledger.rules.answers(chosen.state)
                below = (worst(ledger.record(chosen, answer), fewest) for answer in answers)
                found.append(math.fsum((here, *below)))
        return max(found)

    adaptive = spec.delta * sum(spec.mixture[1:])
    beyond = adaptive / (depth + 1)  # of all lengths not looked at: the sum of 1/(t(t+1))
    assert 0 < worst(Account(), 0) + beyond <= spec.delta
    assert worst(Account(), spec.steps) + beyond <= adaptive / (spec.steps + 1)


@pytest.mark.parametrize("name", [name for name in ELASTIC if name != "elastic, tenants"])
@some
@given(coin=coins, usual=usually)
def test_beyond_the_promise_a_submission_must_be_affordable(
    name: str, coin: random.Random, usual: float
) -> None:
    """Accepted where tail <= delta w(h), and only there; the battery is what is left of that."""
    ledger = books(name)
    spec = ledger.spec
    tails = {eps: log_tail(spec.tail, ledger.labels, eps, spec.ceiling) for eps in spec.tolerances}
    counts = zip(counting.log_models(spec), spec.tolerances, strict=False)
    total = counting.log_sum([count + tails[eps] for count, eps in counts])
    for account in session(ledger, coin, usual, 40):
        tail = tails[spec.tolerances[ledger.rules.level(account.state)]]
        uniform = tail - total if account.steps < 10 else -math.inf
        weight = log_weight(account.code, spec.mixture, uniform)
        affordable = tail <= math.log(spec.delta) + weight
        assert ledger.may_submit(account) == affordable
        left = 1 + weight / (math.log(spec.delta) - tail) if affordable else 0.0
        assert ledger.battery(account) == pytest.approx(left, abs=1e-9)


# --- More labels, the same history ---


@elastic
@some
@given(coin=coins, usual=usually, more=st.integers(1, 2000))
def test_more_labels_never_shorten_a_session(
    name: str, coin: random.Random, usual: float, more: int
) -> None:
    ledger = books(name)
    if ledger.spec.ceiling is not None:  # there the exact tail jumps up where one more error fits
        more += 50
    larger = Ledger(ledger.spec, ledger.labels + more)
    for account in session(ledger, coin, usual, 40):
        if ledger.may_submit(account):
            assert larger.may_submit(account)
            if account.steps >= ledger.promised():
                assert larger.battery(account) >= ledger.battery(account)


@either
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


@either
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
        if not ledger.spec.elastic:
            assert battery == pytest.approx(1 - account.steps / ledger.promised())
            assert battery <= before
        before = battery


@plain
def test_a_plain_meter_expects_what_it_promises(name: str) -> None:
    ledger = books(name)
    for account in session(ledger, coin_of(1), 0.5):
        assert ledger.steps_expected(account) == ledger.steps_left(account)


@elastic
def test_the_forecast_is_never_below_the_promise_and_ends_with_the_session(name: str) -> None:
    ledger = books(name)
    accounts = list(session(ledger, coin_of(3), 0.7, 30))
    for account in (*accounts[::8], accounts[-1]):
        expected = ledger.steps_expected(account)
        assert expected >= ledger.steps_left(account)
        assert (expected == 0) == (not ledger.may_submit(account))


@pytest.mark.parametrize("every", [3, 5, 10])
def test_the_forecast_comes_true_if_answers_go_on_as_they_did(every: int) -> None:
    """One exception in so many steps, always the same one."""
    ledger = Ledger(meter(tolerance=0.05, steps=50, elastic=True), 17_000)
    account, forecast = Account(), None
    while ledger.may_submit(account):
        account = ledger.record(account, 1 if (account.steps + 1) % every else 3)
        if account.steps == 30:
            forecast = 30 + ledger.steps_expected(account)
    assert forecast is not None
    assert account.steps > 50
    assert abs(account.steps - forecast) <= 0.02 * account.steps


def test_a_forecast_has_an_end_even_where_the_session_has_none() -> None:
    """Who has marched to a band that promises nothing may ask for ever."""
    spec = meter(protocol="incremental", signals=2, tolerance=[0.1, 1.0], steps=3, elastic=True)
    ledger = at_its_size(spec)
    account = ledger.replay([2, 2, 2])
    assert ledger.steps_expected(account) == 1_000
    assert ledger.battery(account) == 1


def test_before_the_first_answer_the_forecast_is_the_promise() -> None:
    assert books("plain, regular").steps_expected(Account()) == 10
    assert books("elastic, regular").steps_expected(Account()) == 10


# --- Entering answers ---


@either
def test_impossible_answers_are_refused_and_change_nothing(name: str) -> None:
    ledger, account = books(name), Account()
    possible = ledger.rules.answers(account.state)
    for answer in {0, 6, -4, 99, NO_READING, ABOVE_CEILING, REVERTED, 1, 5} - set(possible):
        with pytest.raises(InvalidInput, match="answer"):
            ledger.record(account, answer)
    assert account == Account()


def test_an_incremental_meter_never_goes_back_but_after_a_reset() -> None:
    ledger = books("plain, incremental, resets")
    account = ledger.replay([1, 4])
    with pytest.raises(InvalidInput, match="3 given"):
        ledger.record(account, 3)
    account = ledger.record(ledger.reset(account), 2)
    assert (account.steps, account.state.top, account.state.resets_used) == (3, 2, 1)
    with pytest.raises(InvalidInput, match="no reset is left"):
        books("plain, incremental").reset(Account())


def test_masked_reverts_are_entered_while_any_is_left() -> None:
    ledger = books("plain, regular, masked")
    account = ledger.replay([REVERTED, 1, REVERTED, 2, REVERTED])
    assert account.state.reverts_used == 3
    with pytest.raises(InvalidInput):
        ledger.record(account, REVERTED)
    assert ledger.record(account, 5).steps == 6


@either
def test_replay_is_record_folded(name: str) -> None:
    ledger, coin = books(name), coin_of(5)
    account, answers = Account(), []
    for _ in range(ledger.promised()):
        answers.append(coin.choice(ledger.rules.answers(account.state)))
        account = ledger.record(account, answers[-1])
    assert ledger.replay(answers) == account
    assert ledger.replay([]) == Account()


def test_a_reset_can_be_what_is_too_dear_so_it_comes_before_the_question() -> None:
    """After a reset the next answer may promise the smallest tolerance again."""
    spec = meter(protocol="incremental", tolerance=BY_BAND, resets=1, elastic=True)
    ledger = at_its_size(spec)
    account = ledger.replay([5] * 20)
    assert ledger.may_submit(account)
    assert not ledger.may_submit(ledger.reset(account))
    within = ledger.replay([5] * 9)
    assert ledger.may_submit(ledger.reset(within))  # one of the ten promised: counted, and free


# --- Tenants ---


def test_each_tenant_has_its_own_steps_and_history() -> None:
    for ledger in (books("plain, tenants"), books("elastic, tenants")):
        assert (ledger.promised(1), ledger.promised(2)) == (6, 4)
        first, second = Account(tenant=1), Account(tenant=2)
        for _ in range(4):
            second = ledger.record(second, 5)
        assert ledger.steps_left(first) == 6  # what the other one was told costs this one nothing
        assert ledger.battery(second) < ledger.battery(first)
        assert ledger.replay([5] * 4, tenant=2) == second
    assert not books("plain, tenants").may_submit(books("plain, tenants").replay([1] * 4, tenant=2))
    assert books("plain, tenants").may_submit(books("plain, tenants").replay([1] * 5, tenant=1))


def test_with_handover_all_tenants_are_one() -> None:
    ledger = books("plain, handover")
    assert ledger.promised(1) == ledger.promised(2) == 10
    assert ledger.labels == books("plain, regular").labels
    assert ledger.steps_left(ledger.replay([1] * 9, tenant=2)) == 1


def test_the_larger_tenant_may_go_on_for_longer() -> None:
    spec = meter(tenants=(30, 3), steps=33, elastic=True)
    ledger = at_its_size(spec)
    ends = []
    for tenant in (1, 2):
        account = Account(tenant=tenant)
        while ledger.may_submit(account):
            account = ledger.record(account, 1 if (account.steps + 1) % 4 else 2)
        ends.append(account.steps)
    assert ends[0] > ends[1] > 3


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


# --- Sessions share delta ---


def test_delta_is_divided_among_sessions() -> None:
    once = books("elastic, regular")
    with pytest.raises(InvalidInput, match="too few"):
        Ledger(meter(elastic=True, sessions=50), once.labels)
    several = Ledger(meter(elastic=True, sessions=5, delta=0.25), once.labels)
    for seed in range(10):
        for account in session(once, coin_of(seed), usual=0.8):
            assert several.may_submit(account) == once.may_submit(account)
            assert several.battery(account) == pytest.approx(once.battery(account))
