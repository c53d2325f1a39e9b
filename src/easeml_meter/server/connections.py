"""Connections: how many there are, how slow they may be, and which bytes are taken for a request.

Anybody can open a connection and then say nothing, or a byte from time to time. Where there are
too many, a newcomer takes the place of the one that has waited longest for a request, so idle
connections never keep a client out. While at least half of all places are held without ever having
asked for anything, it is one of these: a crowd that says nothing ends no client's connection. A
connection whose request has arrived but was not read yet goes last: its client would see a reset,
and could not tell whether the request was carried out. What is slow is ended by `sweep`, once a
second.
"""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import itertools
import logging
import os
import re
import resource
import socket
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from easeml_meter.server.limits import network_of
from easeml_meter.server.settings import Settings

_LOG = logging.getLogger(__name__)

_AT_ONCE = 64
"""Connections that are accepted before other work has its turn."""
_UNREAD = 60.0
"""Seconds in which a client must take some of an answer that waits for it."""
_LOOKED_AT = 16
"""Waiting connections that are looked at for one that has said nothing: more would cost too much
where a stranger makes all of them speak."""
_REPORT = 60.0
"""Seconds between two lines in the log about connections that were ended."""
_LARGEST_HEAD = 1 << 14
_MOST_HEADERS = 100
_ODD_LINES = re.compile(rb"(?<!\r)\n|\n[ \t]")
"""Ends of lines that servers and proxies read differently: a bare LF, and a folded header."""


@dataclass(eq=False)
class Peer:
    """The other end of a connection, from the moment it is accepted."""

    number: int
    """The descriptor of its socket. No other open connection has it, while a stranger who resets
    connections and comes back from the same port soon has many of one address."""
    socket: socket.socket
    network: str
    since: float
    """When it began to wait for a request, or when its speed was last found good enough."""
    arrived: int = 0
    """Bytes since then."""
    protocol: WatchedProtocol | None = None
    """None during the handshake of TLS."""

    @property
    def has_spoken(self) -> bool:
        """Whether something has arrived that was not read yet."""
        try:
            return bool(self.socket.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT))
        except OSError:  # nothing has, or it is closed already
            return False

    def end(self) -> None:
        """Close the connection at once."""
        if self.protocol is not None:
            self.protocol.transport.abort()
        else:
            with suppress(OSError):  # closed already
                self.socket.shutdown(socket.SHUT_RDWR)


class Connections:
    """All connections of a server, within the limits of its settings."""

    def __init__(self, settings: Settings, clock: Callable[[], float] = time.monotonic) -> None:
        # Files and the database need descriptors, too.
        self._most = min(settings.connections, _open_files() // 2)
        self._most_of_one = settings.connections_per_address
        self._header_seconds = settings.header_seconds
        self._slowest = settings.body_bytes_per_second
        self._proxies = [ipaddress.ip_network(each) for each in settings.trusted_proxy]
        self._clock = clock
        self._peers: dict[int, Peer] = {}
        self._waiting: dict[Peer, None] = {}
        """Those without a request, the longest first."""
        self._silent: dict[Peer, None] = {}
        """Those of them that never had one."""
        self._of_network: Counter[str] = Counter()
        self._silent_of_network: Counter[str] = Counter()
        self._ended: Counter[str] = Counter()
        self._reported = clock()

    def admit(self, address: Any, connection: socket.socket) -> bool:
        """Whether a connection may stay; another one may have to make room for it."""
        network = self._counted(address[0])
        # A crowded network makes room by itself: its own connections end, not those of others.
        crowded = network and 0 < self._most_of_one <= self._of_network[network]
        if crowded and not self.make_room(network):
            return False
        if len(self._peers) >= self._most and not self.make_room():
            return False
        peer = Peer(connection.fileno(), connection, network, self._clock())
        if (former := self._peers.get(peer.number)) is not None:
            self.forget(former)  # it ended in the handshake of TLS, of which nobody tells us
        self._peers[peer.number] = peer
        self._waiting[peer] = self._silent[peer] = None
        self._of_network[network] += 1
        self._silent_of_network[network] += 1
        return True

    def open(self, number: int, protocol: WatchedProtocol) -> Peer | None:
        """Return the peer whose connection is ready for requests, unless it was ended meanwhile."""
        peer = self._peers.get(number)
        if peer is not None:
            peer.protocol = protocol
        return peer

    def note(self, peer: Peer, *, waits: bool) -> None:
        """Note whether a peer is expected to send a request."""
        if waits == (peer in self._waiting) or self._peers.get(peer.number) is not peer:
            return
        peer.since, peer.arrived = self._clock(), 0
        if waits:
            self._waiting[peer] = None
        else:
            del self._waiting[peer]
            self._speaks(peer)

    def forget(self, peer: Peer) -> None:
        """Forget a connection that has ended."""
        # Its number may belong to a newer connection by now, which stays counted.
        if self._peers.get(peer.number) is peer:
            del self._peers[peer.number]
            self._waiting.pop(peer, None)
            self._speaks(peer)
            _count_down(self._of_network, peer.network)

    def refused(self) -> None:
        """Count a connection for which there was no room."""
        self._ended["refused"] += 1

    def make_room(self, network: str = "") -> bool:
        """End the connection that has waited longest for a request, of a network if it is named.

        Returns whether there was one.
        """
        held, places = len(self._silent), self._most
        if network:
            held, places = self._silent_of_network[network], self._most_of_one
        # Only while they are many: where clients hold most places, newcomers would drive out one
        # another before any of them has asked.
        among = self._silent if 2 * held >= places else self._waiting
        idle = (peer for peer in among if network in ("", peer.network))
        longest = list(itertools.islice(idle, _LOOKED_AT))
        if not longest:
            return False
        # Whoever has said nothing goes before one whose request may just be arriving.
        self._end(next((peer for peer in longest if not peer.has_spoken), longest[0]), "idle")
        return True

    def sweep(self) -> None:
        """End what is too slow; say now and then in the log how much was ended."""
        now = self._clock()
        for peer in [*self._peers.values()]:
            if self._too_slow(peer, now):
                self._end(peer, "slow")
        if self._ended and now - self._reported >= _REPORT:
            _LOG.warning("connections were ended", extra={"fields": dict(self._ended)})
            self._ended.clear()
            self._reported = now

    def _too_slow(self, peer: Peer, now: float) -> bool:
        protocol, seconds = peer.protocol, self._header_seconds
        if peer in self._waiting or protocol is None:
            return now - peer.since >= seconds
        if protocol.receives:
            # Judged over a whole period: a slow start is no slow body.
            if now - peer.since < seconds:
                return False
            slow = peer.arrived < self._slowest * seconds
        else:
            if protocol.flow.write_paused:
                return now - peer.since >= _UNREAD
            slow = False  # the server is at work, or the client waits for us
        peer.since, peer.arrived = now, 0
        return slow

    def _speaks(self, peer: Peer) -> None:
        """Note that a peer is none of those, or no longer, that never had a request."""
        if peer in self._silent:
            del self._silent[peer]
            _count_down(self._silent_of_network, peer.network)

    def _end(self, peer: Peer, reason: str) -> None:
        self._ended[reason] += 1
        self.forget(peer)
        peer.end()

    def _counted(self, host: str) -> str:
        """Return what a connection counts for; a trusted proxy's count towards the total only."""
        address = ipaddress.ip_address(host.partition("%")[0])
        if any(address in each for each in self._proxies):
            return ""
        return network_of(host)


def _count_down(counts: Counter[str], network: str) -> None:
    """Take one away; networks that are gone must not fill the memory."""
    counts[network] -= 1
    if not counts[network]:
        del counts[network]


class Listener(socket.socket):
    """A listening socket that hands on the connections there is room for, and drops the others.

    asyncio calls `accept` until it would block. When the process may open no more files, asyncio
    would log every attempt; so one descriptor is kept to take such a connection and drop it.
    """

    def __init__(self, listening: socket.socket, connections: Connections) -> None:
        family, kind, protocol = listening.family, listening.type, listening.proto
        super().__init__(family, kind, protocol, listening.detach())
        self._connections = connections
        self._spare = os.open(os.devnull, os.O_RDONLY)
        self._in_a_row = 0

    def accept(self) -> tuple[socket.socket, Any]:
        """Return a connection that may stay.

        Raises:
            BlockingIOError: there is none, or other work should have its turn.
        """
        self._in_a_row += 1
        if self._in_a_row > _AT_ONCE:
            # asyncio takes this for an empty backlog, and comes back when other work had its turn.
            self._in_a_row = 0
            raise BlockingIOError
        try:
            connection, address = super().accept()
        except OSError as error:
            self._in_a_row = 0
            if error.errno in (errno.EMFILE, errno.ENFILE):
                self._drop_one()
                raise BlockingIOError from None
            raise
        if not self._connections.admit(address, connection):
            connection.close()
            self._connections.refused()
            self._in_a_row = 0
            raise BlockingIOError
        return connection, address

    def close(self) -> None:
        """Close it, with the descriptor that is kept."""
        if self._spare >= 0:
            os.close(self._spare)
            self._spare = -1
        super().close()

    def _drop_one(self) -> None:
        """Accept a connection with the descriptor that is kept for this, and drop it.

        Otherwise the kernel would report the same connection again at once, and for ever.
        """
        self._connections.refused()
        self._connections.make_room()
        os.close(self._spare)
        with suppress(OSError):
            super().accept()[0].close()
        self._spare = os.open(os.devnull, os.O_RDONLY)


class WatchedProtocol(H11Protocol):
    """Uvicorn's protocol; it reports to `Connections` what it waits for."""

    def __init__(self, connections: Connections, **given: Any) -> None:
        super().__init__(**given)
        # In the place of the parser that uvicorn has just made, before a byte has arrived.
        self.conn = _Parser(h11.SERVER, _LARGEST_HEAD)
        self._all = connections
        self._peer: Peer | None = None

    @property
    def receives(self) -> bool:
        """Whether it is the client's turn: more of a body is expected, and would be read."""
        waits = self.cycle is not None and self.cycle.waiting_for_100_continue
        return self.conn.their_state is h11.SEND_BODY and not (self.flow.read_paused or waits)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start to watch the connection."""
        super().connection_made(transport)
        self._peer = self._all.open(transport.get_extra_info("socket").fileno(), self)
        # It had to make room for another one while TLS was negotiated.
        if self._peer is None:
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        if self._peer is not None:
            self._all.forget(self._peer)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Count and parse what arrived."""
        if self._peer is not None:
            self._peer.arrived += len(data)
        super().data_received(data)
        self._note()

    def on_response_complete(self) -> None:
        """Go on with the next request."""
        super().on_response_complete()
        self._note()

    def _note(self) -> None:
        if self._peer is not None:
            self._all.note(self._peer, waits=self.conn.their_state is h11.IDLE)


class _Parser(h11.Connection):
    """Refuses what a proxy before the server may read as something else.

    Two programs that do not agree where a request ends can be made to take one for two.
    """

    def next_event(self) -> Any:
        """Return what was received next.

        Raises:
            h11.RemoteProtocolError: it is not taken for a request.
        """
        if self.their_state is h11.IDLE:
            head = self.trailing_data[0].partition(b"\r\n\r\n")[0]
            if len(head) > _LARGEST_HEAD or head.count(b"\n") > _MOST_HEADERS:
                raise h11.RemoteProtocolError("too many headers")
            if _ODD_LINES.search(head):
                raise h11.RemoteProtocolError("odd ends of lines")
        event = super().next_event()
        if isinstance(event, h11.Request):
            # RFC 9112, section 6.3: a request with both may be an attempt at smuggling another.
            names = {name for name, _ in event.headers}
            if {b"content-length", b"transfer-encoding"} <= names:
                raise h11.RemoteProtocolError("two lengths of one body")
        return event


def _open_files() -> int:
    """Raise the number of files that this process may open as far as allowed, and return it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        soft = hard
    return soft
