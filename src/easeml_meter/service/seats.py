"""Seats: who has which role at a meter. One role per person and meter."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from easeml_meter.core.history import MeterState
from easeml_meter.core.lifecycle import Phase
from easeml_meter.core.model import AuditLink, Event, MeterRecord
from easeml_meter.core.people import SEATED, Role, Seat
from easeml_meter.errors import MeterError, NotFound, invalid
from easeml_meter.service.actor import Actor, Permission, needs
from easeml_meter.service.place import Site, Workspace
from easeml_meter.spec import MeterSpec
from easeml_meter.storage.books import Books


@needs(Permission.MANAGE)
def add_seat(_actor: Actor, space: Workspace, user: str, role: Role, tenant: int = 0) -> Seat:
    """Give a user a seat at a meter; developers and runners sit with a tenant, else the first.

    Raises:
        NotFound: there is no such user, or no such meter.
        InvalidInput: nobody can be given this role.
        MeterError: the meter has no such tenant, or the user has another role there.
    """
    if role not in SEATED:
        raise invalid("role", str(role), "developer, labeler or runner")
    with space.writing() as books:
        books.users.get(user)
        meter = books.meters.get(space.meter)
        spec = MeterSpec.from_mapping(meter.settings)
        count = 1 if spec.handover else max(1, len(spec.tenants))
        if role is Role.LABELER:
            tenant = 0
        elif not 1 <= (tenant := tenant or 1) <= count:
            raise MeterError(f"tenant: {tenant} given, this meter has those from 1 to {count}")
        held = [seat for seat in books.seats.at(meter.id) if seat.user == user]
        # Two roles in one hand would show a developer the hidden inputs, or the labels.
        if others := {seat.role for seat in held} - {role}:
            raise MeterError(
                f"role: {role} given, this user is {others.pop()} of the meter: one role each"
            )
        if role is Role.DEVELOPER:
            _check_developer(books, space.state(books), user, tenant, held)
        if before := [each for each in held if each.tenant == tenant]:
            return before[0]
        seat = Seat(user, meter.id, role, tenant, space.now())
        books.seats.add(seat)
        books.audit.append(meter.id, seat.added_at, Event.MEMBER_ADDED, _details(seat))
    return seat


def _check_developer(
    books: Books, state: MeterState, user: str, tenant: int, held: Sequence[Seat]
) -> None:
    """Refuse a developer whose knowledge the promise does not allow for.

    Isolated teams share no answers, so nobody sees those of two. Nor may anyone develop against
    labels they have worked on, until these are released.
    """
    if any(each.tenant != tenant for each in held):
        raise MeterError(
            f"tenant: {tenant} given, this user is a developer of another one: one team each, "
            "unless the meter is made with handover = true"
        )
    unreleased = {
        test_set.number
        for test_set in state.generations
        if test_set.phase in (Phase.ACTIVE, Phase.SPENT)
    }
    if unreleased & _labeled_by(user, books.audit.all(state.meter.id)):
        raise MeterError(
            "role: developer given, this user was a labeler of a test set that is not released: "
            "release it first, or ask another developer"
        )


def _labeled_by(user: str, chain: Iterable[AuditLink]) -> set[int]:
    """Return the test sets that were requested or in use while a user was a labeler."""
    found, seated, current = set(), False, 0
    for link in chain:
        details = link.details
        if link.event == Event.REQUESTED:
            current = int(details["generation"])
        elif details.get("user") == user and details.get("role") == Role.LABELER:
            seated = link.event == Event.MEMBER_ADDED
        if seated:
            found.add(current)
    return found


@needs(Permission.MANAGE)
def remove_seat(_actor: Actor, space: Workspace, user: str, role: Role, tenant: int = 0) -> None:
    """Take a seat away.

    Raises:
        NotFound: there is no such seat.
    """
    with space.writing() as books:
        meter = books.meters.get(space.meter).id
        seat = Seat(user, meter, role, tenant, space.now())
        if not any(replace(each, added_at=seat.added_at) == seat for each in books.seats.at(meter)):
            raise NotFound("member: there is no such seat")
        books.seats.remove(seat)
        books.audit.append(meter, seat.added_at, Event.MEMBER_REMOVED, _details(seat))


def _details(seat: Seat) -> dict[str, str | int]:
    return {"user": seat.user, "role": str(seat.role), "tenant": seat.tenant}


@needs(Permission.MANAGE)
def list_seats(_actor: Actor, space: Workspace) -> list[Seat]:
    """Return the seats at a meter, the oldest first.

    Raises:
        NotFound: there is no such meter.
    """
    with space.reading() as books:
        return books.seats.at(books.meters.get(space.meter).id)


@needs(Permission.MANAGE)
def is_staffed(_actor: Actor, space: Workspace) -> bool:
    """Whether a meter has somebody to give labels and somebody to submit models.

    Raises:
        NotFound: there is no such meter.
    """
    with space.reading() as books:
        seats = books.seats.at(books.meters.get(space.meter).id)
    return {Role.LABELER, Role.DEVELOPER} <= {seat.role for seat in seats}


@needs(Permission.MANAGE)
def seats_of_user(_actor: Actor, site: Site, user: str) -> list[tuple[MeterRecord, Seat]]:
    """Return the seats of a user at all meters, the oldest meter first."""
    with site.reading() as books:
        held = books.seats.of(user)
        return [
            (meter, seat) for meter in books.meters.all() for seat in held if seat.meter == meter.id
        ]
