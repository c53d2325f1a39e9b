"""The weights of histories: they sum to at most 1, over all histories, for every meter."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpmath import mp
from tests.stats.adversary import EXAMPLES, Adversary
from tests.stats.test_feedback import PROTOCOLS, consistent, meter

from easeml_meter.core.ledger import Account, Ledger
from easeml_meter.core.questions.planning import required_labels
from easeml_meter.core.signals import ABOVE_CEILING, NO_READING, REVERTED, Rules, State
from easeml_meter.lab.simulation.arena import AnySizeLedger
from easeml_meter.spec import MeterSpec, Protocol
from easeml_meter.stats import counting
from easeml_meter.stats.feedback import colors, feedback_of, possible_bands
from easeml_meter.stats.priors import Code, log_weight
from easeml_meter.stats.tails import log_tail

SHARES = (0.5, 0.25, 0.25)


def coded(symbols: Sequence[int], choices: Mapping[int, int]) -> Code:
    """Code a history over an alphabet that is the same at every step."""
    code = Code()
    for symbol in symbols:
        code = code.after(symbol, choices)
    return code


def alphabet(size: int) -> dict[int, int]:
    return dict.fromkeys(range(size), 1)


# --- The two codes alone ---


@pytest.mark.parametrize("size", [1, 2, 3, 4])
@pytest.mark.parametrize("length", range(6))
def test_both_codes_share_out_exactly_one_among_the_histories_of_a_length(
    size: int, length: int
) -> None:
    codes = [coded(h, alphabet(size)) for h in itertools.product(range(size), repeat=length)]
    assert math.fsum(math.exp(code.log_kt) for code in codes) == pytest.approx(1, abs=1e-13)
    sparse = math.fsum(math.exp(code.log_sparse) for code in codes)
    # With nothing but the usual symbol, the mass kept for exceptions goes unused.
    assert sparse == pytest.approx(1 if size > 1 else 1 / (length + 1), abs=1e-13)


@given(
    automaton=st.lists(
        st.dictionaries(st.integers(1, 3), st.integers(1, 3), max_size=3), min_size=3, max_size=3
    ),
    jumps=st.lists(st.integers(0, 2), min_size=12, max_size=12),
)
def test_they_share_out_at_most_one_where_what_may_come_depends_on_the_history(
    automaton: list[dict[int, int]], jumps: list[int]
) -> None:
    """Any rule of a meter: three states, each with its own exceptions of one or more values."""
    states = [(Code(), 0, 1)]
    for _ in range(5):
        kt = math.fsum(many * math.exp(code.log_kt) for code, _, many in states)
        sparse = math.fsum(many * math.exp(code.log_sparse) for code, _, many in states)
        assert kt == pytest.approx(1, abs=1e-12)
        assert sparse <= 1 + 1e-12
        states = [
            (code.after(symbol, choices), jumps[4 * state + symbol], many * values)
            for code, state, many in states
            for choices in [automaton[state] | {0: 1}]
            for symbol, values in choices.items()
        ]


@given(history=st.lists(st.integers(0, 4), max_size=60))
def test_kt_is_the_mixture_of_krichevsky_and_trofimov(history: list[int]) -> None:
    """Product of Gamma(n_k + 1/2) / Gamma(1/2), times Gamma(m/2) / Gamma(n + m/2)."""
    with mp.workdps(40):
        exact = mp.loggamma(mp.mpf(5) / 2) - mp.loggamma(len(history) + mp.mpf(5) / 2)
        for symbol in range(5):
            exact += mp.loggamma(history.count(symbol) + mp.mpf(1) / 2) - mp.loggamma(mp.mpf(1) / 2)
        assert coded(history, alphabet(5)).log_kt == pytest.approx(float(exact), abs=1e-11)


@given(history=st.lists(st.integers(0, 4), max_size=60))
def test_the_sparse_code_pays_for_exceptions_only(history: list[int]) -> None:
    """1 / (n+1), over C(n, e), over 4^e."""
    n, e = len(history), len(history) - history.count(0)
    exact = Fraction(1, (n + 1) * math.comb(n, e) * 4**e)
    code = coded(history, alphabet(5))
    assert code.exceptions == e
    assert code.log_sparse == pytest.approx(math.log(exact), abs=1e-11)


@given(history=st.lists(st.integers(0, 3), max_size=30), seed=st.randoms(use_true_random=False))
def test_the_order_of_the_answers_does_not_matter(history: list[int], seed: Any) -> None:
    code = coded(history, alphabet(4))
    seed.shuffle(history)
    other = coded(history, alphabet(4))
    assert other.log_kt == pytest.approx(code.log_kt, abs=1e-12)
    assert other.log_sparse == pytest.approx(code.log_sparse, abs=1e-12)


@given(history=st.lists(st.integers(0, 3), max_size=30))
def test_a_longer_history_weighs_less_and_a_known_symbol_costs_least(history: list[int]) -> None:
    code = coded(history, alphabet(4))
    following = [code.after(symbol, alphabet(4)) for symbol in range(4)]
    assert all(after.log_kt < code.log_kt for after in following)
    assert all(after.log_length() < code.log_length() for after in following)
    most = max(range(4), key=history.count)
    assert max(after.log_kt for after in following) == following[most].log_kt
    if history.count(0) >= len(history) / 2:
        assert following[0].log_sparse >= max(after.log_sparse for after in following[1:])


def test_what_was_expected_costs_almost_nothing() -> None:
    """A thousand times signal 1: ln 1001 nats in all, where uniform weights charge 1,609."""
    code = coded([0] * 1000, alphabet(5))
    assert code.log_sparse == pytest.approx(-math.log(1001))
    assert -2.5 * math.log(1001) < code.log_kt < -math.log(1001)


# --- The weight of a history ---


def exact_weight(shares: Sequence[float], kt: mp.mpf, sparse: mp.mpf, length: int) -> mp.mpf:
    """The second and third part of the formula of the mathematics page."""
    t = length + 1
    return (mp.mpf(shares[1]) * kt + mp.mpf(shares[2]) * sparse) / (t * (t + 1))


@pytest.mark.parametrize("length", [0, 1, 3, 10, 11, 100, 3000, 20_000])
@pytest.mark.parametrize("every", [1, 2, 10, 10**9])
@pytest.mark.parametrize("shares", [SHARES, (0.2, 0.8, 0.0), (0.2, 0.0, 0.8), (0.9, 0.05, 0.01)])
def test_the_weight_is_the_formula_rounded_down(
    length: int, every: int, shares: tuple[float, float, float]
) -> None:
    """Five signals, T = 11; an exception at every so many steps, of each kind in turn."""
    symbols = [1 + (i // every) % 4 if i % every == every - 1 else 0 for i in range(length)]
    steps, m = 11, 5
    models = (m**steps - 1) // (m - 1)
    uniform = -math.log(models) if length < steps else -math.inf
    with mp.workdps(60):
        kt = mp.gamma(mp.mpf(m) / 2) / mp.gamma(length + mp.mpf(m) / 2)
        for symbol in range(m):
            kt *= mp.gamma(symbols.count(symbol) + mp.mpf(1) / 2) / mp.sqrt(mp.pi)
        e = length - symbols.count(0)
        sparse = 1 / (mp.mpf(length + 1) * mp.binomial(length, e) * mp.mpf(m - 1) ** e)
        exact = exact_weight(shares, kt, sparse, length)
        if length < steps:
            exact += mp.mpf(shares[0]) / models
        wanted = mp.log(exact)
    found = log_weight(coded(symbols, alphabet(m)), shares, uniform)
    assert found <= wanted
    assert found == pytest.approx(float(wanted), abs=1e-6 if length > 1000 else 1e-9)


def test_rounding_does_not_add_up_over_a_long_session() -> None:
    """A sum of 100,000 times ln 2 in doubles is off by 1.2e-7, to the wrong side."""
    length = 100_000
    code = coded([1] * length, alphabet(3))
    with mp.workdps(60):
        exact = -mp.log(2) * length - mp.log(length + 1) - mp.log((length + 1) * (length + 2))
    found = log_weight(code, (0.0, 0.0, 1.0), -math.inf)
    assert found <= exact
    assert found == pytest.approx(float(exact), abs=1e-5)


def test_a_tenant_gets_its_part_of_what_adapts() -> None:
    code = coded([0, 0, 2], alphabet(5))
    alone = log_weight(code, SHARES, -math.inf)
    assert log_weight(code, SHARES, -math.inf, 0.3) == pytest.approx(alone + math.log(0.3))


# --- Meters: all histories together weigh at most 1 ---

METERS: dict[str, dict[str, Any]] = {
    "regular": {"signals": 3, "steps": 4},
    "regular, one signal": {"signals": 1, "steps": 3},
    "regular, ceiling": {"signals": 2, "steps": 4, "ceiling": 0.4},
    "regular, masked": {"signals": 3, "steps": 4, "masked_reverts": 2, "mask_above": 1},
    "regular, masked, ceiling": {
        "signals": 3,
        "steps": 3,
        "ceiling": 0.4,
        "masked_reverts": 1,
        "mask_above": 2,
    },
    "regular, own loss": {"signals": 2, "steps": 3, "loss": "module:function", "ceiling": 0.4},
    "incremental, own loss": {
        "signals": 3,
        "steps": 4,
        "protocol": "incremental",
        "loss": "module:function",
    },
    "incremental": {"signals": 4, "steps": 5, "protocol": "incremental"},
    "incremental, nonuniform": {
        "signals": 3,
        "steps": 5,
        "protocol": "incremental",
        "tolerance": [0.1, 0.2, 0.3],
    },
    "incremental, ceiling": {
        "signals": 3,
        "steps": 5,
        "protocol": "incremental",
        "tolerance": [0.1, 0.2, 0.3],
        "ceiling": 0.4,
    },
    "incremental, masked": {
        "signals": 4,
        "steps": 5,
        "protocol": "incremental",
        "tolerance": [0.1, 0.2, 0.3, 0.4],
        "masked_reverts": 2,
        "mask_above": 2,
    },
    "tenants": {"signals": 3, "steps": 5, "tenants": (3, 2)},
    "tenants, incremental": {
        "signals": 3,
        "steps": 5,
        "protocol": "incremental",
        "tolerance": [0.1, 0.2, 0.3],
        "tenants": (1, 4),
    },
    "tenants, handover": {"signals": 3, "steps": 4, "tenants": (2, 2), "handover": True},
}
RESETS: dict[str, dict[str, Any]] = {
    "one": {"signals": 3, "steps": 4, "resets": 1},
    "two": {"signals": 2, "steps": 4, "resets": 2},
    "nonuniform": {"signals": 3, "steps": 4, "resets": 1, "tolerance": [0.1, 0.15, 0.3]},
    "ceiling": {"signals": 2, "steps": 4, "resets": 1, "ceiling": 0.3},
}


def elastic_ledger(**options: Any) -> Ledger:
    """Return a ledger that counts every history of answers, as these tests do."""
    usual: dict[str, Any] = {"tolerance": 0.1, "delta": 0.1, "elastic": True, "count": "all"}
    spec = MeterSpec.uniform(**usual | options)
    return Ledger(spec, required_labels(spec).labels)


def weights_of(ledger: Ledger) -> Callable[[Account], tuple[float, float]]:
    """Give w(h) by the formula, from the counts and tails: the uniform part and the rest."""
    spec = ledger.spec
    tails = [
        math.exp(log_tail(spec.tail, ledger.labels, eps, spec.ceiling)) for eps in spec.tolerances
    ]
    parts = [spec.steps] if spec.handover or not spec.tenants else list(spec.tenants)
    counts = [counting.models(feedback_of(spec), part) for part in parts]
    z = math.fsum(n * tail for each in counts for n, tail in zip(each, tails, strict=False))

    def weight(account: Account) -> tuple[float, float]:
        promised = parts[account.tenant - 1]
        uniform = tails[ledger.rules.level(account.state)] / z * (account.steps < promised)
        rest = log_weight(account.code, spec.mixture, -math.inf, promised / spec.steps)
        return uniform, math.exp(rest)

    return weight


def accounts_after(ledger: Ledger, length: int, tenant: int = 1) -> list[Account]:
    """Give the account after every history of this length."""
    if length == 0:
        return [Account(tenant=tenant)]
    return [
        ledger.record(account, answer)
        for account in accounts_after(ledger, length - 1, tenant)
        for answer in ledger.rules.answers(account.state)
    ]


@pytest.mark.parametrize("options", METERS.values(), ids=METERS.keys())
def test_all_histories_of_all_lengths_weigh_at_most_one(options: dict[str, Any]) -> None:
    ledger = elastic_ledger(**options)
    spec = ledger.spec
    tenants = 1 if spec.handover or not spec.tenants else len(spec.tenants)
    longest = spec.steps + 2
    weight = weights_of(ledger)
    uniform, adaptive = [], []
    for tenant in range(1, tenants + 1):
        for length in range(longest + 1):
            accounts = accounts_after(ledger, length, tenant)
            kt = math.fsum(math.exp(account.code.log_kt) for account in accounts)
            sparse = math.fsum(math.exp(account.code.log_sparse) for account in accounts)
            assert kt == pytest.approx(1, abs=1e-12)
            assert sparse <= 1 + 1e-12
            if spec.protocol is Protocol.REGULAR and spec.signals > 1:  # nothing is lost
                assert sparse == pytest.approx(1, abs=1e-12)
            for account in accounts:
                first, rest = weight(account)
                uniform.append(first)
                adaptive.append(rest)
                assert (first > 0) == (length < ledger.promised(tenant))
    assert math.fsum(uniform) == pytest.approx(1, abs=1e-10)
    # Lengths beyond weigh at most the rest of sum 1/(t(t+1)), which is 1/(longest + 2).
    beyond = sum(spec.mixture[1:]) / (longest + 2)
    total = spec.mixture[0] * math.fsum(uniform) + math.fsum(adaptive) + beyond
    assert total <= 1 + 1e-10
    if spec.protocol is Protocol.REGULAR and spec.signals > 1:
        assert total == pytest.approx(1, abs=1e-9)  # and no mass is left lying about


@pytest.mark.parametrize("options", RESETS.values(), ids=RESETS.keys())
def test_whenever_a_developer_resets_the_histories_weigh_at_most_one(
    options: dict[str, Any],
) -> None:
    """Resets follow from the answers, so the worst strategy is found history by history."""
    ledger = elastic_ledger(protocol="incremental", **options)
    share = ledger.spec.mixture[0]
    longest = ledger.spec.steps + 2
    weight = weights_of(ledger)

    def worst(account: Account) -> float:
        choices = [account]
        if account.state.resets_used < ledger.spec.resets:
            choices.append(ledger.reset(account))
        found = []
        for chosen in choices:
            uniform, rest = weight(chosen)
            total = share * uniform + rest
            if chosen.steps < longest:
                for answer in ledger.rules.answers(chosen.state):
                    total += worst(ledger.record(chosen, answer))
            found.append(total)
        return max(found)

    beyond = sum(ledger.spec.mixture[1:]) / (longest + 2)
    assert worst(Account()) + beyond <= 1 + 1e-10


# --- The codes of the meters, written down a second time ---


def histories(rules: Rules, length: int) -> Iterator[tuple[int, ...]]:
    states: dict[tuple[int, ...], State] = {(): State()}
    for _ in range(length):
        states = {
            (*history, answer): rules.after(state, answer)
            for history, state in states.items()
            for answer in rules.answers(state)
        }
    yield from states


def kt_and_sparse(spec: MeterSpec, history: tuple[int, ...]) -> tuple[Fraction, Fraction]:
    """Code each answer as "usual", "march" (then where to, evenly), or one without a number."""
    kt, values = Fraction(1), Fraction(1)
    seen: dict[str, int] = {}
    top, used, exceptions = 1, 0, 0
    for answer in history:
        highest = spec.mask_above if used < spec.masked_reverts else spec.signals
        if spec.protocol is Protocol.INCREMENTAL:
            kinds = {"usual": 1, "march": highest - top}
            kind = "usual" if answer == top else "march"
        else:
            kinds = {"usual": 1} | {str(k): 1 for k in range(2, highest + 1)}
            kind = "usual" if answer == 1 else str(answer)
        kinds |= {"above": int(spec.ceiling is not None), "revert": used < spec.masked_reverts}
        kinds |= {"none": int(spec.may_fail)}
        kind = {ABOVE_CEILING: "above", REVERTED: "revert", NO_READING: "none"}.get(answer, kind)
        kinds = {name: many for name, many in kinds.items() if many}
        half = Fraction(1, 2)
        kt *= (seen.get(kind, 0) + half) / sum(seen.get(name, 0) + half for name in kinds)
        kt /= kinds[kind]
        if kind != "usual":
            exceptions += 1
            values /= sum(kinds.values()) - 1
        seen[kind] = seen.get(kind, 0) + 1
        used += answer == REVERTED
        top = max(top, answer)
    length = len(history)
    return kt, values / ((length + 1) * math.comb(length, exceptions))


@pytest.mark.parametrize("options", METERS.values(), ids=METERS.keys())
def test_each_meter_has_the_code_it_should(options: dict[str, Any]) -> None:
    ledger = elastic_ledger(**options)
    for length in range(ledger.spec.steps + 2):
        for history in histories(ledger.rules, length):
            code = ledger.replay(history).code
            kt, sparse = kt_and_sparse(ledger.spec, history)
            assert code.log_kt == pytest.approx(math.log(kt), abs=1e-12)
            assert code.log_sparse == pytest.approx(math.log(sparse), abs=1e-12)


# --- Consistent histories: bands that are never possible at once share a symbol ---

CONSISTENT: dict[str, MeterSpec] = {
    f"{name}, edges {edges}": meter(edges, 2, steps=2, elastic=True, **options)
    for name, options in PROTOCOLS.items()
    if options.get("masked_reverts") != 2  # more than two steps can have
    if not options.get("sticky")  # not with elastic
    for edges in ((4,), (4, 8, 12), (2, 4, 6), (5, 6, 12))
} | {
    f"{name}, tolerances {tolerances}": meter(
        (4, 8, 12), tolerances, steps=2, elastic=True, **PROTOCOLS[name]
    )
    for name in ("regular", "incremental", "masked, incremental", "resets")
    for tolerances in ((1, 1, 1, 13), (2, 3, 4, 5))
}


def ledger_at_its_size(spec: MeterSpec) -> Ledger:
    return Ledger(spec, required_labels(spec).labels)


def starts(ledger: Ledger, account: Account) -> list[Account]:
    """Give what a developer may ask from: here, or after a reset."""
    if account.state.resets_used < ledger.spec.resets:
        return [account, ledger.reset(account)]
    return [account]


@pytest.mark.parametrize("spec", CONSISTENT.values(), ids=CONSISTENT.keys())
def test_answers_that_are_consistent_at_once_have_codes_of_their_own(spec: MeterSpec) -> None:
    """Every place of the truth, by the rules themselves: no symbol has more answers than values."""
    ledger = ledger_at_its_size(spec)
    seen, new = {State()}, [State()]
    while new:
        state = new.pop()
        symbols, choices = ledger._symbols(state)
        assert set(symbols) == set(ledger.rules.answers(state))
        for answers in consistent(ledger.rules, state):
            used = [symbols[answer] for answer in answers]
            assert all(used.count(symbol) <= choices[symbol] for symbol in used)
        after = {ledger.rules.after(state, answer) for answer in symbols} - seen
        seen |= after
        new += after


def test_the_number_of_a_band_modulo_b_would_not_do_for_unequal_tolerances() -> None:
    """Bands 1, 2 and 4 are possible at once, and 4 = 1 modulo 3: coded so, 4 would be a stay."""
    spec = meter((4, 8, 12), (1, 1, 1, 13), elastic=True, protocol="incremental")
    ledger = ledger_at_its_size(spec)
    assert possible_bands(spec) == 3
    assert any({1, 2, 4} <= answers for answers in consistent(ledger.rules, State()))
    symbols, choices = ledger._symbols(State())
    assert (symbols[1], symbols[2], symbols[4]) == (0, 1, 1)
    assert choices == {0: 1, 1: 2}


@given(
    st.lists(
        st.tuples(st.integers(0, 30), st.integers(1, 12)).map(lambda r: (r[0], r[0] + r[1])),
        min_size=1,
        max_size=9,
    )
)
def test_as_many_colors_as_ranges_overlap(ranges: list[tuple[int, int]]) -> None:
    found = colors([(Fraction(lower), Fraction(upper)) for lower, upper in ranges])
    pairs = itertools.combinations(zip(ranges, found, strict=True), 2)
    for ((low, high), color), ((other_low, other_high), other_color) in pairs:
        assert color != other_color or high <= other_low or other_high <= low
    overlap = max(sum(low <= at < high for low, high in ranges) for at in range(43))
    assert set(found) == set(range(overlap))


def test_with_equal_tolerances_the_symbol_is_the_band_modulo_b() -> None:
    for edges, b in (((4, 8, 12), 2), ((2, 4, 6, 8), 3)):
        symbols, choices = ledger_at_its_size(meter(edges, 2, elastic=True))._symbols(State())
        assert len(choices) == b
        for one, other in itertools.combinations(symbols, 2):
            assert (symbols[one] == symbols[other]) == ((one - other) % b == 0)


def heaviest(ledger: Ledger, account: Account, length: int) -> float:
    """Weigh what is accepted of the heaviest tree of consistent histories, `length` more steps.

    The weight that counts is tail/delta: a submission is accepted only while it is at most w(h).
    """
    if length == 0:
        return 0.0
    found = [0.0]
    for start in starts(ledger, account):
        tail = ledger._log_tails[ledger.rules.level(start.state)]
        promised = start.steps < ledger.promised()
        log_share = tail - math.log(ledger.spec.delta)
        here = math.exp(log_share if promised else ledger._log_weight(start))
        found += (
            here
            + math.fsum(
                heaviest(ledger, ledger.record(start, answer), length - 1) for answer in answers
            )
            for answers in consistent(ledger.rules, start.state)
        )
    return max(found)


@pytest.mark.parametrize("spec", CONSISTENT.values(), ids=CONSISTENT.keys())
def test_consistent_histories_weigh_at_most_one(spec: MeterSpec) -> None:
    """The promised steps, three more, and all lengths beyond: (T+1) / (longest+1) of the codes."""
    ledger = ledger_at_its_size(spec)
    longest = spec.steps + 3
    beyond = math.fsum(ledger._code_shares) * (spec.steps + 1) / (longest + 1)
    total = heaviest(ledger, Account(), longest) + beyond
    assert total <= 1 + 1e-9
    if spec in (CONSISTENT["regular, edges (4, 8, 12)"], CONSISTENT["signed, edges (2, 4, 6)"]):
        assert total == pytest.approx(1, abs=1e-9)  # and no mass is left lying about


def test_codes_of_too_few_bands_would_weigh_more_than_one() -> None:
    """Bands as wide as the tolerance leave three answers; coded by two symbols, they collide."""
    spec = meter((2, 4, 6), 2, steps=2, elastic=True)
    ledger = ledger_at_its_size(spec)
    assert possible_bands(spec) == 3
    wide = ledger_at_its_size(meter((4, 8, 12), 2, steps=2, elastic=True))
    ledger._coded.update({State(): wide._symbols(State())})
    beyond = math.fsum(ledger._code_shares) * 3 / 6
    assert heaviest(ledger, Account(), 5) + beyond > 1.1


class FewerTails(AnySizeLedger):
    """The ledger of the small world, as if one model's tail were `times` smaller.

    Its real tail is so large that nothing would be accepted beyond the promise. What is compared
    is how many models are accepted, and how many tails the best strategy reaches.
    """

    def __init__(self, spec: MeterSpec, tail: float, times: float) -> None:
        super().__init__(spec, EXAMPLES)
        self.__dict__["_log_tails"] = (math.log(tail / times),) * spec.signals
        counted = counting.log_sum(counting.log_models(spec))
        self.__dict__["_log_total"] = counted + math.log(tail / times)


def accepted(ledger: Ledger, account: Account) -> int:
    """Count the models of the largest tree of consistent histories that are accepted."""
    if not ledger.may_submit(account):
        return 0
    return 1 + max(
        sum(accepted(ledger, ledger.record(account, answer)) for answer in answers)
        for answers in consistent(ledger.rules, account.state)
    )


@pytest.mark.parametrize(
    ("edges", "eps", "times", "models", "reached"),
    [
        ((8,), 8, 6, 5, 4.0),
        ((1, 19), 9, 6, 5, 4.5),
        pytest.param((8,), 8, 12, 7, 5.5, marks=pytest.mark.verify),
    ],
    ids=str,
)
def test_the_best_adversary_of_an_elastic_budget(
    edges: tuple[int, ...], eps: int, times: float, models: int, reached: float
) -> None:
    """All strategies on all data sets, as long as the budget lasts: in units of one tail."""
    spec = meter(edges, eps, steps=1, elastic=True)
    assert possible_bands(spec) == 2
    adversary = Adversary(spec)
    tail = adversary.tails()[0]
    ledger = FewerTails(spec, tail, times)
    bound = accepted(ledger, Account())
    best = adversary.best(ledger) / tail
    assert (bound, best) == (models, reached)
    assert best <= bound


# --- More steps on the same labels ---


def steps_answered(labels: int, every: int, **options: Any) -> int:
    """Count the steps with band 2 in every so many and band 1 otherwise; T = 10, m = 5."""
    usual: dict[str, Any] = {"signals": 5, "steps": 10, "tolerance": 0.01, "delta": 0.01}
    spec = MeterSpec.uniform(**usual | {"count": "consistent"} | options, elastic=True)
    ledger, account = Ledger(spec, labels), Account()
    while ledger.may_submit(account):
        account = ledger.record(account, 2 if account.steps % every == every - 1 else 1)
    return account.steps


ONE_PLACE = (0.001, 0.002, 0.003, 0.004)
"""Edges so close that all five bands are possible at once: as many models as of all histories."""


@pytest.mark.parametrize(
    ("every", "all_histories", "as_many", "consistent"),
    [(10, 24, 30, 40), (10**9, 369, 1030, 3339), (2, 12, 15, 21)],
    ids=["every tenth", "band 1 only", "in turns"],
)
def test_the_published_number_of_labels_answers_more_steps(
    every: int, all_histories: int, as_many: int, consistent: int
) -> None:
    """By the weights of version 0.1.0; by these for as many models; and by these for b = 2."""
    assert steps_answered(108_080, every, count="all") == all_histories
    assert steps_answered(108_080, every, edges=ONE_PLACE) == as_many
    assert steps_answered(108_080, every) == consistent


def test_the_lengths_after_the_promise_alone_answer_821_steps() -> None:
    """What (T+1)/(t(t+1)) gives for as many models, with the shares of the mixture."""
    spec = MeterSpec.uniform(
        signals=5,
        edges=ONE_PLACE,
        steps=10,
        tolerance=0.01,
        delta=0.01,
        elastic=True,
        count="consistent",
    )
    ledger, account = Ledger(spec, 108_080), Account()
    ledger.__dict__["_code_shares"] = (0.0, *spec.mixture[1:])
    while ledger.may_submit(account):
        account = ledger.record(account, 1)
    assert account.steps == 821


def test_the_promised_steps_of_consistent_histories() -> None:
    spec = MeterSpec.uniform(
        signals=5, tolerance=0.01, steps=10, delta=0.01, elastic=True, count="consistent"
    )
    assert required_labels(spec).labels == 52_301
    assert required_labels(spec.replace(count="all")).labels == 89_917
