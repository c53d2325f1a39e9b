"""What the routes share: request bodies, pages of lists, files, refusing unknown parameters."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Generic, TypeVar

from fastapi import Depends, Query, Request, Response
from fastapi.dependencies.models import Dependant
from fastapi.responses import StreamingResponse
from fastapi.routing import APIRoute
from pydantic import BaseModel, ConfigDict, StringConstraints, WithJsonSchema

from easeml_meter.checks import MAX_NAME, NAME
from easeml_meter.errors import NotFound, invalid
from easeml_meter.server.auth import SettingsHere
from easeml_meter.server.limits import streamed
from easeml_meter.service.place import Workspace

Item = TypeVar("Item")
Shown = TypeVar("Shown")

Line = Annotated[str, StringConstraints(min_length=1, max_length=MAX_NAME, pattern=NAME)]


def pair_of(kind: str) -> WithJsonSchema:
    """Describe two values of one kind as a list: few tools know a tuple of OpenAPI 3.1."""
    return WithJsonSchema({"type": "array", "items": {"type": kind}, "minItems": 2, "maxItems": 2})


class Given(BaseModel):
    """Base class of request bodies: no unknown fields, no conversions."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Listed(BaseModel, Generic[Shown]):
    """A page of a list; `next` is given as `after` to get the one that follows."""

    items: list[Shown]
    next: str | None


@dataclass(frozen=True)
class Page:
    """Which part of a list is asked for."""

    limit: Annotated[int, Query(ge=1, le=200)] = 50
    after: Annotated[str, Query(max_length=300)] = ""


PageHere = Annotated[Page, Depends()]


def paged(
    items: Iterable[Item],
    page: Page,
    *,
    key: Callable[[Item], str],
    show: Callable[[Item], Shown],
    falling: bool = False,
) -> Listed[Shown]:
    """Return one page of items that are sorted by `key`, which no two of them share."""
    after = page.after

    def left(item: Item) -> bool:
        return not after or (key(item) < after if falling else key(item) > after)

    rest = [item for item in items if left(item)]
    shown = rest[: page.limit]
    following = key(shown[-1]) if len(rest) > len(shown) else None
    return Listed(items=[show(item) for item in shown], next=following)


_PIECE = 1 << 18


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


class ApiRoute(APIRoute):
    """Refuses a mistyped parameter, which would otherwise be ignored."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Look at the names before anything else is done."""
        handle, known = super().get_route_handler(), _parameters(self.dependant)
        read_whole = (self.openapi_extra or {}).get("parameters", ())
        known |= {each["name"] for each in read_whole}

        async def checked(request: Request) -> Response:
            if request.scope["query_string"]:
                for name in request.query_params:
                    if name not in known:
                        allowed = " or ".join(sorted(known)) or "none"
                        raise invalid("query", name[:80], f"{allowed} is known here")
            return await handle(request)

        return checked


def _parameters(part: Dependant) -> set[str]:
    own = {parameter.alias for parameter in part.query_params}
    return own.union(*map(_parameters, part.dependencies))
