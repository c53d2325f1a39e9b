"""Many rows, scored by machines of their own that read the sealed set from an object store.

A scheduler and three workers of dask, a database, an API and two `meter worker`, each in a network
namespace. One of them is killed in the middle of the work. The size is `METER_SCALE=ROWS`;
docs/deploy.md keeps the figures of a larger run:

    METER_SCALE=100000000 METER_S3RVER=node_modules/.bin/s3rver \
        .venv/bin/pytest -s tests/properties/test_scale.py
"""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest import mock

import httpx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray
from tests.network import Loopback, network
from tests.postgresql import free_port, running
from tests.s3 import new_bucket, store
from tests.scoring.onnx_models import classifier
from tests.server.driving import packed
from tests.server.helpers import serve
from tests.server.team import Team, wait
from tests.service.helpers import small_spec

from easeml_meter.meter import Meter
from easeml_meter.spec import MeterSpec

pytestmark = [pytest.mark.slow, pytest.mark.verify]

ROWS = int(os.environ.get("METER_SCALE", "1280000"))
LARGE = ROWS >= 10**7
PARTS, CHUNKS = 4, 128
"""The rows are delivered in parts, and made in chunks, so that few are ever in memory."""
VISIBLE = 100_000
WORKERS = ("dask1", "dask2", "dask3")
ROLES = ("store", "database", "api", "scheduler", *WORKERS, "machine", "other")
MOST_MEGABYTES = 1000
"""What a worker may take, however many rows there are."""
SECONDS = 60 + 600 * ROWS / 10**8 if LARGE else 30.0
"""What a model gets on the hidden rows at `meter worker`: the answer leaves when they are over."""

# Hands in one submission as a program of its own, and says what that took.
SUBMIT = """
import json, re, sys, time
from pathlib import Path
from easeml_meter.errors import MeterError
from easeml_meter.meter import Meter
from easeml_meter.service.place import Site
from easeml_meter.service.submissions.kinds import Function, PredictionFiles
from easeml_meter.service.submissions.measuring import Conditions

def positive(batch):
    return (batch.column("x").to_numpy() > 0).astype("int8")

database, files, key, meter, name, executor, *paths = sys.argv[1:]
begun = False

def progress(what, done, total):
    global begun
    if "on the test set" in what and not begun:
        begun = True
        print("begun", flush=True)

site = Site.open(database, files, Path(key))
given = PredictionFiles(*map(Path, paths)) if paths else Function.of(positive, name)
conditions = Conditions(executor=executor, progress=progress)
found = {"problem": ""}
started = time.monotonic()
try:
    signal = Meter(site.space(meter)).submit_any(given, model=name, conditions=conditions)
    found |= {"answer": signal.name, "step": signal.step}
except MeterError as error:
    found["problem"] = str(error)
found |= {"seconds": time.monotonic() - started}
found["cpu"] = time.process_time()
status = Path("/proc/self/status").read_text()
found["megabytes"] = int(re.search(r"VmHWM:\\s+(\\d+)", status)[1]) >> 10
print(json.dumps(found), flush=True)
"""


def chunk(number: int, rows: int = ROWS // CHUNKS) -> tuple[NDArray[Any], NDArray[Any]]:
    """Make inputs, and labels that are wrong about one in five of them."""
    random = np.random.default_rng([18, number])
    x = random.normal(size=rows)
    return x, ((x > 0) ^ (random.random(rows) < 0.2)).astype(np.int8)


def write_rows(path: Path, chunks: range, rows: int = ROWS // CHUNKS) -> None:
    schema = pa.schema([("x", pa.float64()), ("label", pa.int8())])
    with pq.ParquetWriter(path, schema) as writer:
        for number in chunks:
            x, labels = chunk(number, rows)
            writer.write_table(pa.table({"x": x, "label": labels}, schema=schema))


def write_predictions(path: Path, seed: int, chunks: range, rows: int = ROWS // CHUNKS) -> int:
    """Write predictions of which about one in five is wrong; return how many are."""
    wrong = 0
    with pq.ParquetWriter(path, pa.schema([("prediction", pa.int8())])) as writer:
        for number in chunks:
            errors = np.random.default_rng([seed, number]).random(rows) < 0.2
            wrong += int(errors.sum())
            writer.write_table(pa.table({"prediction": chunk(number, rows)[1] ^ errors}))
    return wrong


def wanting(rows: int) -> MeterSpec:
    """Give a meter that needs nearly all of so many labels."""
    tolerance = 0.01 * math.sqrt(82_600 / (0.97 * rows))
    return small_spec(tolerance=tolerance, steps=16, models=True, inputs="public")


def cpu_of(process: subprocess.Popen[Any]) -> float:
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    ticks: int = os.sysconf("SC_CLK_TCK")
    return sum(map(int, fields[11:15])) / ticks  # with its children, such as a model's process


def megabytes_of(process: subprocess.Popen[Any]) -> int:
    found = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{process.pid}/status").read_text())
    assert found
    return int(found[1]) >> 10


@dataclass
class Dask:
    """A scheduler and its workers."""

    net: Loopback
    folder: Path
    port: int = field(default_factory=free_port)
    processes: dict[str, subprocess.Popen[Any]] = field(default_factory=dict)
    ended: float = 0.0
    """Seconds of processor time of those that were killed."""

    @property
    def address(self) -> str:
        return f"tls://{self.net.address('scheduler')}:{self.port}"

    def start(self) -> None:
        port = ("--port", str(self.port), "--protocol", "tls")
        self._start("scheduler", "distributed.cli.dask_scheduler", *port)
        for role in WORKERS:
            self.start_worker(role)

    def start_worker(self, role: str) -> None:
        own = self.folder / role
        own.mkdir(exist_ok=True)
        options = ("--nthreads", "1", "--no-nanny", "--memory-limit", f"{MOST_MEGABYTES}MB")
        self._start(
            role,
            *("distributed.cli.dask_worker", self.address, *options),
            *("--local-directory", str(own)),
        )

    def _start(self, role: str, module: str, *words: str) -> None:
        with (self.folder / f"{role}.log").open("a") as log:
            self.processes[role] = subprocess.Popen(
                [
                    *("setpriv", "--pdeathsig", "KILL", *self.net.inside(role)),
                    *(sys.executable, "-m", module, *words),
                    *("--host", self.net.address(role), "--no-dashboard"),
                ],
                stdout=log,
                stderr=log,
            )

    def kill(self, role: str) -> None:
        process = self.processes.pop(role)
        self.ended += cpu_of(process)
        process.kill()
        process.wait()

    def stop(self) -> None:
        for role in list(self.processes):
            self.kill(role)

    @property
    def cpu(self) -> float:
        return self.ended + sum(map(cpu_of, self.processes.values()))

    @property
    def megabytes(self) -> list[int]:
        return [megabytes_of(self.processes[role]) for role in WORKERS if role in self.processes]


@dataclass(frozen=True)
class Taken:
    """What became of a submission, and what it took."""

    answer: str
    step: int
    problem: str
    seconds: float
    cpu: float
    """Processor time of all that took part, but for the store and the database."""
    megabytes: int
    """The most that the process which submitted had at once."""


@dataclass
class World:
    """The machines, and a meter with many rows."""

    net: Loopback
    team: Team
    dask: Dask
    folder: Path
    figures: dict[str, Any] = field(default_factory=dict)
    wrong: dict[str, int] = field(default_factory=dict)
    """How many predictions of a submission are wrong."""

    def predictions(self, name: str) -> list[str]:
        seed = 100 + len(self.wrong)
        paths = [self.folder / f"{name}-{what}.parquet" for what in ("test", "validation")]
        self.wrong[name] = write_predictions(paths[0], seed, range(CHUNKS))
        write_predictions(paths[1], seed, range(CHUNKS, CHUNKS + 1), VISIBLE)
        return list(map(str, paths))

    def submit(
        self, name: str, paths: list[str], disturb: Callable[[], None] | None = None, **options: str
    ) -> Taken:
        """Submit from another machine; disturb it once hidden rows are being scored."""
        executor = options.get("executor", "inline")
        words = (*(self.team.database, self.team.place, str(self.team.folder / "server.key")),)
        before = self.dask.cpu
        with subprocess.Popen(
            [
                *("setpriv", "--pdeathsig", "KILL", *self.net.inside("machine")),
                *(sys.executable, "-c", SUBMIT, *words, self.team.meter, name, executor, *paths),
            ],
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "begun\n"
            if disturb is not None:
                disturb()
            found = json.loads(process.stdout.readline())
        taken = Taken(**({"answer": "", "step": 0} | found))
        return Taken(**(asdict(taken) | {"cpu": taken.cpu + self.dask.cpu - before}))

    def keep(self, name: str, value: Any) -> None:
        """Note a figure, and print it at once: a large run takes long."""
        self.figures[name] = value
        print(json.dumps({name: value}), flush=True)

    def steps(self) -> list[str]:
        with self.team.books() as meter:
            assert meter.audit().problems == ()
            return [each.model for each in meter.status().signals]


def certified(folder: Path) -> dict[str, str]:
    """Make one certificate for all machines; return the variables that name it to dask."""
    key, own = str(folder / "key.pem"), str(folder / "own.pem")
    made = ("-nodes", "-subj", "/CN=cluster", "-days", "9", "-keyout", key, "-out", own)
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", *made]
    subprocess.run(command, check=True, capture_output=True)
    sides = ("SCHEDULER", "WORKER", "CLIENT")
    files = {
        f"{side}__{name}": path for side in sides for name, path in (("CERT", own), ("KEY", key))
    }
    return {f"DASK_DISTRIBUTED__COMM__TLS__{name}": path for name, path in files.items()} | {
        "DASK_DISTRIBUTED__COMM__TLS__CA_FILE": own
    }


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("scale")
    with (
        mock.patch.dict(os.environ, certified(folder)),
        network(ROLES) as net,
        store(net.address("store"), net.inside("store")) as address,
        running(net.address("database"), net.inside("database")) as cluster,
    ):
        dask = Dask(net, folder)
        dask.start()
        started = time.monotonic(), time.process_time()
        team = delivered(cluster.new_database(), folder, new_bucket(address))
        made = World(net, team, dask, folder)
        made.keep(
            "delivery",
            {
                "rows": ROWS,
                "seconds": round(time.monotonic() - started[0]),
                "cpu": round(time.process_time() - started[1]),
                "megabytes": int(_own_megabytes()),
            },
        )
        try:
            yield made
        finally:
            team.end()
            dask.stop()
            shutil.rmtree(folder)


def _own_megabytes() -> int:
    found = re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())
    assert found
    return int(found[1]) >> 10


def delivered(database: str, folder: Path, files: str) -> Team:
    """Make a meter, and deliver its test set in parts."""
    with serve(folder / "site", database=database, files=files) as served:
        identifier = served.add_meter(wanting(ROWS))
        meter = Meter(served.site.space(identifier))
        write_rows(folder / "validation.parquet", range(CHUNKS, CHUNKS + 1), VISIBLE)
        meter.set_validation(folder / "validation.parquet", label="label")
        rows, sealed = folder / "part.parquet", folder / "part.sealed"
        bounds = range(0, CHUNKS + 1, CHUNKS // PARTS)
        for start, end in pairwise(bounds):
            write_rows(rows, range(start, end))
            meter.seal(rows, sealed, label="label", part=True)
            meter.add_part(sealed)
            sealed.unlink()
        rows.unlink()
        assert meter.generations[-1].rows == ROWS
        tokens = [served.tokens["developer"]]
        made = Team(
            database, folder / "site", identifier, np.empty(0, np.int64), tokens, files=files
        )
        made.tokens.append(served.tokens["labeler"])
    return made


def test_a_cluster_gives_the_answer_of_one_process(world: World) -> None:
    executor = f"dask:{world.dask.address}"
    for kind in ("predictions", "model"):
        both = []
        for where in ("inline", executor):
            name = f"{kind}-{where.partition(':')[0]}"
            paths = world.predictions(name) if kind == "predictions" else []
            both.append(world.submit(name, paths, executor=where))
        one, spread = both
        assert (one.problem, spread.problem) == ("", "")
        assert one.answer == spread.answer
        world.keep(
            kind,
            {
                "one process": asdict(one),
                "cluster": asdict(spread),
                "processor time, one to cluster": round(one.cpu / spread.cpu, 2),
                "seconds, one to cluster": round(one.seconds / spread.seconds, 2),
                "megabytes of workers": world.dask.megabytes,
            },
        )
        assert max(world.dask.megabytes) < MOST_MEGABYTES
        assert one.cpu / spread.cpu > (0.5 if LARGE else 0)
    assert len(world.steps()) == 4


@pytest.mark.parametrize("kind", ["predictions", "model"])
def test_a_killed_worker_changes_no_answer(world: World, kind: str) -> None:
    name, before = f"{kind}-killed", world.steps()
    paths = world.predictions(name) if kind == "predictions" else []

    def kill() -> None:
        time.sleep(1 if LARGE else 0)
        world.dask.kill("dask1")

    taken = world.submit(name, paths, kill, executor=f"dask:{world.dask.address}")
    world.keep(f"{kind}, a worker killed", asdict(taken) | {"workers": world.dask.megabytes})
    assert (taken.problem, taken.step) == ("", len(before) + 1)
    assert max(world.dask.megabytes) < MOST_MEGABYTES
    assert world.steps() == [*before, name]
    world.dask.start_worker("dask1")


def test_a_killed_scheduler_costs_nothing(world: World) -> None:
    """Nothing is entered; once there is a cluster again, the same submission is answered."""
    name, before = "scheduler-killed", world.steps()
    paths = world.predictions(name)
    executor = f"dask:{world.dask.address}"
    lost = world.submit(name, paths, lambda: world.dask.kill("scheduler"), executor=executor)
    assert "nothing was scored" in lost.problem
    assert world.steps() == before
    world.dask.stop()
    world.dask.start()
    again = world.submit(name, paths, executor=executor)
    world.keep("scheduler killed", {"lost": asdict(lost), "again": asdict(again)})
    assert (again.problem, again.step) == ("", len(before) + 1)
    assert world.steps() == [*before, name]


def test_a_model_at_a_server_runs_on_the_cluster_and_its_release_on_a_worker(world: World) -> None:
    """The first `meter worker` is killed; another one, on another machine, uses the cluster."""
    team, net, before = world.team, world.net, world.steps()
    team.add_api(net.address("api"), net.inside("api"))

    def own(role: str) -> Path:
        folder = world.folder / role
        folder.mkdir()
        shutil.copy(team.folder / "server.key", folder)
        return folder

    first = team.add_worker(own("machine"), net.inside("machine"), SECONDS)
    weights = np.array([[-1.0, 1.0]], np.float32)
    place = f"/meters/{team.meter}/submissions"
    with team.client() as developer:
        body = packed(model_onnx=classifier(weights))
        accepted = developer.post(place, params={"model": "onnx"}, content=body)
        assert accepted.status_code == 202, accepted.text
        path = f"{place}/{accepted.json()['id']}"
        wait(lambda: developer.get(path).json()["state"] == "running")
        time.sleep(20 if LARGE else 2)
        first.end()
        started, cpu = time.monotonic(), world.dask.cpu
        options = ("--executor", f"dask:{world.dask.address}")
        team.add_worker(own("other"), net.inside("other"), SECONDS, options)
        done = _waited(developer, path)
    taken = {"seconds": round(time.monotonic() - started), "cpu": round(world.dask.cpu - cpu)}
    assert done["state"] == "done", done
    taken["answer"] = done["signal"]["answer"]  # "no-reading" if its seconds were too few
    world.keep("meter worker", taken | {"megabytes of workers": world.dask.megabytes})
    assert world.steps() == [*before, "onnx"]
    assert max(world.dask.megabytes) < MOST_MEGABYTES
    release(world)


def release(world: World) -> None:
    """Release over HTTP, with models: the request is accepted at once, a worker does it."""
    place = f"/meters/{world.team.meter}"
    with world.team.client(2) as labeler:
        assert labeler.post(f"{place}/test-sets/1/retire").status_code == 200
        started = time.monotonic()
        asked = labeler.post(f"{place}/test-sets/1/release")
        assert asked.status_code == 202, asked.text
        request = time.monotonic() - started
        _waited(labeler, f"{place}/test-sets/1/release")
    taken = {"seconds": round(time.monotonic() - started), "request": round(request, 1)}
    world.keep("release", taken)
    with world.team.books() as meter:
        session = meter.history()[0]
        assert meter.audit().problems == ()
    told = zip(session.signals, session.retrospective, strict=True)
    losses = {signal.model: truth and truth.test_loss for signal, truth in told}
    for name, wrong in world.wrong.items():
        assert losses[name] == float(Fraction(wrong, ROWS))
    assert losses["onnx"] == pytest.approx(0.2, abs=0.01)


def _waited(client: httpx.Client, path: str) -> dict[str, Any]:
    while (answer := client.get(path)).status_code == 202:
        time.sleep(1)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found
