"""The audit chain, as far as each role may read it."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel

from easeml_meter.core.model import AuditLink
from easeml_meter.server.api.common import PageHere, paged
from easeml_meter.server.api.routing import ApiRoute
from easeml_meter.server.auth import ActorHere, WorkspaceHere
from easeml_meter.server.errors import answers
from easeml_meter.service.audit import verify

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


@router.get("/meters/{meter}/audit", operation_id="show_audit", responses=answers(404))
def audit(actor: ActorHere, space: WorkspaceHere, page: PageHere) -> AuditShown:
    """Verify the chain of everything that was disclosed, and show it, the oldest link first.

    Developers see the answers of their own team; admins see only that there were some.
    """
    found = verify(actor, space)
    shown = paged(found.links, page, key=lambda link: f"{link.number:09}", show=_shown)
    return AuditShown(
        sound=not found.problems,
        problems=list(found.problems),
        items=shown.items,
        next=shown.next,
    )


def _shown(link: AuditLink) -> Link:
    return Link(
        number=link.number,
        at=link.at,
        event=link.event,
        details=link.details,
        digest=link.digest or None,
    )
