"""Submitting on a meter's page, and what became of a submission."""

from __future__ import annotations

from fastapi import APIRouter, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import RedirectResponse

from easeml_meter.core.people import Seat
from easeml_meter.core.views import Signal
from easeml_meter.server.api.common import body_of, seat_for
from easeml_meter.server.api.submissions import Model
from easeml_meter.server.parameters import Tenant
from easeml_meter.server.web.meters import Answer, Desk
from easeml_meter.server.web.pages import Visit, VisitHere, wants_fragment
from easeml_meter.service.actor import Permission
from easeml_meter.service.submissions import queue
from easeml_meter.service.submissions.queue import Receipt

router = APIRouter(include_in_schema=False)


@router.post("/meters/{meter}/submit")
async def submit(visit: VisitHere, meter: str, model: Model, tenant: Tenant = None) -> Response:
    """Take a submission: the tar that the API takes; answer with what to put into the page."""
    seat = seat_for(visit.site, visit.caller, meter, Permission.SUBMIT, tenant=tenant)
    body = await body_of(visit.request, visit.settings)
    return await run_in_threadpool(_accepted, visit, seat, model, body)


def _accepted(visit: Visit, seat: Seat, model: str, body: bytes) -> Response:
    receipt, signal = queue.accept(visit.site, seat, model, body)
    if not receipt.final and visit.request.app.state.worker is not None:
        visit.request.app.state.worker.call()
    return _told(visit, seat, receipt, signal)


def _told(visit: Visit, seat: Seat, receipt: Receipt, signal: Signal | None) -> Response:
    """Show what became of a submission; the signal only to those who see signals."""
    opened = Desk.open(visit, seat.meter, seat.tenant)
    seen = signal is not None and opened.may("SEE_SIGNALS")
    answer = Answer.of(signal) if seen and signal is not None else None
    return opened.render("answer.html", receipt=receipt, answer=answer)


@router.get("/meters/{meter}/submissions/{submission}")
def show_submission(
    visit: VisitHere, meter: str, submission: str, tenant: Tenant = None
) -> Response:
    """Tell how far a submission has got."""
    seat = seat_for(
        visit.site, visit.caller, meter, Permission.SEE_SIGNALS, Permission.SUBMIT, tenant=tenant
    )
    if not wants_fragment(visit.request):
        return RedirectResponse(f"/meters/{meter}?tenant={seat.tenant}", 303)
    receipt = queue.receipt(visit.site, seat, submission)
    signal = None
    if Desk.open(visit, meter, seat.tenant).may("SEE_SIGNALS"):
        signal = queue.signal_for(visit.site, seat, receipt)
    return _told(visit, seat, receipt, signal)


@router.post("/meters/{meter}/submissions/{submission}/cancel")
def cancel(visit: VisitHere, meter: str, submission: str, tenant: Tenant = None) -> Response:
    """Take a submission back while it waits."""
    seat = seat_for(visit.site, visit.caller, meter, Permission.SUBMIT, tenant=tenant)
    queue.cancel(visit.site, seat, submission)
    message = "The submission was taken back. It cost nothing."
    return visit.redirect(f"/meters/{meter}?tenant={seat.tenant}", message)
