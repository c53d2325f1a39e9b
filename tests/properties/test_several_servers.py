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
import pytest
from tests.cli.running import Captured, run
from tests.postgresql import Cluster
from tests.server.driving import give_validation, sealed, submission
from tests.server.helpers import PASSWORD, Served, serve
from tests.server.process import Process, started
from tests.server.team import wait
from tests.service.helpers import Labels, rows

from easeml_meter.core.idempotency import LOST
from easeml_meter.service.guesses import FAILURES
from easeml_meter.service.uploads import PIECE
from easeml_meter.storage import schema
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
        assert labeler.get(place).status_code == 404


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


def submit(both: Both, server: int, key: str) -> httpx.Response:
    with both.client(server, "developer") as developer:
        return developer.post(
            f"/meters/{both.meter}/submissions",
            params={"model": "m1", "wait": 30},
            headers={"Idempotency-Key": key},
            content=submission(both.labels),
        )


def answers(both: Both, server: int) -> Any:
    with both.client(server, "developer") as developer:
        return developer.get(f"/meters/{both.meter}/history").json()


def test_a_key_that_one_answered_is_answered_the_same_by_the_other(both: Both) -> None:
    give_sets(both)
    first = submit(both, 0, "k-1")
    assert first.status_code in (200, 201), first.text
    both.kill(0)
    again = submit(both, 1, "k-1")
    assert again.headers["Idempotency-Replayed"] == "true"
    assert again.json() == first.json()
    repeated = submit(both, 1, "k-2").json()["signal"]
    assert (repeated["repeated"], repeated["step"]) == (True, first.json()["signal"]["step"])


def soon(until: Callable[[], object]) -> None:
    """Wait for something, far shorter than a key is kept of which nobody knows the server."""
    patience = time.monotonic() + LOST.total_seconds() / 5
    while not until():
        assert time.monotonic() < patience, "it did not happen"
        time.sleep(0.05)


def ask(server: Process, admin: str, path: str) -> httpx.Response:
    with server.client(admin) as client:
        return client.post(path, json={"name": "anna"}, headers={"Idempotency-Key": "one"})


@contextmanager
def writing(url: str, *locks: str | None) -> Iterator[ExitStack]:
    """Hold locks of the books, as a transaction of another process would."""
    store = Store.open(url)
    with ExitStack() as held:
        for lock in locks:
            held.enter_context(store.writing(lock))
        yield held
    store.close()


def keys_begun(url: str) -> list[int | None]:
    """Return the status of each request that a server carries out."""
    store = Store.open(url)
    with store.asking() as books:
        found = books.select(schema.idempotency)
    store.close()
    return [each["status"] for each in found if each["server"] is not None]


@pytest.mark.parametrize("path", ["/users", "/tokens"])
def test_a_request_that_died_with_its_server_is_repeated_at_the_other_soon(
    both: Both, path: str
) -> None:
    admin = both.tokens["admin"]
    with ThreadPoolExecutor(1) as sending:
        with writing(both.database, None):
            first = sending.submit(ask, both.servers[0], admin, path)
            soon(lambda: keys_begun(both.database) == [None])
            assert ask(both.servers[1], admin, path).json()["error"] == "under-way"
            both.kill(0)
        assert isinstance(first.exception(), httpx.TransportError)
    soon(lambda: ask(both.servers[1], admin, path).status_code == 201)  # PostgreSQL sees it end
    with both.servers[1].client(admin) as client:
        names = [each["name"] for each in client.get(path).json()["items"]]
    assert names.count("anna") == 1


def test_a_token_made_by_a_server_that_died_then_is_not_made_twice(both: Both) -> None:
    admin = both.tokens["admin"]
    user = both.users["admin"]
    with ThreadPoolExecutor(1) as sending, ExitStack() as held:
        with writing(both.database, None):
            first = sending.submit(ask, both.servers[0], admin, "/tokens")
            soon(lambda: keys_begun(both.database) == [None])
            held.enter_context(writing(both.database, user))  # so that no answer can be kept
        soon(lambda: keys_begun(both.database) == [409])
        both.kill(0)
        held.close()
        assert isinstance(first.exception(), httpx.TransportError)
    told: list[httpx.Response] = []

    def lost() -> bool:
        told.append(ask(both.servers[1], admin, "/tokens"))
        return str(told[-1].json()["error"]) != "under-way"

    soon(lost)
    assert told[-1].status_code == 409
    assert "but its answer was lost: look at" in told[-1].json()["message"]
    with both.servers[1].client(admin) as client:
        names = [each["name"] for each in client.get("/tokens").json()["items"]]
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
            return labeler.post(
                f"/meters/{meter}/test-sets/file",
                content=content,
                headers={"Idempotency-Key": "one"},
            )

    options = ("--database", address)
    with started(folder, *options) as server, ThreadPoolExecutor(1) as sending:
        first = sending.submit(deliver, server)
        soon(lambda: keys_begun(address) == [None])
        server.popen.kill()
        assert isinstance(first.exception(), httpx.TransportError)
    with started(folder, *options) as server:
        soon(lambda: deliver(server).status_code == 201)
        assert deliver(server).headers["Idempotency-Replayed"] == "true"


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
    told = submit(both, 0, "k-1").json()
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
