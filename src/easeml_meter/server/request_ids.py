"""The id of a request: in its log lines, a header of its answer, the body of an error.

A proxy in front of the server may have given it one already. Only that of a trusted proxy is taken
over: with anyone's, the log could be made to tell a story that did not happen.
"""

from __future__ import annotations

import ipaddress
import re
import secrets
from collections.abc import Sequence
from contextvars import ContextVar

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

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
