"""Test sets that arrive in parts: each sealed by a labeler, merged when enough rows are there.

Merging decrypts into memory, a row group at a time, and seals again; plain labels touch no disk.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path

from easeml_meter.core.lifecycle import Phase
from easeml_meter.errors import MeterError, NotFound, WrongPhase, invalid
from easeml_meter.service import intake
from easeml_meter.service.sessions import Situation
from easeml_meter.service.workspace import Workspace
from easeml_meter.storage import schema
from easeml_meter.storage.files import copy_into
from easeml_meter.storage.schema import GenerationRow
from easeml_meter.storage.store import Books
from easeml_meter.tables.table import Batches, Table
from easeml_meter.vault.digests import collect, shared_rows
from easeml_meter.vault.keys import fingerprint_key
from easeml_meter.vault.manifest import Manifest
from easeml_meter.vault.sealing import SealedTestSet, seal


@dataclass(frozen=True, slots=True)
class Part:
    """Some of the labels that were asked for."""

    meter: str
    generation: int
    number: int
    rows: int
    digest: str
    blob: str
    added_by: str
    added_at: str


@dataclass(frozen=True)
class Request:
    """A request for labels, and how far it has got."""

    generation: GenerationRow
    parts: tuple[Part, ...]

    @property
    def labels_here(self) -> int:
        """Rows in the parts delivered so far."""
        return sum(part.rows for part in self.parts)


def requests(space: Workspace) -> list[Request]:
    """Give the requests that are open."""
    with space.reading() as books:
        return [
            Request(row, tuple(parts_of(books, row)))
            for row in Situation.read(space, books).generations
            if row.phase is Phase.REQUESTED
        ]


def parts_of(books: Books, generation: GenerationRow) -> list[Part]:
    """Give the parts delivered for one test set, in order."""
    table = schema.parts
    where = (table.c.meter == generation.meter) & (table.c.generation == generation.number)
    return [Part(**row) for row in books.select(table, where, order=table.c.number)]


def describe_request(
    space: Workspace, number: int, *, reason: str | None, deadline: str | None
) -> Request:
    """Say why labels are asked for, and until when."""
    table = schema.generations
    with space.writing() as books:
        found = _open_request(space, books, number)
        where = (table.c.meter == found.meter) & (table.c.number == number)
        changes = {"reason": reason, "deadline": deadline}
        books.connection.execute(table.update().where(where), changes)
        details = {"generation": number, **changes}
        books.append_audit(found.meter, space.now(), "request described", details)
    return next(each for each in requests(space) if each.generation.number == number)


def add_test_set(space: Workspace, path: Path, *, user: str, part: bool) -> GenerationRow:
    """Take in a sealed file: a whole test set, or with `part` or fewer rows, some of its rows.

    With the part that makes them enough, all parts become one test set, in the order in which
    they came.
    """
    with space.reading() as books:
        situation = Situation.read(space, books)
        wanted = intake.requested(situation)
        earlier = parts_of(books, wanted)
    with SealedTestSet.open(
        path, space.identity, meter=wanted.meter, generation=wanted.number
    ) as sealed:
        here = sealed.rows + sum(each.rows for each in earlier)
        if not earlier and not part and here >= wanted.labels_needed:
            return intake.add_test_set(space, path)
        manifest = sealed.verify()
        digests = intake.check_given(space, situation, sealed)
        with ExitStack() as stack:
            others = [stack.enter_context(_open(space, each)) for each in earlier]
            for each, other in zip(earlier, others, strict=True):
                _check_alike(other, sealed)
                known = collect(other.row_digests(fingerprint_key(space.identity)))
                problem = f"stand in part {each.number}"
                intake.refuse_rows(shared_rows(digests, known), problem, "leave them out")
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
        found = _open_request(space, books, generation)
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
        books.append_audit(found.meter, space.now(), "part withdrawn", details)
    space.files.remove(parts[number].blob)


def _open_request(space: Workspace, books: Books, number: int) -> GenerationRow:
    rows = Situation.read(space, books).generations
    found = next((row for row in rows if row.number == number), None)
    if found is None:
        raise NotFound(f"test set {number}: there is none of that number")
    if found.phase is not Phase.REQUESTED:
        raise WrongPhase(f"test set {number} is {found.phase}: its labels are here already")
    return found


def _keep(
    space: Workspace,
    wanted: GenerationRow,
    path: Path,
    manifest: Manifest,
    *,
    before: int,
    user: str,
) -> GenerationRow:
    rows, digest = manifest.rows, manifest.sha256
    blob = copy_into(space.files, f"parts/{wanted.number}-{digest}.sealed", path)
    with space.writing() as books:
        now = space.now()
        _open_request(space, books, wanted.number)
        parts = parts_of(books, wanted)
        if len(parts) != before:
            raise MeterError("another part was added or withdrawn meanwhile: try again")
        number = 1 + max((part.number for part in parts), default=0)
        row = Part(wanted.meter, wanted.number, number, rows, digest, blob, user, now)
        books.connection.execute(schema.parts.insert(), asdict(row))
        details = {"generation": wanted.number, "part": number, "rows": rows}
        books.append_audit(wanted.meter, now, "part added", details)
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


def _merge(space: Workspace, parts: Sequence[SealedTestSet]) -> GenerationRow:
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
        return intake.add_test_set(space, whole)


@dataclass(frozen=True)
class PartsTable(Table):
    """The rows of sealed parts, one after the other; decrypted as they are read."""

    sealed: tuple[SealedTestSet, ...] = field(repr=False)

    def _read(self, columns: list[str]) -> Batches:
        for part in self.sealed:
            yield from part.batches(columns)
