from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.server.helpers import Served, serve

from easeml_meter.errors import TooMany
from easeml_meter.server.limits import SMALL_BODY, Buckets, RateLimits
from easeml_meter.server.settings import Settings


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
    with serve(tmp_path / "site") as served:
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
        assert [code("192.0.2.1") for _ in range(2)] == [401, 429]


def test_bodies_are_limited(tmp_path: Path) -> None:
    with serve(tmp_path / "site") as served:
        client = served.client("admin")
        body = b'{"name": "' + b"x" * SMALL_BODY + b'"}'
        for content in (body, iter([body[:99], body[99:]])):  # with and without a length
            answer = client.post("/users", content=content)
            assert (answer.status_code, answer.json()["error"]) == (413, "too-large")
