"""From which seat a request is made, and how raw bytes come in and go out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

from fastapi import Path, Query, Request
from fastapi.responses import StreamingResponse

from easeml_meter.errors import Denied, NotFound
from easeml_meter.server.access import SettingsHere
from easeml_meter.server.limits import streamed
from easeml_meter.service.accounts import Caller, Member, require_meter
from easeml_meter.service.roles import Deed, Role
from easeml_meter.service.site import Site
from easeml_meter.service.workspace import Workspace

Tenant = Annotated[
    int | None,
    Query(ge=1, le=1_000_000, description="Number of the tenant; one's own unless given."),
]
Number = Annotated[int, Path(ge=1, le=1_000_000, description="Number, from 1.")]

_PIECE = 1 << 18


def seat_for(
    site: Site, caller: Caller, meter: str, deed: Deed, *others: Deed, tenant: int | None = None
) -> Member:
    """Give the seat for the first of these deeds that the caller may do, or refuse."""
    try:
        seat = caller.seat(meter, deed, tenant)
    except Denied:
        if not others:
            raise
        return seat_for(site, caller, meter, *others, tenant=tenant)
    if seat.role is Role.ADMIN:  # who has any other seat has it at a meter that exists
        require_meter(site, meter)
    return seat


def raw(*media_types: str) -> dict[str, Any]:
    """Document a body that is taken as it is."""
    schema = {"type": "string", "format": "binary"}
    content = {kind: {"schema": schema} for kind in media_types or ("application/octet-stream",)}
    return {"requestBody": {"required": True, "content": content}}


def gives(media_type: str, text: str) -> dict[int | str, dict[str, Any]]:
    """Document an answer that is a file."""
    schema = {"type": "string", "format": "binary"}
    return {200: {"description": text, "content": {media_type: {"schema": schema}}}}


async def body_of(request: Request, settings: SettingsHere) -> bytes:
    """Read a body that is not JSON, as far as the settings let it be long."""
    pieces = [piece async for piece in streamed(request, settings.largest_body)]
    return b"".join(pieces)


def file_response(space: Workspace, name: str, media_type: str) -> StreamingResponse:
    """Send a file, piece by piece."""
    if not space.files.exists(name):
        raise NotFound(f"file {name.rpartition('/')[2][:80]!r}: there is none")
    return StreamingResponse(_pieces(space, name), media_type=media_type)


def _pieces(space: Workspace, name: str) -> Iterator[bytes]:
    with space.files.local(name) as path, path.open("rb") as file:
        while piece := file.read(_PIECE):
            yield piece
