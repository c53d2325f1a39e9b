"""Uploads of sealed files: announced, sent in pieces of any size, resumed where they broke off."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field
from starlette.requests import ClientDisconnect

from easeml_meter.core.model import Upload
from easeml_meter.errors import TooLarge
from easeml_meter.server.api.common import Given, Line, pair_of, raw
from easeml_meter.server.api.routing import ApiRoute
from easeml_meter.server.auth import ActorHere, SettingsHere, WorkspaceHere
from easeml_meter.server.errors import answers
from easeml_meter.server.idempotency import OnceHere
from easeml_meter.server.limits import streamed
from easeml_meter.server.parameters import Id
from easeml_meter.service import uploads
from easeml_meter.service.uploads import LARGEST, Inbox, Piece

router = APIRouter(tags=["uploads"], route_class=ApiRoute)

_BUFFER = 1 << 20


class NewUpload(Given):
    """A file to be sent."""

    name: Line
    size: Annotated[int, Field(ge=1, le=LARGEST)]


class UploadShown(BaseModel):
    """How far an upload has got."""

    id: str
    name: str
    size: int
    offset: int
    """Bytes from the beginning that are here, on disk: a piece that begins there is next."""
    missing: list[Annotated[tuple[int, int], pair_of("integer")]]
    """Where the ranges that are not here begin and end: their pieces may come at the same time."""


async def the_inbox(space: WorkspaceHere, settings: SettingsHere) -> Inbox:
    """Return where the uploads for a meter arrive."""
    return Inbox(space, settings.folder / "uploads")


InboxHere = Annotated[Inbox, Depends(the_inbox)]


@router.post(
    "/meters/{meter}/uploads",
    status_code=201,
    responses=answers(404, 409, 413),
    response_model=UploadShown,
)
async def begin_upload(
    inbox: InboxHere, actor: ActorHere, once: OnceHere, given: NewUpload
) -> JSONResponse:
    """Announce a sealed file (labelers)."""

    def make() -> tuple[int, UploadShown]:
        upload = uploads.begin_upload(actor, inbox, given.name, given.size)
        return 201, _shown(inbox, upload)

    return await once.answer(make, actor=actor, use_case=uploads.begin_upload)


def _shown(inbox: Inbox, upload: Upload) -> UploadShown:
    missing = inbox.missing(upload)
    offset = missing[0][0] if missing else upload.size
    return UploadShown(
        id=upload.id, name=upload.name, size=upload.size, offset=offset, missing=missing
    )


@router.get("/meters/{meter}/uploads/{upload}", responses=answers(404))
def show_upload(inbox: InboxHere, actor: ActorHere, upload: Id) -> UploadShown:
    """Return how much has arrived."""
    return _shown(inbox, uploads.find_upload(actor, inbox, upload))


@router.put(
    "/meters/{meter}/uploads/{upload}",
    responses=answers(404, 409, 413),
    openapi_extra=raw(),
)
async def send_piece(
    request: Request,
    inbox: InboxHere,
    actor: ActorHere,
    upload: Id,
    offset: Annotated[int, Query(ge=0, le=LARGEST)],
) -> UploadShown:
    """Send bytes from `offset` on; 409 if those are here, and which offset is next.

    Pieces may be sent in any order, at the same time, and to any server of several. What arrived
    before a connection broke is kept.
    """
    # Entered and left in threads: both look at the books and wait for the disk.
    receiving = uploads.receive_piece(actor, inbox, upload, offset)
    piece = await run_in_threadpool(receiving.__enter__)
    try:
        await _receive(request, piece)
    finally:
        await run_in_threadpool(receiving.__exit__, None, None, None)
    return _shown(inbox, piece.upload)


async def _receive(request: Request, piece: Piece) -> None:
    """Write in the background what came together meanwhile: little memory, few threads."""
    waiting = bytearray()
    left = piece.left
    try:
        # A little more than is missing may come, so that the line below says what is wrong, and
        # not the one about any body that is too large.
        async for data in streamed(request, left + _BUFFER, held=2 * _BUFFER):
            waiting += data
            left -= len(data)
            if left < 0:
                raise TooLarge("upload: more bytes than are missing there")
            if len(waiting) >= _BUFFER:
                await run_in_threadpool(piece.write, bytes(waiting))
                waiting.clear()
    except ClientDisconnect:
        pass  # nobody hears the answer; what arrived stays
    await run_in_threadpool(piece.write, bytes(waiting))


@router.delete("/meters/{meter}/uploads/{upload}", status_code=204, responses=answers(404))
def cancel_upload(inbox: InboxHere, actor: ActorHere, upload: Id) -> Response:
    """Forget an upload."""
    uploads.cancel_upload(actor, inbox, upload)
    return Response(status_code=204)
