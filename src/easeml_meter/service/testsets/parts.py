"""Test sets delivered in parts: each sealed by a labeler, merged when there are enough rows.

Merging decrypts into memory, a row group at a time, and seals again; plain labels touch no disk.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path

from easeml_meter.core.model import Part, TestSet
from easeml_meter.errors import MeterError, NotFound, invalid
from easeml_meter.service.place import Workspace
from easeml_meter.service.testsets import delivery, requests
from easeml_meter.service.testsets.requests import open_request, parts_of
from easeml_meter.storage import schema
from easeml_meter.storage.files import copy_into
from easeml_meter.tables.table import Batches, Table
from easeml_meter.vault.digests import collect, shared_rows
from easeml_meter.vault.keys import fingerprint_key
from easeml_meter.vault.manifest import Manifest
from easeml_meter.vault.sealing import SealedTestSet, seal


def add_test_set(space: Workspace, path: Path, *, user: str, part: bool) -> TestSet:
    """Take in a sealed file: a whole test set, or with `part` or fewer rows, some of its rows.

    With the part that makes them enough, all parts become one test set, in the order in which
    they came.
    """
    with space.reading() as books:
        situation = space.state(books)
        wanted = requests.requested(situation)
        earlier = parts_of(books, wanted)
    with SealedTestSet.open(
        path, space.identity, meter=wanted.meter, generation=wanted.number
    ) as sealed:
        here = sealed.rows + sum(each.rows for each in earlier)
        if not earlier and not part and here >= wanted.labels_needed:
            return delivery.add_test_set(space, path)
        manifest = sealed.verify()
        digests = delivery.check_given(space, situation, sealed)
        with ExitStack() as stack:
            others = [stack.enter_context(_open(space, each)) for each in earlier]
            for each, other in zip(earlier, others, strict=True):
                _check_alike(other, sealed)
                known = collect(other.row_digests(fingerprint_key(space.identity)))
                problem = f"stand in part {each.number}"
                delivery.refuse_rows(shared_rows(digests, known), problem, "leave them out")
            if here < wanted.labels_needed:
                return _keep(space, wanted, path, manifest, before=len(earlier), user=user)
            added = _merge(space, [*others, sealed])
    for each in earlier:
        space.files.remove(each.blob)
    return added


def withdraw(space: Workspace, generation: int, number: int) -> None:
    """Take back a part, as long as the test set has not begun."""
    table = schema.parts
    with space.writing() as books:
        found = open_request(space, books, generation)
        parts = {part.number: part for part in parts_of(books, found)}
        if number not in parts:
            raise NotFound(f"part {number}: there is none of that number")
        where = (
            (table.c.meter == found.meter)
            & (table.c.generation == generation)
            & (table.c.number == number)
        )
        books.connection.execute(table.delete().where(where))
        details = {"generation": generation, "part": number, "rows": parts[number].rows}
        books.audit.append(found.meter, space.now(), "part withdrawn", details)
    space.files.remove(parts[number].blob)


def _keep(
    space: Workspace,
    wanted: TestSet,
    path: Path,
    manifest: Manifest,
    *,
    before: int,
    user: str,
) -> TestSet:
    rows, digest = manifest.rows, manifest.sha256
    blob = copy_into(space.files, f"parts/{wanted.number}-{digest}.sealed", path)
    with space.writing() as books:
        now = space.now()
        open_request(space, books, wanted.number)
        parts = parts_of(books, wanted)
        if len(parts) != before:
            raise MeterError("another part was added or withdrawn meanwhile: try again")
        number = 1 + max((part.number for part in parts), default=0)
        row = Part(wanted.meter, wanted.number, number, rows, digest, blob, user, now)
        books.connection.execute(schema.parts.insert(), asdict(row))
        details = {"generation": wanted.number, "part": number, "rows": rows}
        books.audit.append(wanted.meter, now, "part added", details)
    return wanted


def _open(space: Workspace, part: Part) -> SealedTestSet:
    location = space.files.location(part.blob)
    return SealedTestSet.open(
        location, space.identity, meter=part.meter, generation=part.generation
    )


def _check_alike(first: SealedTestSet, other: SealedTestSet) -> None:
    """Refuse a part whose columns are not those of the parts before."""
    if (first.schema, first.manifest.id_column, first.manifest.label.name) != (
        other.schema,
        other.manifest.id_column,
        other.manifest.label.name,
    ):
        given = ", ".join(f"{field.name} {field.type}" for field in other.schema)
        needed = ", ".join(f"{field.name} {field.type}" for field in first.schema)
        raise invalid("columns", given, f"as in the parts before: {needed}")


def _merge(space: Workspace, parts: Sequence[SealedTestSet]) -> TestSet:
    """Seal the rows of all parts as one test set, and take that in."""
    manifest = parts[0].manifest
    table = PartsTable("the parts", parts[0].schema, sum(p.rows for p in parts), tuple(parts))
    with tempfile.TemporaryDirectory(prefix="easeml-meter-") as folder:
        whole = Path(folder) / "whole.sealed"
        seal(
            table,
            whole,
            meter=manifest.meter,
            generation=manifest.generation,
            label=manifest.label.name,
            id_column=manifest.id_column,
            recipients=[space.identity.recipient],
            clock=space.clock,
        )
        return delivery.add_test_set(space, whole)


@dataclass(frozen=True)
class PartsTable(Table):
    """The rows of sealed parts, one after the other; decrypted as they are read."""

    sealed: tuple[SealedTestSet, ...] = field(repr=False)

    def _read(self, columns: list[str]) -> Batches:
        for part in self.sealed:
            yield from part.batches(columns)
