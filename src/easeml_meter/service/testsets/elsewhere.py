"""Rows of other meters of the same server: refused, and no more told than that.

Two meters with the same hidden rows would answer twice from one budget. A labeler of one meter may
be a developer of another: so a refusal names neither the meter nor a figure, except to a labeler of
both; and each attempt is a link in both audit chains.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from easeml_meter.core.lifecycle import Phase
from easeml_meter.core.model import Event, TestSet
from easeml_meter.core.people import Role
from easeml_meter.errors import InvalidInput, MeterError, WrongPhase
from easeml_meter.service.actor import Actor
from easeml_meter.service.place import Workspace
from easeml_meter.service.submissions.measuring import open_sealed
from easeml_meter.storage.books import Books
from easeml_meter.vault.comparison import Rows
from easeml_meter.vault.likeness import LARGEST_SHARE, likeness

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
        """Refuse the rows if they stand in a test set of another meter, whatever its phase.

        Raises:
            InvalidInput: they do.
        """
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

        Raises:
            InvalidInput: the rows were given to another meter meanwhile.
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
    """Refuse to release the rows of test set `number` if another meter still uses them.

    Raises:
        WrongPhase: they stand in an active test set.
    """
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

    Raises:
        InvalidInput: it counts at another one.
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
    """Note that a test set counts at a meter, or refuse because it counts at another one.

    Raises:
        InvalidInput: it counts at another one.
    """
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
