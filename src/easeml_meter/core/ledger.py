"""The budget of one test set: what each answer costs it, and a hand-over, and when it is spent.

`Ledger` holds what is fixed before the first answer (the meter, the size of the test set);
`Account` is one developer's running state. Whether a further submission is accepted depends on
the history of answers alone, so a refusal tells nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property

from easeml_meter.core.questions.kinds import question_of, rules_of
from easeml_meter.core.signals import BASELINE, Rules, State
from easeml_meter.errors import invalid
from easeml_meter.spec import METERS, Count, MeterSpec
from easeml_meter.stats import counting
from easeml_meter.stats.draws import expected_edges
from easeml_meter.stats.feedback import Range, colors, possible_bands, reaches
from easeml_meter.stats.planning import log_tails
from easeml_meter.stats.priors import Code, log_weight

_FORECAST = 1_000
"""A forecast looks at most this many steps ahead."""


@dataclass(frozen=True, slots=True)
class Account:
    """The history of one developer (or tenant) as far as the books need it."""

    tenant: int = 1
    steps: int = 0
    state: State = field(default_factory=State)
    code: Code = field(default_factory=Code)
    group: tuple[int, ...] = ()
    """The tenants that share this history by hand-over; empty: the one tenant alone."""


@dataclass(frozen=True)
class Ledger:
    """The budget of one test set of `labels` examples under one meter."""

    spec: MeterSpec
    labels: int

    def __post_init__(self) -> None:
        if self.spec.protocol not in METERS:
            raise invalid("protocol", str(self.spec.protocol), "only meters answer submissions")
        # At every opening, not only at delivery: if the books were changed by hand, nothing is
        # answered that the promise does not cover.
        if self._log_total > math.log(self.uniform_share * self.spec.session_delta):
            raise invalid(
                "labels", self.labels, f"too few to promise {self.spec.steps:,} steps: see the plan"
            )

    @cached_property
    def rules(self) -> Rules:
        """The feedback rule."""
        return rules_of(self.spec)

    @property
    def uniform_share(self) -> float:
        """The share of delta that stands behind the promised steps."""
        return self.spec.mixture[0] if self.spec.elastic else 1.0

    @cached_property
    def _log_tails(self) -> tuple[float, ...]:
        return log_tails(self.spec, self.labels)

    @cached_property
    def _log_total(self) -> float:
        """Z of the priors: the left side of the inequality that the question was planned with."""
        # Every batch of a window counts as if it were of the average size; more labels are safer.
        size = self.labels // (self.spec.window or 1)
        return question_of(self.spec).log_failure(self.spec.steps, size)

    def promised(self, tenant: int = 1) -> int:
        """Give the steps promised to a tenant whatever the answers are."""
        spec = self.spec
        if spec.window is not None:
            return spec.submissions
        return spec.steps if spec.handover or not spec.tenants else spec.tenants[tenant - 1]

    def _promised(self, account: Account) -> int:
        if account.group:
            return self.shared_steps(account.group)
        return self.promised(account.tenant)

    def merge(self, accounts: Sequence[Account]) -> Account:
        """Join the histories of tenants of whom one handed a checkpoint to another."""
        return Account(
            tenant=accounts[0].tenant,
            steps=sum(account.steps for account in accounts),
            # What one team knows, the other now knows: the worst band of both, and every answer
            # above the ceiling.
            state=State(
                top=max(account.state.top for account in accounts),
                above=sum(account.state.above for account in accounts),
            ),
            group=tuple(account.tenant for account in accounts),
        )

    def check_handover(self, group: Sequence[int]) -> None:
        """Raise `InvalidInput` unless this meter can count what these tenants share."""
        spec = self.spec
        if not spec.bands:
            named = " and ".join(map(str, group))
            raise invalid("handover", named, "not needed: teams are counted as sharing answers")
        if spec.elastic or spec.sticky or spec.handover or not spec.tenants:
            named = " and ".join(map(str, group))
            raise invalid("handover", named, "only between isolated teams, on a plain budget")

    def shared_steps(self, group: Sequence[int]) -> int:
        """Give the steps, told ones included, that tenants have together after a hand-over.

        From then on their models depend on all of their answers. The isolated histories stay
        possible until it happens, and whether it does may depend on the answers. So the shared
        histories come on top: they must fit into what the plan has left of delta, which is as much
        as the test set is larger than planned. Any group of tenants could have been the one, so
        each has an equal share.

        Raises:
            InvalidInput: The meter's joint histories are not counted.
        """
        self.check_handover(group)
        spec = self.spec
        tenants = len(spec.tenants)
        slack = spec.session_delta - math.exp(self._log_total)
        if slack <= 0:
            return 0
        share = math.log(slack) - math.log(2**tenants - tenants - 1)
        # Each tenant of an incremental meter brings a running maximum of its own, so one
        # developer's count is too small. Any sequence of possible answers covers every joint one.
        answers = possible_bands(spec) + expected_edges(spec) + spec.silent_answers
        room = share - self._log_tails[0]
        steps = 0
        while steps < sum(spec.tenants[tenant - 1] for tenant in group):
            if counting.log_geometric(answers, steps + 1) > room:
                break
            steps += 1
        return steps

    def may_submit(self, account: Account) -> bool:
        """Tell whether one more submission can be answered."""
        ended = self.rules.ended(account.state, len(account.group) or 1)
        within = account.steps < self._promised(account) and not ended
        if not self.spec.elastic:
            return within
        return within or self._log_cost(account) <= 0

    def _log_cost(self, account: Account) -> float:
        """Give log(tail / (delta w(h))): a submission is affordable up to 0."""
        tail = self._log_tails[self.rules.level(account.state)]
        return tail - math.log(self.spec.session_delta) - self._log_weight(account)

    def _log_weight(self, account: Account) -> float:
        """Give log w(h); up to the promised steps of a consistent count, what the codes say."""
        promised = self.promised(account.tenant)
        part = promised / self.spec.steps
        if self.spec.count is Count.CONSISTENT:
            return log_weight(account.code, self._code_shares, part=part, paid=promised)
        # These weights were fixed by version 0.1.0, and test sets of that version are in use.
        tail = self._log_tails[self.rules.level(account.state)]
        uniform = tail - self._log_total if account.steps < promised else -math.inf
        return log_weight(account.code, self.spec.mixture, uniform, part)

    @cached_property
    def _code_shares(self) -> tuple[float, float, float]:
        """Divide between the two codes what the promised steps leave of delta at this size."""
        _, *codes = self.spec.mixture
        spent = math.exp(self._log_total - math.log(self.spec.session_delta)) * (1 + 1e-12)
        left = max(0.0, 1 - spent) / (math.fsum(codes) or 1.0)
        return 0.0, left * codes[0], left * codes[1]

    def record(self, account: Account, answer: int) -> Account:
        """Enter an answer; only for submissions that may be answered."""
        possible = self.rules.answers(account.state)
        if answer not in possible:
            raise invalid("answer", answer, f"one of {possible} after this history")
        code = account.code
        if self.spec.elastic:  # a plain budget needs no bets
            symbols, choices = self._symbols(account.state)
            code = code.after(symbols[answer], choices)
        state = self.rules.after(account.state, answer)
        # The model that others are compared with gets an answer that is known beforehand.
        steps = account.steps + (answer != BASELINE)
        return Account(account.tenant, steps, state, code, account.group)

    def _symbols(self, state: State) -> tuple[dict[int, int], dict[int, int]]:
        """Return the symbol of each answer that may come, and how many values each symbol has.

        Bands share a symbol if they are never consistent at once: with b possible bands, b symbols
        remain, of which band 1 has symbol 0. An incremental meter has symbol 0 for "stays", and the
        others are values of one symbol for its marches. Answers without a band have their own.
        """
        if state not in self._coded:
            answers = self.rules.answers(state)
            bands = [each for each in answers if each > 0]
            ranges = self._reaches[bands[0] - 1 : bands[-1]]
            if self.rules.incremental:  # whatever is below the maximum stays, too
                ranges = [(Fraction(0), ranges[0][1]), *ranges[1:]]
            found = colors(ranges)
            others = {each: each for each in answers if each < 0}
            choices = dict.fromkeys(others, 1) | {0: 1}
            if self.rules.incremental:
                symbols = [int(color > 0) for color in found]
                choices |= {1: max(found)} if max(found) else {}
            else:
                symbols = [color + (color > 0) for color in found]
                choices |= dict.fromkeys(symbols, 1)
            self._coded[state] = dict(zip(bands, symbols, strict=True)) | others, choices
        return self._coded[state]

    @cached_property
    def _coded(self) -> dict[State, tuple[dict[int, int], dict[int, int]]]:
        return {}

    @cached_property
    def _reaches(self) -> list[Range]:
        return reaches(self.spec)

    def replay(self, answers: Iterable[int], tenant: int = 1) -> Account:
        """Fold a history of answers."""
        account = Account(tenant=tenant)
        for answer in answers:
            account = self.record(account, answer)
        return account

    def reset(self, account: Account) -> Account:
        """Reset the running maximum of an incremental meter."""
        return replace(account, state=self.rules.reset(account.state))

    def battery(self, account: Account) -> float:
        """Give the share of the capacity that is left, from 1 down to 0.

        A plain meter spends its steps; a rolling test set gets back with each batch what an answer
        costs, so nothing runs down. An elastic one spends -log w(h) of log(delta / tail); while
        steps are promised, their share is left at least.
        """
        if self.spec.window is not None:
            return 1.0
        if not self.may_submit(account):
            return 0.0
        promised = 1 - account.steps / self._promised(account)
        if not self.spec.elastic:
            return promised
        tail = self._log_tails[self.rules.level(account.state)]
        capacity = math.log(self.spec.session_delta) - tail
        least = max(0.0, promised) if self.spec.count is Count.CONSISTENT else 0.0
        return min(1.0, max(least, 1 + self._log_weight(account) / capacity))

    def steps_left(self, account: Account) -> int:
        """Give the steps still promised whatever the answers will be."""
        left = self._promised(account) - account.steps
        may = self.may_submit(account)
        return left if left > 0 and may else int(may)

    def steps_expected(self, account: Account) -> int:
        """Give the steps that follow if answers go on in the proportions seen so far."""
        if not self.spec.elastic or account.steps == 0:
            return self.steps_left(account)
        wanted = {symbol: count / account.steps for symbol, count in account.code.seen.items()}
        ahead = account
        while ahead.steps - account.steps < _FORECAST and self.may_submit(ahead):
            ahead = self.record(ahead, self._likely(ahead, wanted))
        return ahead.steps - account.steps

    def _likely(self, account: Account, wanted: dict[int, float]) -> int:
        """Give the possible answer whose symbol is most behind its proportion."""
        behind: dict[float, int] = {}
        for answer, symbol in self._symbols(account.state)[0].items():
            due = wanted.get(symbol, 0.0) * (account.steps + 1)
            behind.setdefault(due - account.code.seen.get(symbol, 0), answer)
        return behind[max(behind)]
