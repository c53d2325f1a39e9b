"""Several servers on one PostgreSQL and one bucket: any of them answers any request.

They share no folder, and any of them may be killed at any moment.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import psycopg
import pytest
from tests.cli.running import Captured, run
from tests.postgresql import Cluster
from tests.server.driving import give_validation, sealed, submission
from tests.server.helpers import PASSWORD, Served, serve
from tests.server.process import Process, started
from tests.server.team import wait
from tests.service.helpers import Labels, rows

from easeml_meter.core.lifecycle import Phase
from easeml_meter.service.guesses import FAILURES
from easeml_meter.service.uploads import PIECE
from easeml_meter.storage.store import Store
from easeml_meter.vault.sealing import seal


@dataclass
class Both:
    """Two servers, what they share, and the tokens of their users."""

    servers: list[Process]
    meter: str
    tokens: dict[str, str]
    users: dict[str, str]
    """Their ids."""
    labels: Labels
    content: bytes
    """A sealed test set for the meter."""
    recipient: str
    """The key that test sets are sealed to."""
    database: str
    files: str

    def client(self, server: int, user: str) -> httpx.Client:
        return self.servers[server].client(self.tokens[user])

    def kill(self, server: int) -> None:
        self.servers[server].popen.kill()
        self.servers[server].popen.wait()


def labels_for(served: Served, meter: str) -> Labels:
    """Make as many labels as the meter asks for."""
    asked = served.client("labeler").get(f"/meters/{meter}/requests").json()["items"][0]
    needed: int = asked["labels_needed"]
    return np.random.default_rng(1).integers(0, 2, needed)


@pytest.fixture
def both(tmp_path: Path, postgresql: Cluster, s3_url: str) -> Iterator[Both]:
    database = postgresql.new_database(empty=False)
    with serve(tmp_path / "first", database=database, files=s3_url) as served:
        meter = served.add_meter()
        served.add_user("ann", password=PASSWORD)
        labels = labels_for(served, meter)
        content = sealed(served, meter, rows(labels, seed=1), tmp_path)
        recipient = served.site.identity.recipient
    key = str(tmp_path / "first" / "server.key")
    shared = ("--database", database, "--files", s3_url, "--key", key)
    with ExitStack() as running:
        servers = [
            running.enter_context(started(tmp_path / name, *shared)) for name in ("one", "two")
        ]
        ids = {name: user.id for name, user in served.users.items()}
        known = (served.tokens, ids, labels, content, recipient)
        yield Both(servers, meter, *known, database, s3_url)


def begin(both: Both, content: bytes) -> str:
    body = {"name": "set", "size": len(content)}
    with both.client(0, "labeler") as labeler:
        begun = labeler.post(f"/meters/{both.meter}/uploads", json=body)
    assert begun.status_code == 201, begun.text
    return f"/meters/{both.meter}/uploads/{begun.json()['id']}"


def large(both: Both, folder: Path) -> tuple[bytes, list[int]]:
    """Return a sealed test set of several pieces, and where they begin."""
    labels = np.random.default_rng(1).integers(0, 2, 400_000)
    path = folder / "large.sealed"
    bound: dict[str, Any] = {"meter": both.meter, "generation": 1, "recipients": [both.recipient]}
    seal(rows(labels, seed=1), path, label="label", id_column="id", **bound)
    content = path.read_bytes()
    starts = list(range(0, len(content), PIECE))
    assert len(starts) > 1
    return content, starts


def test_pieces_sent_to_either_become_one_test_set(both: Both, tmp_path: Path) -> None:
    """Also the same piece to both at the same time, from a client that heard nothing."""
    content, starts = large(both, tmp_path)
    place = begin(both, content)

    def send(start: int, server: int) -> int:
        with both.client(server, "labeler") as labeler:
            piece = content[start : start + PIECE]
            return labeler.put(place, params={"offset": start}, content=piece).status_code

    with ThreadPoolExecutor(2) as sending:
        assert send(starts[1], 1) == 409
        for start in starts:
            assert set(sending.map(partial(send, start), range(2))) == {200}
    with both.client(1, "labeler") as labeler:
        assert labeler.get(place).json()["offset"] == len(content)
        body = {"upload": place.rpartition("/")[2]}
        added = labeler.post(f"/meters/{both.meter}/test-sets", json=body)
        assert added.status_code == 201, added.text
        again = labeler.post(f"/meters/{both.meter}/test-sets", json=body)
        assert (again.status_code, again.json()) == (201, added.json())
        assert labeler.get(place).json()["offset"] == len(content)


def test_an_upload_goes_on_at_the_other_when_one_is_killed_in_the_middle(
    both: Both, tmp_path: Path
) -> None:
    content, starts = large(both, tmp_path)
    place, second = begin(both, content), starts[1]
    with both.client(0, "labeler") as labeler:
        sent = labeler.put(place, params={"offset": 0}, content=content[:second])
        assert sent.json()["offset"] == second
    # Half of the second piece is on its way when the server dies.
    host, port = both.servers[0].address.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as wire:
        piece = content[second : second + PIECE]
        head = (
            f"PUT /api/v1{place}?offset={second} HTTP/1.1\r\nHost: {host}\r\n"
            f"Authorization: Bearer {both.tokens['labeler']}\r\n"
            f"Content-Length: {len(piece)}\r\n\r\n"
        )
        wire.sendall(head.encode() + piece[: len(piece) // 2])
        both.kill(0)
    with both.client(1, "labeler") as labeler:
        assert labeler.get(place).json()["offset"] == second
        for start in starts[1:]:
            piece = content[start : start + PIECE]
            sent = labeler.put(place, params={"offset": start}, content=piece)
        assert sent.json()["offset"] == len(content)
        body = {"upload": place.rpartition("/")[2]}
        assert labeler.post(f"/meters/{both.meter}/test-sets", json=body).status_code == 201


def give_sets(both: Both) -> None:
    """Make the meter answer."""
    place = begin(both, both.content)
    with both.client(0, "labeler") as labeler:
        labeler.put(place, params={"offset": 0}, content=both.content)
        body = {"upload": place.rpartition("/")[2]}
        assert labeler.post(f"/meters/{both.meter}/test-sets", json=body).status_code == 201
    with both.client(1, "developer") as developer:
        assert give_validation(developer, both.meter).status_code == 201


def submit(both: Both, server: int) -> httpx.Response:
    with both.client(server, "developer") as developer:
        return developer.post(
            f"/meters/{both.meter}/submissions",
            params={"model": "m1", "wait": 30},
            content=submission(both.labels),
        )


def answers(both: Both, server: int) -> Any:
    with both.client(server, "developer") as developer:
        return developer.get(f"/meters/{both.meter}/history").json()


def test_what_one_answered_is_answered_the_same_by_the_other(both: Both) -> None:
    give_sets(both)
    first = submit(both, 0)
    assert first.status_code in (200, 201), first.text
    both.kill(0)
    again = submit(both, 1)
    assert again.json()["signal"].pop("repeated")
    assert again.json()["signal"] | {"repeated": False} == first.json()["signal"]
    assert again.json()["id"] == first.json()["id"]


def soon(until: Callable[[], object]) -> None:
    patience = time.monotonic() + 120
    while not until():
        assert time.monotonic() < patience, "it did not happen"
        time.sleep(0.05)


@contextmanager
def held(url: str, lock: str | None) -> Iterator[None]:
    """Hold a lock of the books, as a transaction of another process would."""
    store = Store.open(url)
    with store.writing(lock):
        yield
    store.close()


def waiting(url: str) -> bool:
    """Whether a server waits for a lock of the books."""
    asked = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
    with psycopg.connect(url) as connection:
        found = connection.execute(asked).fetchone()
    return found is not None and found[0] > 0


def test_a_request_that_died_with_its_server_is_repeated_at_the_other(both: Both) -> None:
    admin = both.tokens["admin"]

    def ask(server: Process) -> httpx.Response:
        with server.client(admin) as client:
            return client.post("/users", json={"name": "anna"})

    with ThreadPoolExecutor(1) as sending:
        with held(both.database, None):
            first = sending.submit(ask, both.servers[0])
            soon(lambda: waiting(both.database))
            both.kill(0)
        assert isinstance(first.exception(), httpx.TransportError)
    made = ask(both.servers[1])
    assert (made.status_code, ask(both.servers[1]).json()) == (201, made.json())
    with both.servers[1].client(admin) as client:
        names = [each["name"] for each in client.get("/users").json()["items"]]
    assert names.count("anna") == 1


def test_a_delivery_that_died_with_its_server_is_repeated_at_the_next(
    tmp_path: Path, database: str
) -> None:
    """On either database; on SQLite the next server is the first one that is started."""
    folder, place = tmp_path / "site", f"sqlite:///{tmp_path / 'site' / 'meter.db'}"
    address = database or place
    with serve(folder, database=address) as served:
        meter = served.add_meter()
        content = sealed(served, meter, rows(labels_for(served, meter), seed=1), tmp_path)

    def deliver(server: Process) -> httpx.Response:
        with server.client(served.tokens["labeler"]) as labeler:
            return labeler.post(f"/meters/{meter}/test-sets/file", content=content)

    def begun() -> bool:
        store = Store.open(address)
        with store.reading() as books:
            phase = books.testsets.all(meter)[-1].phase
        store.close()
        return phase is Phase.ACTIVE

    options = ("--database", address)
    with started(folder, *options) as server, ThreadPoolExecutor(1) as sending:
        first = sending.submit(deliver, server)
        soon(begun)  # committed; whether its answer was heard, nobody knows
        server.popen.kill()
        first.exception()
    with started(folder, *options) as server:
        again = deliver(server)
        assert (again.status_code, again.json()["phase"]) == (201, "active")
        assert deliver(server).json() == again.json()


def test_a_sign_in_counts_everywhere_and_so_does_its_end(both: Both) -> None:
    given = {"name": "ann", "password": PASSWORD}
    with both.servers[0].client("none") as client:
        token = client.post("/login", json=given).json()["token"]
    with both.servers[1].client(token) as other:
        assert other.get("/me").json()["user"]["name"] == "ann"
        assert other.post("/logout").status_code == 204
    with both.servers[0].client(token) as client:
        assert client.get("/me").status_code == 401


def test_wrong_passwords_at_both_count_together(both: Both) -> None:
    """Each server counted for itself: with two of them, twice as many guesses were taken."""
    for number in range(FAILURES):
        with both.servers[number % 2].client("none") as client:
            wrong = client.post("/login", json={"name": "ann", "password": f"guess {number}"})
            assert wrong.status_code == 401
    for server in both.servers:
        with server.client("none") as client:
            right = client.post("/login", json={"name": "ann", "password": PASSWORD})
            assert right.status_code == 401  # locked for this address, at either of them


def test_nothing_is_restored_beside_a_server(both: Both, capsys: Captured, tmp_path: Path) -> None:
    key = str(tmp_path / "first" / "server.key")
    shared = ("--database", both.database, "--files", both.files, "--key", key)
    where = ("-C", str(tmp_path / "admin"), *shared)
    code, _, err = run(capsys, "backup", str(tmp_path / "b.tar"), *where)
    assert code == 0, err
    code, _, err = run(capsys, "restore", str(tmp_path / "b.tar"), *where)
    assert code == 1
    assert "another meter serve, meter worker or meter restore uses the database" in err
    code, _, err = run(capsys, "key", "rotate", *where)
    assert code == 1
    assert "stop all of them first" in err
    for server in (0, 1):
        both.kill(server)
    wait(lambda: run(capsys, "restore", str(tmp_path / "b.tar"), *where)[0] == 0)


def test_events_of_one_are_seen_at_the_other(both: Both) -> None:
    give_sets(both)
    told = submit(both, 0).json()
    path = f"/meters/{both.meter}/submissions/{told['id']}/events"
    with both.client(1, "developer") as developer, developer.stream("GET", path) as stream:
        assert '"state": "done"' in "".join(stream.iter_text())
    wait(lambda: answers(both, 1) == answers(both, 0))


def test_a_second_server_on_one_sqlite_database_is_refused(tmp_path: Path) -> None:
    refusal = "another meter serve or meter restore uses it"
    with (
        started(tmp_path / "site"),
        pytest.raises(AssertionError, match=refusal),
        started(tmp_path / "site"),
    ):
        pass
