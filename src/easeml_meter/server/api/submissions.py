"""Submissions: predictions are answered at once, models wait for their turn."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse, StreamingResponse
from pydantic import BaseModel

from easeml_meter.core.people import Seat
from easeml_meter.core.views import Signal, signal_json
from easeml_meter.server.api.common import Listed, PageHere, body_of, paged, raw, seat_for
from easeml_meter.server.api.routing import ApiRoute
from easeml_meter.server.auth import CallerHere, SiteHere, find_caller
from easeml_meter.server.errors import answers
from easeml_meter.server.idempotency import KEY_HEADER, Key, once_streamed
from easeml_meter.server.parameters import Id, Tenant
from easeml_meter.service.actor import Permission, allowed
from easeml_meter.service.place import Site
from easeml_meter.service.submissions import queue
from easeml_meter.service.submissions.queue import Receipt
from easeml_meter.service.tokens import Caller

router = APIRouter(tags=["submissions"], route_class=ApiRoute)

Wait = Annotated[float, Query(ge=0, le=60, description="Seconds to wait for the answer.")]
Model = Annotated[str, Query(min_length=1, max_length=200, description="Name of the model.")]

_READING = (Permission.SEE_SIGNALS, Permission.SUBMIT)
"""Who may ask about submissions: whoever sees their signals, or hands them in."""
_SMALL = 1 << 20
"""Bytes of a submission that is taken together with others."""
_LOOK = 0.2
"""Seconds between two looks at a submission that somebody waits for."""
_SIGN_OF_LIFE = 15.0


_STATE = {"type": "string", "const": "state"}
_DATA = {"type": "string", "contentMediaType": "application/json"}
_EVENTS: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Server-sent events, one for each state; data is its id and state.",
        "content": {
            "text/event-stream": {
                "itemSchema": {"type": "object", "properties": {"event": _STATE, "data": _DATA}}
            }
        },
    }
}


class SubmissionListed(BaseModel):
    """A submission in a list."""

    id: str
    state: str
    kind: str
    model: str
    tenant: int
    generation: int | None
    step: int | None
    created_at: str
    problem: dict[str, str] | None


class SubmissionShown(SubmissionListed):
    """A submission, and its signal for those who may see it."""

    signal: dict[str, Any] | None


class SubmissionRoute(ApiRoute):
    """Takes plain requests past FastAPI's dependencies, which took a fifth of all time.

    Plain is what cannot be refused for its parameters; all else goes the usual way.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Choose the way."""
        usual = super().get_route_handler()

        async def handle(request: Request) -> Response:
            given = plainly_given(request)
            if given is None:
                return await usual(request)
            return await submit(request, await find_caller(request), **given)

        return handle


_PLAIN: dict[str, tuple[str, Callable[[str], Any]]] = {
    "meter": (r"[0-9a-f]{32}", str),
    "model": (r"[ -~]{1,200}", str),
    "tenant": (r"[1-9][0-9]{0,5}", int),
    "wait": (r"[1-5]?[0-9](\.[0-9]{1,3})?", float),
    KEY_HEADER.lower(): (r"[!-~]{1,200}", str),
}


def plainly_given(request: Request) -> dict[str, Any] | None:
    """Read the parameters of a submission, if each is plain and there once; else None."""
    headers = [(KEY_HEADER.lower(), value) for value in request.headers.getlist(KEY_HEADER)]
    given: dict[str, Any] = {}
    for name, value in [
        *request.path_params.items(),
        *request.query_params.multi_items(),
        *headers,
    ]:
        pattern, convert = _PLAIN.get(name, ("", str))
        if name in given or not re.fullmatch(pattern, value):
            return None
        given[name] = convert(value)
    if "model" not in given:
        return None
    return {name.rpartition("-")[2]: value for name, value in given.items()}


submitting = APIRouter(tags=["submissions"], route_class=SubmissionRoute)
"""For the one route that is asked more often than all others."""


@submitting.post(
    "/meters/{meter}/submissions",
    responses=answers(404, 409, 413)
    | {202: {"model": SubmissionShown, "description": "It waits, or is under way."}},
    response_model=SubmissionShown,
    openapi_extra=raw("application/x-tar"),
)
async def submit(  # noqa: PLR0917
    request: Request,
    caller: CallerHere,
    meter: Id,
    model: Model,
    tenant: Tenant = None,
    wait: Wait = 0,
    key: Key = None,
) -> Response:
    """Hand in a tar of test.EXT and validation.EXT, of model.onnx, or of command and files/NAME.

    `command` holds a command line, which is run where the files are. Predictions are answered at
    once. The answer to a model is waited for as long as `wait` says.
    """
    site: Site = request.app.state.site
    seat = seat_for(site, caller, meter, Permission.SUBMIT, tenant=tenant)
    body = await body_of(request, request.app.state.settings)
    seen = _may_see(caller, seat)

    handed = queue.Handed(site, seat, model, body)

    async def make() -> tuple[int, dict[str, Any]]:
        receipt, signal = await _accepted(request, handed)
        return 200 if receipt.final else 202, _shown(receipt, signal if seen else None)

    answer = await once_streamed(request, caller, key).answer(make, body=body)
    if answer.status_code != 202:
        return answer
    if request.app.state.worker is not None:
        request.app.state.worker.call()
    receipt = await _settled(request, site, seat, json.loads(bytes(answer.body))["id"], wait)
    return await run_in_threadpool(_answer, site, caller, seat, receipt)


async def _accepted(request: Request, handed: queue.Handed) -> queue.Accepted:
    """Take small submissions that come at the same time together; a large one makes none wait."""
    if len(handed.body) <= _SMALL:
        found: queue.Accepted = await request.app.state.submissions(handed.seat.meter, handed)
        return found
    return await run_in_threadpool(
        queue.accept, handed.site, handed.seat, handed.model, handed.body
    )


def _may_see(caller: Caller, seat: Seat) -> bool:
    """Tell whether the caller sees the signals of a seat's tenant; a runner does not."""
    return any(
        allowed(each.role, Permission.SEE_SIGNALS) and each.tenant in (0, seat.tenant)
        for each in caller.seats(seat.meter)
    )


def _shown(receipt: Receipt, signal: Signal | None) -> dict[str, Any]:
    return vars(receipt) | {"signal": None if signal is None else signal_json(signal)}


def _answer(site: Site, caller: Caller, seat: Seat, receipt: Receipt) -> JSONResponse:
    signal = queue.signal_for(site, seat, receipt) if _may_see(caller, seat) else None
    return JSONResponse(_shown(receipt, signal), 200 if receipt.final else 202)


async def _settled(
    request: Request, site: Site, seat: Seat, submission: str, wait: float
) -> Receipt:
    """Give a submission when it is answered, or when the wait is over."""
    end = time.monotonic() + wait
    while True:
        receipt = await run_in_threadpool(queue.receipt, site, seat, submission)
        left = end - time.monotonic()
        if receipt.final or left <= 0 or request.app.state.stopping.is_set():
            return receipt
        await asyncio.sleep(min(left, _LOOK))


@router.get("/meters/{meter}/submissions", responses=answers(404))
def list_submissions(
    site: SiteHere, caller: CallerHere, meter: Id, page: PageHere, tenant: Tenant = None
) -> Listed[SubmissionListed]:
    """List a tenant's submissions, the newest first."""
    seat = seat_for(site, caller, meter, *_READING, tenant=tenant)
    return paged(
        queue.receipts(site, seat),
        page,
        key=lambda receipt: f"{receipt.created_at} {receipt.id}",
        show=lambda receipt: SubmissionListed(**asdict(receipt)),
        falling=True,
    )


@router.get(
    "/meters/{meter}/submissions/{submission}",
    responses=answers(404)
    | {202: {"model": SubmissionShown, "description": "It waits, or is under way."}},
    response_model=SubmissionShown,
)
async def show_submission(  # noqa: PLR0917
    request: Request,
    site: SiteHere,
    caller: CallerHere,
    meter: Id,
    submission: Id,
    tenant: Tenant = None,
    wait: Wait = 0,
) -> Response:
    """Show a submission, as soon as it is answered or the wait is over."""
    seat = seat_for(site, caller, meter, *_READING, tenant=tenant)
    receipt = await _settled(request, site, seat, submission, wait)
    return await run_in_threadpool(_answer, site, caller, seat, receipt)


@router.get(
    "/meters/{meter}/submissions/{submission}/events",
    responses=answers(404) | _EVENTS,
    response_class=StreamingResponse,
)
async def submission_events(  # noqa: PLR0917
    request: Request,
    site: SiteHere,
    caller: CallerHere,
    meter: Id,
    submission: Id,
    tenant: Tenant = None,
) -> StreamingResponse:
    """Tell each change of a submission's state until it is answered."""
    seat = seat_for(site, caller, meter, *_READING, tenant=tenant)
    first = await run_in_threadpool(queue.receipt, site, seat, submission)
    return StreamingResponse(_events(request, site, seat, first), media_type="text/event-stream")


async def _events(request: Request, site: Site, seat: Seat, receipt: Receipt) -> AsyncIterator[str]:
    told, quiet_since = None, time.monotonic()
    while True:
        if receipt.state != told:
            told, quiet_since = receipt.state, time.monotonic()
            yield f"event: state\ndata: {json.dumps({'id': receipt.id, 'state': told})}\n\n"
        elif time.monotonic() - quiet_since > _SIGN_OF_LIFE:
            quiet_since = time.monotonic()
            yield ": waiting\n\n"
        if receipt.final or request.app.state.stopping.is_set():
            return
        await asyncio.sleep(_LOOK)
        receipt = await run_in_threadpool(queue.receipt, site, seat, receipt.id)


@router.delete(
    "/meters/{meter}/submissions/{submission}", status_code=204, responses=answers(404, 409)
)
def cancel_submission(
    site: SiteHere, caller: CallerHere, meter: Id, submission: Id, tenant: Tenant = None
) -> Response:
    """Take a submission back while it waits; it costs nothing."""
    seat = seat_for(site, caller, meter, Permission.SUBMIT, tenant=tenant)
    queue.cancel(site, seat, submission)
    return Response(status_code=204)
