"""A team's server as it runs in production: API processes, workers, clients that do not give up."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from tests.forking import Forked
from tests.forms import typed
from tests.postgresql import free_port
from tests.scoring.onnx_models import classifier
from tests.service.helpers import Labels, small_spec, with_errors

from easeml_meter.meter import Meter
from easeml_meter.service.place import Site
from easeml_meter.spec import MeterSpec

from .driving import begin, packed, submission
from .helpers import serve

# The command line as it is, but for one thing: tests decide how long a model takes. A run that is
# repeated less often is over in that time on a busy machine, too.
METER = """
import sys
from easeml_meter.scoring import running as scoring
from easeml_meter.service.submissions import running
seconds = float(sys.argv[1])
running.allotted = lambda estimate: seconds
running._SETTLING = 0.1
scoring.HIDDEN_RUNS = 1
import os
if (file := os.environ.get("METER_TEST_CLOCK")) is not None:
    # The clock of this machine is wrong by as many seconds as the file says.
    from datetime import datetime, timedelta
    from pathlib import Path
    from easeml_meter.service import place

    class Jumping(datetime):
        @classmethod
        def now(cls, zone=None):
            return datetime.now(zone) + timedelta(seconds=float(Path(file).read_text()))

    place.datetime = Jumping
from easeml_meter.cli import main
main(sys.argv[2:])
"""


def long_spec(*steps: int, models: bool = True) -> MeterSpec:
    """Give a meter that answers many steps of each tenant from few labels."""
    return small_spec(
        signals=1,
        edges=[],
        tolerance=0.45,
        steps=sum(steps),
        delta=0.5,
        models=models,
        tenants=steps if len(steps) > 1 else (),
    )


@dataclass
class Machine:
    """A process that can be killed and started again."""

    arguments: Sequence[str]
    log: Path
    ready: str
    """What it prints when it is ready."""
    before: Sequence[str] = ()
    """A command that starts it, such as one that enters a network namespace."""
    seconds: float = 1.0
    """What a model takes on the hidden rows."""
    clock: Path | None = None
    """A file that says by how many seconds its clock is wrong."""
    _process: subprocess.Popen[str] | Forked | None = None

    def start(self) -> None:
        settings = os.environ | ({"METER_TEST_CLOCK": str(self.clock)} if self.clock else {})
        words = (str(self.seconds), *self.arguments)
        with self.log.open("a") as log:
            if self.before:
                self._process = subprocess.Popen(
                    [
                        *("setpriv", "--pdeathsig", "KILL"),  # it ends with the tests
                        *(*self.before, sys.executable, "-c", METER, *words),
                    ],
                    stdout=subprocess.PIPE,
                    stderr=log,
                    text=True,
                    env=settings,
                )
            else:
                self._process = Forked(METER, words, settings, stderr=log)
        assert self._process.stdout is not None
        while self.ready not in (line := self._process.stdout.readline()):
            assert line, self.log.read_text()

    def send(self, what: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(what)

    def end(self, how: signal.Signals = signal.SIGKILL) -> int:
        """Kill it, or ask it to end; give its exit code."""
        if self._process is None:
            return 0
        self.send(how)
        code = self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._process = None
        return code


@dataclass
class Team:
    """A server with one meter in use."""

    database: str
    folder: Path
    meter: str
    labels: Labels
    tokens: list[str]
    """Of the developers, one per tenant."""
    apis: list[Machine] = field(default_factory=list)
    workers: list[Machine] = field(default_factory=list)
    addresses: list[str] = field(default_factory=list)
    files: str = ""
    """Where its files are; empty: in its folder."""
    clock: Path | None = None
    """A file that says by how many seconds the clocks of its machines are wrong."""

    def add_api(self, host: str = "127.0.0.1", before: Sequence[str] = ()) -> Machine:
        port = free_port()
        arguments = ["serve", *self._shared(self.folder), "--host", host, "--port", str(port)]
        arguments += ["--requests-per-second", "0"]
        log = self.folder / f"api-{port}.log"
        api = Machine(arguments, log, "serves at", before, clock=self.clock)
        api.start()
        self.apis.append(api)
        self.addresses.append(f"http://{host}:{port}/api/v1")
        return api

    def add_worker(
        self,
        folder: Path | None = None,
        before: Sequence[str] = (),
        seconds: float = 1.0,
        options: Sequence[str] = (),
    ) -> Machine:
        log = self.folder / f"worker-{len(self.workers)}.log"
        arguments = ["worker", *self._shared(folder or self.folder), "--heartbeat", "0.5"]
        arguments += options
        worker = Machine(arguments, log, "worker ready", before, seconds, self.clock)
        worker.start()
        self.workers.append(worker)
        return worker

    def _shared(self, folder: Path) -> list[str]:
        return ["--folder", str(folder), "--database", self.database, "--files", self.place]

    @property
    def place(self) -> str:
        """The place of its files."""
        return self.files or str(self.folder / "files")

    def client(self, tenant: int = 1, api: int = 0) -> httpx.Client:
        return httpx.Client(
            base_url=self.addresses[api],
            headers={"Authorization": f"Bearer {self.tokens[tenant - 1]}"},
            trust_env=False,
            timeout=120,
            event_hooks={"request": [typed]},
        )

    def end(self) -> None:
        for machine in [*self.apis, *self.workers]:
            machine.end()

    @contextmanager
    def books(self) -> Iterator[Meter]:
        """Look at the meter as its owner."""
        site = Site.open(self.database, self.place, self.folder / "server.key")
        try:
            yield Meter(site.space(self.meter))
        finally:
            site.close()


def make_team(database: str, folder: Path, spec: MeterSpec, files: str = "") -> Team:
    """Make the server's folder, and a meter with a test set and a developer for each tenant."""
    elsewhere: dict[str, Any] = {"files": files} if files else {}
    with serve(folder / "site", database=database, **elsewhere) as served:
        meter = served.add_meter(spec)
        labels = begin(served, meter, folder)
        names = ["developer", *(f"developer{n}" for n in range(2, len(spec.tenants) + 1))]
        tokens = [served.tokens[name] for name in names]
    return Team(database, folder / "site", meter, labels, tokens, files=files)


def predictions_body(team: Team, name: str, errors: int) -> bytes:
    return submission(with_errors(team.labels, errors), salt=name)


def model_body(seed: int) -> bytes:
    weights = np.random.default_rng(seed).normal(size=(2, 2)).astype("float32")
    return packed(model_onnx=classifier(weights))


@dataclass(frozen=True)
class Told:
    """What a client learnt in the end."""

    model: str
    tenant: int
    step: int
    answer: str


class Clients:
    """Clients that hand in one submission after the other, each until it is answered."""

    def __init__(self, team: Team) -> None:
        self.team = team
        self.told: list[Told] = []
        self.spent: list[str] = []
        self.failed: list[str] = []
        self._threads: list[threading.Thread] = []
        self._given_up = threading.Event()

    def start(self, tenant: int, work: list[tuple[str, bytes]]) -> None:
        """Let a client begin."""
        number = len(self._threads)
        thread = threading.Thread(target=self._run, args=(number, tenant, work))
        self._threads.append(thread)
        thread.start()

    def wait_for(self, answers: int) -> None:
        """Wait until so many answers have arrived."""
        wait(lambda: len(self.told) >= answers or self.failed or not self._alive())

    def finish(self) -> None:
        """Wait until all are done."""
        for thread in self._threads:
            thread.join()
        assert self.failed == []

    def give_up(self) -> None:
        """Let them end, whatever is still to do."""
        self._given_up.set()

    def _alive(self) -> bool:
        return any(thread.is_alive() for thread in self._threads)

    def _run(self, number: int, tenant: int, work: list[tuple[str, bytes]]) -> None:
        try:
            with self.team.client(tenant, number % len(self.team.addresses)) as client:
                for model, body in work:
                    self._hand_in(client, tenant, model, body)
        except BaseException as error:
            self.failed.append(repr(error))
            raise

    def _hand_in(self, client: httpx.Client, tenant: int, model: str, body: bytes) -> None:
        while not self._given_up.is_set():
            try:
                found = self._answered(client, model, body)
            except httpx.TransportError:
                found = None  # the server died, or is not back yet
            if found is None:
                time.sleep(0.05)
                continue
            if (found.get("error") or (found.get("problem") or {}).get("error")) == "spent":
                self.spent.append(model)
            else:
                signal = found["signal"]
                self.told.append(Told(model, tenant, signal["step"], signal["answer"]))
            return

    def _answered(self, client: httpx.Client, model: str, body: bytes) -> dict[str, Any] | None:
        """Hand in and wait; None: it has to be tried again."""
        path = f"/meters/{self.team.meter}/submissions"
        answer = client.post(path, params={"model": model, "wait": 30}, content=body)
        while answer.status_code == 202:
            answer = client.get(f"{path}/{answer.json()['id']}", params={"wait": 30})
        if answer.status_code == 503:
            return None
        found: dict[str, Any] = answer.json()
        assert answer.status_code == 200 or found.get("error") == "spent", answer.text
        return found


def wait(until: Callable[[], object]) -> None:
    """Wait for something that happens; ten minutes without it are a failure."""
    for _ in range(12_000):
        if until():
            return
        time.sleep(0.05)
    raise AssertionError("it did not happen")
