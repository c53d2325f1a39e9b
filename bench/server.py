"""The server: 1,000 answers by 8 clients on each database, and an answer after many others.

`python -m bench.server` needs two idle cores, one for the server and one for the clients. A meter
gives as many answers in its life as are sent here.
"""

from __future__ import annotations

import gc
import http.client
import io
import json
import os
import secrets
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from tests.forms import KIND, packed

from easeml_meter.core.model import Event
from easeml_meter.core.people import Role
from easeml_meter.meter import Meter
from easeml_meter.server.app import create_app
from easeml_meter.server.settings import Settings
from easeml_meter.service import seats, tokens, users
from easeml_meter.service.actor import SYSTEM, Actor
from easeml_meter.service.journal import histories_of
from easeml_meter.service.meters import create_meter
from easeml_meter.service.place import Site, Workspace
from easeml_meter.spec import MeterSpec

ROWS = {"test": 1000, "validation": 100}
ANSWERS, CLIENTS = 1000, 8
SECONDS = 60.0
"""For so many answers, at most."""
MANY, LATER = 100_000, 1.2
"""Time of an answer after so many others over that of one of the first, at most."""


def body() -> bytes:
    """Make a submission that nobody has made before."""
    draw = np.random.default_rng(secrets.randbits(128))
    files = {}
    for name, rows in ROWS.items():
        file = io.BytesIO()
        pq.write_table(pa.table({"prediction": draw.integers(0, 2, rows)}), file)
        files[f"{name}.parquet"] = file.getvalue()
    return packed(files)


def send(server: dict[str, Any], answers: int) -> float:
    """Send so many different submissions from several clients; return the seconds it took."""
    bodies = [body() for _ in range(answers)]

    def client(own: list[bytes]) -> None:
        with closing(http.client.HTTPConnection("127.0.0.1", server["port"])) as connection:
            for content in own:
                connection.request("POST", server["path"], content, server["headers"])
                answer = connection.getresponse()
                told = answer.read()
                assert answer.status == 200, told

    started = time.perf_counter()
    with ThreadPoolExecutor(CLIENTS) as pool:
        list(pool.map(client, (bodies[at::CLIENTS] for at in range(CLIENTS))))
    return time.perf_counter() - started


def serve(folder: Path, database: str) -> None:
    """Serve a meter that answers as often as it is asked, until the standard input ends."""
    import uvicorn

    settings = Settings(folder=folder, requests_per_second=0, log_level="error")
    site = Site.open(database, settings.files_place, settings.key_file)
    spec = MeterSpec.uniform(
        signals=1, tolerance=0.1, steps=10**6, delta=0.1, classes=(0, 1), inputs="public"
    )
    space = site.space(create_meter(SYSTEM, site, spec, "bench").id)
    user = users.add_user(SYSTEM, site, "developer").id
    seats.add_seat(SYSTEM, space, user, Role.DEVELOPER, 1)
    token = tokens.make_token(Actor(((Role.USER, 0),), user=user), site, "bench")[1]
    meter, random = Meter(space), np.random.default_rng(0)
    for name, rows in ROWS.items():
        columns = {"x": random.normal(size=rows), "label": random.integers(0, 2, rows)}
        pq.write_table(pa.table(columns), folder / f"{name}.parquet")
    meter.set_validation(folder / "validation.parquet", label="label")
    meter.seal(folder / "test.parquet", folder / "set.sealed", label="label")
    meter.add_test_set(folder / "set.sealed")
    server = uvicorn.Server(
        uvicorn.Config(create_app(site, settings), log_level="error", access_log=False)
    )
    gc.collect()
    gc.freeze()  # as `meter serve` does
    # With its protocol named, asyncio sends small answers at once.
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.bind(("127.0.0.1", 0))
    listening.listen(2048)
    told = {
        "port": listening.getsockname()[1],
        "path": f"/api/v1/meters/{space.meter}/submissions?model=m",
        "headers": {"Content-Type": KIND, "Authorization": f"Bearer {token}"},
    }
    os.write(1, (json.dumps(told) + "\n").encode())

    def wait() -> None:
        for _ in sys.stdin:  # a line: lengthen the history
            lengthen(space)
            os.write(1, b"\n")
        server.should_exit = True

    threading.Thread(target=wait, daemon=True).start()
    server.run(sockets=[listening])


def lengthen(space: Workspace) -> None:
    """Enter the newest answer again and again, as if other submissions had got it."""
    with space.writing() as books:
        state = space.state(books)
        test_set = state.current
        histories = histories_of(books, state, test_set)
        last = books.entries.all(test_set.meter, test_set.number)[-1]
        more = [
            replace(last, step=step, submission=f"{step:064x}")
            for step in range(last.step + 1, last.step + 1 + MANY)
        ]
        for entry in more:
            histories = histories.after(entry)
        books.entries.add(more)
        books.accounts.put(test_set.meter, test_set.number, histories.folded.values())
        links = [(entry.told_at, Event.TOLD, {"step": entry.step}) for entry in more]
        books.audit.append_all(test_set.meter, links)
    space.journal(test_set).append(more, histories.answers)


@contextmanager
def databases(folder: Path) -> Iterator[dict[str, str]]:
    """Give a fresh database of each kind that there is."""
    made = {"SQLite": f"sqlite:///{folder}/books.db"}
    if not Path("/usr/lib/postgresql").is_dir():
        yield made
        return
    from tests.postgresql import SETTINGS, running

    SETTINGS.update(fsync="on", autovacuum="on")
    with running() as cluster:
        yield made | {"PostgreSQL": cluster.new_database()}


def report() -> int:
    """Print the figures; 1 if one misses what is asked for."""
    missed = False
    with tempfile.TemporaryDirectory(prefix="bench-server-") as name, databases(Path(name)) as made:
        for label, database in made.items():
            folder = Path(name) / label
            folder.mkdir()
            process = subprocess.Popen(  # noqa: S603
                [sys.executable, "-m", "bench.server", str(folder), database],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            assert process.stdin is not None
            assert process.stdout is not None
            server = json.loads(process.stdout.readline())
            seconds = send(server, ANSWERS)
            print(f"{label}: {ANSWERS:,} answers by {CLIENTS} clients in {seconds:.1f} s", end="")
            print(f" (at most {SECONDS:g})", flush=True)
            process.stdin.write("\n")
            process.stdin.flush()
            process.stdout.readline()
            later = send(server, ANSWERS) / seconds
            print(f"{label}: after {MANY:,} others {later:.2f} times that (at most {LATER})")
            missed |= seconds > SECONDS or later > LATER
            process.communicate(timeout=60)
    return int(missed)


if __name__ == "__main__":
    if len(sys.argv) == 3:
        serve(Path(sys.argv[1]), sys.argv[2])
    else:
        sys.exit(report())
