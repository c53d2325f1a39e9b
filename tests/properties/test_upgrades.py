"""Processes of earlier versions go on beside a database that a newer one has migrated.

That is the state between steps 2 and 4 of "Upgrades without a stop" in docs/deploy.md. The earlier
versions come from this repository's history.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import httpx
import numpy as np
import pytest
from tests.forking import METER
from tests.postgresql import Cluster
from tests.scoring.onnx_models import classifier
from tests.server.driving import add, give_validation, packed, submission
from tests.server.helpers import PASSWORD, serve
from tests.server.process import Process, started
from tests.service.helpers import Labels, rows, small_spec, with_errors

from easeml_meter.storage.schema import HEAD
from easeml_meter.storage.store import Store
from easeml_meter.vault.sealing import seal

ROOT = Path(__file__).parents[2]
LAST = {
    "0009": "8715548",
    "0010": "ca7d2a5",
    "0011": "a8f0d5f",
    "0012": "0d6afb4",
    "0013": "9ce24d5",
}
"""The last commit whose newest migration had this number; docs/deploy.md names the first."""
HURRIED = f"""
try:
    from easeml_meter.service.submissions import running
except ImportError:  # up to 0012
    from easeml_meter.service.submissions import measuring as running
running.wait_until = lambda moment: None
{METER}"""
"""A program whose answers to models leave as soon as they are known."""


def test_every_schema_since_then_is_tried() -> None:
    """Whoever adds a migration says with which commit processes of the schema before can be run."""
    numbers = [f"{number:04}" for number in range(int(min(LAST)), int(HEAD))]
    assert list(LAST) == numbers
    page = (ROOT / "docs" / "deploy.md").read_text(encoding="utf-8")
    assert f"schema {min(LAST)} or later" in page


def test_a_server_stays_ready_when_a_newer_one_migrates(tmp_path: Path) -> None:
    """A balancer that asks /readyz would take every old process out of service at once.

    Only of today's code: those of the earlier versions below answer 503, as docs/deploy.md says.
    """
    with serve(tmp_path / "site") as served:
        with served.site.writing() as books:
            order = f"UPDATE alembic_version SET version_num = '{int(HEAD) + 1:04}'"  # noqa: S608
            books.connection.exec_driver_sql(order)
        ready = served.client().get("http://server/readyz")
        assert (ready.status_code, ready.text.splitlines()[0]) == (200, "warn database")
        assert served.client("admin").get("/me").is_success


@pytest.fixture(params=LAST)
def version(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


@pytest.fixture
def source(version: str, tmp_path: Path) -> Path:
    """The code of that version."""
    commit = LAST[version]
    packed = subprocess.run(
        ["git", "archive", commit, "src"], cwd=ROOT, capture_output=True, check=False
    )
    if packed.returncode:
        pytest.skip(f"needs commit {commit} of the repository")
    with tarfile.open(fileobj=BytesIO(packed.stdout)) as archive:
        archive.extractall(tmp_path / "old", filter="data")
    return tmp_path / "old" / "src"


@contextmanager
def worker(source: Path, folder: Path, database: str) -> Iterator[None]:
    """Run `meter worker` of some code until the block ends."""
    words = ("worker", "--folder", str(folder), "--database", database, "--heartbeat", "0.5")
    popen = subprocess.Popen(
        [sys.executable, "-c", HURRIED, *words],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(source)},
    )
    assert popen.stdout is not None
    try:
        while "worker ready" not in (line := popen.stdout.readline()):
            assert line, "the worker did not start"
        yield
    finally:
        popen.terminate()
        popen.wait()
        popen.stdout.close()


@dataclass
class Team:
    """A meter with its people, whichever server they ask."""

    meter: str
    tokens: dict[str, str]
    labels: Labels

    @classmethod
    def begin(cls, server: Process, folder: Path) -> Team:
        """Make a meter that answers."""
        settings = small_spec(models=True).to_mapping()
        tokens = {"admin": str(server.token)}
        with server.client() as admin:
            made = admin.post("/meters", json={"name": "old", "settings": settings}).json()
            place = f"/meters/{made['id']}"
            for role in ("labeler", "developer"):
                given = {"name": role, "password": PASSWORD}
                user = admin.post("/users", json=given).json()["id"]
                seat = {"user": user, "role": role}
                seat |= {"tenant": 1} if role == "developer" else {}
                assert admin.post(f"{place}/members", json=seat).status_code == 201
                tokens[role] = admin.post("/login", json=given).json()["token"]
            recipient = admin.get(place).json()["recipient"]
        with server.client(tokens["labeler"]) as labeler:
            (asked,) = labeler.get(f"{place}/requests").json()["items"]
            labels = np.random.default_rng(1).integers(0, 2, asked["labels_needed"])
            sealed = folder / "set.sealed"
            seal(
                rows(labels, seed=1),
                sealed,
                meter=made["id"],
                generation=1,
                label="label",
                id_column="id",
                recipients=[recipient],
            )
            assert add(labeler, made["id"], sealed.read_bytes()).status_code == 201
        with server.client(tokens["developer"]) as developer:
            assert give_validation(developer, made["id"]).status_code == 201
        return cls(made["id"], tokens, labels)

    def submit(self, server: Process, number: int) -> httpx.Response:
        body = submission(with_errors(self.labels, number))
        return self._submit(server, f"m{number}", body)

    def submit_model(self, server: Process) -> httpx.Response:
        return self._submit(server, "model", packed(model_onnx=classifier(np.eye(2, dtype="f4"))))

    def _submit(self, server: Process, name: str, body: bytes) -> httpx.Response:
        with server.client(self.tokens["developer"]) as developer:
            return developer.post(
                f"/meters/{self.meter}/submissions",
                params={"model": name, "wait": 60},
                headers={"Idempotency-Key": name},
                content=body,
            )

    def told(self, server: Process) -> list[tuple[int, str, str]]:
        with server.client(self.tokens["developer"]) as developer:
            (session,) = developer.get(f"/meters/{self.meter}/history").json()["items"]
        return [(each["step"], each["model"], each["answer"]) for each in session["signals"]]


@pytest.mark.verify
def test_a_server_and_a_worker_go_on_until_they_are_replaced(
    source: Path, version: str, postgresql: Cluster, tmp_path: Path
) -> None:
    database, folder = postgresql.new_database(empty=True), tmp_path / "site"
    shared = ("--database", database)
    with ExitStack() as running:
        environment = {"PYTHONPATH": str(source)}
        old = running.enter_context(started(folder, *shared, environment=environment, alone=True))
        assert schema_of(database) == version
        team = Team.begin(old, tmp_path)
        steps = [team.submit(old, 1).json()["signal"]["step"]]
        running.enter_context(worker(source, folder, database))
        new = running.enter_context(started(folder, *shared))
        assert schema_of(database) == HEAD
        for server, other, number in ((old, new, 2), (new, old, 3)):
            first = team.submit(server, number)
            assert first.is_success, first.text
            steps.append(first.json()["signal"]["step"])
            again = team.submit(other, number)
            assert (again.headers["Idempotency-Replayed"], again.json()) == ("true", first.json())
            assert same(team.told, old, new)
        model = team.submit_model(new)  # for a worker of the earlier version
        assert model.json()["state"] == "done", model.text
        assert steps == [1, 2, 3]
        assert len(same(team.told, old, new)) == 4
        for server in (old, new):
            with server.client(team.tokens["admin"]) as admin:
                assert admin.get(f"/meters/{team.meter}/audit").json()["sound"]
                assert admin.get("/users").json()["items"]
        keep_one_token(team, old, new)
    postgresql.drop(database)


def keep_one_token(team: Team, old: Process, new: Process) -> None:
    """Ask both servers for the same token, in turn: the second brings back the answer."""
    for number, (first, second) in enumerate(((old, new), (new, old))):
        asked = {"name": f"token {number}"}
        answers = []
        for server in (first, second):
            with server.client(team.tokens["admin"]) as admin:
                headers = {"Idempotency-Key": f"token-{number}"}
                answers.append(admin.post("/tokens", json=asked, headers=headers))
        assert answers[0].status_code == 201, answers[0].text
        assert answers[0].json() == answers[1].json()


def same(look: Callable[[Process], list[tuple[int, str, str]]], *servers: Process) -> list[object]:
    """Return what all of these servers show."""
    first, *others = map(look, servers)
    assert all(each == first for each in others)
    return list(first)


def schema_of(database: str) -> str | None:
    store = Store.look(database)
    assert store is not None
    with store.reading() as books:
        found = books.version()
    store.close()
    return found
