"""Everything that can go wrong with machines, at once: nothing lost, nothing charged twice.

PostgreSQL, a store of objects, two APIs, two workers and eight clients, each on a machine of its
own. Whatever answers is killed, cut off, has no disk left, or has a clock that jumps. The size is
`METER_CHAOS=SUBMISSIONS/KILLS`; docs/deploy.md keeps the figures of a large run:

    METER_CHAOS=20000/200 .venv/bin/pytest -s -m verify tests/properties/test_chaos.py
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.network import Loopback, Namespaces, network
from tests.postgresql import Cluster
from tests.s3 import new_bucket, store
from tests.server.team import Machine, Team, long_spec, make_team, model_body, predictions_body

ROLES = ("database", "store", "api1", "api2", "worker1", "worker2")
CLIENTS = 8
SUBMISSIONS, KILLS = map(int, os.environ.get("METER_CHAOS", "160/6").split("/"))
EACH = SUBMISSIONS // CLIENTS
EVERY = 15 if SUBMISSIONS < 1000 else 100
"""One of so many submissions is a model, which runs on a worker."""
PATIENCE = 300.0
"""Seconds without any answer after which something is stuck."""
JUMPS = (90.0, -3600.0, 0.0, 36 * 3600.0, -36 * 3600.0, 0.0)
"""Seconds by which a clock is wrong: also longer than a key is kept."""
DISK = 400 << 20


@dataclass(frozen=True)
class Told:
    """What a client heard in the end."""

    tenant: int
    model: str
    step: int
    answer: str


@dataclass
class World:
    """The machines, and what becomes of them."""

    net: Loopback
    cluster: Cluster
    team: Team
    clock: Path
    disk: bool
    """Whether the disk of the database can be filled."""
    happened: Counter[str] = field(default_factory=Counter)
    random: random.Random = field(default_factory=lambda: random.Random(18))  # noqa: S311

    @property
    def machines(self) -> dict[str, Machine]:
        names = ("api1", "api2", "worker1", "worker2")
        return dict(zip(names, [*self.team.apis, *self.team.workers], strict=True))

    def kill(self, role: str) -> None:
        """End a machine at once, and start it again a little later."""
        self.happened[f"kill -9 {role.rstrip('12')}"] += 1
        if role == "database":
            self.cluster.stop(how=signal.SIGKILL)
        else:
            self.machines[role].end(signal.SIGKILL)
        time.sleep(self.random.uniform(0, 0.5))
        self.begin(role)

    def begin(self, role: str) -> None:
        if role == "database":
            revive(self.cluster)
        else:
            self.machines[role].start()

    def cut(self, role: str) -> None:
        """Let a machine hear nothing, for longer than a worker may be silent, or for less."""
        if not isinstance(self.net, Namespaces) and role not in self.machines:
            return
        self.happened[f"cut off {role.rstrip('12')}"] += 1
        machine = self.machines.get(role) or next(iter(self.machines.values()))
        self.net.cut(role, machine)
        time.sleep(self.random.choice([0.3, 1.0, 4.0]))
        self.net.mend(role, machine)

    def fill_disk(self, _: str = "") -> None:
        """Leave the database no byte for a while; it may stop."""
        if not self.disk:
            return
        self.happened["disk full"] += 1
        ballast = self.cluster.folder / "ballast"
        with suppress(OSError), ballast.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(1 << 16))
        time.sleep(2)
        ballast.unlink()
        if self.cluster.died():
            self.happened["of these, the database stopped"] += 1
            revive(self.cluster)

    def jump(self, seconds: float) -> None:
        """Let the clocks of all servers and workers be wrong."""
        self.happened["clock jumps"] += 1
        write_clock(self.clock, seconds)


def write_clock(path: Path, seconds: float) -> None:
    new = path.with_suffix(".new")
    new.write_text(str(seconds))
    new.replace(path)


def revive(cluster: Cluster) -> None:
    """Start a database that was killed: what is left of its processes has to end first."""
    for attempt in range(60):
        try:
            cluster.start()
        except AssertionError:
            assert attempt < 59
            time.sleep(0.5)
        else:
            return


class Client:
    """Hands in one submission after the other, each until it is answered, at either API."""

    def __init__(self, world: World, tenant: int) -> None:
        self.told: list[Told] = []
        self.statuses: Counter[str] = Counter()
        self.slowest = 0.0
        self.failed: str | None = None
        self._world, self._tenant = world, tenant
        self._random = random.Random(tenant)  # noqa: S311
        self.thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        try:
            team = self._world.team
            with team.client(self._tenant, 0) as one, team.client(self._tenant, 1) as two:
                for index in range(EACH):
                    started = time.monotonic()
                    self._hand_in([one, two], index)
                    self.slowest = max(self.slowest, time.monotonic() - started)
        except BaseException as error:
            self.failed = repr(error)

    def _hand_in(self, apis: list[httpx.Client], index: int) -> None:
        team, name = self._world.team, f"c{self._tenant}-{index}"
        is_model = index % EVERY == EVERY - 1
        body = (
            model_body(1000 * self._tenant + index)
            if is_model
            else predictions_body(team, name, index % 5)
        )
        found = self._asked(apis, name, body)
        self.told.append(Told(self._tenant, name, found["step"], found["answer"]))
        if index % 10 == 9:  # a client that never heard the answer asks again
            again = self._asked(apis, name, body)
            assert (again["step"], again["answer"]) == (found["step"], found["answer"])

    def _asked(self, apis: list[httpx.Client], name: str, body: bytes) -> dict[str, Any]:
        path, place = f"/meters/{self._world.team.meter}/submissions", None
        while True:
            api = self._random.choice(apis)
            try:
                if place is None:
                    answer = api.post(
                        path,
                        params={"model": name, "wait": 2},
                        content=body,
                        timeout=20,
                    )
                else:
                    answer = api.get(place, params={"wait": 2}, timeout=20)
            except httpx.TransportError as error:
                self.statuses[type(error).__name__] += 1
                time.sleep(0.05)
                continue
            self.statuses[str(answer.status_code)] += 1
            if answer.status_code == 202:
                place = f"{path}/{answer.json()['id']}"
            elif answer.status_code == 503:
                time.sleep(0.1)
            else:
                assert answer.status_code == 200, answer.text
                signal: dict[str, Any] = answer.json()["signal"]
                return signal


@contextmanager
def small_disk() -> Iterator[tuple[Path, bool]]:
    """Give a folder on a small disk of its own, if one may be mounted."""
    with tempfile.TemporaryDirectory(prefix="meter-pg-") as name:
        options = f"size={DISK},mode=0777"
        mount = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", name]
        mounted = os.geteuid() == 0 and subprocess.run(mount, check=False).returncode == 0
        try:
            yield Path(name), mounted
        finally:
            if mounted:
                subprocess.run(["umount", "--lazy", name], check=True)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    clock = tmp_path / "clock"
    write_clock(clock, 0)
    with (
        network(ROLES) as net,
        small_disk() as (folder, mounted),
        store(net.address("store"), net.inside("store")) as address,
    ):
        places = net.address("database"), net.inside("database")
        cluster = Cluster(folder, *places, max_wal_size="64MB")
        cluster.start()
        spec = long_spec(*[EACH] * CLIENTS)
        team = make_team(cluster.new_database(), tmp_path, spec, new_bucket(address))
        team.clock = clock
        made = World(net, cluster, team, clock, mounted)
        try:
            for role in ("api1", "api2"):
                team.add_api(net.address(role), net.inside(role))
            for role in ("worker1", "worker2"):
                own = tmp_path / role
                own.mkdir()
                shutil.copy(team.folder / "server.key", own)
                team.add_worker(own, net.inside(role))
            yield made
        finally:
            team.end()
            with suppress(AssertionError):
                cluster.stop(how=signal.SIGQUIT)


def disasters(world: World) -> Iterator[Callable[[], None]]:
    """Yield what happens next, without end: kills, and other things in turn between them."""
    kills = cycle(["api1", "worker1", "database", "api2", "worker2", "api1", "database", "worker2"])
    cuts = cycle(["worker1", "api1", "database", "store", "worker2", "api2"])
    jumps = cycle(JUMPS)
    others = cycle(
        [
            lambda: world.cut(next(cuts)),
            lambda: world.jump(next(jumps)),
            lambda: world.cut(next(cuts)),
            world.fill_disk,
        ]
    )
    while True:
        yield lambda: world.kill(next(kills))
        yield next(others)


def unrest(world: World, clients: list[Client]) -> None:
    """Let so many disasters happen, evenly over all submissions, until all are answered."""
    last, changed = -1, time.monotonic()
    coming = disasters(world)
    while any(client.thread.is_alive() for client in clients):
        told = sum(len(client.told) for client in clients)
        if told != last:
            last, changed = told, time.monotonic()
        failed = [client.failed for client in clients if client.failed]
        assert not failed, failed
        assert time.monotonic() - changed < PATIENCE, f"stuck after {told} answers"
        kills = sum(count for what, count in world.happened.items() if what.startswith("kill"))
        if kills < KILLS and told >= (kills + 1) * SUBMISSIONS // (KILLS + 1):
            next(coming)()  # a kill
            next(coming)()
        else:
            time.sleep(0.02)
    assert [client.failed for client in clients] == [None] * CLIENTS


@pytest.mark.verify
def test_nothing_is_lost_and_nothing_is_charged_twice(world: World) -> None:
    clients = [Client(world, tenant) for tenant in range(1, CLIENTS + 1)]
    started = time.monotonic()
    for client in clients:
        client.thread.start()
    unrest(world, clients)
    seconds = time.monotonic() - started
    told = {(each.tenant, each.model): each for client in clients for each in client.told}
    assert len(told) == CLIENTS * EACH
    with world.team.books() as meter:
        entered = 0
        for tenant in range(1, CLIENTS + 1):
            signals = meter.status(tenant=tenant).signals
            assert [each.step for each in signals] == list(range(1, EACH + 1))
            for each in signals:
                heard = told[tenant, each.model]
                assert (heard.step, heard.answer) == (each.step, str(each.to_dict()["answer"]))
            entered += len(signals)
        audit = meter.audit()
        assert audit.problems == ()
        links = Counter(link.event for link in audit.links)
        assert links["told"] == entered == len(told)
    figures = {
        "submissions": len(told),
        "of these models": CLIENTS * (EACH // EVERY),
        "seconds": round(seconds),
        "slowest answer, seconds": round(max(client.slowest for client in clients), 1),
        "happened": dict(sorted(world.happened.items())),
        "answers and broken connections": dict(
            sorted(sum((client.statuses for client in clients), Counter[str]()).items())
        ),
    }
    print(json.dumps(figures, indent=2))
    assert sum(n for what, n in world.happened.items() if what.startswith("kill")) == KILLS
