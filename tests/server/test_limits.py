from __future__ import annotations

import asyncio
import contextlib
import select
import socket
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from anyio import CapacityLimiter
from starlette.requests import Request
from tests.forms import KIND
from tests.live import Live, live
from tests.server.helpers import Served, serve
from tests.service.helpers import StoppedClock, small_spec

from easeml_meter.core.people import Role
from easeml_meter.core.submissions import SubmissionState, Ticket
from easeml_meter.errors import InvalidInput, TooMany
from easeml_meter.server import limits
from easeml_meter.server.app import create_app
from easeml_meter.server.limits import SMALL_BODY, Buckets, RateLimits, planned
from easeml_meter.server.settings import Settings
from easeml_meter.service.actor import SYSTEM
from easeml_meter.service.meters import create_meter
from easeml_meter.service.seats import add_seat
from easeml_meter.service.uploads import PIECE
from easeml_meter.tables import apart


class Seconds:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def taken(buckets: Buckets, name: str) -> int:
    """Take until it is refused."""
    count = 0
    try:
        while True:
            buckets.take(name)
            count += 1
    except TooMany:
        return count


def test_a_bucket_holds_a_burst_and_fills_at_its_rate() -> None:
    clock = Seconds()
    buckets = Buckets(rate=2, burst=5, clock=clock)
    assert taken(buckets, "a") == 5
    assert taken(buckets, "b") == 5
    clock.now += 1
    assert taken(buckets, "a") == 2
    clock.now += 0.4
    assert taken(buckets, "a") == 0
    clock.now += 0.1
    assert taken(buckets, "a") == 1
    clock.now += 3600
    assert taken(buckets, "a") == 5


def test_a_refusal_says_how_long_to_wait() -> None:
    buckets = Buckets(rate=0.1, burst=1, clock=Seconds())
    buckets.take("a")
    with pytest.raises(TooMany) as refused:
        buckets.take("a")
    assert refused.value.wait == 10


def test_a_rate_of_zero_is_no_limit() -> None:
    buckets = Buckets(rate=0, burst=1)
    for _ in range(1000):
        buckets.take("a")


def test_full_buckets_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("easeml_meter.server.limits._BUCKETS", 10)
    clock = Seconds()
    buckets = Buckets(rate=1, burst=5, clock=clock)
    for number in range(10):
        buckets.take(f"early {number}")
    clock.now += 0.5
    assert taken(buckets, "late") == 5
    clock.now += 0.6
    buckets.take("one more")
    assert set(buckets._full_at) == {"late", "one more"}


def limited(served: Served, **settings: Any) -> Seconds:
    """Give the app other limits, and a clock for them."""
    clock = Seconds()
    served.app.state.limits = RateLimits(Settings(**settings), clock)
    return clock


def test_users_are_limited_each_on_their_own(tmp_path: Path) -> None:
    with serve(tmp_path / "site") as served:
        clock = limited(served, requests_per_second=1, burst=2)
        client = served.client("stranger")
        assert [client.get("/me").status_code for _ in range(3)] == [200, 200, 429]
        refused = client.get("/me")
        assert refused.json()["error"] == "too-many"
        assert refused.headers["retry-after"] == "1"
        assert served.client("admin").get("/me").status_code == 200
        clock.now += 1
        assert [client.get("/me").status_code for _ in range(2)] == [200, 429]


def test_logins_are_limited_by_address(tmp_path: Path) -> None:
    now = StoppedClock()
    with serve(tmp_path / "site", clock=now) as served:
        clock = limited(served, logins_per_minute=2)
        body = {"name": "nobody", "password": "wrong"}

        def code(address: str) -> int:
            return served.client_from(address).post("/login", json=body).status_code

        assert [code("192.0.2.1") for _ in range(3)] == [401, 401, 429]
        assert code("192.0.2.2") == 401
        # Whoever has an IPv6 address has 2^64 of them.
        ipv6 = ["2001:db8::1", "2001:db8::2", "2001:db8::3", "2001:db8:0:1::1"]
        assert [code(address) for address in ipv6] == [401, 401, 429, 401]
        clock.now += 30
        now.pass_by(timedelta(seconds=30))
        assert [code("192.0.2.1") for _ in range(2)] == [401, 429]


def test_logins_count_at_all_servers_together_and_other_requests_at_each(
    tmp_path: Path, database: str
) -> None:
    """As docs/deploy.md says."""
    clock, body = StoppedClock(), {"name": "nobody", "password": "wrong"}
    rates: dict[str, Any] = {"logins_per_minute": 2, "plans_per_minute": 2}
    rates |= {"requests_per_second": 0.001, "burst": 2}
    with serve(tmp_path / "site", clock=clock, database=database, **rates) as served:
        second = create_app(served.site, Settings(folder=tmp_path / "site", **rates))
        both = [served, replace(served, app=second)]

        def codes(ask: Callable[[Served], httpx.Response]) -> list[int]:
            return [ask(each).status_code for each in both for _ in range(3)]

        one, two = (each.client_from("192.0.2.1") for each in both)
        signing_in = [client.post("/login", json=body) for client in (one, one, two)]
        assert [each.status_code for each in signing_in] == [401, 401, 429]
        assert signing_in[-1].headers["retry-after"] == "30"
        assert codes(lambda each: each.client("stranger").get("/me")) == [200, 200, 429] * 2
        plan = {"settings": small_spec().to_mapping()}
        planned = codes(lambda each: each.client_from("192.0.2.1").post("/plans", json=plan))
        assert planned == [200, 200, 429] * 2
        clock.pass_by(timedelta(seconds=30))
        assert two.post("/login", json=body).status_code == 401


@pytest.mark.parametrize(
    ("work", "given", "stays"), [(sum, range(10**12), 60.0), (time.sleep, 60, 0.3)]
)
def test_a_plan_has_half_a_second_and_ends_with_its_client(
    work: Callable[..., Any], given: object, stays: float
) -> None:
    """Of 500 teams, it went on for 10 s of a core after its client had left."""
    app = SimpleNamespace(state=SimpleNamespace(planning=CapacityLimiter(1)))

    async def receive() -> dict[str, str]:
        await asyncio.sleep(stays)
        return {"type": "http.disconnect"}

    request = Request({"type": "http", "app": app}, receive)
    assert asyncio.run(planned(Request({"type": "http", "app": app}, receive), sum, (1, 2))) == 3
    with pytest.raises(InvalidInput, match=r"^plan: more than 0\.5 s of work for this server"):
        asyncio.run(asyncio.wait_for(planned(request, work, given), 30))
    helper = apart._helper._process
    assert helper is not None
    children, until = Path(f"/proc/{helper.pid}/task/{helper.pid}/children"), time.monotonic() + 5
    while children.read_text() and time.monotonic() < until:
        time.sleep(0.05)
    assert not children.read_text()


def test_bodies_are_limited(tmp_path: Path) -> None:
    with serve(tmp_path / "site") as served:
        client = served.client("admin")
        body = b'{"name": "' + b"x" * SMALL_BODY + b'"}'
        for content in (body, iter([body[:99], body[99:]])):  # with and without a length
            answer = client.post("/users", content=content)
            assert (answer.status_code, answer.json()["error"]) == (413, "too-large")


class Unfinished:
    """A request whose last byte is missing."""

    def __init__(
        self, site: Live, user: str, path: str, size: int, *, method: str = "POST"
    ) -> None:
        head = f"{method} /api/v1/meters/{path} HTTP/1.1\r\nHost: a\r\nContent-Length: {size}\r\n"
        head += f"Content-Type: {KIND}\r\n"
        field = b"--%b\r\nContent-Disposition: form-data; name=test; filename=t\r\n\r\n"
        begun = field % KIND.rpartition("=")[2].encode()
        token = site.served.tokens[user]
        self._socket = socket.create_connection(("127.0.0.1", site.port), timeout=60)
        self._socket.sendall(f"{head}Authorization: Bearer {token}\r\n\r\n".encode())
        with contextlib.suppress(ConnectionError):
            self._socket.sendall(begun.ljust(size - 1, b"x"))

    def __enter__(self) -> Unfinished:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def fileno(self) -> int:
        """Give the descriptor to wait for."""
        return self._socket.fileno()

    def answer(self) -> bytes:
        """Give the answer."""
        return self._socket.recv(1 << 16)

    def finish(self) -> bytes:
        """Send the rest, and give the answer."""
        self._socket.sendall(b"x")
        return self.answer()


def settled(unfinished: list[Unfinished], count: int) -> dict[Unfinished, bytes]:
    """Wait until so many are answered before they are complete; give these answers."""
    found: dict[Unfinished, bytes] = {}
    while len(found) < count:
        waiting = [each for each in unfinished if each not in found]
        ready, _, _ = select.select(waiting, [], [], 60)
        assert ready, f"{len(found)} were refused"
        found |= {each: each.answer() for each in ready}
    assert len(found) == count
    return found


def test_bytes_under_way_are_limited_for_each_user_and_in_all(tmp_path: Path) -> None:
    """One developer could make a server hold any number of bodies by not finishing them."""
    size = 1 << 20
    given = {"largest_body": 2 * size, "held_bytes_per_user": 2 * size, "held_bytes": 3 * size}
    with live(tmp_path, working=False, **given) as site:
        meter = create_meter(SYSTEM, site.served.site, small_spec(), "m").id
        for name in ("ann", "bob"):
            user = site.served.add_user(name)
            add_seat(SYSTEM, site.served.site.space(meter), user.id, Role.DEVELOPER, 1)
        path = f"{meter}/submissions?model=m"
        with ExitStack() as held:

            def begun(name: str, count: int) -> list[Unfinished]:
                all_of_them = (Unfinished(site, name, path, size) for _ in range(count))
                return [*map(held.enter_context, all_of_them)]

            own = begun("ann", 4)
            refused = settled(own, 2)
            assert [told.split()[1] for told in refused.values()] == [b"429", b"429"]
            assert all(b"retry-after: 1" in told.lower() for told in refused.values())
            refused |= settled(begun("bob", 3), 2)
            assert [told.split()[1] for told in refused.values()] == [
                b"429",
                b"429",
                b"503",
                b"503",
            ]
            assert all(b"retry-after: 1" in told.lower() for told in refused.values())
            # What was answered, here as no whole form, is no longer held.
            for each in own:
                if each not in refused:
                    assert each.finish().startswith(b"HTTP/1.1 422 ")
            for each in begun("ann", 2):
                assert each.finish().startswith(b"HTTP/1.1 422 ")


def test_an_announced_size_is_refused_before_anything_is_received(tmp_path: Path) -> None:
    with serve(tmp_path / "site") as served:
        length = {"Content-Length": str(SMALL_BODY + 1)}
        answer = served.client("admin").post("/users", content=b"{}", headers=length)
        assert (answer.status_code, answer.json()["error"]) == (413, "too-large")


def test_a_piece_of_an_upload_counts_as_any_body(tmp_path: Path) -> None:
    with live(
        tmp_path, working=False, held_bytes_per_user=PIECE + 999, held_bytes=PIECE + 999
    ) as site:
        meter = create_meter(SYSTEM, site.served.site, small_spec(), "m").id
        user = site.served.add_user("lea")
        add_seat(SYSTEM, site.served.site.space(meter), user.id, Role.LABELER)
        client = site.served.client("lea")

        def announced(size: int) -> str:
            given = {"name": "a", "size": size}
            found = client.post(f"/meters/{meter}/uploads", json=given).json()["id"]
            return f"{meter}/uploads/{found}?offset=0"

        begun = [Unfinished(site, "lea", announced(PIECE), PIECE, method="PUT") for _ in range(2)]
        with begun[0], begun[1]:
            ((refused, told),) = settled(begun, 1).items()
            assert told.startswith(b"HTTP/1.1 429 ")
            (other,) = set(begun) - {refused}
            assert other.finish().startswith(b"HTTP/1.1 200 ")


def test_requests_that_wait_for_a_model_are_limited_for_each_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One user could have hundreds of streams of events, each of which reads the books."""
    monkeypatch.setattr(limits, "MOST_WAITS", 2)
    with live(tmp_path, working=False) as site:
        meter = create_meter(SYSTEM, site.served.site, small_spec(), "m").id
        for name in ("ann", "bob"):
            user = site.served.add_user(name)
            add_seat(SYSTEM, site.served.site.space(meter), user.id, Role.DEVELOPER, 1)
        ticket = waiting_ticket(meter, user.id)
        with site.served.site.writing() as books:
            books.submissions.add(ticket)

        def client(name: str) -> httpx.Client:
            headers = {"Authorization": f"Bearer {site.served.tokens[name]}"}
            place = f"{site.address}/api/v1"
            return httpx.Client(base_url=place, headers=headers, trust_env=False, timeout=120)

        path = f"/meters/{meter}/submissions/{ticket.id}"
        with ExitStack() as held:
            ann, bob = (held.enter_context(client(name)) for name in ("ann", "bob"))
            streams = [
                held.enter_context(each.stream("GET", f"{path}/events")).iter_lines()
                for each in (ann, ann, bob)
            ]
            assert [next(each) for each in streams] == 3 * ["event: state"]
            assert ann.get(f"{path}/events").status_code == 429
            assert ann.get(path, params={"wait": 60}).status_code == 429
            assert ann.get(path).status_code == 202
            assert bob.get(path, params={"wait": 0.1}).status_code == 202


def waiting_ticket(meter: str, user: str) -> Ticket:
    return Ticket(
        id="a" * 32,
        meter=meter,
        tenant=1,
        user=user,
        model="m",
        kind="onnx",
        blob="none",
        options={},
        state=SubmissionState.QUEUED,
        problem=None,
        generation=None,
        step=None,
        attempts=0,
        created_at="2026-01-01T00:00:00.000000+00:00",
        changed_at="2026-01-01T00:00:00.000000+00:00",
    )
