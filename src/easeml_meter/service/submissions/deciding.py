"""Deciding on a submission: what the answer is, given what the books say.

The same code gives advice before the lock is taken, and decides under it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from easeml_meter.core.history import Histories, MeterState
from easeml_meter.core.ledger import Account
from easeml_meter.core.lifecycle import Phase
from easeml_meter.core.model import Entry, TestSet, ValidationSet
from easeml_meter.core.signals import NO_READING, name_of
from easeml_meter.errors import MeterError, Spent, WrongPhase
from easeml_meter.service.journal import histories_of
from easeml_meter.service.submissions.measuring import Losses
from easeml_meter.storage.books import Books

Identity = tuple[int, str, str]
"""Tenant, digest of the submission, digest of the validation set: such an answer costs once."""


@dataclass
class Decisions:
    """The books as one transaction sees them, and the answers that this batch adds to them."""

    state: MeterState
    test_set: TestSet
    histories: Histories
    answered: dict[Identity, Entry]
    """The entries of submissions that were answered before."""
    resets_due: set[int]
    """Tenants whose next answer follows a reset of the running maximum."""

    @classmethod
    def read(
        cls,
        books: Books,
        state: MeterState,
        test_set: TestSet,
        drafts: Sequence[Entry],
        histories: Histories | None = None,
    ) -> Decisions:
        """Read what the books say about entries that have no answer yet."""
        tenants = {entry.tenant for entry in drafts}
        digests = {entry.submission for entry in drafts}
        known = books.entries.of_submissions(test_set.meter, test_set.number, tenants, digests)
        return cls(
            state,
            test_set,
            histories or histories_of(books, state, test_set),
            {_identity(entry): entry for entry in known},
            {tenant for tenant in tenants if _reset_due(books, state, test_set, tenant)},
        )

    def same(self, draft: Entry) -> Entry | None:
        """Return the entry of an identical submission: the same bytes, the same validation set."""
        return self.answered.get(_identity(draft))

    def check_budget(self, tenant: int) -> Account:
        """Return a tenant's account, if it has an answer left.

        Raises:
            Spent: it has none.
        """
        ledger, account = self.histories.ledger, self.histories.account(tenant)
        # A reset makes further answers more expensive, so it comes before asking for the budget.
        if tenant in self.resets_due:
            account = ledger.reset(account)
        if not ledger.may_submit(account):
            raise self.spent()
        return account

    def decide(self, draft: Entry, losses: Losses | None, now: str) -> Entry:
        """Return the entry with its answer, which follows all answers before it.

        Raises:
            Spent: the test set has no answer left for the tenant.
            MeterError: the validation set was replaced since the submission was measured.
        """
        # Retired while this was measured, the test set still answers: the submission has touched
        # hidden rows, and that must not be free. Once it is released, there is nothing to tell.
        phase = self.test_set.phase
        over = phase is Phase.RELEASED or (phase is Phase.ACTIVE and self.histories.retired)
        if losses is None or over:
            raise self.spent()
        if validation_in_force(self.state).number != draft.validation_number:
            raise MeterError("the validation set was replaced meanwhile: submit again")
        account = self.check_budget(draft.tenant)
        answer = NO_READING
        if losses.validation is not None and losses.test is not None:
            rules = self.histories.ledger.rules
            answer = rules.answer(account.state, losses.validation, losses.test)
        return replace(
            draft,
            step=self.histories.folded[draft.tenant].step + 1,
            answer=name_of(answer),
            after_reset=draft.tenant in self.resets_due,
            told_at=now,
        )

    def add(self, entry: Entry) -> None:
        """Add an answer, so that the next decision follows it."""
        self.histories = self.histories.after(entry)
        self.answered[_identity(entry)] = entry
        self.resets_due.discard(entry.tenant)

    def spent(self) -> Spent:
        """Return the refusal of a submission for which no answer is left."""
        return Spent(
            f"test set {self.test_set.number} has no answer left for this team: a fresh one of "
            f"{self.state.plan.labels:,} labels is needed"
        )


def validation_in_force(state: MeterState) -> ValidationSet:
    """Return the validation set that submissions are measured on."""
    if state.validation is None:
        raise WrongPhase("no validation set yet: give one with meter validation set")
    return state.validation


def _identity(entry: Entry) -> Identity:
    return entry.tenant, entry.submission, entry.validation_set


def _reset_due(books: Books, state: MeterState, test_set: TestSet, tenant: int) -> bool:
    """Whether the validation set came with a reset that no answer of the tenant has followed yet.

    A later test set starts afresh anyway.
    """
    newest = state.validation
    if newest is None or not newest.settings.get("reset", False):
        return False
    if newest.settings.get("generation") != test_set.number:
        return False
    # Validation sets only replace older ones, so the last answer was measured on the newest of all
    # that the tenant has used.
    last = books.entries.last(test_set.meter, test_set.number, tenant)
    return last is None or last.validation_number != newest.number
