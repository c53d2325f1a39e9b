"""Seats: who has which role at a meter. One role per person and meter."""

from __future__ import annotations

from dataclasses import replace
from math import inf

from easeml_meter.core.history import MeterState, sharing
from easeml_meter.core.lifecycle import Phase
from easeml_meter.core.model import Event, MeterRecord
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
        count = spec.meter.budget.apart
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
        if before := [each for each in held if each.tenant == tenant]:
            return before[0]
        if role is Role.DEVELOPER and held:
            raise MeterError(
                f"tenant: {tenant} given, this user is a developer of another one: one team each, "
                "unless the meter is made with handover = true"
            )
        if role is not Role.LABELER:
            _check_knowledge(books, space.state(books), user, role, tenant)
        seat = Seat(user, meter.id, role, tenant, space.now())
        books.seats.add(seat)
        books.audit.append(meter.id, seat.added_at, Event.MEMBER_ADDED, _details(seat))
    return seat


def _check_knowledge(books: Books, state: MeterState, user: str, role: Role, team: int) -> None:
    """Refuse a developer or runner whose knowledge the promise does not allow for.

    Labels count until they are released; hidden inputs and answers of another team, which shares no
    history, as long as the rows are in use. What a seat may have shown is taken as known.
    """
    chain, meter = books.audit.all(state.meter.id), state.meter.id
    first: dict[tuple[str, int, int], int] = {}
    until: dict[tuple[str, int], float] = {}
    for link in chain:
        found = link.details
        if found.get("user") == user and "role" in found:
            added = link.event == Event.MEMBER_ADDED
            until[found["role"], found["tenant"]] = inf if added else link.number
        about = (link.event, found.get("generation", 0), found.get("tenant", 0))
        first.setdefault(about, link.number)
    coming = [each for each in books.uploads.all() if each.meter == meter and not each.digest]
    uploading = user in {each.user for each in coming}

    def sat(as_role: Role, event: Event, number: int, of: int = 0) -> bool:
        ends = (until[each, its] for each, its in until if each == as_role and of in (0, its))
        return max(ends, default=0) > first.get((event, number, of), inf)

    for test_set in state.generations:
        number, phase = test_set.number, test_set.phase
        here = uploading or (Event.PART_ADDED, number, 0) in first
        labels = phase in (Phase.ACTIVE, Phase.SPENT) or (here and phase is Phase.REQUESTED)
        if labels and sat(Role.LABELER, Event.REQUESTED, number):
            raise MeterError(
                f"role: {role} given, this user was a labeler of a test set that is not released: "
                "release it first, or ask somebody else"
            )
        if state.last_sharing(test_set) < state.generations[-1].number:
            continue
        hidden = state.spec.meter.sample.inputs == "hidden" and role is Role.DEVELOPER
        if hidden and sat(Role.RUNNER, Event.TEST_SET_ADDED, number):
            raise MeterError(
                f"role: developer given, this user was a runner with the hidden inputs of test set "
                f"{number}: wait until it is spent, or ask somebody else"
            )
        shared = sharing(team, books.handovers.all(meter, number))
        for other in set(range(1, state.tenants + 1)) - set(shared):
            if sat(Role.DEVELOPER, Event.TOLD, number, other):
                raise MeterError(
                    f"tenant: {team} given, this user has seen answers of team {other} on test set "
                    f"{number}: wait until it is spent, or record a hand-over of both teams"
                )


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
