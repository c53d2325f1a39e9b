"""Validation sets: given or replaced by developers; labelers alone learn of shared rows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from easeml_meter.core.history import MeterState
from easeml_meter.core.lifecycle import Phase
from easeml_meter.core.model import ValidationSet
from easeml_meter.errors import MeterError, WrongPhase, invalid
from easeml_meter.scoring.classes import Classes
from easeml_meter.scoring.losses import parse_loss
from easeml_meter.scoring.validation import Validation
from easeml_meter.service.place import TEST_SETS, Workspace
from easeml_meter.service.submissions.measuring import open_sealed
from easeml_meter.service.testsets.delivery import _NAMED_ROWS, input_schema, plain_digests
from easeml_meter.spec import MeterSpec, Protocol
from easeml_meter.vault.digests import collect, shared_rows
from easeml_meter.vault.keys import fingerprint_key, unwrap, wrap

_NOTICE_BYTES = 4096


def set_validation(
    space: Workspace, path: Path, *, label: str | None, replacing: bool, reset: bool = False
) -> ValidationSet:
    """Take in a validation set; it is in force from the next submission on.

    Whether it shares rows with the sealed test set is told to the labelers only: a refusal, or
    a file that appears only then, would let a developer probe for test inputs.
    """
    with space.reading() as books:
        situation = space.state(books)
        entries = books.entries.all(situation.meter.id, situation.current.number)
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
    row = ValidationSet(
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
        if len(books.validation.all(row.meter)) != number - 1:
            raise MeterError("another validation set was given meanwhile: try again")
        books.validation.add(row)
        event = "validation replaced" if replacing else "validation set"
        details = {"number": number, "rows": row.rows, "digest": row.digest, "reset": reset}
        books.audit.append(row.meter, row.added_at, event, details)
    return row


def _check_reset(spec: MeterSpec, used: int) -> None:
    if spec.protocol is not Protocol.INCREMENTAL or not spec.resets:
        raise invalid("reset", True, "only an incremental meter planned with resets has them")
    if used >= spec.resets:
        raise invalid("reset", True, f"all of this test set's resets ({spec.resets}) are used")


def _notify(space: Workspace, situation: MeterState, validation: ValidationSet) -> None:
    """Leave a note to the labelers, of the same size whatever it says."""
    generation = situation.current
    shared: list[int] = []
    if generation.phase is Phase.ACTIVE:
        key = fingerprint_key(space.identity)
        with open_sealed(space, generation) as sealed:
            digests = collect(sealed.row_digests(key))
            with space.files.local(validation.blob) as path:
                others = plain_digests(path, input_schema(sealed), key)
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
