"""The server: small submissions next to a bare endpoint of the same framework.

`python -m bench.server` reports throughput, latencies and memory. Both endpoints run alike: one
process with one event loop, the same clients, the same kind of database, both commit durably.
Submissions that wait are answered together, so the more clients there are, the larger the share.
Ours come with an Idempotency-Key, as `easeml_meter.connect` sends them. At last, a server with a
long history is measured next to one with a short history.
"""

from __future__ import annotations

import atexit
import gc
import http.client
import importlib.abc
import io
import json
import os
import secrets
import socket
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import sqlalchemy as sa
from fastapi import FastAPI, Request
from fastapi.concurrency import run_in_threadpool

from bench import REPEATS, Benchmark
from bench.history import lengthen
from easeml_meter.core.idempotency import KeyedRequest
from easeml_meter.service.actor import SYSTEM, Actor
from easeml_meter.service.meters import create_meter

ROWS = 1000
CROWDS = (8, 16)
"""Numbers of clients; the share that is asked for counts with each."""
CLIENTS = CROWDS[0]
TURNS = 5
SHARE = 0.5
"""Our throughput over that of the bare endpoint, at least."""
SECOND = 1.15
"""Processor time of an answer from one of two processes over that from a single one, at most."""
AFTER = (100, 100_000)
"""Answers that a server with a short and one with a long history have given."""
LATER = 1.2
"""Time of an answer after a long history over that after a short one, at most."""
HEADERS = {"Content-Type": "application/x-tar"}


def benchmarks(*, small: bool) -> list[Benchmark]:
    """List them; the small one sends a handful of submissions."""
    requests = 16 if small else 400
    return [
        Benchmark(
            name=f"{requests} submissions, {clients} clients, SQLite (reference: bare endpoint)",
            ours=partial(_send, "ours", requests, clients),
            reference=partial(_send, "bare", requests, clients),
            at_most=2,
            prepare=lambda: prepare_both(requests),
        )
        for clients in CROWDS
    ]


def _send(kind: str, requests: int, clients: int) -> int:
    return _sqlite(kind).send(requests, clients, keyed=kind == "ours")


def prepare_both(requests: int) -> None:
    """Start both servers, and make all that will be sent to them."""
    for kind in ("ours", "bare"):
        _sqlite(kind).prepare(requests, REPEATS)


@cache
def _sqlite(kind: str) -> Running:
    """Start a server that ends with this process."""
    folder = Path(tempfile.mkdtemp(prefix="bench-server-"))
    running = Running.start(kind, folder, f"sqlite:///{folder}/books.db")
    atexit.register(running.stop)
    return running


@dataclass
class Running:
    """A server in a process of its own."""

    process: subprocess.Popen[str]
    port: int
    path: str
    headers: dict[str, str]
    latencies: list[float] = field(default_factory=list)
    stock: deque[bytes] = field(default_factory=deque)
    """Submissions that were made beforehand: making them is not the server's work."""

    @classmethod
    def start(cls, kind: str, folder: Path, database: str) -> Running:
        """Start it, and wait until it listens; it ends when its standard input does."""
        process = subprocess.Popen(  # noqa: S603
            [sys.executable, "-m", "bench.server", kind, str(folder), database],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        told = json.loads(process.stdout.readline())
        return cls(process, told["port"], told["path"], told["headers"])

    def prepare(self, requests: int, times: int = 1) -> None:
        """Warm up, and make what will be sent."""
        self.send(CLIENTS)
        self.stock.extend(body() for _ in range(times * requests))
        self.latencies.clear()

    def stop(self) -> None:
        """End it."""
        self.process.communicate(timeout=60)

    def send(self, requests: int, clients: int = CLIENTS, *, keyed: bool = False) -> int:
        """Send that many different submissions from several clients; count the answers.

        `keyed`: each with an Idempotency-Key.
        """
        bodies = iter([self.stock.popleft() if self.stock else body() for _ in range(requests)])
        answered: list[float] = []
        lock = threading.Lock()

        def client() -> None:
            with closing(http.client.HTTPConnection("127.0.0.1", self.port)) as connection:
                while (content := take()) is not None:
                    started = time.perf_counter()
                    key = {"Idempotency-Key": secrets.token_hex(16)} if keyed else {}
                    connection.request("POST", self.path, content, self.headers | key)
                    answer = connection.getresponse()
                    answer.read()
                    if answer.status == 200:
                        answered.append(time.perf_counter() - started)

        def take() -> bytes | None:
            with lock:
                return next(bodies, None)

        threads = [threading.Thread(target=client) for _ in range(clients)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        self.latencies += answered
        return len(answered)

    def cpu(self) -> float:
        """Give the seconds of processor time it has used so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory(self) -> int:
        """Give the most memory it has used so far, in bytes."""
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) * 1024


def body() -> bytes:
    """Make a submission that nobody has made before."""
    draw = np.random.default_rng(secrets.randbits(128))
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, rows in (("test", ROWS), ("validation", 100)):
            file = io.BytesIO()
            pq.write_table(pa.table({"prediction": draw.integers(0, 2, rows)}), file)
            member = tarfile.TarInfo(f"{name}.parquet")
            member.size = file.tell()
            file.seek(0)
            archive.addfile(member, file)
    return out.getvalue()


def serve_ours(folder: Path, database: str) -> tuple[Any, str, dict[str, str]]:
    """Make the server, with a meter that answers as often as it is asked."""
    from easeml_meter.core.people import Role
    from easeml_meter.meter import Meter
    from easeml_meter.server.app import create_app
    from easeml_meter.server.settings import Settings
    from easeml_meter.service import seats, tokens, users
    from easeml_meter.service.place import Site
    from easeml_meter.spec import MeterSpec

    settings = Settings(folder=folder, requests_per_second=0, log_level="error")
    site = Site.open(database, settings.files_place, settings.key_file)
    spec = MeterSpec.uniform(
        signals=1, tolerance=0.1, steps=10**6, delta=0.1, classes=(0, 1), inputs="public"
    )
    row = create_meter(SYSTEM, site, spec, "bench")
    user = users.add_user(SYSTEM, site, "developer")
    seats.add_seat(SYSTEM, site.space(row.id), user.id, Role.DEVELOPER, 1)
    _, token = tokens.make_token(Actor(((Role.USER, 0),), user=user.id), site, "bench")
    meter = Meter(site.space(row.id))
    random = np.random.default_rng(0)
    for name, rows in (("validation", 100), ("test", ROWS)):
        columns = {"x": random.normal(size=rows), "label": random.integers(0, 2, rows)}
        pq.write_table(pa.table(columns), folder / f"{name}.parquet")
    meter.set_validation(folder / "validation.parquet", label="label")
    meter.seal(folder / "test.parquet", folder / "set.sealed", label="label")
    meter.add_test_set(folder / "set.sealed")
    path = f"/api/v1/meters/{row.id}/submissions?model=m"
    headers = HEADERS | {"Authorization": f"Bearer {token}"}
    (folder / "served.json").write_text(json.dumps([path, headers]))
    return create_app(site, settings), path, headers


def serve_after(folder: Path, database: str, history: int) -> tuple[Any, str, dict[str, str]]:
    """Make the server, with a meter that has given so many answers, each of them with a key."""
    from easeml_meter.meter import Meter

    app, path, headers = serve_ours(folder, database)
    site = app.state.site
    space = site.space(path.split("/")[4])
    for name, rows in (("test", ROWS), ("validation", 100)):
        pq.write_table(pa.table({"prediction": np.zeros(rows, int)}), folder / f"{name}.parquet")
    Meter(space).submit(folder / "test.parquet", folder / "validation.parquet", model="first")
    lengthen(space, history)
    with site.reading() as books:
        (user,) = {each.user for each in books.seats.at(space.meter)}
    for start in range(0, history, 1000):
        keyed = (
            KeyedRequest(user, f"{n:032x}", "", site.now()) for n in range(start, start + 1000)
        )
        with site.writing() as books:
            books.idempotency.put([each.answered(200, {"answer": "1"}) for each in keyed])
    return app, path, headers


def serve_second(folder: Path, database: str) -> tuple[Any, str, dict[str, str]]:
    """Serve the same site as a server of ours, from one more process."""
    from easeml_meter.server.app import create_app
    from easeml_meter.server.settings import Settings
    from easeml_meter.service.place import Site

    settings = Settings(folder=folder, requests_per_second=0, log_level="error")
    site = Site.open(database, settings.files_place, settings.key_file)
    path, headers = json.loads((folder / "served.json").read_text())
    return create_app(site, settings), path, headers


def serve_bare(database: str) -> tuple[Any, str, dict[str, str]]:
    """Make the bare endpoint: it takes the same body and commits one row."""
    if database.startswith("sqlite"):
        engine = sa.create_engine(database, connect_args={"timeout": 60})

        @sa.event.listens_for(engine, "connect")
        def configure(connection: Any, _record: object) -> None:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
    else:
        address = database.replace("postgresql://", "postgresql+psycopg://")
        engine = sa.create_engine(address, pool_size=10, max_overflow=20)
    table = sa.Table("answers", sa.MetaData(), sa.Column("size", sa.Integer))
    table.create(engine)
    app = FastAPI()

    def commit(size: int) -> None:
        with engine.begin() as connection:
            connection.execute(table.insert(), {"size": size})

    @app.post("/submissions")
    async def submit(request: Request) -> dict[str, int]:
        content = await request.body()
        await run_in_threadpool(commit, len(content))
        return {"size": len(content)}

    return app, "/submissions", HEADERS


class WithoutPandas(importlib.abc.MetaPathFinder):
    """The server's extra brings no pandas; where it happens to be installed, Arrow loads it."""

    def find_spec(self, name: str, *_: object) -> None:
        if name == "pandas":
            raise ImportError(name)


def serve(kind: str, folder: Path, database: str) -> None:
    """Serve until the standard input ends."""
    import uvicorn

    sys.meta_path.insert(0, WithoutPandas())
    if kind == "ours":
        app, path, headers = serve_ours(folder, database)
    elif kind.startswith("after "):
        app, path, headers = serve_after(folder, database, int(kind.split()[1]))
    elif kind == "second":
        app, path, headers = serve_second(folder, database)
    else:
        app, path, headers = serve_bare(database)
    config = uvicorn.Config(app, log_level="error", access_log=False)
    server = uvicorn.Server(config)
    gc.collect()
    gc.freeze()  # as `meter serve` does
    # With its protocol named, asyncio sends small answers at once.
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.bind(("127.0.0.1", 0))
    listening.listen(2048)
    told = {"port": listening.getsockname()[1], "path": path, "headers": headers}
    os.write(1, (json.dumps(told) + "\n").encode())

    def wait() -> None:
        sys.stdin.read()
        if hasattr(app.state, "stopping"):
            app.state.stopping.set()  # open pages are let go
        server.should_exit = True

    threading.Thread(target=wait, daemon=True).start()
    server.run(sockets=[listening])


@contextmanager
def databases(folder: Path) -> Iterator[dict[str, Callable[[str], str]]]:
    """Give what makes a fresh database of each kind that there is."""
    made: dict[str, Callable[[str], str]] = {"SQLite": lambda kind: f"sqlite:///{folder}/{kind}.db"}
    if not Path("/usr/lib/postgresql").is_dir():
        yield made
        return
    from tests.postgresql import SETTINGS, running

    SETTINGS.update(fsync="on", autovacuum="on")
    with running() as cluster:
        yield made | {"PostgreSQL": lambda _: cluster.new_database()}


def report(requests: int) -> int:
    """Print the measurements; 1 if one misses what is asked for."""
    missed = 0
    with tempfile.TemporaryDirectory(prefix="bench-server-") as name:
        folder = Path(name)
        with databases(folder) as made:
            for label, new in made.items():
                (folder / label).mkdir()
                address = new("ours")
                bare = Running.start("bare", folder / label, new("bare"))
                ours = Running.start("ours", folder / label, address)
                for clients in CROWDS:
                    missed += compare(label, bare, ours, requests, clients) < SHARE
                if label != "SQLite":  # one process at a time uses that
                    second = Running.start("second", folder / label, address)
                    missed += side_by_side(label, ours, second, requests) > SECOND
                    second.stop()
                bare.stop()
                ours.stop()
                missed += after(label, folder / label, new, requests) > LATER
    return int(missed > 0)


def compare(label: str, bare: Running, ours: Running, requests: int, clients: int) -> float:
    """Print both, and give our share; they take turns, as the machine's speed changes."""
    sides = [
        Measured(f"{label} bare", bare, clients),
        Measured(f"{label} ours", ours, clients, keyed=True),
    ]
    for _ in range(TURNS):
        for side in sides:
            side.take(requests // TURNS)
    reference, own = (side.tell() for side in sides)
    print(
        f"{label}: share of the bare endpoint {own / reference:.2f} (at least {SHARE})", flush=True
    )
    return own / reference


def side_by_side(label: str, first: Running, second: Running, requests: int) -> float:
    """Print what an answer costs two processes that share the clients; give its ratio to one's."""
    clients = max(CROWDS)
    alone = Measured("one process", first, clients, keyed=True)
    both = [Measured("of two", each, clients // 2, keyed=True) for each in (first, second)]
    for _ in range(TURNS):
        alone.take(requests // TURNS)
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda side: side.take(requests // TURNS // 2), both))
    cost = sum(side.cpu for side in both) / sum(side.requests for side in both)
    ratio = cost / (alone.cpu / alone.requests)
    print(f"{label}: processor time with two processes {ratio:.2f} (at most {SECOND})", flush=True)
    return ratio


def after(label: str, folder: Path, new: Callable[[str], str], requests: int) -> float:
    """Print what an answer costs after few and after many others; give the ratio of the times."""
    sides = []
    for history in AFTER:
        (folder / f"{history}").mkdir()
        running = Running.start(f"after {history}", folder / f"{history}", new(f"after-{history}"))
        sides.append(Measured(f"{label} after {history:,}", running, max(CROWDS), keyed=True))
    for _ in range(TURNS):
        for side in sides:
            side.take(requests // TURNS)
    short, long = (side.tell() for side in sides)
    few, many = (side.cpu / side.requests for side in sides)
    for side in sides:
        side.running.stop()
    print(
        f"{label}: an answer after {AFTER[1]:,} takes {short / long:.2f} of one after {AFTER[0]} "
        f"(at most {LATER}); its processor time {many / few:.2f}",
        flush=True,
    )
    return short / long


@dataclass
class Measured:
    """What is measured of one server."""

    name: str
    running: Running
    clients: int
    keyed: bool = False
    requests: int = 0
    seconds: float = 0
    cpu: float = 0
    latencies: list[float] = field(default_factory=list)

    def take(self, requests: int) -> None:
        """Send that many submissions."""
        self.running.prepare(requests)
        started, cpu = time.perf_counter(), self.running.cpu()
        done = self.running.send(requests, self.clients, keyed=self.keyed)
        self.seconds += time.perf_counter() - started
        assert done == requests, f"{done} of {requests} answered"
        self.cpu += self.running.cpu() - cpu
        self.requests += done
        self.latencies += self.running.latencies

    def tell(self) -> float:
        """Print all of it, and give the submissions a second."""
        p50, p99 = np.percentile(self.latencies, [50, 99]) * 1000
        print(
            f"{self.name}, {self.clients} clients: {self.requests / self.seconds:.0f} submissions "
            f"a second, p50 {p50:.1f} ms, p99 {p99:.1f} ms, "
            f"{1000 * self.cpu / self.requests:.1f} ms of processor time each",
            flush=True,
        )
        return self.requests / self.seconds


if __name__ == "__main__":
    if len(sys.argv) == 4:
        serve(sys.argv[1], Path(sys.argv[2]), sys.argv[3])
    else:
        sys.exit(report(requests=1000))
