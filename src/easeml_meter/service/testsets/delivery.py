"""Delivery of test sets: sealing, the checks, and whether the rows were used before."""

from __future__ import annotations

import shlex
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from easeml_meter.core.history import MeterState
from easeml_meter.core.lifecycle import Phase, advance
from easeml_meter.core.model import DRAWS, Event, LabelRequest, Part, TestSet
from easeml_meter.core.views import Notice
from easeml_meter.errors import InvalidInput, MeterError, WrongPhase, invalid
from easeml_meter.scoring.classes import classes_in_force
from easeml_meter.scoring.judged import hidden_loss
from easeml_meter.service.actor import Actor, Permission, needs
from easeml_meter.service.journal import reconcile
from easeml_meter.service.place import TEST_SETS, Clock, Workspace, utc_now
from easeml_meter.service.submissions.measuring import open_sealed
from easeml_meter.service.testsets import windows
from easeml_meter.service.testsets.checking import Asked, check_enough, this_try
from easeml_meter.service.testsets.requests import (
    as_request,
    refuse_changed,
    retire,
    strata_needed,
)
from easeml_meter.service.testsets.reuse import (
    UNDECIDED,
    Elsewhere,
    LabelerDecisions,
    claim,
    decide,
    delivery_notices,
    fresh_rows,
    keep_notices,
    overlaps,
    own_notice,
    refuse_claimed,
    sealed_rows,
)
from easeml_meter.storage.files import copy_into
from easeml_meter.tables.choosing import NO_LABEL, choose_columns, with_judge, without_labels
from easeml_meter.tables.opening import FORMATS, open_table
from easeml_meter.tables.source import Source, about, file_digest, named
from easeml_meter.tables.table import Table
from easeml_meter.vault.containers import is_container
from easeml_meter.vault.inspection import Delivered
from easeml_meter.vault.keys import fingerprint_key, read_recipient
from easeml_meter.vault.manifest import Manifest
from easeml_meter.vault.sealing import SealedTestSet, seal
from easeml_meter.vault.survey import Survey, refuse_repeated_ids

DELIVERED = "delivered"
"""What the books add to a manifest: the digest of the file that the rows, or the last, came in."""


@dataclass(frozen=True, kw_only=True)
class Choices:
    """What a labeler decides when rows are sealed."""

    label: str | None = None
    """The label column; None: the loss reads no labels, and ids are enough."""
    id_column: str | None = None
    columns: Sequence[str] | None = None
    """The inputs; None: every column that is neither label nor id, or none without a label."""
    drop: Sequence[str] = ()
    """Columns that are no inputs and stay at home."""
    keep_unknown_labels: bool = False
    part: bool = False
    """These are some of the rows; more will follow."""
    cluster: str | None = None
    """The column of clusters, where one example is a cluster of rows."""
    judge: str | None = None
    """The column of a judge's words, where one stands in for most labels."""


@needs(Permission.SEAL)
def seal_labels(
    _: Actor,
    space: Workspace,
    source: Source,
    destination: Path,
    choices: Choices,
    recipients: Sequence[str] = (),
) -> Manifest:
    """Seal labelled rows, from a file or from memory, for the test set that is requested.

    Raises:
        InvalidInput: the rows cannot be read, or have no such columns, or lack a label; an id
            repeats; there are too few rows; or labels are outside the class list.
        WrongPhase: no test set is requested.
    """
    before = _sealed_before(space, destination)
    with space.reading() as books:
        state = space.state(books)
        wanted = state.numbered(before.generation) if before else state.requested()
        asked = asked_of(space, state, as_request(space, books, wanted))
    if before is None:
        return seal_for(asked, source, destination, choices, recipients, clock=space.clock)
    with tempfile.TemporaryDirectory(prefix="easeml-meter-") as folder:
        again = Path(folder, destination.name)
        seal_for(asked, source, again, choices, recipients, clock=space.clock)
        with (
            open_sealed(space, wanted, destination) as old,
            open_sealed(space, wanted, again) as new,
        ):
            key = fingerprint_key(space.identity)
            facts = [replace(each.manifest, created="", sha256="") for each in (old, new)]
            if facts[0] == facts[1] and old.fingerprint(key) == new.fingerprint(key):
                return before
    raise InvalidInput(f"{destination} already exists, with other rows; choose another name")


def _sealed_before(space: Workspace, destination: Path) -> Manifest | None:
    """Return what a file says that was sealed here for this meter, so that it is not done twice."""
    state = space.read_state()
    numbers = tuple(each.number for each in reversed(state.generations))
    with suppress(MeterError, OSError):
        given = Delivered.of(
            destination, space.identity, meter=state.meter.id, generations=numbers
        ).inspect()
        with open_sealed(space, state.numbered(given.generation), destination) as sealed:
            return sealed.manifest
    return None


def seal_for(
    asked: Asked,
    source: Source,
    destination: Path,
    choices: Choices,
    recipients: Sequence[str] = (),
    *,
    clock: Clock = utc_now,
) -> Manifest:
    """Seal labelled rows on this machine for a test set that is requested, here or at a server.

    Whatever the meter would refuse about these rows alone is refused before anything is sealed.
    """

    def check(found: Survey) -> None:
        asked.check_rows(
            found.examples, part=choices.part, accepted=True
        )  # whoever adds it is asked
        with about(source):
            asked.check_strata(found.table, found.table.columns)
        if asked.on_demand:
            return
        with about(source):
            unknown = asked.unknown_labels(found.labels())
            if not choices.keep_unknown_labels:
                unknown.refuse(asked.classes)

    label, id_column = _named(choices, asked)
    check_clusters(choices.cluster, clusters=asked.clusters)
    if choices.part:
        asked.refuse_part()
    stratum = None if asked.strata is None else asked.strata.column
    # Ids are names, and so are labels unless the loss calculates with them: a CSV file of the
    # validation set is read as text, so this one must be, too.
    texts = [label, id_column, choices.judge] if asked.text_labels else [id_column]
    texts += [choices.cluster, stratum]
    texts = [name for name in texts if name != NO_LABEL]
    table = open_table(source, texts=[name for name in texts if name is not None])
    columns = choices.columns
    if choices.label is None:
        # Targets may stand beside the ids, and no loss needs them here: only what is named is
        # sealed.
        table, columns = without_labels(table), columns or ()
    roles = {"label column": label, "id column": id_column, "cluster column": choices.cluster}
    if stratum is not None and stratum in roles.values():
        raise invalid("stratum column", stratum, "it must be neither the label nor the id column")
    roles["stratum column"] = stratum
    for role, name in roles.items():
        if name is not None:
            table.require(name, role)
    needed = [name for name in roles.values() if name is not None]
    if asked.pool is not None or choices.judge is not None:
        table = _with_judge(table, label, choices, asked)
    test_set = asked.request.test_set
    return seal(
        choose_columns(table, columns, choices.drop, always=needed),
        destination,
        meter=test_set.meter,
        generation=test_set.number,
        label=label,
        id_column=id_column,
        cluster=choices.cluster,
        recipients=[read_recipient(each) for each in (*asked.request.recipients, *recipients)],
        check=check,
        clock=clock,
    )


def check_clusters(column: str | None, *, clusters: bool) -> None:
    """Refuse a column of clusters where rows are independent, and none where they are not."""
    if clusters and not column:
        needed = "this meter counts clusters: name the column that says which rows belong together"
        raise invalid("cluster", "no column", f"{needed} (--cluster)")
    if column and not clusters:
        needed = "this meter was planned for independent rows: make one with clusters = true"
        raise invalid("cluster", column, needed)


def _with_judge(table: Table, label: str, choices: Choices, asked: Asked) -> Table:
    if asked.pool is None:
        raise invalid("judge", choices.judge, "none: this meter was planned without judge_error")
    if choices.judge is None:
        raise invalid("judge", "no column", "name the column of the judge's words (--judge)")
    return with_judge(table, label, choices.judge)


def _named(choices: Choices, asked: Asked) -> tuple[str, str | None]:
    label, id_column = choices.label, choices.id_column
    if asked.on_demand:
        if label is not None:
            needed = "none: this meter asks for labels when it needs them, leave out --label"
            raise invalid("label", label, needed)
        if id_column is None:
            raise invalid("id", "no column", "labels are asked for by id: name its column (--id)")
        return NO_LABEL, id_column
    if asked.loss is None or asked.loss.reads_labels:
        if label is None:
            raise invalid("label", "no column", "name the label column (--label)")
        return label, id_column
    if label is not None:
        needed = f"none: the loss {asked.loss.name} reads no labels, leave out --label"
        raise invalid("label", label, needed)
    if id_column is None:
        raise invalid("id", "no column", "scores are joined by ids: name their column (--id)")
    return NO_LABEL, id_column


@needs(Permission.ADD_TEST_SET)
def add_test_set(
    actor: Actor,
    space: Workspace,
    path: Path,
    decisions: LabelerDecisions = UNDECIDED,
    *,
    parts: Sequence[Part] | None = None,
    delivered: str = "",
) -> TestSet:
    """Take in a whole sealed test set; from then on submissions are answered.

    `parts` are those that it was made of, and must still be all that there are. None: it is
    complete by itself, whatever parts have come. `delivered`: the digest of the last one.

    A refusal names rows by number. It tells something about hidden rows, so only those who may
    add test sets ever receive one. Answers given from the same rows before still count: their
    journal is found by the fingerprint.

    Raises:
        InvalidInput: too few rows for the plan, rows that may not be used, wrong columns, or
            something that the labeler has to decide.
        TooLarge: the file decodes to more than the server takes.
        VaultError: the file does not open, or was sealed for another test set.
        MeterError: another part was added or withdrawn meanwhile, or a validation set handed in.
        WrongPhase: no test set is requested.
    """
    state = space.read_state()
    if (done := _delivered(state, path)) is not None:
        return done
    with open_delivered(space, state, path) as sealed:
        delivered = delivered or sealed.manifest.sha256
        return take_in(
            actor, space, state, sealed, path, decisions=decisions, parts=parts, delivered=delivered
        )


def _delivered(state: MeterState, path: Path) -> TestSet | None:
    """Return the test set in use if it is this file: it is not taken in twice."""
    latest = state.generations[-1]
    known = (latest.manifest or {}).get(DELIVERED) if latest.active else None
    with suppress(OSError):
        return latest if known is not None and known == file_digest(path) else None
    return None


def take_in(
    actor: Actor,
    space: Workspace,
    state: MeterState,
    sealed: SealedTestSet,
    path: Path,
    *,
    decisions: LabelerDecisions,
    parts: Sequence[Part] | None = None,
    delivered: str,
) -> TestSet:
    """Take in a file that was opened with `open_delivered`, as `add_test_set` says."""
    wanted = state.requested()
    check_clusters(sealed.manifest.cluster_column, clusters=state.spec.meter.sample.grouped)
    sealed = sealed.counted()
    # Parts have no say here: a whole test set is complete by itself.
    request = LabelRequest(wanted, (), (), strata_needed(state.spec, wanted))
    asked = asked_of(space, state, request)
    asked.check_rows(sealed.manifest.examples, accepted=decisions.accept_fewer)
    asked.check_strata(sealed, {column.name for column in sealed.manifest.columns})
    check_alone(space, state, sealed)
    if windows.before(state) is None:
        fingerprint = fresh_rows(space, state, sealed, path)
        elsewhere, notices = check_reuse(actor, space, state, sealed, decisions)
        windows.fresh_batch(space, state, sealed, path)
        # The last check: if it fails, that is entered as a try, and tries are few.
        shared = decisions.accept_shared
        check_enough(space, state, sealed, fingerprint, parts or (), accept_shared=shared)
        return _begin(
            elsewhere,
            state,
            sealed,
            path,
            fingerprint=fingerprint,
            notices=notices,
            parts=parts,
            delivered=delivered,
        )
    elsewhere, notices = check_reuse(actor, space, state, sealed, decisions)
    # Those that join, by themselves: beside others they have another fingerprint.
    fresh_rows(space, state, sealed, path)
    windows.fresh_batch(space, state, sealed, path)
    with windows.joined(space, state, sealed) as (window, whole):
        fingerprint = fresh_rows(space, state, window, path)
        return _begin(
            elsewhere,
            state,
            window,
            whole,
            fingerprint=fingerprint,
            notices=notices,
            parts=parts,
            delivered=delivered,
        )


def _begin(
    elsewhere: Elsewhere,
    state: MeterState,
    sealed: SealedTestSet,
    path: Path,
    *,
    fingerprint: str,
    notices: Sequence[Notice],
    parts: Sequence[Part] | None,
    delivered: str,
) -> TestSet:
    """Enter a test set whose rows were checked; the oldest batch of the window before is free."""
    space = elsewhere.space
    wanted, manifest, earlier = state.requested(), sealed.manifest, windows.before(state)
    committed = None if state.spec.meter.question.draws is None else sealed.draws.commitment
    with space.reading() as books:
        refuse_claimed(space, books, wanted.meter, fingerprint)
    # Files and notes come before the transaction, so that what the books name is always there. A
    # delivery that is refused under the lock leaves some that the books do not name.
    rolling = state.spec.meter.renewal.rolls
    if earlier is not None:
        windows.note_joined(space, state, earlier, fingerprint)
    # Named by its digest, it replaces no other one.
    blob = copy_into(space.files, f"{TEST_SETS}/{wanted.number}-{manifest.sha256}.sealed", path)
    kept = keep_notices(space, delivery_notices(wanted.number, manifest.sha256), notices)
    freed = windows.free_oldest(space, state, earlier) if earlier is not None and rolling else None
    with elsewhere.writing() as books:
        number, current = wanted.number, space.state(books)
        wanted = current.requested()
        if wanted.number != number:  # somebody was faster, and that set is spent already
            raise WrongPhase(f"test set {number} was delivered meanwhile: seal these rows again")
        refuse_changed(elsewhere.actor, books, wanted, parts)
        # Whoever hands one in does not see a test set that has not begun.
        if current.validation != state.validation:
            raise MeterError("a validation set was handed in meanwhile: deliver the rows again")
        tried = this_try(space, books, state.spec, wanted)
        # Under the lock of all deliveries: of two meters that are given the same rows at once, the
        # note names the one that gets them. After all that may refuse them: the note stays.
        claim(space, books, wanted.meter, fingerprint)
        now = space.now()
        added = replace(
            wanted,
            phase=advance(wanted.phase, Phase.ACTIVE),
            rows=manifest.examples,
            fingerprint=fingerprint,
            manifest=manifest.to_dict() | {DELIVERED: delivered},
            blob=blob,
            changed_at=now,
        )
        books.testsets.update(added)
        # The digest binds what the labelers were told and decided; its content stays theirs.
        details = {"generation": added.number, "rows": manifest.examples, "digest": kept}
        if committed is not None:
            details[DRAWS] = committed
        if state.spec.meter.sample.tries > 1:
            details |= {"try": tried, "tries": state.spec.meter.sample.tries}
        books.audit.append(added.meter, now, Event.TEST_SET_ADDED, details)
        if earlier is not None and not rolling:
            joined = {"generation": earlier.number, "rows": manifest.batch_rows[-1]}
            books.audit.append(added.meter, now, Event.TOPPED_UP, joined)
        if freed is not None:
            left = {"generation": freed.number, "rows": freed.rows}
            books.audit.append(added.meter, now, Event.BATCH_RELEASED, left)
        # The same rows may have answered before, for a meter whose database was lost.
        histories, unjournaled = reconcile(space, books, state, added)
        if histories.all_spent:
            retire(space, books, space.state(books), added)
    space.journal(added).append(unjournaled, histories.journaled)
    return added


def open_delivered(space: Workspace, state: MeterState, path: Path) -> SealedTestSet:
    """Open a file that should be the test set that is requested, once all of it was verified.

    Raises:
        InvalidInput: it is a plain table, or was sealed for an earlier test set of this meter.
        TooLarge: it decodes to more than the server takes.
        VaultError: it does not open.
    """
    refuse_plain(path)
    wanted = state.requested()
    numbers = wanted.number, *(each.number for each in state.generations[:-1])
    given = Delivered.of(path, space.identity, meter=wanted.meter, generations=numbers)
    # A labeler's file can decode to gigabytes, too: at a server, a child finds out.
    found = given.inspect() if space.limits is None else given.inspect_apart(space.limits)
    if found.generation != wanted.number:
        # Whoever sealed the file chose its number: telling it back reveals nothing.
        needed = f"test set {wanted.number} is needed: seal it again"
        raise invalid("sealed for", f"test set {found.generation}", needed)
    sealed = open_sealed(space, wanted, path)
    # Only a meter joins batches: what a labeler's file says of any is not heard.
    manifest = replace(sealed.manifest, sha256=found.sha256, batch_rows=())
    return replace(sealed, manifest=manifest)


def refuse_plain(path: Path) -> None:
    """Refuse a table that was not sealed, by its name and its first bytes."""
    with suppress(OSError):
        if path.suffix.lower() in FORMATS and not is_container(path):
            raise InvalidInput(
                f"{named(path)}: not sealed yet: seal it first: meter seal {shlex.quote(str(path))}"
                " --label COLUMN --out FILE.sealed"
            )


def asked_of(space: Workspace, state: MeterState, request: LabelRequest) -> Asked:
    """Return what a request asks for."""
    classes = classes_in_force(state.spec, state.validation)
    spec = state.spec
    loss = hidden_loss(space.loss(spec), spec)
    return Asked.of(request, spec, classes, loss)


def check_alone(space: Workspace, state: MeterState, sealed: SealedTestSet) -> None:
    """Refuse columns, labels or ids that a test set may not have, whatever came before."""
    _check_schema(state, sealed.manifest)
    asked = asked_of(space, state, LabelRequest(state.requested(), (), ()))
    if asked.on_demand:
        _check_unlabelled(sealed.manifest)
        return
    asked.unknown_labels(map(sealed.labels, range(sealed.row_groups)))


def _check_unlabelled(manifest: Manifest) -> None:
    """Refuse labels that nobody has asked for yet, and rows that cannot be asked for."""
    if manifest.label.name != NO_LABEL or manifest.id_column is None:
        needed = "ids without labels, which this meter asks for later: seal the rows again"
        raise invalid("label", manifest.label.name, needed)


def check_reuse(
    actor: Actor,
    space: Workspace,
    state: MeterState,
    sealed: SealedTestSet,
    decisions: LabelerDecisions,
) -> tuple[Elsewhere, list[Notice]]:
    """Refuse ids that repeat and rows that were used before; return what labelers are told.

    What other meters get meanwhile is compared when the rows are entered: so that comes along.
    """
    rows = sealed_rows(space, sealed)
    if rows.ids is not None:
        refuse_repeated_ids("", rows.ids, rows.named)
    with space.reading() as books:
        validations = books.validation.all(state.meter.id)
    # At a server, who was given an earlier one has seen its rows. A folder's owner has seen all.
    validations = validations[-1:] if space.embedded else validations
    found = overlaps(space, state, validations, sealed, rows)
    decide(found, sealed.rows, decisions)
    number, now = sealed.manifest.generation, space.now()
    elsewhere = Elsewhere(actor, space, number, rows)
    elsewhere.refuse()
    notices = [own_notice(rows, number, now), *(each.notice(number, now) for each in found)]
    return elsewhere, notices


def _check_schema(state: MeterState, manifest: Manifest) -> None:
    """Refuse other columns than the last test set had."""
    before = [row.manifest for row in state.generations if row.manifest]
    if not before:
        return
    known = {column["name"]: column["type"] for column in before[-1]["columns"]}
    given = {column.name: column.type for column in manifest.columns}
    for name in (manifest.label.name, manifest.id_column, manifest.cluster_column):
        # Names may be whole numbers in one CSV file, and text in another because of a 007.
        if name is not None and name in known:
            known[name] = given[name]
    for name in [*known, *given]:
        if known.get(name) != given.get(name):
            shown = f"{name}: {given.get(name, 'missing')}"
            raise invalid("column", shown, f"{known.get(name, 'no such column')} as before")
