"""Uploads of sealed files: announced, sent in pieces, resumed where they broke off."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request
from fastapi.concurrency import run_in_threadpool
from pydantic import BaseModel, Field

from easeml_meter.core.model import Upload
from easeml_meter.server.api.common import ApiRoute, Given, Line, raw
from easeml_meter.server.auth import ActorHere, SettingsHere, WorkspaceHere
from easeml_meter.server.errors import answers
from easeml_meter.server.limits import streamed
from easeml_meter.server.parameters import Id
from easeml_meter.service import uploads
from easeml_meter.service.uploads import LARGEST, Inbox

router = APIRouter(tags=["uploads"], route_class=ApiRoute)


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
    """Bytes that are here, on disk, all from the first one on: the next piece begins there."""
    piece: int
    """Bytes of every piece but the last."""


async def the_inbox(space: WorkspaceHere, settings: SettingsHere) -> Inbox:
    """Return where the uploads for a meter arrive."""
    return Inbox(space, settings.folder / "uploads")


InboxHere = Annotated[Inbox, Depends(the_inbox)]


@router.post(
    "/meters/{meter}/uploads",
    status_code=201,
    responses=answers(404, 409, 413),
)
def begin_upload(inbox: InboxHere, actor: ActorHere, given: NewUpload) -> UploadShown:
    """Announce a sealed file (labelers)."""
    return _shown(inbox, uploads.begin_upload(actor, inbox, given.name, given.size))


def _shown(inbox: Inbox, upload: Upload) -> UploadShown:
    offset = inbox.arrived(upload)
    return UploadShown(
        id=upload.id, name=upload.name, size=upload.size, offset=offset, piece=uploads.PIECE
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
    """Send the piece that begins at `offset`: 409 if one before it is missing, and which.

    Pieces have one size, all but the last, and follow each other; any server of several takes the
    next one. To send one again changes nothing.
    """
    content = b"".join([data async for data in streamed(request, uploads.PIECE)])

    def receive() -> UploadShown:
        return _shown(inbox, uploads.receive_piece(actor, inbox, upload, offset, content))

    return await run_in_threadpool(receive)


@router.delete("/meters/{meter}/uploads/{upload}", status_code=204, responses=answers(404))
def cancel_upload(inbox: InboxHere, actor: ActorHere, upload: Id) -> None:
    """Forget an upload."""
    uploads.cancel_upload(actor, inbox, upload)
