"""What was told: signals, the session in use, all sessions, and pictures of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query
from fastapi.responses import Response

from easeml_meter.core.views import SessionView, Signal
from easeml_meter.server.api.common import Listed, PageHere, gives, paged
from easeml_meter.server.api.routing import ApiRoute
from easeml_meter.server.auth import TenantActorHere, WorkspaceHere
from easeml_meter.server.errors import answers
from easeml_meter.server.middleware import REPORT_POLICY
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
