"""The queue of background work, in the tables of procrastinate on PostgreSQL.

A job holds nothing of its own: it names a row of the books, which says what there is to do and
whether it was done. A job that is lost is made again from its row. On SQLite the rows are all
there is: the one process that serves it finds them by itself, and nothing here does anything.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import sqlalchemy as sa

from easeml_meter.errors import StorageError
from easeml_meter.storage.books import Books
from easeml_meter.storage.store import Store

if TYPE_CHECKING:
    import procrastinate


class Queue(StrEnum):
    """What a job is for; each queue has runners of its own."""

    SUBMISSIONS = "submissions"
    RELEASES = "releases"
    NOTIFICATIONS = "notifications"

    @property
    def task(self) -> str:
        """The name of what is done for each job of this queue."""
        return {"submissions": "answer", "releases": "release", "notifications": "deliver"}[self]


@dataclass(frozen=True)
class Job:
    """Background work for one row of the books."""

    queue: Queue
    key: str
    """Id of the row."""
    lock: str | None = None
    """No two jobs with the same one run at a time, and the older goes first."""
    due_at: str | None = None
    """It is not run before this moment; None: as soon as possible."""
    turn: int = 0
    """Of the jobs that are due, the one with the lowest turn is run first."""


Waiting = Callable[[Books], Sequence[Job]]
"""Returns the jobs of all rows with something left to do, in the order in which they are run."""


def install(store: Store) -> None:
    """Make the queue's tables, or bring them to the version of the library that is installed."""
    if store.dialect != "postgresql":
        return
    scripts = _migrations()
    newest = max(scripts)
    # Looked at under the lock: two servers may start at the same time.
    with store.writing() as books:
        found = _version(books)
        if found is None:
            _run(books, _schema())
            _run(books, "CREATE TABLE queue_version AS SELECT '' AS version")
            _record(books, found := newest)
    if found > newest:
        raise StorageError(
            f"the queue has version {found!r}, newer than this program's ({newest!r}): "
            "update procrastinate"
        )
    for name, script in scripts.items():
        if name > found:
            # One transaction each: what a script makes may be unusable before it is committed.
            with store.writing() as books:
                if name > (_version(books) or ""):
                    _run(books, script)
                    _record(books, name)


def enqueue(books: Books, job: Job) -> None:
    """Queue a job, once this transaction is committed."""
    if books.connection.dialect.name != "postgresql":
        return
    from procrastinate.exceptions import ConnectorException

    call = _app().configure_task(
        job.queue.task,
        queue=job.queue,
        lock=job.lock,
        # Never two waiting jobs for one row.
        queueing_lock=job.key,
        priority=-job.turn,
        schedule_at=None if job.due_at is None else datetime.fromisoformat(job.due_at),
        connection=books.connection.connection.driver_connection,
    )
    try:
        call.defer(key=job.key)
    except ConnectorException as error:
        raise StorageError("the queue cannot be used: is the database up?") from error


def enqueue_lost(store: Store, queue: Queue, waiting: Waiting) -> int:
    """Queue jobs for rows that wait without one; return how many.

    Rows without jobs come from restored backups.
    """
    if store.dialect != "postgresql":
        return 0
    with store.reading() as books:  # before the lock: most often nothing is lost
        if not _lost(books, queue, waiting):
            return 0
    with store.writing() as books:  # one sweeper at a time
        lost = _lost(books, queue, waiting)
        for job in lost:
            enqueue(books, job)
    return len(lost)


def _lost(books: Books, queue: Queue, waiting: Waiting) -> list[Job]:
    table = sa.table(
        "procrastinate_jobs",
        sa.column("queueing_lock", sa.Text),
        sa.column("queue_name", sa.Text),
        sa.column("status", sa.Text),
    )
    alive = sa.cast(table.c.status, sa.Text).in_(["todo", "doing"])
    query = sa.select(table.c.queueing_lock).where(table.c.queue_name == str(queue), alive)
    known = set(books.connection.execute(query).scalars())
    return [job for job in waiting(books) if job.key not in known]


@cache
def _app() -> procrastinate.App:
    """Return an app that only ever writes through a transaction of the books."""
    import procrastinate

    return procrastinate.App(connector=procrastinate.SyncPsycopgConnector())


def _run(books: Books, script: str) -> None:
    # Many statements at once, and percent signs that are no parameters.
    books.connection.exec_driver_sql(script, execution_options={"no_parameters": True})


def _version(books: Books) -> str | None:
    if not sa.inspect(books.connection).has_table("queue_version"):
        return None
    return str(books.connection.execute(sa.text("SELECT version FROM queue_version")).scalar_one())


def _record(books: Books, version: str) -> None:
    books.connection.execute(sa.text("UPDATE queue_version SET version = :v"), {"v": version})


def _schema() -> str:
    from procrastinate.schema import SchemaManager

    return SchemaManager.get_schema()


def _migrations() -> dict[str, str]:
    """Return the library's migrations, the oldest first; their names sort by version."""
    from procrastinate.schema import SchemaManager

    files = sorted(Path(SchemaManager.get_migrations_path()).glob("*.sql"))
    return {file.stem: file.read_text(encoding="utf-8") for file in files}
