from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import JSONResponse
from tests.server.driving import begin, submit
from tests.server.helpers import Served
from tests.server.team import wait
from tests.service.helpers import StoppedClock

from easeml_meter.core.idempotency import KEPT, LOST, KeyedRequest
from easeml_meter.core.model import stamp
from easeml_meter.errors import FilesUnusable, MeterError, StorageError, VaultError
from easeml_meter.server import idempotency
from easeml_meter.server import serve as serving
from easeml_meter.server.app import create_app
from easeml_meter.server.auth import SiteActorHere
from easeml_meter.server.idempotency import (
    Key,
    KeyBatches,
    OnceHere,
    forget_old_keys,
    once_streamed,
)
from easeml_meter.server.limits import streamed
from easeml_meter.service import users
from easeml_meter.service.actor import SYSTEM
from easeml_meter.service.notifications.delivery import Sender
from easeml_meter.service.submissions import queue
from easeml_meter.service.submissions.answering import answer_all
from easeml_meter.storage import schema
from easeml_meter.storage.books import Books
from easeml_meter.storage.books.idempotency import KeyedRequests
from easeml_meter.storage.store import Store, carrying_out, in_use

KEY = {"Idempotency-Key": "one"}


@pytest.fixture
def served(served_on_each_database: Served) -> Served:
    return served_on_each_database


def add(client: httpx.Client, name: str, headers: dict[str, str]) -> httpx.Response:
    return client.post("/users", json={"name": name}, headers=headers)


def test_the_same_request_is_answered_again(served: Served) -> None:
    client = served.client("admin")
    first, second = add(client, "anna", KEY), add(client, "anna", KEY)
    assert (first.status_code, second.status_code) == (201, 201)
    assert first.content == second.content
    assert "idempotency-replayed" not in first.headers
    assert second.headers["idempotency-replayed"] == "true"
    assert [user.name for user in users.list_users(SYSTEM, served.site)] == [
        "admin",
        "anna",
        "stranger",
    ]


def test_another_request_is_a_conflict(served: Served) -> None:
    client = served.client("admin")
    add(client, "anna", KEY)
    other = add(client, "bert", KEY)
    assert (other.status_code, other.json()["error"]) == (409, "conflict")
    elsewhere = client.post("/tokens", json={"name": "anna"}, headers=KEY)
    assert elsewhere.status_code == 409
    assert len(users.list_users(SYSTEM, served.site)) == 3


def test_keys_belong_to_their_user(served: Served) -> None:
    served.add_user("second", admin=True)
    assert add(served.client("admin"), "anna", KEY).status_code == 201
    assert add(served.client("second"), "bert", KEY).status_code == 201


def test_a_refused_request_leaves_the_key_unused(served: Served) -> None:
    client = served.client("admin")
    assert add(client, "stranger", KEY).status_code == 409
    assert add(client, "anna", KEY).status_code == 201


def test_the_answer_is_for_the_one_who_may_still_ask(served: Served) -> None:
    second = served.add_user("second", admin=True)
    client = served.client("second")
    add(client, "anna", KEY)
    users.change_user(SYSTEM, served.site, second.id, admin=False)
    assert add(client, "anna", KEY).status_code == 403


@pytest.mark.parametrize("key", ["", "x" * 201, "with space", "\u00e9"])
def test_malformed_keys(served: Served, key: str) -> None:
    headers = {"Idempotency-Key": key.encode("latin-1")}
    answer = served.client("admin").post("/users", json={"name": "anna"}, headers=headers)  # type: ignore[arg-type]
    assert answer.status_code == 422


def test_keys_are_forgotten_after_a_day(served: Served, clock: StoppedClock) -> None:
    client = served.client("admin")
    add(client, "anna", KEY)
    clock.moment += KEPT
    assert add(client, "anna", KEY).status_code == 201
    clock.moment += timedelta(seconds=1)
    assert add(client, "bert", KEY).status_code == 201
    clock.moment += KEPT
    forget_old_keys(served.site)
    assert _stored(served) == 1
    clock.moment += timedelta(seconds=1)
    forget_old_keys(served.site)
    assert _stored(served) == 0


def _stored(served: Served) -> int:
    with served.site.reading() as books:
        return len(books.select(schema.idempotency))


@pytest.fixture
def slow(served: Served) -> Slow:
    return Slow(served)


class Slow:
    """A route that counts how often it was at work, and waits to be let go."""

    def __init__(self, served: Served) -> None:
        self.begun = threading.Semaphore(0)
        self.go_on = threading.Event()
        self.runs = 0
        router = APIRouter()

        @router.post("/slow")
        async def route(once: OnceHere) -> JSONResponse:
            return await once.answer(self._work, actor=SYSTEM, use_case=users.list_users)

        served.app.include_router(router, prefix="/api/v1")

    def _work(self) -> tuple[int, dict[str, int]]:
        self.runs += 1
        self.begun.release()
        assert self.go_on.wait(60)
        return 200, {"run": self.runs}


def test_a_second_one_meanwhile_is_told_to_wait(served: Served, slow: Slow) -> None:
    client = served.client("admin")
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(client.post, "/slow", headers=KEY)
        assert slow.begun.acquire(timeout=60)
        second = client.post("/slow", headers=KEY)
        slow.go_on.set()
        assert first.result().json() == {"run": 1}
    assert second.status_code == 409
    assert "under way" in second.json()["message"]
    assert client.post("/slow", headers=KEY).json() == {"run": 1}


def test_of_many_at_once_one_is_done(served: Served, slow: Slow) -> None:
    slow.go_on.set()
    clients = [served.client("admin") for _ in range(8)]
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda each: each.post("/slow", headers=KEY), clients))
    assert slow.runs == 1
    assert {answer.status_code for answer in answers} <= {200, 409}
    done = [answer.json() for answer in answers if answer.status_code == 200]
    assert done
    assert all(body == {"run": 1} for body in done)


def test_one_that_died_with_its_server_can_be_repeated(
    served: Served, slow: Slow, clock: StoppedClock
) -> None:
    slow.go_on.set()
    client = served.client("admin")
    client.post("/slow", headers=KEY)
    with served.site.writing() as books:  # as if the server had died before it answered
        books.connection.execute(schema.idempotency.update(), {"status": None, "body": None})
    assert client.post("/slow", headers=KEY).status_code == 409
    clock.moment += LOST + timedelta(seconds=1)
    assert client.post("/slow", headers=KEY).json() == {"run": 2}


def test_a_submission_holds_no_key_while_it_is_answered(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So one whose server dies can be repeated at another at once, as docs/server.md says."""
    meter = served.add_meter()
    labels = begin(served, meter, tmp_path)
    held: list[int] = []

    def watched(*given: Any) -> Any:
        with served.site.reading() as books:
            held.append(len(books.connection.execute(schema.idempotency.select()).all()))
        return answer_all(*given)

    monkeypatch.setattr(queue, "answer_all", watched)
    for replays in (None, "true"):
        sent = submit(served.client("developer"), meter, labels, headers=KEY)
        assert (sent.is_success, sent.headers.get("Idempotency-Replayed")) == (True, replays)
    assert held[0] == 0


def test_a_streamed_body_counts(served: Served) -> None:
    router = APIRouter()

    @router.post("/raw")
    async def route(request: Request, actor: SiteActorHere, key: Key = None) -> JSONResponse:
        body = b"".join([piece async for piece in streamed(request, 100)])
        once = once_streamed(request, actor, key)
        return await once.answer(
            lambda: (200, len(body)), actor=SYSTEM, use_case=users.list_users, body=body
        )

    served.app.include_router(router, prefix="/api/v1")
    client = served.client("admin")
    assert client.post("/raw", content=b"abc", headers=KEY).json() == 3
    again = client.post("/raw", content=b"abc", headers=KEY)
    assert (again.json(), again.headers["idempotency-replayed"]) == (3, "true")
    assert client.post("/raw", content=b"abd", headers=KEY).status_code == 409
    assert client.post("/raw?x=1", content=b"abc", headers=KEY).status_code == 409
    too_long = client.post("/raw", content=b"x" * 101)
    assert (too_long.status_code, too_long.json()["error"]) == (413, "too-large")


def test_keys_that_come_together_are_each_judged_alone(served: Served, clock: StoppedClock) -> None:
    keys: KeyBatches = served.app.state.keys

    def asked(key: str, request: str) -> KeyedRequest:
        return KeyedRequest("anna", key, request, stamp(clock()))

    def begun(*given: KeyedRequest) -> list[object]:
        async def main() -> list[object]:
            waiting = (keys.begun("anna", each) for each in given)
            return await asyncio.gather(*waiting, return_exceptions=True)

        found = asyncio.run(main())
        return [
            type(each).__name__ if isinstance(each, Exception) else given.index(each)
            for each in found
        ]

    assert begun(asked("old", "one")) == [0]
    clock.moment += LOST + timedelta(seconds=1)
    assert begun(asked("known", "one")) == [0]
    assert begun(
        asked("old", "two"),  # nobody waits for the first one any more
        asked("new", "one"),
        asked("new", "one"),
        asked("known", "two"),
    ) == [0, 1, "UnderWay", "MeterError"]
    assert begun(asked("old", "two"), asked("fresh", "one")) == ["UnderWay", 1]


class Deed:
    """A route that opens an account, and waits to be let go before that or after it."""

    def __init__(self, served: Served) -> None:
        self._served = served
        self.waits: dict[str, threading.Event] = {}
        self.reached = threading.Semaphore(0)
        self.fails: Exception | None = None
        """What goes wrong after the account was opened."""
        self.install(served.app)

    def install(self, app: FastAPI) -> None:
        router = APIRouter()

        @router.post("/deed")
        async def route(once: OnceHere) -> JSONResponse:
            return await once.answer(self._work, actor=SYSTEM, use_case=users.add_user)

        app.include_router(router, prefix="/api/v1")

    def _work(self) -> tuple[int, dict[str, str]]:
        self._stop("before")
        user = users.add_user(SYSTEM, self._served.site, f"made-{len(self.made)}")
        self._stop("after")
        if self.fails is not None:
            raise self.fails
        return 201, {"name": user.name}

    def _stop(self, point: str) -> None:
        wait = self.waits.pop(point, None)  # the next one goes on
        if wait is not None:
            self.reached.release()
            assert wait.wait(60)

    @property
    def made(self) -> list[str]:
        found = users.list_users(SYSTEM, self._served.site)
        return [user.name for user in found if user.name.startswith("made-")]

    @contextmanager
    def held(self, point: str) -> Iterator[Future[httpx.Response]]:
        """Send a request that waits at a point until the block ends."""
        go_on = self.waits[point] = threading.Event()
        with ThreadPoolExecutor(1) as pool:
            sent = pool.submit(self._served.client("admin").post, "/deed", headers=KEY)
            try:
                assert self.reached.acquire(timeout=60)
                yield sent
            finally:
                go_on.set()

    def at_another(self, server: int | None = None) -> httpx.Client:
        """Give a client of another server on the same database."""
        app = create_app(self._served.site, self._served.app.state.settings, server=server)
        self.install(app)
        return replace(self._served, app=app).client("admin")


@pytest.fixture
def deed(served: Served) -> Deed:
    return Deed(served)


def away(*_: object) -> None:
    raise StorageError("the books cannot be used: away")


def test_what_a_dead_server_had_begun_is_done_once_at_the_next(deed: Deed) -> None:
    """Should it be alive after all, having lost its database only, its own does not count."""
    with deed.held("before") as first:
        again = deed.at_another().post("/deed", headers=KEY)
        assert (again.status_code, again.json()) == (201, {"name": "made-0"})
    late = first.result()
    assert (late.status_code, late.json()["error"]) == (409, "under-way")
    assert deed.made == ["made-0"]
    replay = deed.at_another().post("/deed", headers=KEY)
    assert (replay.json(), replay.headers["idempotency-replayed"]) == ({"name": "made-0"}, "true")


def test_what_a_dead_server_had_committed_is_not_done_again(deed: Deed) -> None:
    with deed.held("after") as first:
        again = deed.at_another().post("/deed", headers=KEY)
        assert (again.status_code, again.json()["error"]) == (409, "conflict")
        assert "but its answer was lost: look at what is" in again.json()["message"]
    assert first.result().status_code == 201
    assert deed.made == ["made-0"]
    assert deed.at_another().post("/deed", headers=KEY).json() == {"name": "made-0"}


@pytest.mark.parametrize("point", ["before", "after"])
def test_what_a_living_server_has_begun_is_waited_for(
    served: Served, database: str, point: str
) -> None:
    if served.site.store.dialect == "sqlite":
        pytest.skip("there is one server")
    with in_use(database) as number:
        served.app.state.keys = KeyBatches(served.site, number)
        deed = Deed(served)
        with deed.held(point) as first:
            again = deed.at_another().post("/deed", headers=KEY)
            assert (again.status_code, again.json()["error"]) == (409, "under-way")
        assert first.result().status_code == 201
    assert deed.made == ["made-0"]


def test_what_goes_on_after_its_key_was_freed_does_not_count(served: Served, deed: Deed) -> None:
    """As when a client goes away: a thread cannot be stopped, and the client may ask again."""
    with deed.held("before") as first:
        with served.site.reading() as books:
            (row,) = books.select(schema.idempotency)
        served.app.state.keys.give_up(KeyedRequest(**row), uncommitted=True)
    assert first.result().status_code == 409
    assert (deed.made, _stored(served)) == ([], 0)


def test_what_failed_after_its_commit_keeps_its_key(served: Served, deed: Deed) -> None:
    with deed.held("after") as first:
        with served.site.reading() as books:
            (row,) = books.select(schema.idempotency)
        served.app.state.keys.give_up(KeyedRequest(**row), uncommitted=True)
        assert _stored(served) == 1
    assert first.result().status_code == 201


@pytest.mark.parametrize("kind", [StorageError, FilesUnusable, OSError])
def test_what_fails_after_its_commit_is_neither_waited_for_nor_done_again(
    served: Served, deed: Deed, clock: StoppedClock, kind: type[Exception]
) -> None:
    """Its server is alive, and would be waited for as long as that lives."""
    client = served.client("admin")
    deed.fails = kind("gone")
    with suppress(OSError):  # what nobody expected is raised here, and is a 500 elsewhere
        assert not client.post("/deed", headers=KEY).is_success
    deed.fails = None
    for waited in (timedelta(seconds=5), LOST, KEPT - LOST - timedelta(seconds=5)):
        clock.moment += waited
        again = client.post("/deed", headers=KEY)
        assert (again.status_code, again.json()["error"]) == (409, "conflict")
        assert "but its answer was lost: look at what is" in again.json()["message"]
    assert deed.made == ["made-0"]


def test_an_answer_that_could_not_be_kept_is_kept_when_the_database_is_back(
    served: Served, deed: Deed, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, keys = served.client("admin"), served.app.state.keys
    with monkeypatch.context() as patched:
        patched.setattr(KeyedRequests, "answer", away)
        assert client.post("/deed", headers=KEY).status_code == 503
        with pytest.raises(StorageError):
            keys.free_left()
    # It is about to be known, so its client waits.
    assert client.post("/deed", headers=KEY).json()["error"] == "under-way"
    keys.free_left()
    again = client.post("/deed", headers=KEY)
    assert (again.status_code, again.json()) == (201, {"name": "made-0"})
    assert again.headers["idempotency-replayed"] == "true"
    assert deed.made == ["made-0"]


def test_a_secret_answer_that_could_not_be_sealed_is_not_made_again(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise VaultError("the key cannot be used")

    client = served.client("admin")
    with monkeypatch.context() as patched:
        patched.setattr(idempotency, "_sealed", broken)
        assert client.post("/tokens", json={"name": "once"}, headers=KEY).status_code == 409
    again = client.post("/tokens", json={"name": "once"}, headers=KEY)
    assert "but its answer was lost: look at what is" in again.json()["message"]
    names = [each["name"] for each in client.get("/tokens").json()["items"]]
    assert names.count("once") == 1


def test_a_refusal_after_a_commit_frees_its_key(served: Served, deed: Deed) -> None:
    deed.fails = MeterError("not now")
    assert served.client("admin").post("/deed", headers=KEY).status_code == 409
    assert _stored(served) == 0


def test_what_is_still_running_may_commit_again(served: Served, deed: Deed) -> None:
    """A task that is cancelled leaves its thread at work, with more than one thing to commit."""
    with deed.held("after") as first:
        with served.site.reading() as books:
            (row,) = books.select(schema.idempotency)
        begun = KeyedRequest(**row)
        served.app.state.keys.give_up(begun, uncommitted=True, running=True)
        with carrying_out(begun), served.site.writing():
            pass
        assert first.running()
        again = served.client("admin").post("/deed", headers=KEY)
        assert again.json()["error"] == "under-way"


def test_one_that_takes_long_before_it_commits_is_not_taken_over(
    served: Served, deed: Deed, clock: StoppedClock
) -> None:
    with deed.held("before") as first:
        clock.moment += LOST + timedelta(seconds=1)
        again = served.client("admin").post("/deed", headers=KEY)
        assert (again.status_code, again.json()["error"]) == (409, "under-way")
    assert (first.result().status_code, deed.made) == (201, ["made-0"])


def test_a_key_that_cannot_be_freed_keeps_no_other_waiting(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys: KeyBatches = served.app.state.keys
    one, two = (
        KeyedRequest("u", each, "r", served.site.now(), server=keys.server) for each in "ab"
    )
    with served.site.writing() as books:
        books.idempotency.add([one, two])
    give_up = KeyedRequests.give_up

    def failing(books: KeyedRequests, request: KeyedRequest, **options: Any) -> None:
        if request.key == "a":
            raise StorageError("this one cannot be freed")
        give_up(books, request, **options)

    with monkeypatch.context() as patched:
        patched.setattr(Store, "writing", away)
        for each in (one, two):
            keys.give_up(each, uncommitted=True)
    monkeypatch.setattr(KeyedRequests, "give_up", failing)
    for _ in range(2):
        with pytest.raises(StorageError):
            keys.free_left()
    with served.site.reading() as books:
        assert [row["key"] for row in books.select(schema.idempotency)] == ["a"]


def test_a_key_that_could_not_be_freed_is_freed_when_the_database_is_back(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys: KeyBatches = served.app.state.keys
    begun = KeyedRequest("u", "k", "r", served.site.now(), server=keys.server)
    with served.site.writing() as books:
        books.idempotency.add([begun])

    with monkeypatch.context() as patched:
        patched.setattr(Store, "writing", away)
        keys.give_up(begun, uncommitted=True)
        with pytest.raises(StorageError):
            keys.free_left()
    assert _stored(served) == 1
    with serving._background(served.app, Sender()):
        wait(lambda: _stored(served) == 0)


def test_a_key_whose_entry_was_committed_unheard_is_free_again(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = Store.writing

    @contextmanager
    def unheard(self: Store, meter: str | None = None) -> Iterator[Books]:
        with original(self, meter) as books:
            yield books
        monkeypatch.setattr(Store, "writing", original)  # the next one is heard of
        away()

    client = served.client("admin")
    monkeypatch.setattr(Store, "writing", unheard)
    assert add(client, "anna", KEY).status_code == 503
    again = add(client, "anna", KEY)
    assert again.status_code == 201, again.text


def test_an_answer_that_comes_late_is_not_kept_for_another_request(served: Served) -> None:
    """Its client went away, which freed the key, and used that for something else."""
    late, other = (KeyedRequest("u", "k", each, stamp(served.site.clock())) for each in "ab")
    with served.site.writing() as books:
        books.idempotency.add([other])
        books.idempotency.answer([replace(late, status=200, body="late")])
        assert books.idempotency.known([late]) == {("u", "k"): other}
        books.idempotency.answer([replace(other, status=201, body="own")])
        assert books.idempotency.known([late])["u", "k"].body == "own"
