"""Rows of other meters of the same server: refused, and no more told than that.

Two meters with the same hidden rows would answer twice from one budget. A labeler of one meter may
be a developer of another: so a refusal names neither the meter nor a figure, except to a labeler of
both; and each attempt is a link in both audit chains.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from easeml_meter.core.lifecycle import Phase
from easeml_meter.core.model import Event, TestSet
from easeml_meter.core.people import Role
from easeml_meter.errors import InvalidInput, MeterError
from easeml_meter.service.actor import Actor
from easeml_meter.service.place import Workspace
from easeml_meter.service.submissions.measuring import open_sealed
from easeml_meter.vault.comparison import Rows
from easeml_meter.vault.likeness import LARGEST_SHARE, likeness


def refuse_elsewhere(
    actor: Actor,
    space: Workspace,
    number: int,
    rows: Rows,
    problem: type[MeterError],
    *,
    active_only: bool = False,
) -> None:
    """Refuse the rows of test set `number` if they stand in a test set of another meter.

    Raises:
        problem: they do, in one that is or was delivered, or with `active_only` is active.
    """
    for other, share in _found(space, rows, active_only=active_only):
        there = _beside(space, other)
        _note(space, number)
        name = _note(there, other.number)
        which = "the test set of another meter on this server"
        if _labels_both(actor, space, other):
            which = f"test set {other.number} of the meter {name!r} ({100 * share:.3g} % of them)"
        raise problem(
            f"the rows of test set {number} are rows of {which}, and their answers count there: "
            + ("release it when that one is spent" if active_only else "give other rows")
        )


def claim(space: Workspace, meter: str, fingerprint: str) -> None:
    """Note that a test set counts at a meter, or refuse because it counts at another one.

    The books know the owner too, but an older copy of them may be put back: the note lies with the
    files and stays.

    Raises:
        InvalidInput: it counts at another one.
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


def _note(space: Workspace, number: int) -> str:
    """Enter the attempt in the audit chain of a meter; return the meter's name."""
    with space.writing() as books:
        meter = space.state(books).meter
        details = {"generation": number}
        books.audit.append(meter.id, space.now(), Event.REUSE_REFUSED, details)
    return meter.name


def _found(space: Workspace, rows: Rows, *, active_only: bool) -> Iterator[tuple[TestSet, float]]:
    """Yield the test sets of other meters that share too many rows, and the share."""
    if space.beside is None:
        return
    with space.reading() as books:
        delivered = books.testsets.delivered()
    for other in delivered:
        if other.meter == space.meter or (active_only and other.phase is not Phase.ACTIVE):
            continue
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
