"""Submissions: predictions are answered at once, models wait for their turn."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import nullcontext
from dataclasses import asdict, fields
from functools import partial
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, StreamingResponse
from pydantic import BaseModel, Field

from easeml_meter.core.submissions import LONGEST_LINK, LONGEST_NOTE, Receipt
from easeml_meter.core.views import Signal
from easeml_meter.scoring.ids import RowMatching
from easeml_meter.server.api.common import ApiRoute, Given, Listed, PageHere, paged
from easeml_meter.server.api.forms import handed_in, submission_body, submission_of
from easeml_meter.server.auth import (
    CallerHere,
    TenantActorHere,
    WorkspaceHere,
    at_meter,
    at_tenant,
    the_workspace,
)
from easeml_meter.server.errors import answers
from easeml_meter.server.parameters import (
    Id,
    MeterKey,
    Tenant,
    documented_query,
    one_line,
    read_query,
)
from easeml_meter.service.actor import Actor, permit
from easeml_meter.service.place import Workspace
from easeml_meter.service.submissions import checking, queue
from easeml_meter.service.submissions.answering import Seen
from easeml_meter.service.submissions.deciding import promote

router = APIRouter(tags=["submissions"], route_class=ApiRoute)

Wait = Annotated[float, Query(ge=0, le=60, description="Seconds to wait for the answer.")]
Model = Annotated[str, Query(min_length=1, max_length=200, description="Name of the model.")]

IdColumn = Annotated[
    str, one_line("Column of the ids in both files; by default the name it has in each set.")
]
NoIds = Annotated[bool, Query(description="Rely on the order of the rows, and do not look at ids.")]
Missing = Annotated[
    Literal["refuse", "wrong"],
    Query(description="What rows without a prediction are: refused, or counted as wrong."),
]


# Not in a thread, as there is nothing to wait for.
async def matching_of(
    id_column: IdColumn = "", no_ids: NoIds = False, missing: Missing = "refuse"
) -> RowMatching:
    """Return how a request wants rows to be matched."""
    return _matching(id_column, no_ids, missing)


def _matching(id_column: str, no_ids: bool, missing: str) -> RowMatching:
    return RowMatching(id_column or None, in_order=no_ids, missing_wrong=missing == "wrong")


Once = Annotated[
    bool,
    Query(
        description="If a model of this name was answered before (same team, same validation set), "
        "repeat that answer at no cost, without looking at the files."
    ),
]
Baseline = Annotated[
    bool,
    Query(description="The models after it are compared with it: needed once for each test set."),
]
NoteText = Annotated[
    str,
    Query(
        max_length=LONGEST_NOTE,
        description="A line shown with the answer. A repetition keeps the first.",
    ),
]
NoteLink = Annotated[
    str,
    Query(
        max_length=LONGEST_LINK,
        description="Link to a commit or a run, shown with the note: http or https.",
    ),
]
InUse = Annotated[
    int | None,
    Query(
        ge=1,
        le=1_000_000,
        description="Number of the set in use when this was sent first, so that every try is one "
        "submission: if another one is in use now, and this was not answered, it is refused.",
    ),
]
MatchingHere = Annotated[RowMatching, Depends(matching_of)]

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


class SubmissionAsked(BaseModel):
    """What the query of a submission says."""

    model: Model
    once: Once = False
    baseline: Baseline = False
    note: NoteText = ""
    link: NoteLink = ""
    wait: Wait = 0
    tenant: Tenant = None
    id_column: IdColumn = ""
    no_ids: NoIds = False
    missing: Missing = "refuse"
    test_set: InUse = None
    validation_set: InUse = None

    @property
    def matching(self) -> RowMatching:
        """How rows are matched."""
        return _matching(self.id_column, self.no_ids, self.missing)


async def submission_asked(
    request: Request, caller: CallerHere, meter: MeterKey
) -> tuple[SubmissionAsked, Actor, Workspace]:
    """Return what a submission asks for, who asks, and the meter that the path names."""
    try:
        asked = read_query(SubmissionAsked, request)
    except RequestValidationError:
        # Whoever has no seat learns no more than that, as everywhere else.
        await at_meter(request, caller, meter)
        raise
    actor = await at_tenant(request, caller, meter, asked.tenant)
    return asked, actor, await the_workspace(request, caller, meter)


AskedHere = Annotated[tuple[SubmissionAsked, Actor, Workspace], Depends(submission_asked)]


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
    """A submission, with its answer (`signal`) for those who may see it."""

    signal: dict[str, Any] | None


class PromotionAsked(Given):
    """The name of a model that has passed."""

    model: Annotated[str, Field(min_length=1, max_length=200)]


class Promoted(BaseModel):
    """The model that the next ones are compared with."""

    model: str
    step: int


class FileRead(BaseModel):
    """How a file of predictions was read; `matched` ids are told to those who see the inputs."""

    rows: int
    matched: int | None
    missing: int
    first: list[Any]


class SubmissionChecked(BaseModel):
    """What the meter understands of a submission: files, class order, and which answer it uses."""

    kind: str
    tenant: int
    generation: int
    answer: int
    answers: int
    repeated: bool
    baseline: bool
    """It becomes the model that others are compared with, which uses no answer."""
    test: FileRead | None
    validation: FileRead | None
    classes: list[str | int]
    validation_loss: float | None


@router.post(
    "/meters/{meter}/submissions",
    responses=answers(404, 409, 413)
    | {202: {"model": SubmissionShown, "description": "It waits, or is under way."}},
    response_model=SubmissionShown,
    openapi_extra=submission_body() | documented_query(SubmissionAsked),
)
async def submit(request: Request, given: AskedHere) -> Response:
    """Hand in a form with the files `test` and `validation`, `onnx`, or `command` and `files`.

    `command` is a command line, which is run where the files are; `executable` names those of them
    that are executable. Predictions are answered at
    once. The answer to a model is waited for as long as `wait` says.
    """
    asked, actor, space = given
    permit(actor, queue.accept)  # before a body is read that may be large
    charged = partial(queue.charged, actor, space)
    body = await handed_in(request, request.app.state.settings, charged)
    accept = partial(
        queue.accept,
        actor,
        space,
        asked.model,
        body,
        matching=asked.matching,
        once=asked.once,
        baseline=asked.baseline,
        note=asked.note,
        link=asked.link,
        seen=Seen(asked.test_set, asked.validation_set),
    )
    receipt, signal = await request.app.state.submitting(accept)
    if receipt.final:
        return JSONResponse(_shown(receipt, signal))
    # The worker of this process need not wait until it looks again by itself.
    if request.app.state.worker is not None:
        request.app.state.worker.call()
    # Where too many wait, it was accepted all the same, which must be said.
    wait = 0 if request.app.state.limits.waits.full(actor.user) else asked.wait
    receipt = await _settled(request, actor, space, receipt.id, wait)
    return await run_in_threadpool(_answer, actor, space, receipt)


@router.post(
    "/meters/{meter}/submissions/check",
    responses=answers(404, 409, 413),
    response_model=SubmissionChecked,
    openapi_extra=submission_body(),
)
async def check_submission(
    request: Request,
    actor: TenantActorHere,
    space: WorkspaceHere,
    matching: MatchingHere,
) -> dict[str, Any]:
    """Say how the same form would be understood, without submitting it. This costs nothing.

    No label of the test set is looked at, and no model is run.
    """
    permit(actor, checking.check_packed)
    body = await submission_of(request, request.app.state.settings)
    found = await run_in_threadpool(checking.check_packed, actor, space, body, matching)
    return found.to_json()


@router.post("/meters/{meter}/submissions/promote", responses=answers(404, 409))
def promote_model(actor: TenantActorHere, space: WorkspaceHere, given: PromotionAsked) -> Promoted:
    """Compare the next submissions with a model that has passed: the new `o` of `n - o`."""
    entry = promote(actor, space, given.model)
    return Promoted(model=entry.model, step=entry.step)


def _shown(receipt: Receipt, signal: Signal | None) -> dict[str, Any]:
    told = {field.name: getattr(receipt, field.name) for field in fields(receipt)}
    return told | {"signal": None if signal is None else signal.to_dict()}


def _answer(actor: Actor, space: Workspace, receipt: Receipt) -> JSONResponse:
    shown = _shown(receipt, queue.signal_for(actor, space, receipt))
    return JSONResponse(shown, 200 if receipt.final else 202)


async def _settled(
    request: Request, actor: Actor, space: Workspace, submission: str, wait: float
) -> Receipt:
    """Return a submission when it is answered, or when the wait is over."""
    end = time.monotonic() + wait
    with request.app.state.limits.waits.counted(actor.user) if wait else nullcontext():
        while True:
            receipt = await run_in_threadpool(queue.receipt, actor, space, submission)
            left = end - time.monotonic()
            # A server that stops does not wait for a model: the client asks again.
            if receipt.final or left <= 0 or request.app.state.stopping.is_set():
                return receipt
            await asyncio.sleep(min(left, _LOOK))


@router.get("/meters/{meter}/submissions", responses=answers(404))
def list_submissions(
    actor: TenantActorHere, space: WorkspaceHere, page: PageHere
) -> Listed[SubmissionListed]:
    """List a team's submissions, newest first."""
    return paged(
        queue.receipts(actor, space),
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
async def show_submission(
    request: Request,
    actor: TenantActorHere,
    space: WorkspaceHere,
    submission: Id,
    wait: Wait = 0,
) -> Response:
    """Show a submission, as soon as it is answered or the wait is over."""
    receipt = await _settled(request, actor, space, submission, wait)
    return await run_in_threadpool(_answer, actor, space, receipt)


@router.get(
    "/meters/{meter}/submissions/{submission}/events",
    operation_id="follow_submission",
    responses=answers(404) | _EVENTS,
    response_class=StreamingResponse,
)
async def submission_events(
    request: Request,
    actor: TenantActorHere,
    space: WorkspaceHere,
    submission: Id,
) -> StreamingResponse:
    """Send each change of a submission's state until it is answered."""
    # Counted here to be refused with a status, and again for as long as the stream lasts.
    with request.app.state.limits.waits.counted(actor.user):
        first = await run_in_threadpool(queue.receipt, actor, space, submission)
    return StreamingResponse(_events(request, actor, space, first), media_type="text/event-stream")


async def _events(
    request: Request, actor: Actor, space: Workspace, receipt: Receipt
) -> AsyncIterator[str]:
    told, quiet_since = None, time.monotonic()
    waits = request.app.state.limits.waits
    if waits.full(actor.user):
        return  # by now it is too late to refuse: the status was sent
    with waits.counted(actor.user):
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
            receipt = await run_in_threadpool(queue.receipt, actor, space, receipt.id)


@router.delete(
    "/meters/{meter}/submissions/{submission}", status_code=204, responses=answers(404, 409)
)
def cancel_submission(actor: TenantActorHere, space: WorkspaceHere, submission: Id) -> None:
    """Withdraw a submission before a worker starts it; this costs nothing."""
    queue.cancel(actor, space, submission)
