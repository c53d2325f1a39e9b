"""Requests for labels: what labelers are asked for, and how far it has got."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Response
from pydantic import BaseModel, Field

from easeml_meter.core.model import stamp
from easeml_meter.errors import invalid
from easeml_meter.server.api.common import Given, Listed, PageHere, paged, seat_for
from easeml_meter.server.api.routing import ApiRoute
from easeml_meter.server.auth import CallerHere, SiteHere
from easeml_meter.server.errors import answers
from easeml_meter.server.parameters import Id, Number
from easeml_meter.service.actor import Permission
from easeml_meter.service.testsets import parts, requests

router = APIRouter(tags=["requests for labels"], route_class=ApiRoute)


class PartShown(BaseModel):
    """Labels that have arrived."""

    number: int
    rows: int
    added_by: str
    added_at: str


class RequestShown(BaseModel):
    """Labels that are asked for."""

    generation: int
    labels_needed: int
    labels_here: int
    reason: str | None
    deadline: str | None
    recipients: list[str]
    """Public keys (age) to seal the labels to."""
    since: str
    parts: list[PartShown]


class Described(Given):
    """Why labels are asked for, and until when; what is left out is taken back."""

    reason: (
        Annotated[str, Field(min_length=1, max_length=500, pattern=r"^[^\x00-\x1f\x7f]+$")] | None
    ) = None
    deadline: Annotated[str, Field(max_length=32, description="ISO 8601, with a zone.")] | None = (
        None
    )


@router.get("/meters/{meter}/requests", responses=answers(404))
def list_requests(
    site: SiteHere, caller: CallerHere, meter: Id, page: PageHere
) -> Listed[RequestShown]:
    """List the open requests."""
    seat_for(site, caller, meter, Permission.SEE_REQUESTS)
    found = requests.requests(site.space(meter))
    return paged(
        found,
        page,
        key=lambda each: f"{each.generation.number:09}",
        show=lambda each: _shown(each, site.identity.recipient),
    )


def _shown(request: requests.Request, recipient: str) -> RequestShown:
    row = request.generation
    return RequestShown(
        generation=row.number,
        labels_needed=row.labels_needed,
        labels_here=request.labels_here,
        reason=row.reason,
        deadline=row.deadline,
        recipients=[recipient],
        since=row.changed_at,
        parts=[
            PartShown(
                number=part.number, rows=part.rows, added_by=part.added_by, added_at=part.added_at
            )
            for part in request.parts
        ],
    )


@router.patch("/meters/{meter}/requests/{number}", responses=answers(404, 409, 413))
def describe_request(
    site: SiteHere, caller: CallerHere, meter: Id, number: Number, given: Described
) -> RequestShown:
    """Say why the labels are asked for, and until when (a labeler or an admin)."""
    seat_for(site, caller, meter, Permission.SEE_REQUESTS)
    described = requests.describe_request(
        site.space(meter), number, reason=given.reason, deadline=_moment(given.deadline)
    )
    return _shown(described, site.identity.recipient)


def _moment(text: str | None) -> str | None:
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is not None:
            return stamp(moment.astimezone(UTC))
    except (ValueError, OverflowError):
        pass
    raise invalid("deadline", text, "a moment such as 2026-03-31T18:00:00+00:00")


@router.delete(
    "/meters/{meter}/requests/{number}/parts/{part}", status_code=204, responses=answers(404, 409)
)
def withdraw_part(
    site: SiteHere, caller: CallerHere, meter: Id, number: Number, part: Number
) -> Response:
    """Take back labels that turned out wrong, before the test set begins (a labeler)."""
    seat_for(site, caller, meter, Permission.ADD_TEST_SET)
    parts.withdraw(site.space(meter), number, part)
    return Response(status_code=204)
