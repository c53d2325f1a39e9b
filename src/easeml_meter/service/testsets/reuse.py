"""Used rows: what a new test set shares with the earlier sets of its meter, and who decides.

Only labelers learn of it. What is kept is encrypted, and its size depends on the number of sets
alone: whoever sees the files or the books must not learn from them whether rows are shared.

Rows of other meters of the same server are refused, and no more told than that: two meters with the
same hidden rows would answer twice from one budget. A labeler of one meter may be a developer of
another: so a refusal names neither the meter nor a figure, except to a labeler of both; and each
attempt is a link in both audit chains.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path

from easeml_meter.core.history import MeterState
from easeml_meter.core.lifecycle import Phase
from easeml_meter.core.model import Event, TestSet, ValidationSet
from easeml_meter.core.people import Role
from easeml_meter.core.views import NAMED_ROWS, Notice
from easeml_meter.errors import InvalidInput, MeterError, WrongPhase, invalid
from easeml_meter.service.actor import Actor
from easeml_meter.service.place import TEST_SETS, Workspace
from easeml_meter.service.submissions.measuring import open_sealed
from easeml_meter.storage.books import Books
from easeml_meter.tables.opening import open_table
from easeml_meter.tables.source import Source
from easeml_meter.vault.keys import fingerprint_key, unwrap, wrap
from easeml_meter.vault.overlap import LARGEST_SHARE, RowNumbers, Rows, Shared, compare, likeness
from easeml_meter.vault.sealing import SealedTestSet

_NOTICE_BYTES = 1024
"""Room for one notice in a record."""


@dataclass(frozen=True)
class LabelerDecisions:
    """What the labeler who delivers a test set says about its rows."""

    ids_renumbered: bool = False
    """Ids that earlier sets have with other inputs are other examples."""
    accept_shared: bool = False
    """Rows with the inputs of earlier sets were drawn independently."""
    accept_fewer: bool = False
    """These, with the parts that came, are all the rows: a weaker promise is accepted."""


UNDECIDED = LabelerDecisions()


@dataclass(frozen=True)
class Overlap:
    """What a test set shares with one earlier set of its meter."""

    validation_set: int | None
    test_set: int | None
    shared: Shared

    @property
    def other(self) -> str:
        """The earlier set."""
        if self.validation_set is not None:
            return f"validation set {self.validation_set}"
        return f"test set {self.test_set}"

    def notice(self, generation: int, at: str) -> Notice:
        """Return what the labelers are told of it."""
        rows = self.shared.rows
        return Notice(
            at=at,
            generation=generation,
            validation_set=self.validation_set,
            test_set=self.test_set,
            rows_shared=len(rows) if self.shared.compared else None,
            first_rows=tuple(rows[:NAMED_ROWS].tolist()),
            ids_renumbered=len(self.shared.renumbered),
        )


def fresh_rows(space: Workspace, state: MeterState, sealed: SealedTestSet, path: Path) -> str:
    """Return the fingerprint of rows, unless they were a test set of this meter before."""
    fingerprint = sealed.fingerprint(fingerprint_key(space.identity))
    for other in state.generations:
        if other.fingerprint == fingerprint:
            raise invalid("test set", path.name, f"the same rows were test set {other.number}")
    return fingerprint


def overlaps(
    space: Workspace,
    state: MeterState,
    validations: Sequence[ValidationSet],
    sealed: SealedTestSet,
    rows: Rows,
) -> list[Overlap]:
    """Compare a test set with every earlier test set and validation set of its meter."""
    tests = [
        Overlap(None, other.number, _with_test_set(space, rows, other)) for other in covering(state)
    ]
    seen = [
        Overlap(each.number, None, with_validation(space, sealed, rows, each))
        for each in validations
    ]
    return [*tests, *seen]


def covering(state: MeterState) -> list[TestSet]:
    """Return delivered test sets with all rows that ever were in one.

    From the last one back, those that share no batch, and the first if it has some that no other
    has.
    """
    found: list[TestSet] = []
    known: set[int] = set()
    for each in reversed([each for each in state.generations if each.rows is not None]):
        batches = set(state.spec.meter.renewal.batches(each.number))
        if not batches & known or (each.number == 1 and batches - known):
            found.append(each)
            known |= batches
    return found[::-1]


def _with_test_set(space: Workspace, rows: Rows, other: TestSet) -> Shared:
    # A file that is gone or damaged must not keep its meter from a fresh test set.
    with suppress(MeterError), open_sealed(space, other) as before:
        return compare(rows, Rows.of_sealed(before, rows.key))
    return Shared(compared=False)


def with_validation(
    space: Workspace,
    sealed: SealedTestSet,
    rows: Rows,
    validation: ValidationSet,
    source: Source | None = None,
) -> Shared:
    """Compare a test set with a validation set, whose inputs are read with its types.

    `source`: where it comes from, if it is not kept yet.
    """
    id_column = validation.id_column or rows.id_column
    types = {name: sealed.schema.field(name).type for name in sealed.inputs}
    # Ids and labels are names: a type of the other file would not fit all of them.
    texts = [name for name in (id_column, validation.label) if name is not None]
    types = {name: kind for name, kind in types.items() if name not in texts}
    # Developers choose the file: one that cannot be read so must not keep labelers from theirs.
    kept = space.files.local(validation.blob) if source is None else nullcontext(source)
    with suppress(MeterError), kept as given:
        table = open_table(given, types=types, texts=texts)
        return compare(rows, Rows.of_table(table, validation.label, id_column, rows.key))
    return Shared(compared=False)


def decide(found: Sequence[Overlap], rows: int, decisions: LabelerDecisions) -> None:
    """Refuse rows that were used before; ask the labeler where ids and inputs leave it open."""
    for each in found:
        refuse_rows(
            each.shared.again,
            f"stand in {each.other} under the same id",
            "leave them out, or if they are other examples, give them ids of their own",
        )
    renumbered = [each for each in found if len(each.shared.renumbered)]
    if renumbered and not decisions.ids_renumbered:
        counted = ", ".join(f"{len(e.shared.renumbered):,} in {e.other}" for e in renumbered)
        raise InvalidInput(
            f"ids that stand in earlier sets with other inputs: {counted}: if the examples were "
            "numbered anew, say so with --ids-renumbered; if not, correct the ids or the inputs"
        )
    shared = [each for each in found if len(each.shared.inputs)]
    if shared and not decisions.accept_shared:
        counted = ", ".join(f"{_share(len(e.shared.inputs), rows)} in {e.other}" for e in shared)
        raise InvalidInput(
            f"inputs of the test set that stand in earlier sets: {counted}: if these rows were "
            "drawn independently, keep them with --accept-shared; if they were used before, "
            "leave them out"
        )


def _share(count: int, rows: int) -> str:
    return f"{count:,} of {rows:,} rows ({100 * count / rows:.3g} %)"


def refuse_rows(rows: RowNumbers, problem: str, remedy: str) -> None:
    """Refuse a test set, or a part of one, that has such rows, by their numbers."""
    if len(rows):
        named = ", ".join(str(row) for row in rows[:NAMED_ROWS])
        more = f" and {len(rows) - NAMED_ROWS:,} more" if len(rows) > NAMED_ROWS else ""
        raise InvalidInput(f"rows {named}{more} of the test set {problem}: {remedy}")


def delivery_notices(generation: int, sha256: str) -> str:
    """Name what labelers are told when a test set is delivered."""
    return f"compared-{generation}-{sha256}"


def keep_notices(space: Workspace, name: str, notices: Sequence[Notice]) -> str:
    """Keep notices for the labelers, encrypted; return the digest of what is kept."""
    text = json.dumps([each.to_json() for each in notices]).encode()
    content = wrap(text.ljust(_NOTICE_BYTES * len(notices)), [space.identity.recipient])
    space.files.put(f"{TEST_SETS}/{name}.age", content)
    return hashlib.sha256(content).hexdigest()


def kept_notices(space: Workspace) -> list[Notice]:
    """Return the notices to the labelers, the oldest first; of each pair of sets the latest."""
    found: dict[tuple[int, str], Notice] = {}
    with space.reading() as books:
        taken = {
            delivery_notices(each.number, each.manifest["sha256"]) + ".age"
            for each in space.state(books).generations
            if each.manifest
        }
    for name in space.files.names(TEST_SETS):
        # Two labelers may deliver at once: only one of the two sets is taken in.
        if name not in taken and not name.startswith("notice-"):
            continue
        content = unwrap(space.files.read(f"{TEST_SETS}/{name}"), space.identity, "the notice")
        records = json.loads(content)
        for record in records if isinstance(records, list) else [records]:
            notice = Notice.from_json(record)
            pair = (notice.generation, notice.other)
            if pair not in found or found[pair].at <= notice.at:
                found[pair] = notice
    return sorted(found.values(), key=lambda each: (each.at, each.generation, each.other))


def own_notice(rows: Rows, generation: int, at: str) -> Notice:
    """Return what the labelers are told of inputs that repeat within a test set."""
    return Notice(at=at, generation=generation, rows_shared=rows.repeated_inputs())


def sealed_rows(space: Workspace, sealed: SealedTestSet) -> Rows:
    """Return the rows of a sealed test set, ready to be compared under the meter's key."""
    return Rows.of_sealed(sealed, fingerprint_key(space.identity))


def same_rows(space: Workspace, sealed: SealedTestSet, other: SealedTestSet) -> bool:
    """Whether two sealed files have the same inputs and labels."""
    key = fingerprint_key(space.identity)
    return sealed.rows == other.rows and sealed.fingerprint(key) == other.fingerprint(key)


_DELIVERIES = "deliveries"
"""The lock that the deliveries of all meters take, after that of their own meter."""


@dataclass
class Elsewhere:
    """Rows that are being delivered, and what they were compared with at other meters."""

    actor: Actor
    space: Workspace
    number: int
    rows: Rows
    _compared: set[tuple[str, int]] = field(default_factory=set)

    def refuse(self) -> None:
        """Refuse the rows if they stand in a test set of another meter, whatever its phase."""
        with self.space.reading() as books:
            others = self._left(books)
        for other, share in _found(self.space, self.rows, others):
            which = _noted(self.actor, self.space, self.number, other, share)
            raise InvalidInput(f"{which}: give other rows")
        self._compared |= {(each.meter, each.number) for each in others}

    @contextmanager
    def writing(self) -> Iterator[Books]:
        """Hold the meter's write lock while no test set has arrived that was not compared.

        Comparing may take minutes, so it is done without a lock: whatever was entered meanwhile is
        compared then, until there is nothing left.
        """
        while True:
            with suppress(_Behind), self.space.writing() as books:
                if self.space.beside is not None:
                    books.lock(_DELIVERIES)
                if self._left(books):
                    raise _Behind
                yield books
                return
            self.refuse()

    def _left(self, books: Books) -> list[TestSet]:
        """Return the test sets of other meters that were not compared yet."""
        return [
            each
            for each in _others(self.space, books)
            if (each.meter, each.number) not in self._compared
        ]


class _Behind(Exception):
    """A test set has arrived at another meter since the rows were compared."""


def refuse_active(actor: Actor, space: Workspace, number: int, rows: Rows) -> None:
    """Refuse to release the rows of test set `number` if another meter still uses them."""
    with space.reading() as books:
        active = [each for each in _others(space, books) if each.phase is Phase.ACTIVE]
    for other, share in _found(space, rows, active):
        which = _noted(actor, space, number, other, share)
        raise WrongPhase(f"{which}: release it when that one is spent")


def _noted(actor: Actor, space: Workspace, number: int, other: TestSet, share: float) -> str:
    """Enter an attempt in both chains; return what the actor may know of it."""
    _note(space, number)
    name = _note(_beside(space, other), other.number)
    which = "the test set of another meter on this server"
    if _labels_both(actor, space, other):
        which = f"test set {other.number} of the meter {name!r} ({100 * share:.3g} % of them)"
    return f"the rows of test set {number} are rows of {which}, and their answers count there"


def refuse_claimed(space: Workspace, books: Books, meter: str, fingerprint: str) -> None:
    """Refuse a test set for a meter if it counts at another one.

    The books know the owner too, but an older copy of them may be put back: the note of `claim`
    lies with the files and stays.
    """
    if space.claims is None:
        return
    owners = books.testsets.owners(fingerprint)
    if space.claims.exists(fingerprint):
        owners.add(space.claims.read(fingerprint).decode())
    if owners - {meter}:
        raise InvalidInput(
            "the same rows are or were the test set of another meter on this server, and their "
            "answers count there: give rows that were no test set before"
        )


def claim(space: Workspace, books: Books, meter: str, fingerprint: str) -> None:
    """Note that a test set counts at a meter, or refuse because it counts at another one."""
    refuse_claimed(space, books, meter, fingerprint)
    if space.claims is not None and not space.claims.exists(fingerprint):
        space.claims.put(fingerprint, meter.encode())


def _note(space: Workspace, number: int) -> str:
    """Enter the attempt in the audit chain of a meter; return the meter's name."""
    with space.writing() as books:
        meter = space.state(books).meter
        details = {"generation": number}
        books.audit.append(meter.id, space.now(), Event.REUSE_REFUSED, details)
    return meter.name


def _others(space: Workspace, books: Books) -> list[TestSet]:
    """Return the test sets that have arrived at other meters of the server."""
    if space.beside is None:
        return []
    return [each for each in books.testsets.delivered() if each.meter != space.meter]


def _found(
    space: Workspace, rows: Rows, others: Sequence[TestSet]
) -> Iterator[tuple[TestSet, float]]:
    """Yield those of other test sets that share too many rows, and the share."""
    for other in others:
        share = 0.0
        # What another meter has lost or damaged must not keep this one from its test set.
        with suppress(MeterError), open_sealed(_beside(space, other), other) as sealed:
            share = likeness(rows, Rows.of_sealed(sealed, rows.key))
        if share > LARGEST_SHARE:
            yield other, share


def _beside(space: Workspace, other: TestSet) -> Workspace:
    if space.beside is None:
        raise ValueError("a meter in a folder has no other beside it")
    return space.beside(other.meter)


def _labels_both(actor: Actor, space: Workspace, other: TestSet) -> bool:
    with space.reading() as books:
        seats = books.seats.of(actor.user) if actor.user else []
    labels = {seat.meter for seat in seats if seat.role is Role.LABELER}
    return {space.meter, other.meter} <= labels
