"""A submission: checked, scored, answered. The answer leaves after its entry is on disk."""

from __future__ import annotations

from dataclasses import dataclass, replace

from easeml_meter.core.ledger import Account, Ledger
from easeml_meter.core.lifecycle import Phase, WrongPhase, advance
from easeml_meter.core.signals import NO_READING, name_of
from easeml_meter.core.views import Signal
from easeml_meter.errors import MeterError, invalid
from easeml_meter.service.attempts import USUAL, Conditions, Losses, Measured, Submitted
from easeml_meter.service.sessions import (
    Situation,
    Spent,
    ledger_of,
    reconcile,
    replay,
    signal_of,
)
from easeml_meter.service.workspace import Workspace
from easeml_meter.spec import MeterSpec
from easeml_meter.stats.planning import required_labels
from easeml_meter.storage.schema import EntryRow, GenerationRow, HandoverRow, ValidationRow
from easeml_meter.storage.store import Books
from easeml_meter.vault.keys import wrap

MAX_NAME = 200


@dataclass(frozen=True)
class Submission:
    """What a developer hands in, under a name."""

    submitted: Submitted
    model: str
    tenant: int = 1
    user: str = ""
    """Id of whoever handed it in, where people have one."""

    def __post_init__(self) -> None:
        if not self.model.strip() or not self.model.isprintable() or len(self.model) > MAX_NAME:
            shown = self.model[:40] + ("..." if len(self.model) > 40 else "")
            raise invalid("model", shown, f"a name of 1 to {MAX_NAME} printable characters")


def submit(space: Workspace, submission: Submission, conditions: Conditions = USUAL) -> Signal:
    """Answer a submission.

    Everything that can be wrong with it is found before a label is touched, and costs nothing. An
    identical submission gets the answer it got before, free of charge.
    """
    with space.reading() as books:
        situation = Situation.read(space, books)
        # A spent set still repeats what it told, for whom a crash kept from hearing it.
        generation = situation.current
        if generation.phase is Phase.REQUESTED:
            situation.active()
        tenant = situation.tenant(submission.tenant)
        validation = _validation_of(situation)
        entries = books.entries(generation.meter, generation.number)
        handovers = _handovers(situation, books, generation)
    measured = Measured(space, situation.spec, generation, validation, conditions)
    attempt = submission.submitted.open(measured)
    draft = EntryRow(
        meter=generation.meter,
        generation=generation.number,
        tenant=tenant,
        step=0,
        answer="",
        after_reset=False,
        model=submission.model,
        submission=attempt.identity,
        validation_number=validation.number,
        validation_set=validation.digest,
        validation_loss="",
        blob="",
        told_at="",
    )
    if _same(entries, draft) is not None:
        return _tell(space, draft, None, entries, submission.user)
    situation.active()
    ledger = ledger_of(situation.spec, generation)
    account, _ = _ready(situation, ledger, replay(ledger, entries, tenant, handovers), entries)
    if not ledger.may_submit(account):
        raise _spent(situation, generation)
    losses = attempt.measure(measured)
    if content := attempt.content():
        name = f"predictions/{draft.submission[:32]}{attempt.suffix}.age"
        draft = replace(
            draft, blob=space.files.put(name, wrap(content, [space.identity.recipient]))
        )
    draft = replace(draft, validation_loss=str(losses.validation))
    return _tell(space, draft, losses, entries, submission.user)


def _validation_of(situation: Situation) -> ValidationRow:
    if situation.validation is None:
        raise WrongPhase("no validation set yet: give one with meter validation set")
    return situation.validation


def _handovers(situation: Situation, books: Books, generation: GenerationRow) -> list[HandoverRow]:
    """Give the hand-overs; where there is only one tenant there are none."""
    if situation.tenants == 1:
        return []
    return books.handovers(generation.meter, generation.number)


def _same(entries: list[EntryRow], draft: EntryRow) -> EntryRow | None:
    """Find the entry of an identical submission: the same bytes, the same validation set."""
    for entry in entries:
        if entry.submission == draft.submission and (entry.tenant, entry.validation_set) == (
            draft.tenant,
            draft.validation_set,
        ):
            return entry
    return None


def _tell(
    space: Workspace, draft: EntryRow, losses: Losses | None, seen: list[EntryRow], user: str
) -> Signal:
    """Enter the answer and commit; only then give it out. `seen` are the entries read before.

    Between reading and writing the books nobody else writes them, so what is checked here holds.
    """
    with space.writing() as books:
        situation = Situation.read(space, books)
        generation = _generation(situation, draft.generation)
        entries, unjournaled = reconcile(space, books, generation, seen)
        ledger = ledger_of(situation.spec, generation)
        handovers = _handovers(situation, books, generation)
        account = replay(ledger, entries, draft.tenant, handovers)
        entry = _same(entries, draft)
        repeated = entry is not None
        if entry is None:
            if losses is None or generation.phase is not Phase.ACTIVE:
                raise _spent(situation, generation)
            if _validation_of(situation).number != draft.validation_number:
                raise MeterError("the validation set was replaced meanwhile: submit again")
            account, reset = _ready(situation, ledger, account, entries)
            if not ledger.may_submit(account):
                raise _spent(situation, generation)
            answer = _answer(ledger, account, losses)
            account = ledger.record(account, answer)
            entry = replace(
                draft,
                step=1 + next((e.step for e in entries[::-1] if e.tenant == draft.tenant), 0),
                answer=name_of(answer),
                after_reset=reset,
                told_at=space.now(),
            )
            books.add_entry(entry)
            books.append_audit(entry.meter, entry.told_at, "told", _disclosed(entry, user))
            unjournaled.append(entry)
            spent = not ledger.may_submit(account)
            if spent and _all_spent(ledger, situation, [*entries, entry], handovers):
                _retire(space, books, situation, generation)
    space.journal(generation).append(unjournaled)
    return signal_of(situation, ledger, entry, account, repeated=repeated)


def _answer(ledger: Ledger, account: Account, losses: Losses) -> int:
    """Apply the rules to the losses, after the history that the lock holds still."""
    if losses.test is None:
        return NO_READING
    return ledger.rules.answer(account.state, losses.validation, losses.test)


def _ready(
    situation: Situation, ledger: Ledger, account: Account, entries: list[EntryRow]
) -> tuple[Account, bool]:
    """Carry out a reset that is due, before asking what is affordable: it makes answers dearer.

    It is due if the validation set came with one and no answer has followed yet; a later test set
    starts afresh anyway.
    """
    validation = situation.validation
    due = (
        validation is not None
        and validation.settings.get("reset", False)
        and validation.settings.get("generation") == situation.current.number
    )
    if due and validation is not None:
        due = not any(
            (entry.tenant, entry.validation_number) == (account.tenant, validation.number)
            for entry in entries
        )
    return (ledger.reset(account), True) if due else (account, False)


def _disclosed(entry: EntryRow, user: str) -> dict[str, object]:
    details: dict[str, object] = {
        "generation": entry.generation,
        "tenant": entry.tenant + 1,
        "step": entry.step,
        "answer": entry.answer,
        "model": entry.model,
        "submission": entry.submission,
    }
    return details | {"user": user} if user else details


def _generation(situation: Situation, number: int) -> GenerationRow:
    return next(row for row in situation.generations if row.number == number)


def _all_spent(
    ledger: Ledger,
    situation: Situation,
    entries: list[EntryRow],
    handovers: list[HandoverRow],
) -> bool:
    return not any(
        ledger.may_submit(replay(ledger, entries, tenant, handovers))
        for tenant in range(situation.tenants)
    )


def retire_if_spent(
    space: Workspace, books: Books, generation: GenerationRow, entries: list[EntryRow]
) -> None:
    """Close a test set in use if answers that its journal brought back leave nothing to say."""
    situation = Situation.read(space, books)
    handovers = books.handovers(generation.meter, generation.number)
    if _all_spent(ledger_of(situation.spec, generation), situation, entries, handovers):
        _retire(space, books, situation, generation)


def _retire(
    space: Workspace, books: Books, situation: Situation, generation: GenerationRow
) -> None:
    """Close a test set that has said all it can, and ask the labelers for the next one."""
    now = space.now()
    phase = advance(generation.phase, Phase.SPENT)
    books.update_generation(replace(generation, phase=phase, changed_at=now))
    books.append_audit(generation.meter, now, "spent", {"generation": generation.number})
    if situation.spec.sessions == 1 or generation.number < situation.spec.sessions:
        request(books, situation.spec, generation.meter, generation.number + 1, now)


def request(books: Books, spec: MeterSpec, meter: str, number: int, now: str) -> None:
    """Ask the labelers for a test set of exactly the planned size."""
    labels = required_labels(spec).labels
    books.add_generation(GenerationRow(meter, number, Phase.REQUESTED, labels, now))
    details = {"generation": number, "labels": labels}
    books.append_audit(meter, now, "requested", details)


def _spent(situation: Situation, generation: GenerationRow) -> Spent:
    labels = situation.plan.labels
    return Spent(
        f"test set {generation.number} has no answer left for this tenant: a fresh one of "
        f"{labels:,} labels is needed"
    )
