"""Taking things in: sealed test sets from labelers, validation sets from developers."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from easeml_meter.core.ledger import Ledger
from easeml_meter.core.lifecycle import Phase, advance
from easeml_meter.errors import InvalidInput, MeterError, WrongPhase, invalid
from easeml_meter.scoring.classes import Classes
from easeml_meter.scoring.losses import Output, parse_loss
from easeml_meter.scoring.outputs import read_labels
from easeml_meter.scoring.validation import Validation
from easeml_meter.service.claims import claim
from easeml_meter.service.measuring import open_sealed
from easeml_meter.service.sessions import Situation, reconcile
from easeml_meter.service.submission import retire_if_spent
from easeml_meter.service.workspace import TEST_SETS, Workspace
from easeml_meter.spec import MeterSpec, Protocol
from easeml_meter.storage.files import copy_into
from easeml_meter.storage.schema import GenerationRow, ValidationRow
from easeml_meter.tables.opening import open_table
from easeml_meter.vault.digests import Digests, collect, duplicate_rows, row_digests, shared_rows
from easeml_meter.vault.files import new_file
from easeml_meter.vault.keys import fingerprint_key, read_recipient, unwrap, wrap
from easeml_meter.vault.manifest import Manifest
from easeml_meter.vault.sealing import SealedTestSet, seal

_NOTICE_BYTES = 4096
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
        situation = Situation.read(space, books)
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


def add_test_set(space: Workspace, path: Path) -> GenerationRow:
    """Take in a sealed test set; every refusal names rows by number, and goes to the labeler.

    What was told from the same rows before stays told: it is found by their fingerprint.
    """
    with space.reading() as books:
        situation = Situation.read(space, books)
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
        situation = Situation.read(space, books)
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
        books.update_generation(added)
        details = {"generation": added.number, "rows": manifest.rows}
        books.append_audit(added.meter, now, "test set added", details)
        entries, unjournaled = reconcile(space, books, added)
        retire_if_spent(space, books, added, entries)
    space.journal(added).append(unjournaled)
    return added


def export_inputs(space: Workspace, destination: Path) -> int:
    """Write ids and inputs of the test set in use, without labels; give the number of rows."""
    with space.reading() as books:
        situation = Situation.read(space, books)
    generation = situation.active()
    with open_sealed(space, generation) as sealed:
        columns = [name for name in sealed.schema.names if name != sealed.manifest.label.name]
        schema = pa.schema([sealed.schema.field(name) for name in columns])
        with new_file(destination) as stream, pq.ParquetWriter(stream, schema) as writer:
            for batch in sealed.batches(columns):
                writer.write_batch(batch)
        return sealed.rows


def stream_inputs(space: Workspace, generation: GenerationRow) -> Iterator[bytes]:
    """Give ids and inputs of a test set, without labels, as the bytes of a Parquet file."""
    with open_sealed(space, generation) as sealed:
        columns = [name for name in sealed.schema.names if name != sealed.manifest.label.name]
        schema = pa.schema([sealed.schema.field(name) for name in columns])
        sink = io.BytesIO()
        with pq.ParquetWriter(sink, schema) as writer:
            for batch in sealed.batches(columns):
                writer.write_batch(batch)
                yield _taken_from(sink)
        yield _taken_from(sink)


def _taken_from(sink: io.BytesIO) -> bytes:
    """Empty a sink."""
    data = sink.getvalue()
    sink.seek(0)
    sink.truncate()
    return data


def requested(situation: Situation) -> GenerationRow:
    """Give the test set that is asked for, or say that none is."""
    latest = situation.generations[-1]
    if latest.phase is not Phase.REQUESTED:
        raise WrongPhase(f"test set {latest.number} is {latest.phase}: no other one is asked for")
    return latest


def check_given(space: Workspace, situation: Situation, sealed: SealedTestSet) -> Digests:
    """Refuse columns, labels or rows that a test set may not have; give the rows' digests."""
    key = fingerprint_key(space.identity)
    _check_schema(situation, sealed.manifest)
    _check_labels(situation, sealed)
    digests = collect(sealed.row_digests(key))
    _check_rows(space, situation, digests, _inputs(sealed), key)
    return digests


def _check_schema(situation: Situation, manifest: Manifest) -> None:
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


def _check_labels(situation: Situation, sealed: SealedTestSet) -> None:
    """Refuse labels that the loss cannot take, by row number."""
    loss = parse_loss(situation.spec.loss)
    classes = _classes(situation)
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


def _classes(situation: Situation) -> Classes | None:
    """Give the class list: declared, or the validation set's; never taken from test labels."""
    if situation.spec.classes:
        return Classes.of(situation.spec.classes)
    listed = situation.validation.settings["classes"] if situation.validation else None
    return Classes.of(listed) if listed else None


def _check_rows(
    space: Workspace, situation: Situation, digests: Digests, inputs: pa.Schema, key: bytes
) -> None:
    """Refuse rows that stand twice, or that developers have seen."""
    refuse_rows(duplicate_rows(digests), "stand in it more than once", "give each row once")
    if situation.validation is not None:
        with space.files.local(situation.validation.blob) as path:
            others = _plain_digests(path, inputs, key)
        refuse_rows(shared_rows(digests, others), "stand in the validation set", "leave them out")
    for row in situation.generations:
        if row.phase is Phase.RELEASED:
            with space.files.local(f"released/{row.number}/testset.parquet") as path:
                others = _plain_digests(path, inputs, key)
            problem = f"stand in test set {row.number}, which was released"
            refuse_rows(shared_rows(digests, others), problem, "leave them out")


def _inputs(sealed: SealedTestSet) -> pa.Schema:
    return pa.schema([sealed.schema.field(name) for name in sealed.inputs])


def _plain_digests(path: Path, inputs: pa.Schema, key: bytes) -> Digests:
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


def set_validation(
    space: Workspace, path: Path, *, label: str | None, replacing: bool, reset: bool = False
) -> ValidationRow:
    """Take in a validation set; it is in force from the next submission on.

    Whether it shares rows with the sealed test set is told to the labelers only: a refusal, or
    a file that appears only then, would let a developer probe for test inputs.
    """
    with space.reading() as books:
        situation = Situation.read(space, books)
        entries = books.entries(situation.meter.id, situation.current.number)
    spec, before = situation.spec, situation.validation
    if replacing and before is None:
        raise WrongPhase("there is no validation set yet: give one with meter validation set")
    if not replacing and before is not None:
        raise WrongPhase("there is a validation set already: use meter validation replace")
    label = label or (before.settings["label"] if before else None)
    if label is None:
        raise invalid("label", None, "name the label column of the validation set")
    if reset:
        _check_reset(spec, sum(entry.after_reset for entry in entries))
    declared = Classes.of(spec.classes) if spec.classes else None
    if declared is None and before is not None and before.settings["classes"]:
        declared = Classes.of(before.settings["classes"])
    table = Validation.open(path, label=label, loss=parse_loss(spec.loss), classes=declared)
    number = before.number + 1 if before else 1
    content = path.read_bytes()
    table.table.check_unchanged()
    blob = space.files.put(f"validation/{number}-{table.digest}{path.suffix}", content)
    row = ValidationRow(
        meter=situation.meter.id,
        number=number,
        digest=table.digest,
        rows=table.rows,
        settings={
            "label": label,
            "classes": list(table.classes.values) if table.classes else None,
            "reset": reset,
            "generation": situation.current.number,
        },
        blob=blob,
        added_at=space.now(),
    )
    _notify(space, situation, row)
    with space.writing() as books:
        if len(books.validations(row.meter)) != number - 1:
            raise MeterError("another validation set was given meanwhile: try again")
        books.add_validation(row)
        event = "validation replaced" if replacing else "validation set"
        details = {"number": number, "rows": row.rows, "digest": row.digest, "reset": reset}
        books.append_audit(row.meter, row.added_at, event, details)
    return row


def _check_reset(spec: MeterSpec, used: int) -> None:
    if spec.protocol is not Protocol.INCREMENTAL or not spec.resets:
        raise invalid("reset", True, "only an incremental meter planned with resets has them")
    if used >= spec.resets:
        raise invalid("reset", True, f"all of this test set's resets ({spec.resets}) are used")


def _notify(space: Workspace, situation: Situation, validation: ValidationRow) -> None:
    """Leave a note to the labelers, of the same size whatever it says."""
    generation = situation.current
    shared: list[int] = []
    if generation.phase is Phase.ACTIVE:
        key = fingerprint_key(space.identity)
        with open_sealed(space, generation) as sealed:
            digests = collect(sealed.row_digests(key))
            with space.files.local(validation.blob) as path:
                others = _plain_digests(path, _inputs(sealed), key)
        shared = [int(row) for row in shared_rows(digests, others)]
    notice = {
        "at": validation.added_at,
        "validation_set": validation.number,
        "generation": generation.number,
        "rows_shared": len(shared),
        "first_rows": shared[:_NAMED_ROWS],
    }
    text = json.dumps(notice).encode().ljust(_NOTICE_BYTES)
    sealed_note = wrap(text, [space.identity.recipient])
    name = f"notice-{validation.number}-{validation.digest}.age"
    space.files.put(f"{TEST_SETS}/{name}", sealed_note)


def notices(space: Workspace) -> Iterator[dict[str, object]]:
    """Read the notes to the labelers."""
    found = [name for name in space.files.names(TEST_SETS) if name.startswith("notice-")]
    for name in sorted(found, key=lambda name: int(name.split("-")[1])):
        content = space.files.read(f"{TEST_SETS}/{name}")
        yield json.loads(unwrap(content, space.identity, "the notice"))
