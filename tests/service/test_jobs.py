"""The contract of background work, kept by the thread on SQLite and by the queue on PostgreSQL."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from easeml_meter.core.model import stamp
from easeml_meter.core.people import Delivery, DeliveryState
from easeml_meter.service import jobs
from easeml_meter.service.jobs import Later, QueueRunner, Runner, Work, runner
from easeml_meter.service.place import Site, utc_now
from easeml_meter.storage import jobs as queue
from easeml_meter.storage.books import Books
from easeml_meter.storage.jobs import Job, Queue

HEARTBEAT = 0.3
LONG = 60.0
"""Seconds after which something that should have happened is given up."""


@pytest.fixture
def site(tmp_path: Path, database: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setattr(jobs, "_LOOK", 0.02)
    monkeypatch.setattr(jobs, "_PAUSE", 0.05)
    opened = Site.open(database, tmp_path / "files", tmp_path / "server.key")
    yield opened
    opened.close()


def lock_of(key: str) -> str | None:
    """Return the lock of a row: what stands before the dash."""
    return key.partition("-")[0] if "-" in key else None


def job_of(row: Delivery) -> Job:
    return Job(Queue.NOTIFICATIONS, row.id, lock_of(row.id), row.due_at)


def add(books: Books, key: str, *, due: datetime | None = None, job: bool = True) -> None:
    """Enter a row with something to do, and its job."""
    now = stamp(utc_now())
    row = Delivery.new(key, "nobody@example.org", {}, now)
    row = replace(row, due_at=stamp(due)) if due else row
    books.deliveries.add(row)
    if job:
        queue.enqueue(books, job_of(row))


def finish(site: Site, key: str) -> None:
    with site.writing() as books:
        row = books.deliveries.get(key)
        assert row is not None
        books.deliveries.record(replace(row, state=DeliveryState.SENT))


def left(site: Site) -> set[str]:
    with site.reading() as books:
        return {row.id for row in books.deliveries.waiting()}


class Log:
    """Notes which rows are worked on, in which order, and how many with one lock at once."""

    def __init__(self, work: Callable[[Site, str], None] = finish) -> None:
        self.begun: list[str] = []
        self.put_back: list[str] = []
        self.together = 0
        self._work = work
        self._under_way: list[str | None] = []
        self._noting = threading.Lock()

    def run(self, site: Site, key: str) -> None:
        with site.reading() as books:
            row = books.deliveries.get(key)
        if row is None or row.state is not DeliveryState.WAITING:
            return
        with self._noting:
            self.begun.append(key)
            self._under_way.append(lock_of(key) or key)
            same = self._under_way.count(lock_of(key) or key)
            self.together = max(self.together, same)
        try:
            self._work(site, key)
        finally:
            with self._noting:
                self._under_way.remove(lock_of(key) or key)

    @property
    def task(self) -> Work:
        return Work(
            Queue.NOTIFICATIONS,
            waiting=lambda books: [job_of(row) for row in books.deliveries.waiting()],
            run=self.run,
            put_back=lambda _, key: self.put_back.append(key),
        )


@contextmanager
def running(site: Site, log: Log, *, at_once: int = 3) -> Iterator[Runner]:
    found = runner(site, log.task, heartbeat=HEARTBEAT, at_once=at_once)
    found.start()
    try:
        yield found
    finally:
        found.stop(LONG)


def wait(until: Callable[[], object]) -> None:
    end = time.monotonic() + LONG
    while not until():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.01)


def worked_off(site: Site) -> list[str]:
    """Run all jobs; return them in their order."""
    log = Log()
    with running(site, log):
        wait(lambda: not left(site))
    return log.begun


def test_each_job_is_run_once(site: Site) -> None:
    keys = [f"row{number}" for number in range(10)]
    with site.writing() as books:
        for key in keys[:5]:
            add(books, key)
    log = Log()
    with running(site, log):
        for key in keys[5:]:
            with site.writing() as books:
                add(books, key)
        wait(lambda: not left(site))
    assert sorted(log.begun) == keys


def test_a_job_is_part_of_the_transaction(site: Site) -> None:
    with suppress(KeyError), site.writing() as books:
        add(books, "undone")
        raise KeyError
    with site.writing() as books:
        add(books, "done")
    assert worked_off(site) == ["done"]


def test_one_at_a_time_of_a_lock_and_the_oldest_first(site: Site) -> None:
    keys = [f"{tenant}-{number}" for number in range(6) for tenant in "ab"]
    for key in keys:
        with site.writing() as books:
            add(books, key)
    log = Log()
    with running(site, log):
        wait(lambda: not left(site))
    for tenant in "ab":
        own = [key for key in keys if key.startswith(tenant)]
        assert [key for key in log.begun if key.startswith(tenant)] == own
    assert log.together == 1


def test_what_fails_is_run_again_and_only_its_own_lock_waits(site: Site) -> None:
    mended = threading.Event()

    def work(site: Site, key: str) -> None:
        if key == "a-1" and not mended.is_set():
            raise ZeroDivisionError("a secret")
        finish(site, key)

    for key in ("a-1", "a-2", "b-1", "c"):
        with site.writing() as books:
            add(books, key)
    log = Log(work)
    with running(site, log):
        wait(lambda: left(site) == {"a-1", "a-2"})
        assert "a-2" not in log.begun
        mended.set()
        wait(lambda: not left(site))
    assert log.begun.count("a-1") >= 2
    assert log.begun[-1] == "a-2"


def test_the_text_of_an_error_is_not_logged(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    failed = threading.Event()

    def work(site: Site, key: str) -> None:
        if not failed.is_set():
            failed.set()
            raise ZeroDivisionError("SECRET LABELS")
        finish(site, key)

    with site.writing() as books:
        add(books, "row")
    with running(site, Log(work)):
        wait(lambda: not left(site))
    assert "row: unexpected ZeroDivisionError" in caplog.text
    assert "SECRET" not in caplog.text


def test_nothing_is_run_before_it_is_due(site: Site) -> None:
    with site.writing() as books:
        add(books, "tomorrow", due=datetime.now(UTC) + timedelta(days=1))
        add(books, "now")
    log = Log()
    with running(site, log):
        wait(lambda: left(site) == {"tomorrow"})
        with site.writing() as books:
            add(books, "later")
        wait(lambda: left(site) == {"tomorrow"})
    assert log.begun == ["now", "later"]


def test_what_is_put_off_is_run_again_then(site: Site) -> None:
    moments: list[datetime] = []
    wait_for = timedelta(seconds=0.2)

    def work(site: Site, key: str) -> None:
        moments.append(datetime.now(UTC))
        if len(moments) > 1:
            finish(site, key)
            return
        later = moments[0] + wait_for
        with site.writing() as books:
            row = books.deliveries.get(key)
            assert row is not None
            books.deliveries.record(replace(row, due_at=stamp(later)))
        raise Later(later)

    with site.writing() as books:
        add(books, "row")
    with running(site, Log(work)):
        wait(lambda: not left(site))
    assert len(moments) == 2
    assert moments[1] >= moments[0] + wait_for


def test_a_row_without_a_job_is_found(site: Site) -> None:
    """One of a backup that was restored."""
    with site.writing() as books:
        add(books, "a-1", job=False)
        add(books, "a-2", job=False)
    log = Log()
    with running(site, log):
        wait(lambda: not left(site))
        with site.writing() as books:
            add(books, "a-3", job=False)
        wait(lambda: not left(site))
    assert log.begun == ["a-1", "a-2", "a-3"]


def test_a_row_that_is_gone_is_nothing_to_do(site: Site) -> None:
    with site.writing() as books:
        add(books, "gone")
    finish(site, "gone")
    with site.writing() as books:
        add(books, "here")
    assert worked_off(site) == ["here"]


def test_stopping_lets_what_is_under_way_finish(site: Site) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def work(site: Site, key: str) -> None:
        begun.set()
        assert go_on.wait(LONG)
        finish(site, key)

    with site.writing() as books:
        add(books, "a-1")
        add(books, "a-2")
    log = Log(work)
    found = runner(site, log.task, heartbeat=HEARTBEAT)
    found.start()
    assert begun.wait(LONG)
    threading.Timer(0.1, go_on.set).start()
    assert found.stop(LONG)
    assert left(site) == {"a-2"}
    assert log.put_back == []
    with running(site, log):
        wait(lambda: not left(site))
    assert log.begun == ["a-1", "a-2"]


def test_stopping_puts_back_what_takes_too_long(site: Site) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def work(site: Site, key: str) -> None:
        if not begun.is_set():
            begun.set()
            assert go_on.wait(LONG)
            return
        finish(site, key)

    with site.writing() as books:
        add(books, "row")
    log = Log(work)
    found = runner(site, log.task, heartbeat=HEARTBEAT)
    found.start()
    assert begun.wait(LONG)
    assert not found.stop(0.0)
    assert log.put_back == ["row"]
    with running(site, log):
        wait(lambda: not left(site))
    go_on.set()
    assert log.begun == ["row", "row"]


def test_several_runners_share_the_queue(site: Site) -> None:
    """On PostgreSQL, where any number of machines run jobs: each job is run by one of them."""
    if site.store.dialect == "sqlite":
        assert not isinstance(runner(site, Log().task), QueueRunner)  # one process serves it
        return
    keys = [f"row{number}" for number in range(12)]
    log = Log()
    with running(site, log, at_once=1), running(site, log, at_once=1):
        for key in keys:
            with site.writing() as books:
                add(books, key)
        wait(lambda: not left(site))
    assert sorted(log.begun) == sorted(keys)
