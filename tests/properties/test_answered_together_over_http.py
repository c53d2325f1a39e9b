"""Many submissions at once over HTTP: each gets its own answer, whoever it came with."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, NoReturn

import httpx
import pytest
from tests.server.driving import begin, packed, submission, submit
from tests.server.helpers import Served, serve
from tests.server.process import started
from tests.server.team import long_spec
from tests.service.helpers import Labels, small_spec, with_errors

from easeml_meter.errors import Denied, InvalidInput, Spent, StorageError
from easeml_meter.meter import Meter
from easeml_meter.server.batching import Batches
from easeml_meter.server.settings import Settings
from easeml_meter.service import tokens
from easeml_meter.service.actor import ANYONE
from easeml_meter.service.place import Site
from easeml_meter.service.submissions import queue
from easeml_meter.service.submissions.queue import Incoming
from easeml_meter.storage.books.audit import AuditLinks

CLIENTS = 8
LONG = 60
"""Seconds after which a test that should have ended is given up."""


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with serve(tmp_path / "site") as site:
        yield site


@pytest.fixture
def meter(served: Served) -> str:
    return served.add_meter(small_spec(steps=8, tenants=(5, 3)))


@pytest.fixture
def labels(served: Served, meter: str, tmp_path: Path) -> Labels:
    return begin(served, meter, tmp_path)


def steps(answers: list[httpx.Response]) -> list[int]:
    assert [answer.status_code for answer in answers] == [200] * len(answers)
    return sorted(answer.json()["step"] for answer in answers)


def signals(served: Served, meter: str, user: str = "developer") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (
        served.client(user).get(f"/meters/{meter}/signals").json()["items"]
    )
    return found


# --- A real server ---


def test_eight_clients_at_once(tmp_path: Path) -> None:
    """Each hears its own answer, once; sent again under its key, the very same one."""
    folder = tmp_path / "site"
    with serve(folder) as served:
        meter = served.add_meter(long_spec(CLIENTS + 1, models=False))
        labels = begin(served, meter, tmp_path)
        token = served.tokens["developer"]
    together = threading.Barrier(CLIENTS)

    with started(folder) as server:

        def hand_in(number: int) -> tuple[httpx.Response, httpx.Response]:
            with server.client(token) as client:
                client.get("/me")  # the connection is there
                together.wait(LONG)
                options: dict[str, Any] = {
                    "errors": number,
                    "model": f"m{number}",
                    "headers": {"Idempotency-Key": f"key-{number}"},
                    "timeout": LONG,
                }
                first = submit(client, meter, labels, **options)
                together.wait(LONG)
                return first, submit(client, meter, labels, **options)

        with ThreadPoolExecutor(CLIENTS) as pool:
            answers = list(pool.map(hand_in, range(CLIENTS)))
        with server.client(token) as client:
            large = submit(client, meter, labels, salt="x" * (1 << 20), timeout=LONG)
            told = client.get(f"/meters/{meter}/signals").json()["items"]
        assert server.stop() == 0

    assert steps([first for first, _ in answers]) == list(range(1, CLIENTS + 1))
    for number, (first, again) in enumerate(answers):
        assert "idempotency-replayed" not in first.headers
        assert again.headers["idempotency-replayed"] == "true"
        assert (again.status_code, again.content) == (first.status_code, first.content)
        assert first.json()["model"] == first.json()["signal"]["model"] == f"m{number}"
        assert not first.json()["signal"]["repeated"]
    assert steps([large]) == [CLIENTS + 1]
    assert [each["step"] for each in told] == list(range(1, CLIENTS + 2))
    by_step = {first.json()["step"]: first.json()["model"] for first, _ in answers}
    assert [each["model"] for each in told[:-1]] == [by_step[n] for n in range(1, CLIENTS + 1)]
    settings = Settings(folder=folder)
    site = Site.open(settings.database_url, settings.files_place, settings.key_file)
    assert Meter(site.space(meter)).audit().problems == ()
    site.close()


# --- Together for certain: the first is held until all others wait ---


class Gate:
    """Holds the first batch of an app until it is let go, and notes what came together."""

    def __init__(self, served: Served) -> None:
        self.batches: list[list[str]] = []
        self.begun = threading.Event()
        self._go_on = threading.Event()
        self._arrived = threading.Semaphore(0)
        self._gathered: Batches[str, Incoming, queue.Taken] = Batches(self._work)
        self._pool = ThreadPoolExecutor(2 * CLIENTS)
        served.app.state.submissions = self._take

    async def _take(self, meter: str, incoming: Incoming) -> queue.Taken:
        # Nothing else runs in this loop until it stands in the queue.
        self._arrived.release()
        return await self._gathered(meter, incoming)

    def _work(self, meter: str, together: list[Incoming]) -> list[queue.Taken | Exception]:
        self.batches.append([incoming.model for incoming in together])
        self.begun.set()
        assert self._go_on.wait(LONG)
        return queue.accept_all(meter, together)

    def send(self, *requests: Callable[[], httpx.Response]) -> list[Future[httpx.Response]]:
        """Send requests, one after the other, until each stands in the queue."""
        sent = []
        for request in requests:
            sent.append(self._pool.submit(request))
            assert self._arrived.acquire(timeout=LONG)
            assert self.begun.wait(LONG)
        return sent

    def let_go(self) -> None:
        self._go_on.set()

    def close(self) -> None:
        self.let_go()
        self._pool.shutdown()


@pytest.fixture
def gate(served: Served, labels: Labels) -> Iterator[Gate]:
    found = Gate(served)
    yield found
    found.close()


def asking(
    served: Served, meter: str, body: bytes, model: str, user: str = "developer", **options: Any
) -> Callable[[], httpx.Response]:
    client = served.client(user)
    address = f"/meters/{meter}/submissions"
    return lambda: client.post(address, params={"model": model}, content=body, **options)


def good(labels: Labels, errors: int) -> bytes:
    return submission(with_errors(labels, errors), salt=str(errors))


def results(sent: list[Future[httpx.Response]]) -> list[httpx.Response]:
    return [each.result(LONG) for each in sent]


def test_a_malformed_one_among_good_ones(
    served: Served, meter: str, labels: Labels, gate: Gate
) -> None:
    bodies = {
        "first": good(labels, 0),
        "a": good(labels, 1),
        "no tar": b"x" * 2000,
        "b": good(labels, 2),
        "no parquet": packed(test_parquet=b"x", validation_parquet=b"x"),
        "too short": submission(labels[:-1]),
        "a model": packed(model_onnx=b"x"),
        "c": good(labels, 3),
    }
    sent = gate.send(*(asking(served, meter, body, name) for name, body in bodies.items()))
    gate.let_go()
    answers = dict(zip(bodies, results(sent), strict=True))
    assert gate.batches == [["first"], list(bodies)[1:]]
    refused = {name: each.json() for name, each in answers.items() if each.status_code == 422}
    assert list(refused) == ["no tar", "no parquet", "too short", "a model"]
    assert "no tar file" in refused["no tar"]["message"]
    assert "validation.parquet: no Parquet" in refused["no parquet"]["message"]
    assert f"{len(labels) - 1} rows given" in refused["too short"]["message"]
    assert {answers[name].json()["model"]: answers[name].json()["step"] for name in "abc"} == {
        "a": 2,
        "b": 3,
        "c": 4,
    }
    assert len(signals(served, meter)) == 4


def test_each_hears_only_what_it_may(
    served: Served, meter: str, labels: Labels, gate: Gate
) -> None:
    """A runner hears nothing, and a tenant nothing of the other, also side by side."""
    users = ("developer", "runner", "developer2", "developer", "runner2", "developer2")
    sent = gate.send(
        *(
            asking(served, meter, good(labels, number), f"m{number}", user)
            for number, user in enumerate(users)
        )
    )
    gate.let_go()
    found = [answer.json() for answer in results(sent)]
    assert [each["tenant"] for each in found] == [1, 1, 2, 1, 2, 2]
    assert [each["step"] for each in found] == [1, 2, 1, 3, 2, 3]
    assert [each["model"] for each in found] == [f"m{number}" for number in range(6)]
    assert [each["signal"] and each["signal"]["tenant"] for each in found] == [
        1,
        None,
        2,
        1,
        None,
        2,
    ]
    assert len(gate.batches) == 2


def test_a_key_is_free_again_only_if_its_submission_was_refused(
    served: Served, meter: str, labels: Labels, gate: Gate
) -> None:
    def keyed(body: bytes, key: str) -> Callable[[], httpx.Response]:
        return asking(served, meter, body, key, headers={"Idempotency-Key": key})

    broken = packed(test_parquet=b"x", validation_parquet=b"x")
    sent = gate.send(
        keyed(good(labels, 0), "first"),
        keyed(broken, "bad"),
        keyed(good(labels, 1), "good"),
        keyed(good(labels, 1), "good"),
        keyed(good(labels, 3), "good"),
        keyed(good(labels, 0), "first"),
    )
    gate.let_go()
    answers = results(sent)
    assert [answer.status_code for answer in answers] == [200, 422, 200, 200, 409, 200]
    assert "another request" in answers[4].json()["message"]
    again = keyed(good(labels, 1), "good")()
    for replayed, first in (
        (answers[3], answers[2]),
        (again, answers[2]),
        (answers[5], answers[0]),
    ):
        assert replayed.headers["idempotency-replayed"] == "true"
        assert replayed.content == first.content
    mended = keyed(good(labels, 2), "bad")()
    assert (mended.status_code, mended.json()["step"]) == (200, 3)
    assert keyed(good(labels, 3), "good")().status_code == 409
    assert len(signals(served, meter)) == 3


def test_books_that_fail_tell_nobody(
    served: Served, meter: str, labels: Labels, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_arguments: object) -> NoReturn:
        raise StorageError("the disk of secrets is gone")

    requests = [asking(served, meter, good(labels, n), f"m{n}") for n in range(4)]
    with monkeypatch.context() as patched:
        patched.setattr(AuditLinks, "append_all", fail)
        sent = gate.send(*requests)
        gate.let_go()
        answers = results(sent)
    assert [answer.status_code for answer in answers] == [503] * 4
    assert not [answer for answer in answers if "secrets" in answer.text]
    assert signals(served, meter) == []
    assert steps([request() for request in requests]) == [1, 2, 3, 4]


def test_a_large_one_waits_for_no_small_one(
    served: Served, meter: str, labels: Labels, gate: Gate
) -> None:
    sent = gate.send(*(asking(served, meter, good(labels, n), f"m{n}") for n in range(3)))
    padded = submission(labels, salt="x" * (1 << 20))
    assert len(padded) > 1 << 20
    large = asking(served, meter, padded, "large")()
    assert (large.status_code, large.json()["step"]) == (200, 1)
    assert large.json()["signal"]["band"] == 1
    assert not any(each.done() for each in sent)
    gate.let_go()
    assert steps(results(sent)) == [2, 3, 4]
    assert asking(served, meter, padded, "large")().json()["signal"]["repeated"]
    assert gate.batches == [["m0"], ["m1", "m2"]]


def test_another_meter_is_not_held_up(
    served: Served, meter: str, labels: Labels, gate: Gate, tmp_path: Path
) -> None:
    """What a batch answers is its own meter's: side by side, never in one."""
    other = served.add_meter(small_spec(), prefix="other-")
    others = begin(served, other, tmp_path, prefix="other-", seed=5)
    sent = gate.send(
        asking(served, meter, good(labels, 0), "m0"),
        asking(served, other, good(others, 0), "o0", "other-developer"),
        asking(served, meter, good(labels, 1), "m1"),
        asking(served, other, good(others, 1), "o1", "other-developer"),
    )
    gate.let_go()
    assert [answer.json()["step"] for answer in results(sent)] == [1, 1, 2, 2]
    assert sorted(gate.batches) == [["m0"], ["m1"], ["o0"], ["o1"]]


# --- The queue ---


def test_the_queue_answers_each_for_itself(served: Served, meter: str, labels: Labels) -> None:
    def sent(user: str, name: str, body: bytes) -> Incoming:
        actor = tokens.recognize(ANYONE, served.site, served.tokens[user]).at(meter)
        return Incoming(actor, served.site.space(meter), name, body)

    together = [
        sent("developer", "a", good(labels, 0)),
        sent("developer", "b", b"no tar"),
        sent("developer2", "c", good(labels, 0)),
        sent("developer", "\n", good(labels, 1)),
        sent("labeler", "d", good(labels, 2)),
        sent("runner", "e", good(labels, 3)),
        sent("developer", "a", good(labels, 0)),
        *(sent("developer2", f"f{number}", good(labels, number)) for number in (4, 5, 6)),
    ]
    outcomes = queue.accept_all(meter, together)
    refused = [type(each) for each in outcomes if isinstance(each, Exception)]
    assert refused == [InvalidInput, InvalidInput, Denied, Spent]
    pairs = zip(together, outcomes, strict=True)
    found = [(incoming, *each) for incoming, each in pairs if isinstance(each, tuple)]
    assert [(receipt.model, receipt.tenant, receipt.step) for _, receipt, _ in found] == [
        ("a", 1, 1),
        ("c", 2, 1),
        ("e", 1, 2),
        ("a", 1, 1),
        ("f4", 2, 2),
        ("f5", 2, 3),
    ]
    for incoming, receipt, signal in found:
        assert (signal is None) == (incoming.model == "e")  # the runner's
        assert queue.receipt(incoming.actor, incoming.space, receipt.id) == receipt
