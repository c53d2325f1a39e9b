"""What was told: signals, the session in use, all sessions, and pictures of them.

Also hand-overs of a checkpoint (shown first, then requested by one team and accepted by the other),
and the audit chain, as far as each role may read it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query
from fastapi.responses import Response
from pydantic import BaseModel, Field

from easeml_meter.core.model import AuditLink
from easeml_meter.core.views import Consequence, SessionView, Signal
from easeml_meter.server.api.common import ApiRoute, Given, Listed, PageHere, gives, paged
from easeml_meter.server.auth import ActorHere, TenantActorHere, WorkspaceHere
from easeml_meter.server.errors import answers
from easeml_meter.server.middleware import REPORT_POLICY
from easeml_meter.service.audit import verify
from easeml_meter.service.handovers import answer_handover, hand_over, list_handovers
from easeml_meter.service.history import list_sessions, show_session

router = APIRouter(tags=["signals"], route_class=ApiRoute)

Generation = Annotated[
    int | None,
    Query(ge=1, le=1_000_000, description="Number of the test set; the one in use unless given."),
]


def the_view(
    actor: TenantActorHere, space: WorkspaceHere, generation: Generation = None
) -> SessionView:
    """Find the session that a request is about."""
    return show_session(actor, space, generation)


ViewHere = Annotated[SessionView, Depends(the_view)]


@router.get("/meters/{meter}/signals", responses=answers(404))
def list_signals(view: ViewHere, page: PageHere) -> Listed[dict[str, Any]]:
    """List a team's answers from a test set, oldest first."""
    return paged(
        view.signals,
        page,
        key=lambda signal: f"{signal.told_at.isoformat()} {signal.tenant} {signal.step:09}",
        show=Signal.to_dict,
    )


@router.get("/meters/{meter}/status", operation_id="show_status", responses=answers(404))
def status(view: ViewHere) -> dict[str, Any]:
    """Show a session, as `meter status --json` does."""
    return view.to_dict()


@router.get("/meters/{meter}/history", operation_id="show_history", responses=answers(404))
def history(actor: TenantActorHere, space: WorkspaceHere, page: PageHere) -> Listed[dict[str, Any]]:
    """Show the sessions of all test sets delivered so far."""
    found = list_sessions(actor, space)
    return paged(found, page, key=lambda view: f"{view.generation:09}", show=SessionView.to_dict)


def _drawing(
    path: str, operation: str, media_type: str, text: str
) -> Callable[[Callable[..., Response]], Callable[..., Response]]:
    """Declare a route that draws a session."""
    return router.get(
        f"/meters/{{meter}}/{path}",
        operation_id=operation,
        responses=answers(404) | gives(media_type, text),
        response_class=Response,
    )


@_drawing("report.html", "draw_report", "text/html", "One page, with all it needs.")
def report(view: ViewHere) -> Response:
    """Draw a session as a page."""
    from easeml_meter.report.page import html_page

    headers = {"Content-Security-Policy": REPORT_POLICY}
    return Response(html_page(view), media_type="text/html", headers=headers)


@_drawing("report.svg", "draw_picture", "image/svg+xml", "The meter, step by step.")
def picture(view: ViewHere) -> Response:
    """Draw a session."""
    from easeml_meter.report.meter import meter_svg

    return Response(meter_svg(view), media_type="image/svg+xml")


@_drawing("badge.svg", "draw_badge", "image/svg+xml", "The last signal.")
def badge(view: ViewHere) -> Response:
    """Draw the last answer as a badge."""
    from easeml_meter.report.badges import badge_svg

    return Response(badge_svg(view), media_type="image/svg+xml")


handing_over = APIRouter(tags=["hand-overs"], route_class=ApiRoute)

Tenant = Annotated[int, Field(ge=1, le=1_000_000)]


class HandoverAsked(Given):
    """Who gives a checkpoint to whom; without `confirm`, only returns what it would cost."""

    giver: Tenant
    receiver: Tenant
    confirm: bool = False


class HandoverAnswered(Given):
    """Whether a team agrees to a hand-over."""

    giver: Tenant
    receiver: Tenant
    accept: bool


class HandoverShown(BaseModel):
    """What a hand-over means for the budget, and who has agreed to it."""

    recorded: bool
    """Whether it counts: all teams in `sharing` have agreed."""
    generation: int
    giver: int
    receiver: int
    sharing: list[int]
    steps_left_before: list[int]
    steps_left_after: int
    labels_planned_shared: int
    spends: bool
    """Whether the test set is spent afterwards."""
    agreed: list[int]
    waiting_for: list[int]
    """The teams that have not agreed yet."""
    sentence: str
    standing: str


@handing_over.get(
    "/meters/{meter}/handovers", operation_id="list_handovers", responses=answers(404)
)
def list_requested(actor: ActorHere, space: WorkspaceHere, page: PageHere) -> Listed[HandoverShown]:
    """List the hand-overs that wait for a team to agree: your team's; admins see all."""

    def place(found: Consequence) -> str:
        return f"{found.giver:09} {found.receiver:09}"

    waiting = sorted(list_handovers(actor, space), key=place)
    return paged(waiting, page, key=place, show=_handover_shown)


@handing_over.post(
    "/meters/{meter}/handovers",
    operation_id="request_handover",
    responses=answers(404, 409, 413),
)
def handover(actor: ActorHere, space: WorkspaceHere, given: HandoverAsked) -> HandoverShown:
    """Return what a hand-over would do to the budget; with `confirm`, request it.

    It counts once every team that would share the history has agreed.
    """
    return _handover_shown(
        hand_over(actor, space, given.giver, given.receiver, confirm=given.confirm)
    )


@handing_over.post(
    "/meters/{meter}/handovers/answer",
    operation_id="answer_handover",
    responses=answers(404, 409),
)
def answer(actor: ActorHere, space: WorkspaceHere, given: HandoverAnswered) -> HandoverShown:
    """Agree to a hand-over that was requested, or decline it (the other team, or an admin)."""
    return _handover_shown(
        answer_handover(actor, space, given.giver, given.receiver, accept=given.accept)
    )


def _handover_shown(found: Consequence) -> HandoverShown:
    return HandoverShown(**found.to_json())


auditing = APIRouter(tags=["audit"], route_class=ApiRoute)


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
    restored: list[str]
    """When the books came from a backup; they are sound all the same."""
    items: list[Link]
    next: str | None


@auditing.get("/meters/{meter}/audit", operation_id="show_audit", responses=answers(404))
def audit(actor: ActorHere, space: WorkspaceHere, page: PageHere) -> AuditShown:
    """Verify the chain of everything that was disclosed, and show it, the oldest link first.

    Developers see the answers of their own team; admins see only that there were some.
    """
    found = verify(actor, space)
    shown = paged(found.links, page, key=lambda link: f"{link.number:09}", show=_link_shown)
    return AuditShown(
        sound=found.sound,
        problems=list(found.problems),
        restored=list(found.restored),
        items=shown.items,
        next=shown.next,
    )


def _link_shown(link: AuditLink) -> Link:
    return Link(
        number=link.number,
        at=link.at,
        event=link.event,
        details=link.details,
        digest=link.digest or None,
    )
