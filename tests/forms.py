"""Submissions as bodies: forms of which every one has the same edge, so that clients know them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any

import httpx
from starlette.datastructures import Headers

from easeml_meter.scoring.bundle import MOST_FILES, Bundle
from easeml_meter.server.api.forms import packed as archive_of
from easeml_meter.server.api.forms import read_form
from easeml_meter.service.submissions.kinds import Command

KIND = "multipart/form-data; boundary=edge-of-tests"
_EDGE = b"--edge-of-tests"


def form(fields: Sequence[tuple[str, tuple[str | None, bytes]]]) -> bytes:
    """Return the body of a form."""
    files: Any = fields
    request = httpx.Request("POST", "http://x", files=files, headers={"Content-Type": KIND})
    return request.read() if fields else _EDGE + b"--\r\n"


def packed(files: Mapping[str, bytes]) -> bytes:
    """Return the form of test.EXT and validation.EXT, of model.onnx, or of command and files/X."""
    fields: list[tuple[str, tuple[str | None, bytes]]] = []
    for name, content in files.items():
        role, _, rest = name.partition("/")
        if name == "command":
            fields.append((name, (None, content)))
        elif role == "files":
            fields.append((role, (rest, content)))
        else:
            role = name.partition(".")[0]
            fields.append(({"model": "onnx"}.get(role, role), (name, content)))
    return form(fields)


def archived(body: bytes) -> bytes:
    """Return what a server makes of the body of a form, as use cases take it."""

    async def pieces() -> AsyncGenerator[bytes, None]:
        yield body

    headers = Headers({"content-type": KIND})
    return archive_of(asyncio.run(read_form(headers, pieces(), len(body), MOST_FILES, "files")))


def command(line: str) -> bytes:
    """Return the body of a command without files."""
    return form(Command(Bundle(line)).form())


def typed(request: httpx.Request) -> None:
    """Say of a body that is such a form what it is; a hook of clients."""
    content = getattr(request, "_content", b"")
    if "content-type" not in request.headers and content.startswith(_EDGE):
        request.headers["content-type"] = KIND
