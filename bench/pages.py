"""Pages of a meter with a long history: their weight and time, live, and beside many others.

A page with all that it loads has 100 KB at most. Another client's submission appears within two
seconds. Open pages, which ask for what is new each time they are told, hardly slow an answer. That
a page is painted before any script has arrived is a test (`tests/e2e/test_people.py`).
"""

from __future__ import annotations

import atexit
import http.client
import json
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench import Benchmark
from bench.history import lengthen
from bench.server import HEADERS, ROWS, Running
from easeml_meter.core.model import Entry
from easeml_meter.service.actor import ANYONE, SYSTEM, Actor

MOST = 100_000
"""Bytes of a page with all that it loads, as sent."""
READERS = 8
"""Accounts whose pages are open; each may follow as many as a browser opens."""
VALIDATION = 100
SHORT = 10


def benchmarks(*, small: bool) -> list[Benchmark]:
    """List them; the small ones have a short history and few pages."""
    long, pages, answers = (40, 3, 4) if small else (1000, 200, 60)
    return [
        Benchmark(
            name=f"page of a meter after {long:,} answers (reference: after {SHORT})",
            ours=partial(_page, long),
            reference=partial(_page, SHORT),
            at_most=6,
            seconds=0.1,
            agree=lambda ours, reference: max(ours, reference) < MOST,
            prepare=lambda: (_page(long), _page(SHORT)),
        ),
        Benchmark(
            name=f"an answer appears on an open page, after {long:,} (reference: one second)",
            ours=partial(_appears, long),
            reference=partial(_wait, 1.0),
            at_most=2,
            seconds=2.0,
            prepare=lambda: _appears(long),
        ),
        Benchmark(
            name=f"{answers} answers beside {pages} open pages (reference: beside none)",
            ours=partial(_answers, answers, pages),
            reference=partial(_answers, answers, 0),
            at_most=1.2,
            prepare=lambda: (_answers(answers, pages), _answers(answers, 0)),
        ),
    ]


def _wait(seconds: float) -> bool:
    time.sleep(seconds)
    return True


def _page(history: int) -> int:
    """Load a meter's page; return the bytes of it and of all that it loads, as sent."""
    site = _site(history)
    page = site.get(site.page)
    return len(page) + sum(len(site.get(each)) for each in _loaded(page.decode()))


@cache
def _loaded(page: str) -> list[str]:
    return re.findall(r'(?:src|href)="(/static/[^"]+)"', page.partition("</head>")[0])


def _appears(history: int) -> bool:
    """Submit, and wait until an open page has got what is new."""
    site = _site(history)
    number = site.newest()
    with site.following(number) as told:
        site.running.send(1)
        next(told)
        news = site.get(f"{site.page}/changed").decode()
    return "data-replace" in news


def _answers(answers: int, pages: int) -> int:
    """Answer some submissions, one after another."""
    return _site(SHORT, pages).running.send(answers, 1)


@dataclass(frozen=True)
class Site:
    """A server with a meter, and a developer's browser."""

    running: Running
    page: str
    sessions: list[str]

    def get(self, path: str, session: int = 0) -> bytes:
        """Load something, as sent."""
        with closing(self.connection()) as connection:
            connection.request("GET", path, headers=self._headers(session))
            answer = connection.getresponse()
            content = answer.read()
        assert answer.status == 200, f"{path}: {answer.status}"
        return content

    def connection(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.running.port, timeout=60)

    def newest(self) -> int:
        """Return up to where the page is."""
        found = re.search(rb'data-after="(\d+)"', self.get(self.page))
        assert found is not None
        return int(found[1])

    @contextmanager
    def following(self, after: int, session: int = 0) -> Iterator[Iterator[int]]:
        """Keep a page open; give the numbers it is told."""
        with closing(self.connection()) as connection:
            place = f"{self.page}/live?after={after}"
            connection.request("GET", place, headers=self._headers(session))
            answer = connection.getresponse()
            assert answer.status == 200, answer.status
            answer.readline()  # it is open
            yield (int(line[4:]) for line in iter(answer.readline, b"") if line[:3] == b"id:")

    def follow(self, session: int, opened: threading.Barrier) -> None:
        """Be an open page until the server ends: ask for what is new whenever it is told."""
        try:
            with self.following(self.newest(), session) as told:
                opened.wait()
                for _ in told:
                    self.get(f"{self.page}/changed", session)
        except OSError:
            return  # the server has ended

    def _headers(self, session: int) -> dict[str, str]:
        secret = self.sessions[session % len(self.sessions)]
        return {"Cookie": f"meter_session={secret}", "Accept-Encoding": "gzip"}


@cache
def _site(history: int, pages: int = 0) -> Site:
    """Start a server with a meter that has given so many answers, and open pages of it."""
    folder = Path(tempfile.mkdtemp(prefix="bench-pages-"))
    (folder / "history.json").write_text(json.dumps(history))
    running = Running.start("pages", folder, f"sqlite:///{folder}/books.db")
    atexit.register(running.stop)
    if pages:
        _crowd(folder, running.port, pages)
    return _opened(folder, running)


def _opened(folder: Path, running: Running) -> Site:
    return Site(running, **json.loads((folder / "pages.json").read_text()))


def _crowd(folder: Path, port: int, pages: int) -> None:
    """Open pages in a process of its own, which does not keep us from sending."""
    readers = subprocess.Popen(  # noqa: S603
        [sys.executable, "-m", "bench.pages", str(folder), str(port), str(pages)],
        stdout=subprocess.PIPE,
        text=True,
    )
    atexit.register(readers.wait)
    atexit.register(readers.kill)
    assert readers.stdout is not None
    assert readers.stdout.readline() == "open\n"


def read_along(folder: Path, port: int, pages: int) -> None:
    """Keep pages open until the server ends."""
    running = Running(None, port, "", {})  # type: ignore[arg-type]
    site, opened = _opened(folder, running), threading.Barrier(pages + 1)
    readers = [threading.Thread(target=site.follow, args=(each, opened)) for each in range(pages)]
    for each in readers:
        each.start()
    opened.wait()
    print("open", flush=True)
    for each in readers:
        each.join()


def serve_pages(folder: Path, database: str) -> tuple[Any, str, dict[str, str]]:
    """Make the server, with a meter that has told ever worse bands."""
    from easeml_meter.core.people import Role
    from easeml_meter.meter import Meter
    from easeml_meter.server.app import create_app
    from easeml_meter.server.settings import Settings
    from easeml_meter.service import seats, tokens, users
    from easeml_meter.service.meters import create_meter
    from easeml_meter.service.place import Site as Place
    from easeml_meter.spec import MeterSpec

    history = json.loads((folder / "history.json").read_text())
    settings = Settings(folder=folder, requests_per_second=0, log_level="error")
    site = Place.open(database, settings.files_place, settings.key_file)
    spec = MeterSpec.uniform(
        protocol="incremental",  # which can give thousands of answers from so few labels
        tolerance=0.2,
        edges=(0.25, 0.5, 0.75),
        steps=10_000,
        delta=0.1,
        classes=(0, 1),
        inputs="public",
    )
    meter = create_meter(SYSTEM, site, spec, "mail filter").id
    space = site.space(meter)
    secrets = []
    for number in range(READERS):
        user = users.add_user(SYSTEM, site, f"developer {number}")
        seats.add_seat(SYSTEM, space, user.id, Role.DEVELOPER, 1)
        person = Actor(((Role.USER, 0),), user=user.id)
        _, token = tokens.make_token(person, site, "bench")
        given = ANYONE, site, user.name, token
        secrets.append(tokens.log_in_by_token(*given, days=1, purpose="browser")[1])
    _fill(Meter(space, Role.OWNER, user=user.id), folder, history)
    (folder / "pages.json").write_text(
        json.dumps({"page": f"/meters/{meter}", "sessions": secrets})
    )
    headers = HEADERS | {"Authorization": f"Bearer {token}"}
    return create_app(site, settings), f"/api/v1/meters/{meter}/submissions?model=m", headers


def _fill(meter: Any, folder: Path, history: int) -> None:
    """Deliver both sets, and enter a history."""
    draw = np.random.default_rng(0)
    for name, rows in (("validation", VALIDATION), ("rows", ROWS)):
        columns = {"x": draw.normal(size=rows), "label": draw.integers(0, 2, rows)}
        pq.write_table(pa.table(columns), folder / f"{name}.parquet")
    meter.set_validation(folder / "validation.parquet", label="label")
    meter.seal(folder / "rows.parquet", folder / "set.sealed", label="label")
    meter.add_test_set(folder / "set.sealed")
    for name, rows in (("test", ROWS), ("validation", VALIDATION)):
        pq.write_table(pa.table({"prediction": np.zeros(rows, int)}), folder / f"{name}.parquet")
    meter.submit(folder / "test.parquet", folder / "validation.parquet", model="checkpoint 1")
    lengthen(meter.workspace, history, _varied)


def _varied(entry: Entry) -> Entry:
    """Give an answer a name and a band of its own."""
    band = min(3, 1 + entry.step // 20)  # the worst one so far
    return replace(entry, model=f"checkpoint {entry.step}", answer=str(band))


if __name__ == "__main__":
    read_along(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
