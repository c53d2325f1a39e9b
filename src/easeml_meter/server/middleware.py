"""What every request passes through: its id, size limit, headers, counting, a line in the log."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from easeml_meter.checks import is_address
from easeml_meter.server.errors import HEADER, REQUEST, Problem, Trusted, error_response, route_of
from easeml_meter.server.limits import USER, Body, HeldBytes
from easeml_meter.server.metrics import Metrics
from easeml_meter.server.settings import Settings

_LOG = logging.getLogger(__name__)

_DATA_POLICY = "default-src 'none'; frame-ancestors 'none'"
_PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
REPORT_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; sandbox"
"""For reports, which are one file with its styles inside."""
_ALWAYS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}

_OPERATING = ("/healthz", "/readyz", "/metrics")
"""Paths for those who run the server; no page is there."""

Shape = Callable[[Scope, int, Problem], ASGIApp]


def _plain(_: Scope, status: int, problem: Problem) -> ASGIApp:
    return error_response(status, problem)


class Frame:
    """The outermost layer of the app."""

    def __init__(
        self,
        app: ASGIApp,
        settings: Settings,
        metrics: Metrics,
        shape: Shape = _plain,
    ) -> None:
        self._app = app
        self._trusted = Trusted(settings.trusted_proxy)
        self._shape = shape
        self._hosts = {name.lower() for name in settings.allowed_host}
        self._metrics = metrics
        self._held = HeldBytes(settings)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = self._trusted.request_id(scope)
        known = REQUEST.set(request_id)
        try:
            await self._answer(scope, receive, send, request_id)
        finally:
            REQUEST.reset(known)

    async def _answer(self, scope: Scope, receive: Receive, send: Send, request_id: str) -> None:
        started = time.perf_counter()
        status = 0
        body = Body(scope, self._held)

        async def limited() -> Message:
            body.grow(0)  # before anything is received, as far as the length was announced
            message = await receive()
            body.grow(len(message.get("body", b"")))
            return message

        async def dressed(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(raw=message["headers"])
                _dress(headers, scope)
                headers[HEADER] = request_id
                message["headers"] = headers.raw
            await send(message)

        try:
            # Pages put the name that a request came to into commands and invitations. A name that
            # somebody else has pointed at this server must not get there.
            if not self._named(scope):
                other = Problem(error="wrong-host", message="this server has another name")
                await self._shape(scope, 421, other)(scope, limited, dressed)
            else:
                await self._app(scope, limited, dressed)
        except ClientDisconnect:
            pass  # nobody is left to answer
        except Exception as error:
            _LOG.error("request failed", exc_info=error)
            # The head of an answer has left already: the connection can only be cut.
            if status:
                raise
            line = f"the server failed: its log says where, at request {request_id}"
            failed = Problem(error="internal", message=line)
            await self._shape(scope, 500, failed)(scope, limited, dressed)
        finally:
            body.end()
            self._note(scope, status, time.perf_counter() - started)

    def _named(self, scope: Scope) -> bool:
        """Whether a request came to a name of this server."""
        host = _host(scope)
        if not self._hosts or host in self._hosts:
            return True
        # This machine, Prometheus and balancers ask a process by its address. Only a name can be
        # pointed at this server by somebody else.
        by_address = host == "localhost" or is_address(host.removeprefix("[").removesuffix("]"))
        return by_address and scope["path"] in _OPERATING

    def _note(self, scope: Scope, status: int, seconds: float) -> None:
        route = route_of(scope)
        self._metrics.count_request(_method(scope), route, status, seconds)
        fields = {
            "method": _method(scope),
            # The route and not the path: names and the secrets of links stay out of the log.
            "route": route,
            "status": status,
            "ms": round(1000 * seconds, 2),
            "user": scope.get(USER),
        }
        _LOG.info("request", extra={"fields": fields})


def _method(scope: Scope) -> str:
    method: str = scope["method"]
    # It labels metrics: strangers must not fill the memory with methods that they make up.
    return method if method in _METHODS else "-"


_METHODS = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}


def _host(scope: Scope) -> str:
    host = Headers(scope=scope).get("host", "").lower()
    return host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host


def _dress(headers: MutableHeaders, scope: Scope) -> None:
    api = scope["path"].startswith("/api/")
    headers.update(_ALWAYS)
    headers.setdefault("Content-Security-Policy", _DATA_POLICY if api else _PAGE_POLICY)
    # What one person may see, no cache on the way may keep for the next one.
    headers.setdefault("Cache-Control", "no-store")
    headers.setdefault("Referrer-Policy", "no-referrer")
    if scope["scheme"] == "https":
        headers["Strict-Transport-Security"] = "max-age=31536000"
