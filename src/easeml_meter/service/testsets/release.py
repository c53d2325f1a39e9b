"""Release: only a spent test set is handed out in the clear, with what really happened."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from typing import Any, TypeVar

import pyarrow as pa

from easeml_meter.conditions import Variable
from easeml_meter.core.history import MeterState, as_delivered, delivered
from easeml_meter.core.lifecycle import Phase, advance
from easeml_meter.core.model import DRAWS, Entry, Event, TestSet
from easeml_meter.core.views import SessionView, Truth, read_of
from easeml_meter.errors import InvalidInput, NotFound, VaultError, WrongPhase
from easeml_meter.promise import ledger
from easeml_meter.promise.questions import Shown, measured_of
from easeml_meter.scoring.score import Score
from easeml_meter.service.actor import Actor, Permission, needs
from easeml_meter.service.journal import complete_retirement, reconcile, session_of
from easeml_meter.service.place import RELEASED, Workspace
from easeml_meter.service.submissions.deciding import tenants_held, too_few
from easeml_meter.service.submissions.kinds import (
    accepted_predictions,
    compared,
    measure_again,
)
from easeml_meter.service.submissions.measuring import Measured, open_sealed, read_kept, split_curve
from easeml_meter.service.submissions.waiting import KnownLabels, orders_of
from easeml_meter.service.testsets.requests import settled
from easeml_meter.service.testsets.reuse import refuse_active, sealed_rows
from easeml_meter.spec import MeterSpec
from easeml_meter.storage.books import Books
from easeml_meter.tables.archive import DamagedArchive
from easeml_meter.tables.choosing import apart
from easeml_meter.tables.source import Held
from easeml_meter.tables.writing import write_table
from easeml_meter.vault.overlap import LARGEST_SHARE, Rows, compare, likeness
from easeml_meter.vault.sealing import SealedTestSet

TEST_SET = "testset.parquet"
RETROSPECTIVE = "retrospective.json"

_UNREADABLE = (FileNotFoundError, VaultError, InvalidInput, DamagedArchive, pa.ArrowException)
"""What reading a kept submission raises that is lost, damaged, or does not fit its test set."""


@needs(Permission.RELEASE)
def releasable(_: Actor, space: Workspace) -> TestSet | None:
    """Return the test set that can be released now, if there is one."""
    return space.read_state().releasable


@needs(Permission.RELEASE)
def release(
    actor: Actor, space: Workspace, number: int | None = None, *, draw: Callable[[SessionView], str]
) -> TestSet:
    """Hand out the oldest spent test set, with the truth of every step and a report drawn of it.

    `number` makes sure that it is the one that is meant.

    Raises:
        NotFound: there is no test set of that number.
        WrongPhase: it is not spent, an older one must be released first, or its rows stand in a
            test set that is active, here or at another meter of the server.
    """
    return hand_out(space, choose(actor, space, number), draw)


@dataclass(frozen=True)
class Chosen:
    """A test set that may be released, with all its answers."""

    state: MeterState
    test_set: TestSet
    entries: list[Entry]


def choose(actor: Actor, space: Workspace, number: int | None = None) -> Chosen:
    """Return the oldest spent test set, or say why the one that is meant cannot be released."""
    with space.writing() as books:
        state = settled(space, books, space.state(books))
        test_set = _next_to_release(state, number)
        histories, unjournaled = reconcile(space, books, state, test_set)
        # Later ones that share its rows are spent, too, and must not answer from them either.
        for later in state.generations:
            if test_set.number < later.number <= state.last_sharing(test_set):
                complete_retirement(space, books, state, later)
                _refuse_running(books, state, later)
        _refuse_running(books, state, test_set)
        entries = books.entries.all(test_set.meter, test_set.number)
    space.journal(test_set).append(unjournaled, histories.journaled)
    # After the lock: sealed files are compared row by row, which may take minutes.
    _refuse_active_rows(actor, space, state, test_set)
    return Chosen(state, test_set, entries)


def hand_out(space: Workspace, chosen: Chosen, draw: Callable[[SessionView], str]) -> TestSet:
    """Measure every kept submission once more, and publish the test set."""
    state, test_set, entries = chosen.state, chosen.test_set, chosen.entries
    spec = as_delivered(state.spec, test_set)
    truths: list[Truth | None] = [None for _ in entries]
    known = _known(space, spec, test_set)
    changes: list[float | None] = [None for _ in entries]
    if state.validation is not None:
        with Measured(space, spec, test_set, state.validation, again=True) as on:
            steps = {(entry.tenant, entry.step): entry for entry in entries}
            olds = [steps.get((each.tenant, each.old)) for each in entries]
            pairs = zip(entries, olds, strict=True)
            if known is None:
                truths = [_alone(_truth, on, each, old) for each, old in pairs]
            else:  # most rows have no label, so nobody knows a test loss
                changes = [_alone(_change, on, each, old, known) for each, old in pairs]
    _export(space, spec, test_set, known)
    records = _records(spec, entries, truths)
    if known is not None:
        for record, change in zip(records, changes, strict=True):
            record["change"] = change
    name = f"{released_folder(test_set.number)}/{RETROSPECTIVE}"
    space.files.put(name, json.dumps(records, indent=2).encode())
    draws = _draws(space, spec, test_set)
    released = replace(test_set, phase=advance(test_set.phase, Phase.RELEASED))
    # Before a report is drawn for nothing, and again under the lock: an answer that came meanwhile
    # would be missing from what is published.
    with space.reading() as books:
        _refuse_others(books, test_set, entries)
    _report(space, state, released, draw)
    # The phase changes last: a release that was cut short is simply done again.
    with space.writing() as books:
        current = space.state(books).numbered(test_set.number)
        if current.phase is Phase.RELEASED:  # another one was quicker, with the same files
            return current
        _refuse_others(books, test_set, entries)
        now = space.now()
        released = replace(released, changed_at=now)
        books.testsets.update(released)
        details = {"generation": test_set.number, "rows": test_set.rows} | draws
        books.audit.append(test_set.meter, now, Event.RELEASED, details)
    return released


def _refuse_running(books: Books, state: MeterState, test_set: TestSet) -> None:
    """Let a release wait for models that run on hidden rows: those are charged, whatever comes."""
    if tenants_held(books, state, test_set):
        line = f"a model is running on the hidden rows of test set {test_set.number}"
        raise WrongPhase(f"{line}: release it when the model is answered")


def _refuse_others(books: Books, test_set: TestSet, entries: list[Entry]) -> None:
    """Refuse answers that came after those that were measured once more."""
    if books.entries.all(test_set.meter, test_set.number) != entries:
        raise WrongPhase("a submission that was running was answered meanwhile: release again")


def _report(
    space: Workspace, state: MeterState, released: TestSet, draw: Callable[[SessionView], str]
) -> None:
    for tenant in range(1, state.tenants + 1):
        own = truths_of(space, released, tenant)
        with space.reading() as books:
            view = session_of(books, state, released, tenant, own)
        suffix = "" if state.tenants == 1 else f"-{tenant}"
        name = f"{released_folder(released.number)}/report{suffix}.html"
        space.files.put(name, draw(view).encode())


def _refuse_active_rows(
    actor: Actor, space: Workspace, state: MeterState, test_set: TestSet
) -> None:
    """Refuse to publish labels of a test set that still answers submissions."""
    with open_sealed(space, test_set) as sealed:
        rows = sealed_rows(space, sealed)
        for other in state.generations:
            if other.phase is not Phase.ACTIVE:
                continue
            with open_sealed(space, other) as active:
                others = Rows.of_sealed(active, rows.key)
                again = len(compare(rows, others).again)
                if again or likeness(rows, others) > LARGEST_SHARE:
                    raise WrongPhase(
                        f"rows of test set {test_set.number} stand in test set {other.number}, "
                        "which is active: release it when that one is spent"
                    )
        refuse_active(actor, space, test_set.number, rows)


def _next_to_release(state: MeterState, number: int | None) -> TestSet:
    """Return the oldest spent test set, or say why the one that is meant cannot be released."""
    spent = [each for each in state.generations if each.phase is Phase.SPENT]
    oldest = spent[0] if spent else None
    meant = oldest or state.generations[-1] if number is None else state.numbered(number)
    if oldest is None or meant.phase is not Phase.SPENT:
        raise WrongPhase(f"test set {meant.number} is {meant.phase}: only a spent one is released")
    if meant != oldest:
        raise WrongPhase(f"test set {oldest.number} is spent, too: release it first")
    if state.releasable is None:
        last = state.last_sharing(oldest)
        if not state.spec.meter.renewal.rolls:
            raise WrongPhase(
                f"test set {oldest.number} is a part of test set {last}: release it when test set "
                f"{last} is spent, too"
            )
        raise WrongPhase(
            f"window {oldest.number} shares batches with windows up to {last}: release it when "
            f"window {last} is spent; each batch is released when it leaves the window"
        )
    return oldest


def _draws(space: Workspace, spec: MeterSpec, test_set: TestSet) -> dict[str, str]:
    """Return the secret of the drawn edges, so that anybody can draw them again."""
    if spec.meter.question.draws is None:
        return {}
    with open_sealed(space, test_set) as sealed:
        return {DRAWS: sealed.draws.published()}


def _known(space: Workspace, spec: MeterSpec, test_set: TestSet) -> KnownLabels | None:
    """Return the labels that were asked for, where test sets are sealed without any."""
    if not spec.meter.sample.orders_labels:
        return None
    with space.reading() as books:
        orders = orders_of(books, test_set)
    return KnownLabels.read(space, orders)


def _export(
    space: Workspace, spec: MeterSpec, test_set: TestSet, known: KnownLabels | None
) -> None:
    folder = released_folder(test_set.number)
    with (
        open_sealed(space, test_set) as sealed,
        space.files.writing(f"{folder}/{TEST_SET}") as path,
    ):
        if known is not None:
            sealed.verify()
            # Verified as a whole first: of a damaged file not even the good rows are published.
            write_table(path, *_labelled(sealed, known))
        elif spec.meter.sample.estimated:
            sealed.verify()
            write_table(path, *apart(sealed.schema, sealed.batches(), sealed.manifest.label.name))
        else:
            sealed.export(path)


def _labelled(
    sealed: SealedTestSet, known: KnownLabels
) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """Return the rows with the labels that were asked for; the others have none."""
    shown = [field for field in sealed.schema if field.name != sealed.manifest.label.name]
    label = "label"
    while label in {field.name for field in shown}:
        label += "_"
    schema = pa.schema([*shown, pa.field(label, pa.string())])

    def rows() -> Iterator[pa.RecordBatch]:
        labels, at = known.column(sealed.rows), 0
        for batch in sealed.batches([field.name for field in shown]):
            own = labels.slice(at, batch.num_rows)
            yield pa.RecordBatch.from_arrays([*batch.columns, own], schema=schema)
            at += batch.num_rows

    return schema, rows()


def _records(
    spec: MeterSpec, entries: list[Entry], truths: list[Truth | None]
) -> list[dict[str, Any]]:
    """Return what really happened at each step."""
    return [
        {
            "tenant": entry.tenant,
            "step": entry.step,
            "model": entry.model,
            "answer": entry.answer,
            "question": spec.meter.question.text,
            "gap": (told := read_of(spec.meter, entry.answer, _shown(0, entry))).gap,
            "tolerance": told.tolerance,
            "truth": truth and asdict(truth),
        }
        for entry, truth in zip(entries, truths, strict=True)
    ]


def _shown(rows: int, entry: Entry) -> Shown:
    """Return what an answer was told with."""
    loss = Fraction(entry.validation_loss) if entry.validation_loss else None
    return Shown(rows, loss, None, Fraction(entry.first_edge) if entry.first_edge else None)


@needs(Permission.SEE_RELEASED)
def released_test_set(_: Actor, space: Workspace, number: int) -> str:
    """Return the name of the file with the rows and labels of a released test set.

    Raises:
        NotFound: there is no such test set, or it was not released yet.
    """
    return f"{released_folder(_released(space.read_state(), number).number)}/{TEST_SET}"


@needs(Permission.SEE_SIGNALS)
def retrospective(actor: Actor, space: Workspace, number: int) -> list[dict[str, Any]]:
    """Return what really happened at each step of the actor's tenant.

    Raises:
        NotFound: there is no such test set, or it was not released yet.
    """
    test_set = _released(space.read_state(), number)
    records = json.loads(space.files.read(f"{released_folder(test_set.number)}/{RETROSPECTIVE}"))
    return [record for record in records if record["tenant"] == actor.tenant]


@needs(Permission.SEE_SIGNALS)
def released_session(actor: Actor, space: Workspace, number: int) -> SessionView:
    """Return the session of the actor's tenant on a released test set, for a report.

    Raises:
        NotFound: there is no such test set, or it was not released yet.
    """
    with space.reading() as books:
        state = space.state(books)
        test_set = _released(state, number)
        tenant = state.tenant(actor.acting_for)
        truths = truths_of(space, test_set, tenant)
        return session_of(books, state, test_set, tenant, truths)


def _released(state: MeterState, number: int) -> TestSet:
    found = state.numbered(number)
    if found.phase is not Phase.RELEASED:
        raise NotFound(
            f"test set {number} is {found.phase}: its losses and examples are shown once it is "
            "released; before, they would tell of its labels"
        )
    return found


def released_folder(number: int) -> str:
    """Return where the files of a released test set lie."""
    return f"{RELEASED}/{number}"


def truths_of(space: Workspace, test_set: TestSet, tenant: int) -> tuple[Truth | None, ...]:
    """Return one tenant's retrospective; empty before release."""
    name = f"{released_folder(test_set.number)}/{RETROSPECTIVE}"
    if test_set.phase is not Phase.RELEASED or not space.files.exists(name):
        return ()
    records = json.loads(space.files.read(name))
    own = sorted((row for row in records if row["tenant"] == tenant), key=lambda r: r["step"])
    return tuple(Truth(**row["truth"]) if row["truth"] else None for row in own)


def _change(on: Measured, entry: Entry, old: Entry | None, known: KnownLabels) -> float | None:
    """Return n - o as the labels show it that were asked for; None where it cannot be known."""
    if old is None or not (entry.blob and old.blob):
        return None
    both = accepted_predictions(on, entry), accepted_predictions(on, old)
    # Older books have lost orders, and with them which rows have labels.
    if not known.cover(*both):
        return None
    against = known.compared(*both)
    if against is None or against.apart(predictions=True) > on.spec.meter.question.most_apart:
        return None
    return float(against.value(Variable.CHANGE))


def _truth(on: Measured, entry: Entry, old: Entry | None) -> Truth | None:
    """Measure again what was kept, beside the old model if it was compared with one."""
    if not entry.blob or not entry.validation_loss:
        return None
    if (score := _score_again(on, entry)) is None:
        return None
    validation_loss = Fraction(entry.validation_loss)
    if too_few(delivered(on.spec, on.generation), score):
        # With none at all, there is no score.
        test_loss = float(score.mean) if score.counted else 1.0
        return Truth(float(validation_loss), test_loss, None, too_few=True)
    set_on = delivered(on.spec, on.generation)
    shown = _shown(set_on.size, entry)
    if not entry.first_edge:  # an answer without a reading has edges that were not told
        shown = shown._replace(first_edge=on.first_edge(entry))
    against = None
    if old is not None and old.blob:
        both = accepted_predictions(on, entry), accepted_predictions(on, old)
        against = compared(on, *both)
    losses = float(validation_loss), float(score.mean)
    meter = set_on.meter
    if meter.compares and against is None:
        return Truth(*losses, band=None)
    change = None if against is None else float(against.value(Variable.CHANGE))
    rows = measured_of(shown, score.mean, against)
    at = ledger.start(meter, entry.tenant, set_on.stage)
    found = meter.asked.truth(
        rows._replace(unlabeled=meter.sample.orders_labels), ledger.level(meter, at)
    )
    return Truth(*losses, band=found.band, passed=found.passed, change=change)


def _score_again(on: Measured, entry: Entry) -> Score | None:
    """Measure what was kept of a submission; None if a model cannot be measured any more."""
    corpus, visible = on.spec.meter.sample.measured.score, None
    content, suffix = read_kept(on.space, entry.blob)
    if corpus is not None and corpus.curve:
        content, visible = split_curve(corpus, content)
    score = measure_again(Held(f"submission{suffix}", content), on)
    return score if score is None or visible is None else score.beside(visible)


_Found = TypeVar("_Found")


# One kept file that was lost or damaged, or a model that does not fit any more, costs the truth of
# its own step, not the release: all others, and every later test set, would wait for it for ever.
def _alone(found: Callable[..., _Found | None], *given: Any) -> _Found | None:
    try:
        return found(*given)
    except _UNREADABLE:
        return None
