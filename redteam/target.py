"""The server under attack: its people, its meters, and what its processes use."""

from __future__ import annotations

import contextlib
import ipaddress
import itertools
import os
import secrets
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from tests.forms import packed, typed

from easeml_meter.client import connect
from easeml_meter.spec import MeterSpec

API = "/api/v1"
PASSWORD = "correct horse battery"  # noqa: S105 - of accounts that exist for the attacks
VALIDATION_ROWS = 20
NOBODY = "f" * 32
"""An id that nothing has."""

Labels = NDArray[np.int64]


class Broken(Exception):
    """An intruder got their way."""


def hold(condition: object, achieved: str) -> None:
    """Raise `Broken` with what the intruder achieved, unless the condition holds."""
    if not condition:
        raise Broken(achieved)


def refused(answer: httpx.Response, *expected: int) -> None:
    """Raise `Broken` unless a request was refused, with one of the statuses if any are given."""
    fine = answer.status_code in expected if expected else 400 <= answer.status_code < 500
    route = f"{answer.request.method} {answer.request.url.path}"
    hold(fine, f"{route} -> {answer.status_code} {answer.text[:160]}")


class Client(httpx.Client):
    """A connection of one intruder; it counts what it sends, and notes when the server fails."""

    def __init__(self, target: Target, token: str | None, **options: Any) -> None:
        headers = options.pop("headers", {}) | (
            {"Authorization": f"Bearer {token}"} if token else {}
        )
        transport = httpx.HTTPTransport(local_address=target.source(), limits=httpx.Limits())
        base: dict[str, Any] = {
            "base_url": target.address + API,
            "timeout": 120,
            "trust_env": False,
        }
        super().__init__(headers=headers, transport=transport, **(base | options))
        self.target = target

    def send(self, request: httpx.Request, **options: Any) -> httpx.Response:
        """Send a request; an unexpected error of the server is its own kind of broken."""
        typed(request)
        self.target.sent += int(request.headers.get("Content-Length", 0))
        self.target.sent += len(request.url.raw_path)
        answer = super().send(request, **options)
        if answer.status_code >= 500 and answer.status_code != 503:
            self.target.failures.append(f"{answer.status_code} at {request.url.path[:80]}")
        return answer


@dataclass(frozen=True)
class Cost:
    """What the server has used so far, or between two moments."""

    seconds: float
    megabytes: float
    """The most memory since the measurement before."""
    sent: int
    resident: float = 0.0
    """Megabytes of memory now."""
    known: bool = True
    """Whether the server's processes are on this machine."""

    def since(self, before: Cost) -> Cost:
        """Return what came after a moment."""
        return Cost(
            self.seconds - before.seconds,
            max(0.0, self.megabytes - before.resident),
            self.sent - before.sent,
            known=self.known,
        )


@dataclass
class Target:
    """A running server, of which the intruder's friends know an admin's token."""

    address: str
    admin: str
    processes: tuple[int, ...] = ()
    """The server's processes, if they are on this machine."""
    front: str = ""
    """The address of the proxy before it; empty: the address has one."""
    folder: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="redteam-")))
    sent: int = 0
    failures: list[str] = field(default_factory=list)
    _sources: Iterable[int] = field(default_factory=lambda: itertools.count(1))

    @cached_property
    def people(self) -> dict[str, Person]:
        """Somebody of each role, by name; nobody of them has a seat before a meter gives one."""
        names = ("stranger", "developer", "developer2", "runner", "labeler", "other", "auditor")
        made = {name: self.person(name) for name in names}
        with Client(self, self.admin) as client:
            known = client.get("/me").json()["user"]
        return made | {"admin": Person(known["id"], known["name"], self.admin)}

    def person(self, name: str, **options: Any) -> Person:
        """Open an account with a name like this one, and sign in."""
        unique = f"{name}-{secrets.token_hex(4)}"
        with Client(self, self.admin) as client:
            account = {"name": unique, "password": PASSWORD, **options}
            made = client.post("/users", json=account).raise_for_status().json()
        with Client(self, None) as client:
            login = {"name": unique, "password": PASSWORD}
            token = client.post("/login", json=login).raise_for_status().json()["token"]
        return Person(made["id"], unique, token)

    def client(self, who: str | Person, **options: Any) -> Client:
        """Return a client of somebody; outsiders and owners of folders have no token."""
        if isinstance(who, str):
            who = NOBODY_KNOWN if who in ("outsider", "owner") else self.people[who]
        return Client(self, who.token or None, **options)

    def source(self) -> str | None:
        """Return an address of this machine that has sent nothing yet: limits count by address."""
        try:
            near = ipaddress.ip_address(urlsplit(self.address).hostname or "").is_loopback
        except ValueError:
            near = False
        number = next(iter(self._sources))
        return f"127.1.{number // 250 % 250}.{number % 250 + 1}" if near else None

    @cached_property
    def ground(self) -> Ground:
        """A meter in use, for attacks that leave it as it is."""
        return self.meter()

    def meter(
        self, *, rows: Any = None, begun: bool = True, name: str = "ground", **settings: Any
    ) -> Ground:
        """Make a meter with a seat for everybody, and unless told not to, both of its sets."""
        with self.client("admin") as admin:
            body = {"name": name, "settings": small_spec(**settings).to_mapping()}
            made = admin.post("/meters", json=body).raise_for_status().json()["id"]
            tenants = len(settings.get("tenants", ()))
            seats = [("developer", "developer", 1), ("runner", "runner", 1)]
            seats += [("labeler", "labeler", 0)]
            seats += [("developer2", "developer", 2)] if tenants > 1 else []
            for who, role, tenant in seats:
                seat = {"user": self.people[who].id, "role": role, "tenant": tenant}
                admin.post(f"/meters/{made}/members", json=seat).raise_for_status()
        ground = Ground(self, made)
        if begun:
            with self.client("developer") as developer:
                ground.validate(developer).raise_for_status()
            ground.deliver(rows)
        return ground

    def measure(self) -> Cost:
        """Return what the server's processes have used, and what memory they had at most since."""
        seconds = peak = resident = 0.0
        for process in self.processes:
            # Children that ended count: a file may be parsed in one of its own.
            fields = _proc(process, "stat").rpartition(")")[2].split()
            seconds += sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
            status = dict(line.split(":", 1) for line in _proc(process, "status").splitlines())
            peak += int(status["VmHWM"].split()[0]) / 1024
            resident += int(status["VmRSS"].split()[0]) / 1024
            # The next peak is counted from here.
            with contextlib.suppress(OSError):
                Path(f"/proc/{process}/clear_refs").write_text("5")
        return Cost(seconds, peak, self.sent, resident, bool(self.processes))

    def trouble(self) -> str:
        """Return what the server failed at since it was asked last; empty: nothing."""
        found, self.failures = self.failures, []
        try:
            with Client(self, None, base_url=self.address) as client:
                well = client.get("/healthz").status_code == 200
        except httpx.HTTPError:
            well = False
        return "; ".join(found[:3]) if well else "the server does not answer any more"


def _proc(process: int, name: str) -> str:
    return Path(f"/proc/{process}/{name}").read_text()


@dataclass(frozen=True)
class Person:
    """An account, and a token of it."""

    id: str
    name: str
    token: str


NOBODY_KNOWN = Person(NOBODY, "", "")


@dataclass
class Ground:
    """A meter at the server, of which the attack knows the hidden labels."""

    target: Target
    id: str
    labels: Labels = field(default_factory=lambda: np.zeros(0, np.int64))
    table: Any = None
    """The rows of the test set."""
    validation: Labels = field(default_factory=lambda: draw(VALIDATION_ROWS))

    def at(self, path: str) -> str:
        """Return the path of something of this meter."""
        return f"/meters/{self.id}{path}"

    def validate(self, client: httpx.Client, content: bytes | None = None) -> httpx.Response:
        """Hand in a validation set."""
        given = content or parquet(rows_of(self.validation))
        return client.post(self.at("/validation-sets"), params={"label": "label"}, content=given)

    def deliver(self, rows: Any = None, *, part: bool = False, **options: Any) -> None:
        """Seal a test set as the labeler does, and have it taken in."""
        remote = connect(self.target.address, self.id, token=self.target.people["labeler"].token)
        with remote as meter:
            if rows is None:
                rows = rows_of(draw(meter.requests()[0].test_set.labels_needed))
            number = secrets.token_hex(4)
            plain, sealed = (self.target.folder / f"{number}{end}" for end in (".parquet", ".seal"))
            pq.write_table(rows, plain)
            meter.seal(plain, sealed, label="label", id_column="id", part=part)
            add = meter.add_part if part else meter.add_test_set
            add(sealed, ids_renumbered=True, **options)
        self.table = rows
        self.labels = rows.column("label").to_numpy().copy()

    def submit(
        self, client: httpx.Client, content: bytes | None = None, *, wait: float = 0, **params: Any
    ) -> httpx.Response:
        """Hand in a submission; without one, predictions that nobody has made before."""
        query = {"model": f"m-{secrets.token_hex(4)}"} | ({"wait": wait} if wait else {}) | params
        body = content if content is not None else self.guesses()
        answer = client.post(self.at("/submissions"), params=query, content=body)
        while answer.status_code == 202 and wait:
            again = self.at(f"/submissions/{answer.json()['id']}")
            answer = client.get(again, params={"wait": wait})
            if answer.json().get("state") not in ("queued", "running"):
                break
        return answer

    def guesses(self, test: Any = None, validation: Any = None) -> bytes:
        """Pack predictions: random ones, unless others are given."""
        given = (draw(len(self.labels)) if test is None else test, validation)
        columns = (given[0], self.validation if given[1] is None else given[1])
        files = zip(("test.parquet", "validation.parquet"), map(predictions, columns), strict=True)
        return packed(dict(files))

    def steps_left(self, who: str = "developer") -> int:
        """Return how many answers a team has left."""
        with self.target.client(who) as client:
            found = client.get(self.at("/status")).raise_for_status().json()
        return int(found["steps_left"])

    def run(self, client: httpx.Client, program: str, **files: bytes) -> dict[str, Any]:
        """Hand in a Python program as a model, and wait until it is done with."""
        answer = self.submit(client, command("python program.py", program, **files), wait=60)
        found: dict[str, Any] = answer.json()
        return found

    def look(self, client: httpx.Client, program: str, **files: bytes) -> str:
        """Run a program on the validation rows, and return what the server says of its end."""
        return str(self.run(client, program, **files))


def small_spec(**settings: Any) -> MeterSpec:
    """Return a meter that needs only a few dozen labels."""
    given: dict[str, Any] = {
        "signals": 3,
        "tolerance": 0.25,
        "steps": 4,
        "delta": 0.2,
        "edges": [0.1, 0.3],
        "inputs": "hidden",
        "classes": (0, 1),
    }
    given |= settings
    if given.get("models") is True and given["inputs"] == "hidden":  # most are commands
        given = {"commands_may_carry_inputs_out": True} | given
    return MeterSpec.uniform(**given)


def draw(size: int) -> Labels:
    """Return random labels."""
    return np.random.default_rng(secrets.randbits(64)).integers(0, 2, size)


def rows_of(labels: Labels) -> Any:
    """Return rows that no meter has seen, with these labels."""
    inputs = np.random.default_rng(secrets.randbits(64)).normal(size=(len(labels), 2))
    ids = np.arange(len(labels))
    return pa.table({"id": ids, "x": inputs[:, 0], "y": inputs[:, 1], "label": labels})


def parquet(table: Any, **options: Any) -> bytes:
    """Return a Parquet file."""
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, **options)
    return bytes(sink.getvalue())


def predictions(values: Any) -> bytes:
    """Return a file of predictions."""
    return parquet(pa.table({"id": np.arange(len(values)), "prediction": values}))


def command(line: str, program: str = "", **files: bytes) -> bytes:
    """Return the body of a submitted command; the program's bytes are never the same twice."""
    contents = {"program.py": f"{program}\n# {secrets.token_hex(8)}\n".encode(), **files}
    sent = {f"files/{name}": content for name, content in contents.items()}
    return packed({"command": line.encode(), **sent})


def wait_for(condition: Any, seconds: float = 30) -> bool:
    """Wait for something; return whether it happened."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.1)
    return True
