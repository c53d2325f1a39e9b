"""Rows that join a test set: a batch of a rolling one, whose oldest leaves, or a top-up.

Each window is a test set of its own, sealed from the batches it keeps and the one that joins.
A test set that is topped up keeps all of its rows. Rows are decrypted into memory, a row group at a
time; plain labels of batches in use touch no disk.
"""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa

from easeml_meter.core.history import MeterState
from easeml_meter.core.lifecycle import Phase
from easeml_meter.core.model import Batch, TestSet
from easeml_meter.errors import MeterError, NotFound, WrongPhase, invalid
from easeml_meter.promise.meter import Renewal
from easeml_meter.service.actor import Actor, Permission, needs
from easeml_meter.service.journal import complete_retirement
from easeml_meter.service.place import RELEASED, Workspace
from easeml_meter.service.submissions.measuring import open_sealed
from easeml_meter.service.testsets.reuse import covering
from easeml_meter.tables.table import Batches, Table
from easeml_meter.tables.writing import write_table
from easeml_meter.vault.keys import fingerprint_key
from easeml_meter.vault.sealing import SealedTestSet, seal


@dataclass(frozen=True)
class SealedRows(Table):
    """The rows of sealed files, one after the other; decrypted as they are read."""

    sealed: tuple[SealedTestSet, ...] = field(repr=False)
    left_out: int = 0
    """Rows at the beginning that are left out."""

    def _read(self, columns: list[str]) -> Batches:
        skip = self.left_out
        for each in self.sealed:
            for batch in each.batches(columns):
                rest = batch.slice(skip)
                skip = max(0, skip - batch.num_rows)
                if rest.num_rows:
                    yield rest


def check_alike(first: SealedTestSet, other: SealedTestSet) -> None:
    """Refuse rows whose columns are not those of the rows before, which they are joined to."""
    if (first.schema, first.manifest.id_column, first.manifest.label.name) != (
        other.schema,
        other.manifest.id_column,
        other.manifest.label.name,
    ):
        raise invalid("columns", _columns(other), f"as in the parts before: {_columns(first)}")


def _columns(sealed: SealedTestSet) -> str:
    """Say which columns there are, and what they are for: either may be what differs."""
    roles = {sealed.manifest.label.name: " (label)", sealed.manifest.id_column: " (id)"}
    return ", ".join(
        f"{field.name} {field.type}{roles.get(field.name, '')}" for field in sealed.schema
    )


def before(state: MeterState) -> TestSet | None:
    """Return the test set that the requested rows join; None: they are a fresh one."""
    return state.generations[-2] if state.joins(state.requested()) else None


@contextmanager
def joined(
    space: Workspace, state: MeterState, batch: SealedTestSet
) -> Iterator[tuple[SealedTestSet, Path]]:
    """Seal the test set that begins with a batch: the one before and this.

    The oldest batch of a rolling one is left out.

    Raises:
        InvalidInput: the batch has other columns than those before.
        WrongPhase: these books are older than what was released of the test set.
    """
    earlier, wanted = before(state), state.requested()
    if earlier is None:
        raise ValueError("a batch joins a window")
    renewal = state.spec.meter.renewal
    kept = list(batch_rows(state, earlier))[renewal.leaves(wanted.number) :]
    if renewal.rolls:
        _refuse_released(space, wanted.number, renewal)
    with open_sealed(space, earlier) as old, tempfile.TemporaryDirectory() as folder:
        check_alike(old, batch)
        rows = sum(kept) + batch.rows
        whole = Path(folder) / "window.sealed"
        manifest = seal(
            SealedRows("the window", old.schema, rows, (old, batch), old.rows - sum(kept)),
            whole,
            meter=wanted.meter,
            generation=wanted.number,
            label=old.manifest.label.name,
            id_column=old.manifest.id_column,
            recipients=[space.identity.recipient],
            batch_rows=(*kept, batch.rows),
            clock=space.clock,
        )
        with open_sealed(space, wanted, whole) as window:
            yield replace(window, manifest=manifest), whole


def _refuse_released(space: Workspace, number: int, renewal: Renewal) -> None:
    """Refuse to measure a window on labels that are known: an older database was put back."""
    older = "these books are older than that, put back a newer copy of them"
    if space.files.exists(_file(number)):
        raise WrongPhase(f"batch {number} was released before: {older}")
    # Windows that share a batch, but for the one that this window begins with.
    for other in range(1, renewal.last_sharing(number)):
        shares = renewal.last_sharing(other) >= number
        if shares and space.files.names(f"{RELEASED}/{other}"):
            raise WrongPhase(
                f"window {other} was released before, with batches of window {number}: {older}"
            )


def batch_rows(state: MeterState, test_set: TestSet) -> tuple[int, ...]:
    """Return the rows of each batch of a delivered window, the oldest first.

    The first window came at once or in parts: its rows, in their order, are cut evenly.
    """
    manifest, rows = test_set.manifest or {}, test_set.rows or 0
    if manifest.get("batch_rows"):
        return tuple(manifest["batch_rows"])
    batches = len(state.spec.meter.renewal.batches(test_set.number))
    ends = [rows * each // batches for each in range(batches + 1)]
    return tuple(end - begin for begin, end in itertools.pairwise(ends))


def fresh_batch(space: Workspace, state: MeterState, sealed: SealedTestSet, path: Path) -> None:
    """Refuse rows that are a batch of an earlier test set of this meter, or have topped it up.

    Without ids and inputs, nothing else tells. The fingerprint of a test set is that of all its
    batches, so those of each are made from its rows.
    """
    key = fingerprint_key(space.identity)
    for other in covering(state):
        sizes = batch_rows(state, other)
        if len(sizes) == 1 or sealed.rows not in sizes:
            continue
        found: list[str] = []
        # A file that is gone or damaged must not keep its meter from fresh rows.
        with suppress(MeterError), open_sealed(space, other) as before:
            found = before.fingerprints(key, sizes)
        if found and sealed.fingerprint(key) in found:
            needed = f"the same rows were rows of test set {other.number}: give other rows"
            raise invalid("test set", path.name, f"{needed}, or if they are others, more of them")


def note_joined(space: Workspace, state: MeterState, earlier: TestSet, fingerprint: str) -> None:
    """Note beside earlier rows which test set they become a part of, before it answers.

    Raises:
        WrongPhase: with other rows, they have answered before: an older database was put back, and
            its rows would answer once more than planned.
    """
    renewal = state.spec.meter.renewal
    if renewal.last_sharing(earlier.number) == earlier.number:  # all its batches leave
        return
    journal = space.journal(earlier)
    noted = journal.top_ups()
    # What these books know was delivered just now, and is refused under the lock.
    known = {fingerprint, *(each.fingerprint for each in space.read_state().generations)}
    others = (replace(earlier, fingerprint=each) for each in noted if each not in known)
    if any(space.journal(each).answers() != 0 for each in others):
        before = f"test set {earlier.number} was topped up with other rows"
        if renewal.rolls:
            before = f"window {earlier.number} was followed by one with other rows"
        raise WrongPhase(
            f"{before} before: these books are older than that, deliver those rows or put back a "
            "newer copy of the books"
        )
    if fingerprint not in noted:
        journal.append_top_up(fingerprint)


def free_oldest(space: Workspace, state: MeterState, window: TestSet) -> Batch:
    """Write the oldest batch of a spent window in the clear, for the developers.

    No later window has it, so nothing is measured on it any more.
    """
    # Its labels are about to be public: no answer may be measured on them after this.
    if window.phase not in (Phase.SPENT, Phase.RELEASED):
        raise WrongPhase(f"window {window.number} is {window.phase}: its batches are in use")
    with space.reading() as books:
        complete_retirement(space, books, state, window)
    rows = batch_rows(state, window)[0]
    with open_sealed(space, window) as sealed, space.files.writing(_file(window.number)) as path:
        write_table(path, sealed.schema, _first(sealed.batches(), rows))
    return Batch(window.number, rows)


def _first(batches: Iterator[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        if rows <= 0:
            return
        yield batch.slice(0, rows)
        rows -= batch.num_rows


def _file(number: int) -> str:
    return f"{RELEASED}/batches/{number}.parquet"


@needs(Permission.SEE_METER)
def released_batches(_: Actor, space: Workspace) -> list[Batch]:
    """Return the batches that have left the window of a rolling test set, the oldest first."""
    return _released(space.read_state())


@needs(Permission.SEE_RELEASED)
def released_batch(_: Actor, space: Workspace, number: int) -> str:
    """Return the name of the file with the rows and labels of a batch that was released.

    Raises:
        NotFound: there is no such batch, or it was not released yet.
    """
    if number not in [each.number for each in _released(space.read_state())]:
        raise NotFound(f"batch {number} was not released yet")
    return _file(number)


def batch_files(state: MeterState) -> list[str]:
    """Return the names of the files of all batches that were released."""
    return [_file(each.number) for each in _released(state)]


def _released(state: MeterState) -> list[Batch]:
    """A batch leaves when the next window begins, which has the number after that of the batch."""
    if not state.spec.meter.renewal.rolls:
        return []
    delivered = [each for each in state.generations if each.rows is not None]
    return [Batch(each.number, batch_rows(state, each)[0]) for each in delivered[:-1]]
