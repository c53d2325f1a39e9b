"""Which bytes are taken for the head of a request, and for how long one is waited for.

Two programs that do not agree where a request ends can be made to take one for two: what a proxy
may read differently is refused. Crowds and slow bodies are the proxy's (deploy/nginx.conf).
"""

from __future__ import annotations

import asyncio
import re
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

_LARGEST_HEAD = 1 << 14
_MOST_HEADERS = 100
_ODD_LINES = re.compile(rb"(?<!\r)\n|\n[ \t]")
"""Ends of lines that are read differently: a bare LF, and a folded header."""


class StrictProtocol(H11Protocol):
    """Uvicorn's protocol, which ends a connection whose head is late or odd."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.conn = _Parser(h11.SERVER, _LARGEST_HEAD)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first head as long as for the next."""
        super().connection_made(transport)
        late = self.loop.call_later(self.timeout_keep_alive, self.timeout_keep_alive_handler)
        self.timeout_keep_alive_task = late

    def _unset_keepalive_if_required(self) -> None:
        if self.conn.their_state is not h11.IDLE:  # a head that trickles is as late as none
            super()._unset_keepalive_if_required()


class _Parser(h11.Connection):
    def next_event(self) -> Any:
        """Return what was received next, or raise `h11.RemoteProtocolError`."""
        if self.their_state is h11.IDLE:
            head = self.trailing_data[0].partition(b"\r\n\r\n")[0]
            if len(head) > _LARGEST_HEAD or head.count(b"\n") > _MOST_HEADERS:
                raise h11.RemoteProtocolError("too many headers")
            if _ODD_LINES.search(head):
                raise h11.RemoteProtocolError("odd ends of lines")
        event = super().next_event()
        names = {name for name, _ in event.headers} if isinstance(event, h11.Request) else set()
        # RFC 9112, section 6.3: a request with both may be an attempt at smuggling another.
        if {b"content-length", b"transfer-encoding"} <= names:
            raise h11.RemoteProtocolError("two lengths of one body")
        return event
