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
from easeml_meter.core.model import TestSet
from easeml_meter.errors import InvalidInput, WrongPhase, invalid
from easeml_meter.scoring.classes import Classes
from easeml_meter.scoring.losses import Output, parse_loss
from easeml_meter.scoring.outputs import read_labels
from easeml_meter.service.history import reconcile
from easeml_meter.service.place import TEST_SETS, Workspace
from easeml_meter.service.testsets.requests import requested, retire_if_spent
from easeml_meter.storage.files import copy_into
from easeml_meter.storage.schema import generations
from easeml_meter.tables.opening import open_table
from easeml_meter.vault.digests import Digests, collect, duplicate_rows, row_digests, shared_rows
from easeml_meter.vault.keys import fingerprint_key, read_recipient
from easeml_meter.vault.manifest import Manifest
from easeml_meter.vault.sealing import SealedTestSet, seal

_NAMED_ROWS = 10


def seal_for(
    space: Workspace,
    source: Path,
    destination: Path,
    *,
    label: str,
    id_column: str | None = None,
    recipients: Sequence[str] = (),
) -> Manifest:
    """Seal a file of labelled rows for the test set that the meter asks for."""
    with space.reading() as books:
        situation = space.state(books)
    wanted = requested(situation)
    return seal(
        source,
        destination,
        meter=wanted.meter,
        generation=wanted.number,
        label=label,
        id_column=id_column,
        recipients=[space.identity.recipient, *map(read_recipient, recipients)],
        clock=space.clock,
    )


def add_test_set(space: Workspace, path: Path) -> TestSet:
    """Take in a sealed test set; every refusal names rows by number, and goes to the labeler.

    What was told from the same rows before stays told: it is found by their fingerprint.
    """
    with space.reading() as books:
        situation = space.state(books)
        wanted = requested(situation)
    key = fingerprint_key(space.identity)
    with SealedTestSet.open(
        path, space.identity, meter=wanted.meter, generation=wanted.number
    ) as sealed:
        manifest = sealed.verify()
        Ledger(situation.spec, sealed.rows)
        check_given(space, situation, sealed)
        fingerprint = sealed.fingerprint(key)
    for other in situation.generations:
        if other.fingerprint == fingerprint:
            raise invalid("test set", path.name, f"the same rows were test set {other.number}")
    claim(space, wanted.meter, fingerprint)
    # Named by its digest, it replaces no other one.
    blob = copy_into(space.files, f"{TEST_SETS}/{wanted.number}-{manifest.sha256}.sealed", path)
    with space.writing() as books:
        situation = space.state(books)
        wanted = requested(situation)
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
        books.audit.append(added.meter, now, "test set added", details)
        entries, unjournaled = reconcile(space, books, added)
        retire_if_spent(space, books, added, entries)
    space.journal(added).append(unjournaled)
    return added


def check_given(space: Workspace, situation: MeterState, sealed: SealedTestSet) -> Digests:
    """Refuse columns, labels or rows that a test set may not have; give the rows' digests."""
    key = fingerprint_key(space.identity)
    _check_schema(situation, sealed.manifest)
    _check_labels(situation, sealed)
    digests = collect(sealed.row_digests(key))
    _check_rows(space, situation, digests, input_schema(sealed), key)
    return digests


def _check_schema(situation: MeterState, manifest: Manifest) -> None:
    """Refuse other columns than the last test set had."""
    before = [row.manifest for row in situation.generations if row.manifest]
    if not before:
        return
    known = {column["name"]: column["type"] for column in before[-1]["columns"]}
    given = {column.name: column.type for column in manifest.columns}
    for name in [*known, *given]:
        if known.get(name) != given.get(name):
            shown = f"{name}: {given.get(name, 'missing')}"
            raise invalid("column", shown, f"{known.get(name, 'no such column')} as before")


def _check_labels(situation: MeterState, sealed: SealedTestSet) -> None:
    """Refuse labels that the loss cannot take, by row number."""
    loss = parse_loss(situation.spec.loss)
    classes = classes_in_force(situation)
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


def classes_in_force(situation: MeterState) -> Classes | None:
    """Give the class list: declared, or the validation set's; never taken from test labels."""
    if situation.spec.classes:
        return Classes.of(situation.spec.classes)
    listed = situation.validation.settings["classes"] if situation.validation else None
    return Classes.of(listed) if listed else None


def _check_rows(
    space: Workspace, situation: MeterState, digests: Digests, inputs: pa.Schema, key: bytes
) -> None:
    """Refuse rows that stand twice, or that developers have seen."""
    refuse_rows(duplicate_rows(digests), "stand in it more than once", "give each row once")
    if situation.validation is not None:
        with space.files.local(situation.validation.blob) as path:
            others = plain_digests(path, inputs, key)
        refuse_rows(shared_rows(digests, others), "stand in the validation set", "leave them out")
    for row in situation.generations:
        if row.phase is Phase.RELEASED:
            with space.files.local(f"released/{row.number}/testset.parquet") as path:
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
        named = ", ".join(str(row) for row in rows[:_NAMED_ROWS])
        more = f" and {len(rows) - _NAMED_ROWS:,} more" if len(rows) > _NAMED_ROWS else ""
        raise InvalidInput(f"rows {named}{more} of the test set {problem}: {remedy}")


def claim(space: Workspace, meter: str, fingerprint: str) -> None:
    """Note that a test set counts at a meter, or refuse because it counts at another one.

    The books know it, too; the note lies with the files, and stays if the books are lost.
    """
    if space.claims is None:
        return
    with space.reading() as books:
        owners = {
            row["meter"]
            for row in books.select(generations, generations.c.fingerprint == fingerprint)
        }
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
