"""The one error shape, and the table from what went wrong to a status code.

A request has an id, in its log lines, a header of its answer, the body of an error. A proxy in
front of the server may have given it one already. Only that of a trusted proxy is taken over: with
anyone's, the log could be made to tell a story that did not happen.
"""

from __future__ import annotations

import ipaddress
import logging
import re
import secrets
from collections.abc import Sequence
from contextvars import ContextVar
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Receive, Scope, Send

from easeml_meter.errors import (
    FilesUnusable,
    InvalidInput,
    MeterError,
    NotFound,
    StorageError,
    TooLarge,
    TooMany,
)
from easeml_meter.tables.source import excerpt

_LOG = logging.getLogger(__name__)

PREFIX = "/api/v1"


class Problem(BaseModel):
    """Every error: a word for programs, a line for people, and the id that the log knows it by."""

    error: str
    message: str
    request: str = ""


_WORDS = {
    404: NotFound.word,
    405: "no-such-method",
    409: MeterError.word,
    413: TooLarge.word,
    422: InvalidInput.word,
    429: TooMany.word,
    503: StorageError.word,
}
"""Words for the statuses with which the framework itself answers."""


def problem(error: MeterError) -> tuple[int, Problem]:
    """Return the status and the body for what went wrong."""
    message = str(error)
    # What a database says about itself goes to the log, not to the caller; and so do paths.
    if isinstance(error, StorageError):
        message = "the books cannot be used now: try again"
    elif isinstance(error, FilesUnusable):
        message = "the server cannot use its files now: tell its admin, and try again later"
    return error.status, Problem(error=error.word, message=message)


def answers(
    *statuses: int, only: tuple[int, ...] = (401, 403, 422, 429, 503)
) -> dict[int | str, dict[str, Any]]:
    """Document the errors of a route: the usual ones, or `only` these, and some more."""
    listed = sorted({*statuses, *only})
    return {
        status: {"model": Problem, "description": HTTPStatus(status).phrase} for status in listed
    }


def error_response(status: int, body: Problem) -> JSONResponse:
    """Answer with an error."""
    headers = {"WWW-Authenticate": "Bearer"} if status == 401 else {}
    if status in (429, 503):
        headers["Retry-After"] = "1"
    # What was sent can be part of the message, and half a surrogate has no bytes.
    message = body.message.encode(errors="replace").decode()
    told = {"error": body.error, "message": message, "request": REQUEST.get()}
    return JSONResponse(told, status, headers)


def route_of(scope: Scope) -> str:
    """Return the template of a request's path, which holds no ids and nothing mistyped."""
    route: str = getattr(scope.get("route"), "path", "-")
    within = scope["path"].startswith(PREFIX) and not route.startswith((PREFIX, "-"))
    return f"{PREFIX}{route}" if within else route  # newer versions of FastAPI leave it out


def install(app: FastAPI) -> None:
    """Make every failure of an app answer in the one shape."""

    @app.exception_handler(MeterError)
    async def expected(_: Request, error: MeterError) -> JSONResponse:
        if isinstance(error, StorageError):
            _LOG.error("database", exc_info=error)
        elif isinstance(error, FilesUnusable):
            _LOG.error("files", exc_info=error, extra={"fields": {"place": str(error)}})
        answer = error_response(*problem(error))
        if isinstance(error, TooMany):
            answer.headers["Retry-After"] = str(error.wait)
        return answer

    @app.exception_handler(RequestValidationError)
    async def malformed(_: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        return error_response(422, Problem(error="invalid", message=f"{where}: {first['msg']}"))

    @app.exception_handler(HTTPException)
    async def routed(request: Request, error: HTTPException) -> JSONResponse:
        # A body that cannot be read at all is as invalid as one that says the wrong things.
        status = 422 if error.status_code == 400 else error.status_code
        code = _WORDS.get(status, "failed")
        message = str(error.detail)
        if status == 404:
            asked = f"{request.method} {excerpt(request.scope['path'])}"
            message = f"{asked}: nothing is at this address; /docs lists what there is"
        answer = error_response(status, Problem(error=code, message=message))
        answer.headers.update(error.headers or {})
        if status == 405:  # the router knows only the methods of the first route that fits
            documented = app.openapi()["paths"].get(route_of(request.scope), {})
            answer.headers["Allow"] = ", ".join(method.upper() for method in documented) or "GET"
        return answer


HEADER = "X-Request-Id"
REQUEST: ContextVar[str] = ContextVar("request", default="")
"""The id of the request that is being answered; empty: none is."""
_PEER = "meter.peer"
_PROPER = re.compile(r"[0-9A-Za-z][0-9A-Za-z._:-]{0,127}")


class Peers:
    """Middleware that notes where a connection came from, whatever the request's headers say.

    It runs before uvicorn replaces the address of a proxy with the one that the proxy forwards.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Note the address, and pass the request on."""
        scope[_PEER] = scope.get("client")
        await self._app(scope, receive, send)


class Trusted:
    """The proxies whose headers are believed."""

    def __init__(self, proxies: Sequence[str]) -> None:
        self._networks = [ipaddress.ip_network(each) for each in proxies]

    def sent(self, scope: Scope) -> bool:
        """Whether the connection of a request came from one of them."""
        peer = scope.get(_PEER) or scope.get("client")
        if not self._networks or not peer:
            return False
        try:
            address = ipaddress.ip_address(peer[0].partition("%")[0])
        except ValueError:
            return False
        return any(address in network for network in self._networks)

    def request_id(self, scope: Scope) -> str:
        """Return the id that a trusted proxy gave a request, or else a new one."""
        if self.sent(scope):
            given = Headers(scope=scope).get(HEADER, "")
            if _PROPER.fullmatch(given):
                return given
        return secrets.token_hex(8)
