"""Validation sets: handed in by developers; only labelers learn of rows shared with test sets."""

from __future__ import annotations

import pyarrow as pa

from easeml_meter.core.history import MeterState
from easeml_meter.core.lifecycle import Phase
from easeml_meter.core.model import Event, TestSet, ValidationSet
from easeml_meter.core.views import Notice
from easeml_meter.errors import InvalidInput, MeterError, NotFound, WrongPhase, invalid
from easeml_meter.scoring.classes import WrongType, classes_in_force
from easeml_meter.scoring.corpora import counted_in
from easeml_meter.scoring.ids import CommittedIds
from easeml_meter.scoring.judged import hidden_loss
from easeml_meter.scoring.outputs import read_labels
from easeml_meter.scoring.validation import Validation, strata_of
from easeml_meter.service.actor import Actor, Permission, needs
from easeml_meter.service.place import Workspace
from easeml_meter.service.submissions.measuring import open_sealed
from easeml_meter.service.testsets.delivery import check_clusters
from easeml_meter.service.testsets.reuse import (
    Overlap,
    keep_notices,
    kept_notices,
    sealed_rows,
    with_validation,
)
from easeml_meter.tables.opening import check_whole, unpacked
from easeml_meter.tables.source import Source, about
from easeml_meter.vault.overlap import Shared


@needs(Permission.SET_VALIDATION)
def give_validation(
    actor: Actor,
    space: Workspace,
    source: Source,
    *,
    label: str | None = None,
    id_column: str | None = None,
    cluster: str | None = None,
    first: bool | None = None,
) -> ValidationSet:
    """Hand in a validation set, for all submissions from now on.

    The same file and columns as the newest one are that one. `first`: whether there must be none
    yet, or one to replace; None: either. Label, id and cluster
    column are those of the one before, unless named; "" stands for no ids. With an id column,
    predictions are joined to its rows by that. No label is named where the loss is made of scores,
    which are joined by ids.

    Whether it shares rows with the sealed test set is told to the labelers only, at a server: a
    refusal would let a developer probe for test inputs. In a folder, who asks owns both.

    Raises:
        InvalidInput: the table cannot be read, its labels do not fit the loss, ids are missing
            or repeated, or in a folder, rows stand in the test set, too.
        MeterError: another one was handed in meanwhile, or a test set was delivered.
        WrongPhase: there is a validation set already, or none yet.
        TooLarge: there is no room for it.
    """
    source = unpacked(source)
    with space.reading() as books:
        state = space.state(books)
    before = state.validation
    if first is False and before is None:
        raise WrongPhase("there is no validation set yet: give one with meter validation set")
    label, id_column = _named(state, label, id_column)
    cluster = _cluster(state, cluster, (label, id_column))
    table = Validation.open(
        source,
        label=label,
        loss=space.loss(state.spec),
        classes=classes_in_force(state.spec, before),
        id_column=id_column or None,
        cluster=cluster,
        strata=strata_of(state.spec),
    )
    check_whole(source)
    with about(source):
        _check_counted(state, table)
        _check_fits(space, state, table)
    digest = None
    if id_column:
        with about(source):
            digest = CommittedIds.of("the validation set", id_column, table.ids).digest
    number = before.number + 1 if before else 1
    found = ValidationSet(
        meter=state.meter.id,
        number=number,
        digest=table.digest,
        rows=table.rows,
        settings={
            "label": label,
            "id_column": id_column or None,
            "order_digest": digest,
            "classes": list(table.classes.values) if table.classes else None,
            "generation": state.current.number,
            **({"cluster": cluster} if cluster else {}),
        },
        blob=f"validation/{number}-{table.digest}{source.suffix}",
        added_at=space.now(),
    )
    if before is not None and _same(before, found):
        return before
    if first is True and before is not None:
        raise WrongPhase("there is a validation set already: use meter validation replace")
    shared = _shared(space, state.current, found, source)
    rows = len(shared.rows)
    if rows and space.embedded:
        raise InvalidInput(
            f"{rows:,} of {state.current.table_rows:,} rows of the test set stand among the "
            f"{found.rows:,} of this validation set: leave them out, one measures the other"
        )
    with space.reading() as books:
        space.check_links(books, actor.user, Event.VALIDATION_SET, Event.VALIDATION_REPLACED)
    content = source.read_bytes()
    # The file may have been changed since it was read: what is kept must be what was checked.
    table.table.check_unchanged()
    space.check_room(len(content))
    space.files.put(found.blob, content)
    # Before the set is entered: no set without its notice, and one too many does no harm.
    notice = Overlap(number, None, shared).notice(state.current.number, found.added_at)
    keep_notices(space, f"notice-{number}-{found.digest}", [notice])
    with space.writing() as books:
        # Its number, which its file is named by, was chosen before the lock.
        now = space.state(books)
        if now.validation != before:
            if now.validation is not None and _same(now.validation, found):
                return now.validation
            raise MeterError("another validation set was handed in meanwhile: try again")
        # It was checked against the test set that was in use then.
        if now.current.fingerprint != state.current.fingerprint:
            raise MeterError("a test set was delivered meanwhile: try again")
        books.validation.add(found)
        event = Event.VALIDATION_REPLACED if before else Event.VALIDATION_SET
        shown = {"number": number, "rows": found.rows, "digest": found.digest}
        details = {**shown, **actor.by_user}
        books.audit.append(found.meter, found.added_at, event, details)
    return found


def _same(before: ValidationSet, given: ValidationSet) -> bool:
    """Whether the newest set is given once more: the same file with the same columns."""
    settings = {**before.settings, "generation": given.settings["generation"]}
    return (before.digest, before.suffix, settings) == (given.digest, given.suffix, given.settings)


def _cluster(state: MeterState, cluster: str | None, others: tuple[str | None, ...]) -> str | None:
    """Return the column of clusters, if rows are in some; refuse one that is used already."""
    cluster = cluster or (state.validation.cluster if state.validation else None)
    check_clusters(cluster, clusters=state.spec.meter.sample.grouped)
    needed = "it must be neither the label nor the id column"
    if cluster is not None and cluster in others:
        raise invalid("cluster column", cluster, needed)
    parts = state.spec.meter.sample.parts
    if parts is not None and parts.column in others:
        raise invalid("stratum column", parts.column, needed)
    return cluster


def _check_counted(state: MeterState, table: Validation) -> None:
    """Refuse a set that has nothing of what the loss is counted of."""
    if counted_in(table.loss, table.classes, table.labels(), secret=False) == 0:
        sample = state.spec.meter.sample
        what = "rows" if sample.measured.score is None else sample.unit
        raise InvalidInput(f"no {what}: the loss {sample.loss} is counted of them")


def _check_fits(space: Workspace, state: MeterState, table: Validation) -> None:
    """Refuse classes of another form than the labels that were sealed before there were any.

    By their type alone, which is not told: some programs choose it by the values, as int8 is for
    small numbers. Nothing could be measured otherwise, and that would be noticed only once hidden
    rows were read.
    """
    spec, test_set = state.spec, state.current
    if (
        test_set.phase is not Phase.ACTIVE
        or table.classes is None
        or not spec.meter.sample.seals_labels
    ):
        return
    with open_sealed(space, test_set) as sealed:
        kind = sealed.schema.field(sealed.manifest.label.name).type
    try:
        read_labels(pa.array([], kind), hidden_loss(table.loss, spec), table.classes)
    except WrongType:
        given = f"{'whole numbers' if table.classes.numeric else 'text'} given ({table.classes})"
        needed = "the labels of the test set have another form: give both alike"
        raise InvalidInput(f"classes: {given}, {needed}") from None


def _named(state: MeterState, label: str | None, id_column: str | None) -> tuple[str, str | None]:
    """Return the columns of labels and ids; those of the set before, unless named."""
    before = state.validation
    if id_column is None and before is not None:
        id_column = before.id_column
    sample = state.spec.meter.sample
    if sample.takes_scores:
        if not id_column:
            raise invalid("id", "no column", "scores are joined by ids: name their column (--id)")
        if label not in (None, id_column):
            needed = f"none: the loss {sample.loss} reads no labels, leave out --label"
            raise invalid("label", label, needed)
        return id_column, id_column  # no label is read; some column has to stand in its place
    label = label or (before.label if before else None)
    if label is None:
        raise invalid("label", "no column", "name the label column of the validation set (--label)")
    if id_column == label:
        raise invalid("id column", id_column, "it must not be the label column")
    return label, id_column


@needs(Permission.SEE_VALIDATION)
def list_validation_sets(_: Actor, space: Workspace) -> list[ValidationSet]:
    """Return all validation sets, the oldest first."""
    with space.reading() as books:
        return books.validation.all(space.state(books).meter.id)


@needs(Permission.SEE_VALIDATION)
def validation_file(actor: Actor, space: Workspace, number: int) -> str:
    """Return the name of the file of a validation set, which is kept as it was given.

    Raises:
        NotFound: there is none of that number.
    """
    for each in list_validation_sets(actor, space):
        if each.number == number:
            return each.blob
    raise NotFound(f"validation set {number}: there is none of that number")


def _shared(space: Workspace, test_set: TestSet, given: ValidationSet, source: Source) -> Shared:
    """Compare a set with the test set in use.

    There is a notice for every validation set, always of the same size: whoever sees the files, in
    a folder or in a backup, must not learn from them whether rows are shared.
    """
    if test_set.phase is not Phase.ACTIVE:
        return Shared(compared=False)
    with open_sealed(space, test_set) as sealed:
        return with_validation(space, sealed, sealed_rows(space, sealed), given, source)


@needs(Permission.SEE_NOTICES)
def list_notices(_: Actor, space: Workspace) -> list[Notice]:
    """Return the notices to the labelers, the oldest first.

    Raises:
        VaultError: one of them does not open.
    """
    return kept_notices(space)
