"""The audit chain, as far as each role may read it."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel

from easeml_meter.core.model import AuditLink
from easeml_meter.core.people import Role
from easeml_meter.server.api.common import PageHere, paged
from easeml_meter.server.api.routing import ApiRoute
from easeml_meter.server.auth import CallerHere, SiteHere, meter_for
from easeml_meter.server.errors import answers
from easeml_meter.server.parameters import Id
from easeml_meter.service.actor import Permission

router = APIRouter(tags=["audit"], route_class=ApiRoute)


class Link(BaseModel):
    """One link of the chain."""

    number: int
    at: str
    event: str
    details: dict[str, Any]
    digest: str | None
    """None where details of any link are left out."""


class AuditShown(BaseModel):
    """A page of the chain, and whether all of it fits."""

    sound: bool
    problems: list[str]
    items: list[Link]
    next: str | None


@router.get("/meters/{meter}/audit", responses=answers(404))
def audit(site: SiteHere, caller: CallerHere, meter: Id, page: PageHere) -> AuditShown:
    """Verify the chain of everything that was disclosed, and show it, the oldest link first.

    Of answers, developers read those of their own tenant, and admins only that there were some.
    """
    found = meter_for(site, caller, meter, Permission.AUDIT).audit()
    seats = caller.seats(meter)
    own = {seat.tenant for seat in seats if seat.role is Role.DEVELOPER}
    everything = any(seat.role is Role.LABELER for seat in seats)
    # Each digest holds the one before: any of them would let what is hidden be guessed.
    whole = everything or all(_of(link) <= own for link in found.links)
    shown = paged(
        found.links,
        page,
        key=lambda link: f"{link.number:09}",
        show=lambda link: Link(
            number=link.number,
            at=link.at,
            event=link.event,
            details=link.details if everything or _of(link) <= own else {},
            digest=link.digest if whole else None,
        ),
    )
    return AuditShown(
        sound=not found.problems,
        problems=list(found.problems),
        items=shown.items,
        next=shown.next,
    )


def _of(link: AuditLink) -> set[int]:
    """Give the tenants whose answers a link is about, or follows from."""
    details = link.details
    match link.event:
        case "told":
            return {details["tenant"]}
        case "handed over":
            return {details["giver"], details["receiver"]}
        case "books were behind the journal":
            return {tenant for tenant, _ in details["tenant_and_step"]}
    return set()
