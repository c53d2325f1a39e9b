"""Seats at a meter: an admin's to give. Routes and JSON call them members."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Literal

from fastapi import APIRouter, Path, Response
from pydantic import BaseModel, Field

from easeml_meter.core.people import Role, Seat
from easeml_meter.server.api.common import Given, Line, Listed, PageHere, paged
from easeml_meter.server.api.routing import ApiRoute
from easeml_meter.server.auth import ActorHere, UserHere, WorkspaceHere
from easeml_meter.server.errors import answers
from easeml_meter.service import seats
from easeml_meter.service.users import find_user

router = APIRouter(tags=["accounts"], route_class=ApiRoute)

SeatRole = Literal["developer", "labeler", "runner"]


class NewMember(Given):
    """A seat to give. Developers and runners belong to a team, numbered from 1."""

    user: Line
    """Id of the user, or their name."""
    role: SeatRole
    tenant: Annotated[int, Field(ge=0, le=1_000_000)] = 0


class MemberShown(BaseModel):
    """A seat at a meter."""

    user: str
    meter: str
    role: str
    tenant: int
    added_at: str


def member_shown(seat: Seat) -> MemberShown:
    """Return a seat as JSON shows it."""
    return MemberShown(**asdict(seat))


@router.get("/meters/{meter}/members", responses=answers(404))
def list_members(actor: ActorHere, space: WorkspaceHere, page: PageHere) -> Listed[MemberShown]:
    """List who has a seat at a meter (admins)."""
    return paged(
        seats.list_seats(actor, space),
        page,
        key=lambda seat: f"{seat.added_at} {seat.user} {seat.role} {seat.tenant:07}",
        show=member_shown,
    )


@router.post(
    "/meters/{meter}/members",
    status_code=201,
    responses=answers(404, 409, 413),
)
def add_member(actor: ActorHere, space: WorkspaceHere, given: NewMember) -> MemberShown:
    """Give a user a seat at a meter (admins)."""
    user = find_user(actor, space, given.user)
    return member_shown(seats.add_seat(actor, space, user, Role(given.role), given.tenant))


@router.delete(
    "/meters/{meter}/members/{user}/{role}/{tenant}", status_code=204, responses=answers(404)
)
def remove_member(
    actor: ActorHere,
    space: WorkspaceHere,
    user: UserHere,
    role: SeatRole,
    tenant: Annotated[int, Path(ge=0, le=1_000_000)],
) -> Response:
    """Take a seat away (admins). Tenant 0 stands for roles without one."""
    seats.remove_seat(actor, space, user, Role(role), tenant)
    return Response(status_code=204)
