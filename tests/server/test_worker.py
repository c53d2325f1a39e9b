"""Workers: each submission is taken once, in order, and taken back from a worker that died."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.cli.running import run
from tests.forking import Forked
from tests.postgresql import Cluster
from tests.service.helpers import small_spec

from easeml_meter.core.doctor import SILENT
from easeml_meter.core.model import stamp
from easeml_meter.core.submissions import SubmissionState, Ticket
from easeml_meter.errors import InvalidInput, MeterError
from easeml_meter.server import worker
from easeml_meter.server.metrics import Metrics
from easeml_meter.server.settings import Settings
from easeml_meter.service.actor import SYSTEM
from easeml_meter.service.doctor import readiness
from easeml_meter.service.jobs import no_worker
from easeml_meter.service.meters import create_meter
from easeml_meter.service.place import Site
from easeml_meter.storage import jobs, schema
from easeml_meter.storage.jobs import Job, Queue
from easeml_meter.vault.keys import Identity

NOW = "2026-01-01T00:00:00.000000+00:00"

# A worker whose work is to write down that it began, to wait for leave, and to write down the end.
WORKER = """
import sys, time
from dataclasses import replace
from pathlib import Path
from easeml_meter.core.doctor import SILENT
from easeml_meter.core.model import stamp
from easeml_meter.core.submissions import SubmissionState
from easeml_meter.server.worker import work
from easeml_meter.service.jobs import QueueRunner
from easeml_meter.service.place import Site
from easeml_meter.service.submissions.queue import answering

database, folder, name, patience = sys.argv[1:]
folder = Path(folder)


def run(site, submission):
    with site.reading() as books:
        ticket = books.submissions.get(submission)
        if ticket.state is SubmissionState.DONE:
            return
    note(f"{submission} begun by {name}")
    while (folder / "wait").exists():
        time.sleep(0.02)
    if (folder / "fail").exists():
        (folder / "fail").unlink()
        raise RuntimeError("SECRET LABELS")
    with site.writing() as books:
        books.submissions.change(replace(ticket, state=SubmissionState.DONE))
    note(f"{submission} done by {name}")


def note(line):
    with (folder / "notes").open("a") as file:
        file.write(line + "\\n")


site = Site.open(database, folder / "files", folder / "server.key")
runner = QueueRunner(site, replace(answering(), run=run), heartbeat=0.3)
work(runner, lambda _: print("ready", flush=True), patience=float(patience))
"""


class Bench:
    """A site with a meter, workers in processes of their own, and what they wrote down."""

    def __init__(self, database: str, folder: Path) -> None:
        self.database = database
        self.folder = folder
        self.site = Site.open(database, folder / "files", folder / "server.key")
        worker.prepare(self.site)
        self.meters = [create_meter(SYSTEM, self.site, small_spec(), name).id for name in "ab"]
        with self.site.writing() as books:
            user = {"id": "u", "name": "u", "admin": False, "disabled": False, "failures": 0}
            books.connection.execute(schema.users.insert(), user | {"created_at": NOW})
        self._workers: list[Forked] = []

    def queue(self, name: str, meter: int = 0, tenant: int = 1, *, job: bool = True) -> None:
        """Put a submission into the queue, or leave it without a job, as a crash would."""
        ticket = Ticket(
            id=name,
            meter=self.meters[meter],
            tenant=tenant,
            user="u",
            model=name,
            kind="onnx",
            blob="",
            options={},
            state=SubmissionState.QUEUED,
            problem=None,
            generation=None,
            step=None,
            attempts=0,
            created_at=NOW,
            changed_at=NOW,
        )
        lock = f"{self.meters[meter]}/{tenant}"
        with self.site.store.writing(self.meters[meter]) as books:
            books.submissions.add(ticket)
            if job:
                jobs.enqueue(books, Job(Queue.SUBMISSIONS, name, lock))

    def start(self, name: str, patience: float = 30) -> Forked:
        words = (self.database, str(self.folder), name, str(patience))
        process = Forked(WORKER, words, os.environ)
        self._workers.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        return process

    @contextmanager
    def held(self) -> Iterator[None]:
        """Let no submission finish meanwhile."""
        (self.folder / "wait").touch()
        yield
        (self.folder / "wait").unlink()

    def notes(self) -> list[str]:
        path = self.folder / "notes"
        return path.read_text().splitlines() if path.exists() else []

    def done(self) -> list[str]:
        return [line.split()[0] for line in self.notes() if "done" in line]

    def jobs(self) -> int:
        with self.site.reading() as books:
            found = books.connection.exec_driver_sql("SELECT count(*) FROM procrastinate_jobs")
            return int(found.scalar_one())

    def close(self) -> None:
        for process in self._workers:
            process.kill()
            process.communicate()
        self.site.close()


def wait(until: Callable[[], object]) -> None:
    """Wait for something that happens soon; a minute without it is a failure."""
    for _ in range(3000):
        if until():
            return
        time.sleep(0.02)
    raise AssertionError("it did not happen")


@pytest.fixture
def bench(team_database: str, tmp_path: Path) -> Iterator[Bench]:
    made = Bench(team_database, tmp_path)
    yield made
    made.close()


def test_two_workers_share_the_work_and_keep_each_tenants_order(bench: Bench) -> None:
    expected: dict[tuple[int, int], list[str]] = {}
    for number in range(6):
        for meter, tenant in ((0, 1), (0, 2), (1, 1)):
            name = f"{meter}-{tenant}-{number}"
            bench.queue(name, meter, tenant)
            expected.setdefault((meter, tenant), []).append(name)
    with bench.held():
        bench.start("first")
        bench.start("second")
        # Both are busy, with submissions of two tenants: the lock of the first is taken.
        wait(lambda: len(bench.notes()) == 2)
        assert {line.split()[0] for line in bench.notes()} == {"0-1-0", "0-2-0"}
    wait(lambda: len(bench.done()) == 18)
    for (meter, tenant), names in expected.items():
        lines = [line for line in bench.notes() if line.startswith(f"{meter}-{tenant}-")]
        in_order = [f"{name} {what}" for name in names for what in ("begun", "done")]
        assert [line.partition(" by")[0] for line in lines] == in_order
    wait(lambda: bench.jobs() == 0)


def test_a_worker_gives_signs_of_life_and_its_absence_is_told(bench: Bench) -> None:
    """A stopped one was noticed by nothing: all was green, and the page said "queued"."""

    def seen() -> tuple[bool, str, str, bool]:
        (finding,) = (
            e for e in readiness(SYSTEM, bench.site, bench.folder) if e.check == "workers"
        )
        shown = Metrics().text(SYSTEM, bench.site, timed=False)
        absent = no_worker(SYSTEM, bench.site)
        return absent, finding.verdict, finding.said, "\nmeter_workers 1.0\n" in shown

    silent = (True, "warn", "none was seen for 5 minutes", False)
    assert seen() == silent
    bench.start("a")
    wait(lambda: seen() == (False, "ok", "1 seen in the last 5 minutes", True))
    bench.close()
    past = stamp(datetime.now(UTC) - SILENT - timedelta(seconds=1))
    bench.site = Site.open(bench.database, bench.folder / "files", bench.folder / "server.key")
    with bench.site.writing() as books:
        books.connection.execute(schema.workers.update().values(seen_at=past))
    assert seen() == silent


def test_a_killed_workers_submission_is_answered_by_another(bench: Bench) -> None:
    with bench.held():
        dying = bench.start("dying")
        bench.queue("x")
        bench.queue("y")
        wait(lambda: bench.notes() == ["x begun by dying"])
        dying.send_signal(signal.SIGKILL)
        dying.wait()
        bench.start("heir")
        wait(lambda: "x begun by heir" in bench.notes())
    wait(lambda: bench.done() == ["x", "y"])
    assert "y begun by dying" not in bench.notes()


def test_a_submission_without_a_job_is_found(bench: Bench) -> None:
    for name in ("first", "second", "third"):
        bench.queue(name, job=False)
    bench.start("worker")
    wait(lambda: len(bench.done()) == 3)
    bench.queue("fourth", job=False)
    wait(lambda: len(bench.done()) == 4)
    assert bench.done() == ["first", "second", "third", "fourth"]


def test_sigterm_lets_the_submission_finish(bench: Bench) -> None:
    process = bench.start("worker")
    with bench.held():
        bench.queue("x")
        bench.queue("y")
        wait(bench.notes)
        process.terminate()
    assert process.wait() == 0
    assert bench.done() == ["x"]
    assert bench.jobs() == 1
    bench.start("next")
    wait(lambda: bench.done() == ["x", "y"])


def test_sigterm_puts_a_long_submission_back(bench: Bench) -> None:
    process = bench.start("worker", patience=0.1)
    with bench.held():
        bench.queue("x")
        wait(bench.notes)
        process.terminate()
        assert process.wait() == 0
        bench.start("next")
        wait(lambda: bench.notes() == ["x begun by worker", "x begun by next"])
    wait(lambda: bench.done() == ["x"])


def test_a_failed_submission_is_tried_again_and_tells_the_log_no_secret(bench: Bench) -> None:
    process = bench.start("worker")
    (bench.folder / "fail").touch()
    bench.queue("x")
    bench.queue("y")
    wait(lambda: bench.done() == ["x", "y"])
    process.terminate()
    _, log = process.communicate()
    assert "submissions x: unexpected RuntimeError" in log
    assert "SECRET" not in log


def test_a_restart_of_the_database_loses_nothing(bench: Bench, postgresql: Cluster) -> None:
    bench.start("first")
    bench.start("second")
    with bench.held():
        bench.queue("x", tenant=1)
        bench.queue("y", tenant=1)
        bench.queue("z", tenant=2)
        wait(lambda: len(bench.notes()) == 2)
        postgresql.restart()
    wait(lambda: {"x", "y", "z"} <= set(bench.done()))
    bench.queue("later")
    wait(lambda: "later" in bench.done())
    # x and y are of one tenant.
    assert bench.done().index("x") < bench.done().index("y")


def test_stopping_while_the_database_is_away(bench: Bench, postgresql: Cluster) -> None:
    process = bench.start("worker")
    bench.queue("x")
    wait(bench.done)
    postgresql.stop()
    try:
        process.terminate()
        assert process.wait() == 0
    finally:
        postgresql.start()


def test_another_key_is_refused(bench: Bench, tmp_path: Path) -> None:
    key = tmp_path / "other.key"
    Identity.new().write(key)
    site = Site.open(bench.database, tmp_path / "files", key)
    with pytest.raises(MeterError, match="not the server's") as refused:
        worker.check_key(site)
    assert str(bench.site.identity.recipient) in str(refused.value)
    with pytest.raises(MeterError, match="not the server's"):
        worker.prepare(site)
    site.close()


def test_other_files_are_refused(bench: Bench, tmp_path: Path) -> None:
    site = Site.open(bench.database, tmp_path / "elsewhere", tmp_path / "server.key")
    with pytest.raises(MeterError, match="the same --files"):
        worker.check_key(site)
    site.close()


def test_sqlite_needs_no_worker(tmp_path: Path) -> None:
    site = Site.open(f"sqlite:///{tmp_path / 'db'}", tmp_path / "files", tmp_path / "key")
    worker.prepare(site)
    worker.check_key(site)
    site.close()
    settings = Settings(folder=tmp_path, database=f"sqlite:///{tmp_path / 'db'}")
    with pytest.raises(InvalidInput, match="the server runs models itself"):
        worker.run(settings, print, heartbeat=1)


def test_the_command_says_in_one_line_what_it_lacks(
    bench: Bench, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    Identity.new().write(other / "server.key")
    shared = ["--database", bench.database, "--files", str(tmp_path / "files")]
    refused = {
        "on SQLite, the server runs models itself": [
            "--database",
            "sqlite:///x",
            "--folder",
            str(tmp_path),
        ],
        "copy the server's key": [*shared, "--folder", str(tmp_path / "nowhere")],
        "not the server's": [*shared, "--folder", str(other)],
        "the same --files": ["--database", bench.database, "--folder", str(tmp_path / "other")],
        "heartbeat": [*shared, "--folder", str(tmp_path), "--heartbeat", "0"],
    }
    for reason, arguments in refused.items():
        code, out, err = run(capsys, "worker", *arguments)
        assert code in (1, 2)
        assert out == ""
        assert err.count("\n") == 1
        assert reason in err
    assert not (tmp_path / "nowhere").exists()
