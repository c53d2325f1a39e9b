"""Delivery of test sets: sealing, the checks, and whether the rows were used before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from easeml_meter.core.history import MeterState
from easeml_meter.core.ledger import Ledger
from easeml_meter.core.lifecycle import Phase, advance
from easeml_meter.core.model import Event, TestSet
from easeml_meter.errors import InvalidInput, WrongPhase, invalid
from easeml_meter.scoring.classes import classes_in_force
from easeml_meter.scoring.losses import Output, names_as_labels
from easeml_meter.scoring.outputs import read_labels
from easeml_meter.service.actor import Actor, Permission, needs
from easeml_meter.service.journal import reconcile
from easeml_meter.service.place import TEST_SETS, Clock, Workspace, utc_now
from easeml_meter.service.submissions.measuring import open_sealed
from easeml_meter.service.testsets.release import TEST_SET, released_folder
from easeml_meter.service.testsets.requests import retire
from easeml_meter.storage.files import copy_into
from easeml_meter.tables.opening import open_table
from easeml_meter.tables.source import Source
from easeml_meter.vault.digests import Digests, collect, duplicate_rows, row_digests, shared_rows
from easeml_meter.vault.keys import fingerprint_key, read_recipient
from easeml_meter.vault.manifest import Manifest
from easeml_meter.vault.sealing import SealedTestSet, seal

NAMED_ROWS = 10
"""Rows that a refusal or a notice names; the rest is counted."""


@needs(Permission.SEAL)
def seal_labels(
    _: Actor,
    space: Workspace,
    source: Source,
    destination: Path,
    *,
    label: str,
    id_column: str | None = None,
    recipients: Sequence[str] = (),
) -> Manifest:
    """Seal labelled rows, from a file or from memory, for the test set that is requested.

    Raises:
        InvalidInput: the rows cannot be read, or have no such columns, or lack a label.
        WrongPhase: no test set is requested.
    """
    with space.reading() as books:
        state = space.state(books)
    return seal_for(
        state.requested(),
        state.spec.loss,
        source,
        destination,
        label=label,
        id_column=id_column,
        recipients=[space.identity.recipient, *recipients],
        clock=space.clock,
    )


def seal_for(
    wanted: TestSet,
    loss: str,
    source: Source,
    destination: Path,
    *,
    label: str,
    id_column: str | None,
    recipients: Sequence[str],
    clock: Clock = utc_now,
) -> Manifest:
    """Seal labelled rows on this machine for a test set that is requested, here or at a server."""
    # Ids are names, and so are labels unless the loss calculates with them: a CSV file of the
    # validation set is read as text, so this one must be, too.
    texts = [label, id_column] if names_as_labels(loss) else [id_column]
    return seal(
        open_table(source, texts=[name for name in texts if name is not None]),
        destination,
        meter=wanted.meter,
        generation=wanted.number,
        label=label,
        id_column=id_column,
        recipients=[read_recipient(each) for each in recipients],
        clock=clock,
    )


@needs(Permission.ADD_TEST_SET)
def add_test_set(_: Actor, space: Workspace, path: Path) -> TestSet:
    """Take in a whole sealed test set; from then on submissions are answered.

    A refusal names rows by number. It tells something about hidden rows, so only those who may
    add test sets ever receive one. Answers given from the same rows before still count: their
    journal is found by the fingerprint.

    Raises:
        InvalidInput: too few rows for the plan, rows that may not be used, or wrong columns.
        VaultError: the file does not open, or was sealed for another test set.
        WrongPhase: no test set is requested.
    """
    with space.reading() as books:
        state = space.state(books)
        wanted = state.requested()
    with open_sealed(space, wanted, path) as sealed:
        manifest = sealed.verify()
        _check_size(state, sealed.rows)
        check_given(space, state, sealed)
        fingerprint = sealed.fingerprint(fingerprint_key(space.identity))
    for other in state.generations:
        if other.fingerprint == fingerprint:
            raise invalid("test set", path.name, f"the same rows were test set {other.number}")
    claim(space, wanted.meter, fingerprint)
    # Named by its digest, it replaces no other one.
    blob = copy_into(space.files, f"{TEST_SETS}/{wanted.number}-{manifest.sha256}.sealed", path)
    with space.writing() as books:
        wanted = space.state(books).requested()  # somebody may have been faster
        now = space.now()
        added = replace(
            wanted,
            phase=advance(wanted.phase, Phase.ACTIVE),
            rows=manifest.rows,
            fingerprint=fingerprint,
            manifest=manifest.to_dict(),
            blob=blob,
            changed_at=now,
        )
        books.testsets.update(added)
        details = {"generation": added.number, "rows": manifest.rows}
        books.audit.append(added.meter, now, Event.TEST_SET_ADDED, details)
        # The same rows may have answered before, for a meter whose database was lost.
        histories, unjournaled = reconcile(space, books, state, added)
        if histories.all_spent:
            retire(space, books, space.state(books), added)
    space.journal(added).append(unjournaled, histories.answers)
    return added


def _check_size(state: MeterState, rows: int) -> None:
    """Refuse too few labels for the plan: the ledger does not open with fewer."""
    Ledger(state.spec, rows)


def check_given(space: Workspace, state: MeterState, sealed: SealedTestSet) -> Digests:
    """Refuse columns, labels or rows that a test set may not have; return the rows' digests."""
    key = fingerprint_key(space.identity)
    _check_schema(state, sealed.manifest)
    _check_labels(space, state, sealed)
    digests = collect(sealed.row_digests(key))
    _check_rows(space, state, digests, input_schema(sealed), key)
    return digests


def _check_schema(state: MeterState, manifest: Manifest) -> None:
    """Refuse other columns than the last test set had."""
    before = [row.manifest for row in state.generations if row.manifest]
    if not before:
        return
    known = {column["name"]: column["type"] for column in before[-1]["columns"]}
    given = {column.name: column.type for column in manifest.columns}
    for name in (manifest.label.name, manifest.id_column):
        if name in known and name is not None:
            known[name] = given[
                name
            ]  # whole numbers and text are one: 7 in one file, 007 in another
    for name in [*known, *given]:
        if known.get(name) != given.get(name):
            shown = f"{name}: {given.get(name, 'missing')}"
            raise invalid("column", shown, f"{known.get(name, 'no such column')} as before")


def _check_labels(space: Workspace, state: MeterState, sealed: SealedTestSet) -> None:
    """Refuse labels that the loss cannot take, by row number."""
    loss = space.loss(state.spec)
    classes = classes_in_force(state.spec, state.validation)
    if classes is None and loss.output in (Output.CLASS, Output.RANKED, Output.PROBABILITIES):
        raise WrongPhase(
            "the classes are not known yet: list them in meter.toml (classes = [...]) before "
            "meter init, or give the validation set first (meter validation set)"
        )
    row = 1
    for group in range(sealed.row_groups):
        labels = sealed.labels(group)
        read_labels(labels, loss, classes, first_row=row, known_only=classes is not None)
        row += len(labels)


def _check_rows(
    space: Workspace, state: MeterState, digests: Digests, inputs: pa.Schema, key: bytes
) -> None:
    """Refuse rows that stand twice, or that developers have seen."""
    refuse_rows(duplicate_rows(digests), "stand in it more than once", "give each row once")
    if state.validation is not None:
        with space.files.local(state.validation.blob) as path:
            others = plain_digests(path, inputs, key)
        refuse_rows(shared_rows(digests, others), "stand in the validation set", "leave them out")
    for row in state.generations:
        if row.phase is Phase.RELEASED:
            with space.files.local(f"{released_folder(row.number)}/{TEST_SET}") as path:
                others = plain_digests(path, inputs, key)
            problem = f"stand in test set {row.number}, which was released"
            refuse_rows(shared_rows(digests, others), problem, "leave them out")


def input_schema(sealed: SealedTestSet) -> pa.Schema:
    """Return the columns of a sealed test set that are inputs."""
    return pa.schema([sealed.schema.field(name) for name in sealed.inputs])


def plain_digests(path: Path, inputs: pa.Schema, key: bytes) -> Digests:
    """Digest the input columns of a table that developers may see; without them, no row is shared.

    Text files are read with the types of the sealed columns, so that equal rows are equal.
    """
    table = open_table(path, types={field.name: field.type for field in inputs})
    if not inputs.names or not set(inputs.names) <= set(table.schema.names):
        return np.empty((0, 2), dtype=np.uint64)
    return collect(row_digests(table.batches(inputs.names), inputs.names, key))


def refuse_rows(rows: np.ndarray, problem: str, remedy: str) -> None:
    """Refuse a test set, or a part of one, that has such rows, by their numbers."""
    if len(rows):
        named = ", ".join(str(row) for row in rows[:NAMED_ROWS])
        more = f" and {len(rows) - NAMED_ROWS:,} more" if len(rows) > NAMED_ROWS else ""
        raise InvalidInput(f"rows {named}{more} of the test set {problem}: {remedy}")


def claim(space: Workspace, meter: str, fingerprint: str) -> None:
    """Note that a test set counts at a meter, or refuse because it counts at another one.

    Two meters with the same hidden rows would answer twice from one budget. The books know the
    owner too, but an older copy of them may be put back: the note lies with the files and stays.
    """
    if space.claims is None:
        return
    with space.reading() as books:
        owners = books.testsets.owners(fingerprint)
    noted = space.claims.exists(fingerprint)
    if noted:
        owners.add(space.claims.read(fingerprint).decode())
    if owners - {meter}:
        raise InvalidInput(
            "the same rows are or were the test set of another meter on this server, and their "
            "answers count there: give rows that were no test set before"
        )
    if not noted:
        space.claims.put(fingerprint, meter.encode())
