"""The budget of one test set: what each answer costs it, and a hand-over, and when it is spent.

`Ledger` holds what is fixed before the first answer (the meter, the size of the test set);
`Account` is one developer's running state. Whether a further submission is accepted depends on
the history of answers alone, so a refusal tells nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from easeml_meter.core.questions.kinds import question_of, rules_of
from easeml_meter.core.signals import BASELINE, Rules, State
from easeml_meter.errors import invalid
from easeml_meter.spec import METERS, MeterSpec
from easeml_meter.stats import counting
from easeml_meter.stats.feedback import expected_edges, possible_bands
from easeml_meter.stats.planning import log_tails


@dataclass(frozen=True, slots=True)
class Account:
    """The history of one developer (or tenant) as far as the books need it."""

    tenant: int = 1
    steps: int = 0
    state: State = field(default_factory=State)
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
        if self._log_total > math.log(self.spec.session_delta):
            raise invalid(
                "labels", self.labels, f"too few to promise {self.spec.steps:,} steps: see the plan"
            )

    @cached_property
    def rules(self) -> Rules:
        """The feedback rule."""
        return rules_of(self.spec)

    @cached_property
    def _log_tails(self) -> tuple[float, ...]:
        return log_tails(self.spec, self.labels)

    @cached_property
    def _log_total(self) -> float:
        """The left side of the inequality that the question was planned with."""
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
            # What one team knows, the other now knows: the worst band of both.
            state=State(top=max(account.state.top for account in accounts)),
            group=tuple(account.tenant for account in accounts),
        )

    def check_handover(self, group: Sequence[int]) -> None:
        """Raise `InvalidInput` unless this meter can count what these tenants share."""
        spec = self.spec
        if not spec.bands:
            named = " and ".join(map(str, group))
            raise invalid("handover", named, "not needed: teams are counted as sharing answers")
        if spec.handover or not spec.tenants:
            named = " and ".join(map(str, group))
            raise invalid("handover", named, "only between isolated teams")

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
        ended = self.rules.ended(account.state)
        return account.steps < self._promised(account) and not ended

    def record(self, account: Account, answer: int) -> Account:
        """Enter an answer; only for submissions that may be answered."""
        possible = self.rules.answers(account.state)
        if answer not in possible:
            raise invalid("answer", answer, f"one of {possible} after this history")
        state = self.rules.after(account.state, answer)
        # The model that others are compared with gets an answer that is known beforehand.
        steps = account.steps + (answer != BASELINE)
        return Account(account.tenant, steps, state, account.group)

    def replay(self, answers: Iterable[int], tenant: int = 1) -> Account:
        """Fold a history of answers."""
        account = Account(tenant=tenant)
        for answer in answers:
            account = self.record(account, answer)
        return account

    def battery(self, account: Account) -> float:
        """Give the share of the capacity that is left, from 1 down to 0.

        A meter spends its steps; a rolling test set gets back with each batch what an answer
        costs, so nothing runs down.
        """
        if self.spec.window is not None:
            return 1.0
        if not self.may_submit(account):
            return 0.0
        share = 1 - account.steps / self._promised(account)
        return min(share, self.rules.share_left(account.state))

    def steps_left(self, account: Account) -> int:
        """Give the steps still promised whatever the answers will be."""
        left = self.rules.left(account.state, self._promised(account) - account.steps)
        may = self.may_submit(account)
        return left if left > 0 and may else int(may)
