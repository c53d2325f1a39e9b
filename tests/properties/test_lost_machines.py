"""API, worker and database on machines of their own, and a worker's machine that is lost."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.network import Loopback, network
from tests.postgresql import Cluster, running
from tests.server.team import Machine, long_spec, make_team, model_body, predictions_body, wait

ROLES = ("api", "database", "worker", "other")


class Site:
    """The machines: API and database run; workers are started by the tests."""

    def __init__(self, net: Loopback, cluster: Cluster, folder: Path) -> None:
        self.net = net
        self.folder = folder
        address = cluster.new_database()
        name = address.rpartition("/")[2]
        # From here the database is reached by its socket, from the machines by the network.
        self.socket = f"postgresql://postgres@/{name}?host={cluster.folder}&port={cluster.port}"
        self.team = make_team(self.socket, folder, long_spec(20))
        self.team.database = address
        self.team.add_api(net.address("api"), net.inside("api"))

    def add_worker(self, role: str, seconds: float = 1.0) -> Machine:
        """Start a worker with a folder of its own that holds a copy of the key."""
        own = self.folder / role
        own.mkdir()
        shutil.copy(self.team.folder / "server.key", own)
        return self.team.add_worker(own, self.net.inside(role), seconds)

    def ask(self, method: str, path: str, body: bytes | None = None) -> dict[str, Any]:
        """Ask the API, from another machine."""
        with self.team.client() as client:
            answer = client.request(method, f"/meters/{self.team.meter}{path}", content=body)
        assert answer.status_code in (200, 202), answer.text
        found: dict[str, Any] = answer.json()
        return found

    def state(self, identifier: str) -> str:
        return str(self.ask("GET", f"/submissions/{identifier}")["state"])

    def answer(self, identifier: str) -> dict[str, Any]:
        """Wait for the answer to a submission."""
        for _ in range(20):
            found = self.ask("GET", f"/submissions/{identifier}?wait=30")
            if found["state"] == "done":
                signal: dict[str, Any] = found["signal"]
                return signal
        raise AssertionError("it was not answered")

    def models(self) -> list[str]:
        """List what was charged."""
        self.team.database, address = self.socket, self.team.database
        with self.team.books() as meter:
            assert meter.audit().problems == ()
            found = [each.model for each in meter.status().signals]
        self.team.database = address
        return found


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with (
        network(ROLES) as net,
        running(net.address("database"), net.inside("database")) as cluster,
    ):
        made = Site(net, cluster, tmp_path)
        yield made
        made.team.end()


def test_a_submission_goes_through_and_a_killed_workers_is_healed(site: Site) -> None:
    body = predictions_body(site.team, "predictions", 0)
    assert site.ask("POST", "/submissions?model=predictions", body)["signal"]["step"] == 1

    worker = site.add_worker("worker", seconds=600)
    identifier = site.ask("POST", "/submissions?model=lost", model_body(1))["id"]
    wait(lambda: site.state(identifier) == "running")
    worker.end()
    site.add_worker("other")
    assert site.answer(identifier)["step"] == 2
    assert site.models() == ["predictions", "lost"]


def test_a_worker_that_is_cut_off_and_comes_back_charges_nothing_twice(site: Site) -> None:
    cut_off = site.add_worker("worker", seconds=10)
    first = site.ask("POST", "/submissions?model=first", model_body(1))["id"]
    wait(lambda: site.state(first) == "running")
    site.net.cut("worker", cut_off)
    other = site.add_worker("other")
    assert site.answer(first)["step"] == 1
    site.net.mend("worker", cut_off)
    assert other.end(signal.SIGTERM) == 0
    # It is back at work, as soon as it has seen that the first one was answered meanwhile.
    second = site.ask("POST", "/submissions?model=second", model_body(2))["id"]
    assert site.answer(second)["step"] == 2
    assert site.models() == ["first", "second"]
