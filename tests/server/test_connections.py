"""Strangers who open connections and say nothing, little, or something ambiguous."""

from __future__ import annotations

import resource
import socket
import struct
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median

import httpx
import pytest
from tests.server.process import Process, started

from easeml_meter.server.connections import Connections, Peer
from easeml_meter.server.settings import Settings

PATIENCE = 60
ALONE = {"connections_per_address": 0}
"""No limit for one address."""


class Seconds:
    """A clock that stands still until it is moved."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


def connections(clock: Seconds, **settings: object) -> Connections:
    return Connections(Settings(**settings), clock)  # type: ignore[arg-type]


@contextmanager
def admitted(
    all_of_them: Connections, *addresses: tuple[str, int]
) -> Iterator[list[socket.socket | None]]:
    """Give the client's end of each connection, None if it was not admitted."""
    with ExitStack() as held:
        ends: list[socket.socket | None] = []
        for address in addresses:
            ours, theirs = map(held.enter_context, socket.socketpair())
            theirs.setblocking(False)
            ends.append(theirs if all_of_them.admit(address, ours) else None)
        yield ends


def opened(all_of_them: Connections) -> Peer:
    """Return the newest connection, ready for requests."""
    peer = all_of_them.open([*all_of_them._peers][-1], None)  # type: ignore[arg-type]
    assert peer is not None
    return peer


def asked(all_of_them: Connections) -> None:
    """Let the newest connection have made a request, and wait for the next."""
    peer = opened(all_of_them)
    all_of_them.note(peer, waits=False)
    all_of_them.note(peer, waits=True)


def is_open(end: socket.socket | None) -> bool:
    """Whether nobody has closed the other end."""
    assert end is not None
    try:
        return end.recv(1) != b""
    except BlockingIOError:
        return True
    except ConnectionResetError:
        return False


def test_a_newcomer_takes_the_place_of_the_longest_idle_connection() -> None:
    found = connections(Seconds(), connections=2)
    with admitted(found, ("192.0.2.1", 1), ("192.0.2.2", 1), ("192.0.2.3", 1)) as ends:
        assert [is_open(end) for end in ends] == [False, True, True]


def test_a_request_that_was_not_read_yet_is_not_cut_off() -> None:
    found = connections(Seconds(), connections=2)
    with admitted(found, ("192.0.2.1", 1), ("192.0.2.2", 1)) as ends:
        assert ends[0] is not None
        ends[0].send(b"GET")
        with admitted(found, ("192.0.2.3", 1)) as newcomer:
            assert [is_open(end) for end in (*ends, *newcomer)] == [True, False, True]


def test_strangers_who_all_speak_keep_no_newcomer_out() -> None:
    found = connections(Seconds(), connections=2)
    with admitted(found, ("192.0.2.1", 1), ("192.0.2.2", 1)) as ends:
        for end in ends:
            assert end is not None
            end.send(b"GET")
        with admitted(found, ("192.0.2.3", 1)) as newcomer:
            assert [is_open(end) for end in newcomer] == [True]
            assert found.make_room()


@pytest.mark.parametrize(
    "limit", [{"connections": 4}, {"connections_per_address": 4}, {"connections": 4} | ALONE]
)
def test_a_crowd_that_says_nothing_ends_no_clients_connection(limit: dict[str, int]) -> None:
    found = connections(Seconds(), **limit)
    with admitted(found, ("192.0.2.1", 1)) as client:
        asked(found)
        with admitted(found, *[("192.0.2.1", port) for port in range(2, 12)]) as crowd:
            assert is_open(client[0])
            assert [is_open(end) for end in crowd] == [False] * 7 + [True] * 3


def test_clients_who_hold_most_places_keep_no_newcomer_out() -> None:
    found = connections(Seconds(), connections=4)
    with ExitStack() as held:
        clients = []
        for port in range(4):
            clients += held.enter_context(admitted(found, ("192.0.2.1", port)))
            asked(found)
        with admitted(found, ("192.0.2.2", 1), ("192.0.2.2", 2)) as newcomers:
            assert [is_open(end) for end in newcomers] == [True, True]
            assert [is_open(end) for end in clients] == [False, False, True, True]


def test_an_address_with_its_share_makes_room_for_itself_only() -> None:
    found = connections(Seconds(), connections_per_address=2)
    others, own = ("192.0.2.1", 1), [("192.0.2.2", port) for port in (1, 2, 3)]
    with admitted(found, others, *own) as ends:
        assert [is_open(end) for end in ends] == [True, False, True, True]


def test_a_network_of_ipv6_is_one_address() -> None:
    found = connections(Seconds(), connections_per_address=1)
    with admitted(found, ("2001:db8::1", 1), ("2001:db8::2", 1)) as ends:
        assert [is_open(end) for end in ends] == [False, True]


def test_a_trusted_proxy_has_no_share_of_its_own() -> None:
    found = connections(Seconds(), connections_per_address=1, trusted_proxy=("192.0.2.0/24",))
    with admitted(found, ("192.0.2.1", 1), ("192.0.2.1", 2)) as ends:
        assert [is_open(end) for end in ends] == [True, True]


def test_where_all_connections_are_at_work_a_newcomer_is_refused() -> None:
    found = connections(Seconds(), connections=1)
    with admitted(found, ("192.0.2.1", 1)) as ends:
        peer = opened(found)
        found.note(peer, waits=False)
        with admitted(found, ("192.0.2.2", 1)) as newcomers:
            assert newcomers == [None]
        assert is_open(ends[0])
        found.note(peer, waits=True)
        with admitted(found, ("192.0.2.2", 1)) as newcomers:
            assert is_open(newcomers[0])


def test_a_port_that_comes_back_before_its_end_was_seen_holds_no_place() -> None:
    """Connect, reset, connect from the same port: each connection is counted until it ends."""
    found = connections(Seconds(), connections=2)
    again = ("192.0.2.1", 1)
    with admitted(found, again) as before:
        old = opened(found)
        with admitted(found, again) as after:
            new = opened(found)
            assert [is_open(end) for end in (*before, *after)] == [True, True]
            found.forget(old)  # only now its end is seen
            found.note(new, waits=False)
            with admitted(found, ("192.0.2.2", 1), ("192.0.2.3", 1)) as ends:
                assert [is_open(end) for end in (*after, *ends)] == [True, False, True]


def test_what_failed_in_a_handshake_gives_its_number_to_the_next() -> None:
    found = connections(Seconds(), connections=2, connections_per_address=1)
    with admitted(found, ("192.0.2.1", 1)):
        number = opened(found).number
    with admitted(found, ("192.0.2.2", 1), ("192.0.2.3", 1)) as ends:
        assert number in found._peers
        assert [is_open(end) for end in ends] == [True, True]
        assert len(found._peers) == len(found._waiting) == found._of_network.total() == 2


def test_a_connection_without_a_request_is_ended_in_time() -> None:
    clock = Seconds()
    found = connections(clock, header_seconds=10)
    with admitted(found, ("192.0.2.1", 1)) as ends:
        clock.now += 9.9
        found.sweep()
        assert is_open(ends[0])
        clock.now += 0.1
        found.sweep()
        assert not is_open(ends[0])


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    """A server that allows few connections, and little time."""
    limits = ("--connections", "40", "--header-seconds", "1")
    with started(tmp_path_factory.mktemp("site"), *limits) as found:
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


@pytest.mark.parametrize("sent", [b"", GET, GET + b"\r\n", POST + b"Content-Length: 1000\r\n\r\n{"])
def test_silent_connections_are_ended(server: Process, sent: bytes) -> None:
    """Without headers, with half of them, after an answer, and in the middle of a body."""
    answers_to(server, sent)


def test_headers_and_bodies_that_trickle_are_ended(server: Process) -> None:
    for begun in (GET, POST + b"Content-Length: 1000000\r\n\r\n"):
        with connected(server) as connection:
            connection.sendall(begun)
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


def beside(server: Process, idle: int, requests: int) -> float:
    """Return how much longer a client waits beside idle connections than without, as a ratio."""
    ratios = []
    for _ in range(3):  # of three tries the best: other programs run here, too
        alone = latency(server, requests)
        with ExitStack() as held:
            for _ in range(idle):
                held.enter_context(connected(server))
            ratios.append(latency(server, requests) / alone)
    return min(ratios)


def latency(server: Process, requests: int) -> float:
    """Return the median time to an answer, each on a connection of its own."""
    times = []
    for _ in range(requests):
        begun = time.perf_counter()
        answer = httpx.get(f"{server.address}/healthz", trust_env=False, timeout=PATIENCE)
        times.append(time.perf_counter() - begun)
        assert answer.status_code == 200
    return median(times)


def test_idle_connections_keep_no_client_waiting(tmp_path: Path) -> None:
    """With more of them than files to open, no client was answered."""
    with started(tmp_path, files=256) as server:
        assert beside(server, idle=300, requests=20) <= 2
        server.stop()
    assert "accept" not in "".join(server.log)


@pytest.mark.verify
def test_a_thousand_idle_connections_keep_no_client_waiting(tmp_path: Path) -> None:
    with started(tmp_path, files=1024) as server:
        assert beside(server, idle=1100, requests=200) <= 2
        server.stop()
    assert "accept" not in "".join(server.log)


def test_a_server_without_free_files_logs_no_attempts_and_recovers(tmp_path: Path) -> None:
    """Each failed accept was a line in the log, two thousand of them a second."""
    with started(tmp_path) as server:
        used = len(list(Path(f"/proc/{server.popen.pid}/fd").iterdir()))
        resource.prlimit(server.popen.pid, resource.RLIMIT_NOFILE, (used + 4, used + 4))
        with ExitStack() as held:
            for _ in range(30):
                held.enter_context(connected(server))
            time.sleep(1)
        for _ in range(30):  # each attempt that is dropped makes room for the next
            try:
                assert httpx.get(f"{server.address}/healthz", trust_env=False).status_code == 200
                break
            except httpx.TransportError:
                continue
        else:
            pytest.fail("it never recovered")
        server.stop()
    assert len(server.log) < 20
    assert "accept" not in "".join(server.log)


def test_a_handshake_of_tls_has_as_little_time(tmp_path: Path) -> None:
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    command = "openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=localhost -days 1"
    outputs = ("-keyout", str(key), "-out", str(certificate))
    subprocess.run([*command.split(), *outputs], check=True, capture_output=True)
    files = ("--tls-certificate", str(certificate), "--tls-key", str(key))
    with started(tmp_path / "site", *files, "--header-seconds", "1") as server:
        host, port = server.address.removeprefix("https://").split(":")
        with socket.create_connection((host, int(port)), timeout=PATIENCE) as silent:
            assert silent.recv(1) == b""
        with httpx.Client(base_url=server.address, trust_env=False, verify=False) as client:  # noqa: S501
            for _ in range(2):
                assert client.get("/healthz").status_code == 200
        server.stop()


def test_resets_from_the_same_port_do_not_lift_the_limit(tmp_path: Path) -> None:
    """A connection that comes back before the end of the former was seen is another one."""
    limits = ("--connections", "20", "--connections-per-address", "20", "--header-seconds", "60")
    with started(tmp_path / "site", *limits) as server, ExitStack() as held:
        host, port = server.address.removeprefix("http://").split(":")

        def connect(source: int = 0) -> socket.socket:
            made = socket.socket()
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            made.bind(("127.0.0.1", source))
            made.settimeout(PATIENCE)
            made.connect((host, int(port)))
            return made

        for _ in range(100):
            source = 0
            for _ in range(2):
                with connect(source) as reset:
                    source = reset.getsockname()[1]
                    time.sleep(0.01)  # accepted, so that the next one finds it there
                    reset.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        ends = [held.enter_context(connect()) for _ in range(60)]
        httpx.get(f"{server.address}/healthz", trust_env=False)  # after all of them
        for end in ends:
            end.setblocking(False)
        assert sum(map(is_open, ends)) <= 20
        server.stop()
