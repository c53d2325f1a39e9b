"""The queue that workers on other machines take submissions from: procrastinate's, on PostgreSQL.

It holds nothing of its own: a job names a row of `submissions`, which says what is to be done and
whether it was done. A job that is lost is made again from its row. SQLite has no workers elsewhere
and needs no queue: there, all of this does nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import sqlalchemy as sa

from easeml_meter.errors import StorageError
from easeml_meter.storage import schema
from easeml_meter.storage.books import Books
from easeml_meter.storage.store import Store

if TYPE_CHECKING:
    import procrastinate

QUEUE = "submissions"
TASK = "answer"

_OPEN = ("queued", "running")


@dataclass(frozen=True)
class Job:
    """A submission that waits for a worker; the steps of a tenant keep their order."""

    submission: str
    meter: str
    tenant: int

    @property
    def lock(self) -> str:
        """No two jobs with the same one run at a time, and the older goes first."""
        return f"{self.meter}/{self.tenant}"


def install(store: Store) -> None:
    """Make the queue's tables, or bring them to the version of the library that is installed."""
    if store.dialect != "postgresql":
        return
    scripts = _migrations()
    newest = max(scripts)
    with store.writing() as books:  # two servers may start at the same time
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
    """Call a worker for a submission, once this transaction is committed."""
    if books.connection.dialect.name != "postgresql":
        return
    from procrastinate.exceptions import ConnectorException

    call = _app().configure_task(
        TASK,
        queue=QUEUE,
        lock=job.lock,
        queueing_lock=job.submission,
        connection=books.connection.connection.driver_connection,
    )
    try:
        call.defer(submission=job.submission)
    except ConnectorException as error:
        raise StorageError("the queue cannot be used: is the database up?") from error


def enqueue_lost(store: Store) -> int:
    """Call workers for submissions that wait without a job; tell how many."""
    if store.dialect != "postgresql":
        return 0
    table = schema.submissions
    jobs = sa.table("procrastinate_jobs", sa.column("args"), sa.column("status"))
    args, status = sa.cast(jobs.c.args, sa.JSON), sa.cast(jobs.c.status, sa.Text)
    known = sa.exists().where(
        args["submission"].as_string() == table.c.id, status.in_(["todo", "doing"])
    )
    lost = table.c.state.in_(_OPEN) & ~known
    with store.reading() as books:
        if not books.select(table, lost):
            return 0
    with store.writing() as books:  # one sweeper at a time, the oldest submission first
        rows = books.select(table, lost, order=(table.c.created_at, table.c.id))
        for row in rows:
            enqueue(books, Job(row["id"], row["meter"], row["tenant"]))
    return len(rows)


@cache
def _app() -> procrastinate.App:
    """Give an app that only ever writes through a transaction of the books."""
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
    """Read the library's migrations, the oldest first; their names sort by version."""
    from procrastinate.schema import SchemaManager

    files = sorted(Path(SchemaManager.get_migrations_path()).glob("*.sql"))
    return {file.stem: file.read_text(encoding="utf-8") for file in files}
