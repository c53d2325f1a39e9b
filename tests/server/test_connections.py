"""Strangers whose heads of requests are late, too large or ambiguous."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator

import pytest
from tests.server.process import Process, started

PATIENCE = 60


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    """A server that allows little time."""
    with started(tmp_path_factory.mktemp("site"), "--header-seconds", "1") as found:
        yield found


def connected(server: Process) -> socket.socket:
    host, port = server.address.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), timeout=PATIENCE)


def answers_to(server: Process, sent: bytes) -> bytes:
    """Send bytes, and give all that comes until the server closes the connection."""
    with connected(server) as connection:
        connection.sendall(sent)
        found = b""
        while piece := connection.recv(1 << 16):
            found += piece
        return found


GET = b"GET /healthz HTTP/1.1\r\nHost: a\r\n"
POST = b"POST /api/v1/login HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"


@pytest.mark.parametrize(
    "sent",
    [
        POST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        POST + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
        GET.replace(b"\r\n", b"\n") + b"\n",
        GET + b"Authorization: a\nCookie: b\r\n\r\n",
        GET + b"Authorization: a\r\n b\r\n\r\n",
        GET + b"X-Many: a\r\n" * 10_000 + b"\r\n",
        GET + b"X-Many: a\r\n" * 100 + b"\r\n",
        GET + b"X-Long: " + b"a" * (1 << 15) + b"\r\n\r\n",
    ],
)
def test_requests_that_a_proxy_may_read_differently_are_refused(
    server: Process, sent: bytes
) -> None:
    """They were taken, and the bytes behind them were answered as another request."""
    found = answers_to(server, sent + GET + b"\r\n")
    assert found.startswith(b"HTTP/1.1 400 ")
    assert found.count(b"HTTP/1.1 ") == 1


def test_requests_in_a_row_on_one_connection_are_answered(server: Process) -> None:
    found = answers_to(server, 3 * (GET + b"\r\n") + GET + b"Connection: close\r\n\r\n")
    assert found.count(b"HTTP/1.1 200 ") == 4


@pytest.mark.parametrize("sent", [b"", GET, GET + b"\r\n"])
def test_silent_connections_are_ended(server: Process, sent: bytes) -> None:
    """Without a head, with half of one, and after an answer."""
    answers_to(server, sent)


@pytest.mark.parametrize("before", [b"", GET + b"\r\n"])
def test_a_head_that_trickles_is_ended(server: Process, before: bytes) -> None:
    """The first one, and one that comes after another request."""
    with connected(server) as connection:
        connection.sendall(before + GET)
        assert trickled(connection) < 10 * PATIENCE


def trickled(connection: socket.socket) -> int:
    """Send ten bytes a second until the connection is closed; give how many were taken."""
    for count in range(10 * PATIENCE):
        try:
            connection.sendall(b"a")
        except (BrokenPipeError, ConnectionResetError):
            return count
        time.sleep(0.1)
    return 10 * PATIENCE


def test_a_body_that_arrives_in_pieces_is_taken(server: Process) -> None:
    """Its headers and its body take longer together than either may."""
    body = b'{"name": "a", "password": "b"}' + b" " * 6000
    with connected(server) as connection:
        connection.sendall(POST + b"Content-Length: %d\r\n\r\n" % len(body))
        for at in range(0, len(body), 1000):
            time.sleep(0.4)
            connection.sendall(body[at : at + 1000])
        assert connection.recv(1 << 16).startswith(b"HTTP/1.1 401 ")
