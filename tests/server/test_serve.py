"""A server from its start to its end."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.forking import run
from tests.server import helpers
from tests.server.process import Process, started
from tests.service.helpers import small_spec

from easeml_meter.errors import MeterError
from easeml_meter.server import serve
from easeml_meter.server.app import create_app
from easeml_meter.server.settings import Settings
from easeml_meter.service import jobs
from easeml_meter.service.guesses import forget_guesses
from easeml_meter.service.notifications import MailServer, Sender
from easeml_meter.storage.schema import HEAD
from easeml_meter.storage.store import Store


def test_first_start_prints_address_and_admin_token_and_stops_cleanly(tmp_path: Path) -> None:
    with started(tmp_path / "site", alone=True) as server:
        assert server.token is not None
        with server.client() as client:
            me = client.get("/me").json()
            assert (me["user"]["name"], me["user"]["admin"]) == ("admin", True)
            assert client.get(f"{server.address}/healthz").text == "ok\n"
            ready = client.get(f"{server.address}/readyz")
            assert [line.split()[:2] for line in ready.text.splitlines()] == [
                ["ok", "database"],
                ["ok", "disk"],
                ["ok", "workers"],
                ["ok", "proxy"],
            ]
            assert "meter_requests_total" in client.get(f"{server.address}/metrics").text
        assert (tmp_path / "site").stat().st_mode & 0o077 == 0
        assert server.stop() == 0
    lines = [json.loads(line) for line in server.log]
    assert [line["event"] for line in lines] == ["started", *["request"] * 4, "stopped"]
    assert {line["level"] for line in lines} == {"info"}
    assert server.token not in "".join(server.log)


def test_a_server_stays_ready_when_a_newer_one_migrates(tmp_path: Path) -> None:
    """A balancer that asks /readyz would take every old process out of service at once."""
    with helpers.serve(tmp_path / "site") as served:
        with served.site.writing() as books:
            order = f"UPDATE alembic_version SET version_num = '{int(HEAD) + 1:04}'"  # noqa: S608
            books.connection.exec_driver_sql(order)
        ready = served.client().get("http://server/readyz")
        assert (ready.status_code, ready.text.splitlines()[0]) == (200, "warn database")
        assert served.client("admin").get("/me").is_success


def test_what_it_writes_into_a_folder_that_was_there_is_for_its_owner_alone(tmp_path: Path) -> None:
    """Everybody on the machine could read hashes of passwords, answers and validation sets."""
    site = tmp_path / "site"
    site.mkdir()
    site.chmod(0o755)
    with started(site) as server:
        with server.client() as client:
            assert client.post("/users", json={"name": "anna"}).status_code == 201
        written = {str(path.relative_to(site)): path.stat().st_mode for path in site.rglob("*")}
        assert server.stop() == 0
    assert {"meter.db", "meter.db-wal", "files", "files/server.recipient"} <= {*written}
    assert [name for name, mode in written.items() if mode & 0o077] == []
    assert site.stat().st_mode & 0o777 == 0o755  # whoever made it knows why


def test_readyz_tells_strangers_how_it_went_and_not_what_was_found(tmp_path: Path) -> None:
    too_much = str(1 << 60)
    with started(tmp_path / "site", "--free-disk-bytes", too_much) as server:
        forwarded = {"X-Forwarded-For": "203.0.113.9"}
        strange = httpx.get(
            f"{server.address}/readyz", headers=forwarded, trust_env=False, timeout=120
        )
        own = httpx.get(f"{server.address}/readyz", trust_env=False, timeout=120)
        assert server.stop() == 0
    assert strange.status_code == own.status_code == 503
    assert strange.text == "ok database\nfail disk\nok workers\nwarn proxy\n"
    assert "make room" in own.text


def test_e_mail_goes_where_the_settings_say() -> None:
    given = Settings(smtp_host="mail.example", smtp_from="m@example.org", smtp_user="me")
    assert serve._sender(given).mail == MailServer("mail.example", "m@example.org", 587, "me")
    assert serve._sender(Settings()).mail is None


def test_readyz_says_whether_a_proxy_is_believed(tmp_path: Path) -> None:
    trusting = ("--trusted-proxy", "127.0.0.1", "--allowed-host", "127.0.0.1")
    with started(tmp_path / "site", *trusting) as server:
        forwarded = {"X-Forwarded-For": "203.0.113.9", "X-Forwarded-Proto": "https"}
        seen = httpx.get(
            f"{server.address}/readyz", headers=forwarded, trust_env=False, timeout=120
        )
        assert server.stop() == 0
    assert seen.text.splitlines()[-1] == "ok proxy"


def test_token_is_printed_again_only_while_no_admin_can_sign_in(tmp_path: Path) -> None:
    with started(tmp_path / "site") as server:
        token = server.token
        server.stop()
    assert token is not None
    with started(tmp_path / "site") as server:
        assert server.token is None
        with server.client(token) as client:
            assert client.post("/logout").status_code == 204
        server.stop()
    with started(tmp_path / "site") as server:  # the only token is gone, and there is no password
        assert server.token is not None
        server.stop()
    with started(tmp_path / "site", "--new-admin-token") as server:
        assert server.token is not None
        with server.client() as client:
            assert client.get("/me").status_code == 200


def test_an_accepted_request_is_finished_before_the_end(tmp_path: Path) -> None:
    with started(tmp_path / "site") as server:
        host, port = server.address.removeprefix("http://").split(":")
        body = json.dumps({"name": "late"}).encode()
        head = (
            f"POST /api/v1/users HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {server.token}"
            f"\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        with socket.create_connection((host, int(port)), timeout=60) as connection:
            connection.sendall(head.encode() + body[:5])
            with server.client() as client:  # by then, the half request was accepted
                client.get("/me")
            stopping = threading.Thread(target=server.stop)
            stopping.start()
            while _listens(server.address):
                pass
            connection.sendall(body[5:])
            assert connection.recv(4096).startswith(b"HTTP/1.1 201 ")
        stopping.join()
        assert server.popen.returncode == 0


def _listens(address: str) -> bool:
    try:
        httpx.get(f"{address}/healthz", trust_env=False, timeout=120)
    except httpx.TransportError:
        return False
    return True


def test_tls(tmp_path: Path) -> None:
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    command = "openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=localhost -days 1"
    outputs = ("-keyout", str(key), "-out", str(certificate))
    subprocess.run([*command.split(), *outputs], check=True, capture_output=True)
    files = ("--tls-certificate", str(certificate), "--tls-key", str(key))
    with started(tmp_path / "site", "--host", "0.0.0.0", *files) as server:  # noqa: S104
        assert server.address.startswith("https://")
        address = server.address.replace("0.0.0.0", "127.0.0.1")  # noqa: S104
        answer = httpx.get(f"{address}/healthz", trust_env=False, timeout=120, verify=False)  # noqa: S501
        assert answer.headers["strict-transport-security"] == "max-age=31536000"
        server.stop()
    assert not [line for line in server.log if "warning" in line]


def test_plain_http_for_all_the_world_is_warned_of(tmp_path: Path) -> None:
    with started(tmp_path / "site", "--host", "0.0.0.0") as server:  # noqa: S104
        server.stop()
    warnings = [json.loads(line) for line in server.log if '"warning"' in line]
    assert ["tokens travel in the clear" in line["event"] for line in warnings] == [True]


@pytest.mark.parametrize(
    ("trusted", "status"), [((), 401), (("--trusted-proxy", "127.0.0.1"), 401)]
)
def test_metrics_are_not_passed_on_by_a_proxy(
    tmp_path: Path, trusted: tuple[str, ...], status: int
) -> None:
    with started(tmp_path / "site", *trusted) as server:
        answer = httpx.get(
            f"{server.address}/metrics",
            headers={"X-Forwarded-For": "192.0.2.7"},
            trust_env=False,
            timeout=120,
        )
        assert answer.status_code == 401


def test_forwarded_headers_count_only_from_a_trusted_proxy(tmp_path: Path) -> None:
    header = {"X-Forwarded-Proto": "https"}
    seen = {}
    for trusted in ("127.0.0.0/8", "192.0.2.1"):
        with started(tmp_path / "site", "--trusted-proxy", trusted) as server:
            answer = httpx.get(
                f"{server.address}/healthz", headers=header, trust_env=False, timeout=120
            )
            seen[trusted] = "strict-transport-security" in answer.headers
            server.stop()
    assert seen == {"127.0.0.0/8": True, "192.0.2.1": False}


def test_background_work_that_fails_is_done_again_and_stops_with_the_server() -> None:
    runs: list[int] = []
    stopping = threading.Event()

    def shaky() -> None:
        runs.append(1)
        if len(runs) == 1:
            raise MeterError("the database went away")
        stopping.set()

    serve._every(0, shaky, stopping)
    assert len(runs) == 2


def test_an_idle_server_on_sqlite_takes_no_write_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It looks for work again and again, but only reads: writers have the lock to themselves."""
    settings = Settings(folder=tmp_path)
    app = create_app(serve.open_site(settings), settings)
    looked, wrote, housekept = threading.Semaphore(0), [], threading.Event()
    reading, writing = Store.reading, Store.writing

    def last_of_housekeeping(*given: Any) -> None:
        forget_guesses(*given)
        housekept.set()

    def counted(store: Store) -> Any:
        looked.release()
        return reading(store)

    def noted(store: Store, meter: str | None = None) -> Any:
        wrote.append(threading.current_thread().name)
        return writing(store, meter)

    monkeypatch.setattr(serve, "forget_guesses", last_of_housekeeping)
    monkeypatch.setattr(jobs, "_LOOK", 0.01)
    monkeypatch.setattr(serve, "_OFTEN", 0.01)
    mail = MailServer("127.0.0.1", "meter@example.org")
    with serve._background(app, Sender(mail)):
        assert housekept.wait(60)  # when it starts, and then every hour
        monkeypatch.setattr(Store, "reading", counted)
        monkeypatch.setattr(Store, "writing", noted)
        for _ in range(50):
            assert looked.acquire(timeout=60)
    assert wrote == []
    app.state.site.close()


def second(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Run another command on the folder of a server."""
    return run((*command, "--folder", str(folder)))


def test_one_server_at_a_time_uses_a_folder(tmp_path: Path) -> None:
    """Two of them would run the same models, and forget each other's requests."""
    with started(tmp_path) as server:
        refused = second(tmp_path, "serve", "--port", "0")
        assert (refused.returncode, refused.stdout) == (1, "")
        assert refused.stderr.startswith("meter: ")
        assert refused.stderr.count("\n") == 1
        assert "another meter serve or meter restore uses it" in refused.stderr
        server.popen.kill()  # it has no time to free its lock
        server.popen.wait()
        with started(tmp_path) as again:
            assert again.stop() == 0


def test_nothing_is_restored_beside_a_running_server(tmp_path: Path) -> None:
    folder, backup = tmp_path / "server", tmp_path / "site.backup"
    settings = small_spec().to_mapping()
    with started(folder) as server, server.client() as admin:
        created = admin.post("/meters", json={"name": "m", "settings": settings})
        assert created.status_code == 201, created.text
        assert second(folder, "backup", str(backup)).returncode == 0
        refused = second(folder, "restore", str(backup))
        assert (refused.returncode, refused.stdout) == (1, "")
        assert "another meter serve or meter restore uses it" in refused.stderr
        assert server.stop() == 0
    restored = second(folder, "restore", str(backup))
    assert restored.returncode == 0, restored.stderr


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


LARGE_REQUESTS = """
import re, threading
from pathlib import Path
import numpy as np, pyarrow as pa
from easeml_meter.server.serve import give_memory_back

give_memory_back()
resident = lambda: int(re.search(r"VmRSS:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
before, kept = resident(), []


def request():
    for size in (1 << 21, 1 << 23, 1 << 22):  # of growing size, with what stays in between
        blocks = [(np.ones(size, np.uint8), kept.append(bytearray(1000))) for _ in range(8)]
        table = pa.array(np.arange(size // 8)).take(pa.array(np.arange(size // 8)))


threads = [threading.Thread(target=request) for _ in range(8)]
for step in (threading.Thread.start, threading.Thread.join):
    for each in threads:
        step(each)
print((resident() - before) >> 10)
"""


def test_what_large_requests_took_is_given_back() -> None:
    """An API process kept 560 MB of eight submissions of a million rows; now 320."""
    asked = subprocess.run(
        [sys.executable, "-c", LARGE_REQUESTS], capture_output=True, text=True, check=True
    )
    assert int(asked.stdout) < 150  # without it, 510
