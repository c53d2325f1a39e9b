"""Background work: one contract, kept by a thread on SQLite and by procrastinate on PostgreSQL.

The contract, for both runners:

- A job names a row of the books. The row decides: run twice, or for a row that is gone, a task does
  nothing. So a job that was interrupted at any point can simply be run again.
- A job exists from the commit of the transaction that queued it, or not at all.
- Of the jobs with the same lock one runs at a time, the oldest first. Others do not wait for it.
- A job is not run before it is due. A task that has noted a later moment in its row raises `Later`
  and is run again then; one that raises anything else is run again after a pause.
- What a runner that died had under way is run by the next one.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from easeml_meter.core.doctor import SILENT
from easeml_meter.core.model import stamp
from easeml_meter.errors import invalid
from easeml_meter.service.actor import Actor, Permission, needs
from easeml_meter.service.place import Site
from easeml_meter.storage import jobs
from easeml_meter.storage.jobs import Job, Queue, Waiting

if TYPE_CHECKING:
    from procrastinate import App, JobContext
    from procrastinate.jobs import Job as Called
    from procrastinate.retry import RetryDecision
    from psycopg_pool import AsyncConnectionPool

_LOG = logging.getLogger(__name__)

_LOOK = 1.0
"""Seconds between two looks at the books for work, unless somebody calls."""
_PAUSE = 1.0
"""Seconds until a task that failed is tried again; longer each time."""
_LONGEST_PAUSE = 300.0
_CONNECT_SECONDS = 5.0


@needs(Permission.SEE_METER)
def no_worker(_: Actor, site: Site) -> bool:
    """Whether models wait for a worker that nobody has seen for minutes."""
    if site.store.dialect == "sqlite":  # the server is its own
        return False
    with site.reading() as books:
        return not books.counts.workers(stamp(site.clock() - SILENT))


class Later(Exception):
    """A job could not be finished now; it is run again at this moment, which its row says, too."""

    def __init__(self, moment: datetime) -> None:
        super().__init__()
        self.moment = moment


@dataclass(frozen=True)
class Work:
    """What is done for the jobs of one queue."""

    queue: Queue
    waiting: Waiting
    run: Callable[[Site, str], None]
    """Does the work for a row, by its id; does nothing if there is none left to do."""
    put_back: Callable[[Site, str], None] = lambda site, key: None
    """Shows in a row that its job waits again, when a runner stops in the middle of it."""


class Runner(Protocol):
    """Runs the jobs of some queues in the background."""

    def start(self) -> None:
        """Start running jobs."""

    def call(self) -> None:
        """Wake the runner: there may be something to do."""

    def stop(self, patience: float) -> bool:
        """Let the jobs under way finish, or put them back; return whether they finished."""


def runner(site: Site, *tasks: Work, heartbeat: float = 10.0, at_once: int = 1) -> Runner:
    """Return the runner for the site's database."""
    if site.store.dialect == "sqlite":
        return ThreadRunner(site, *tasks)
    return QueueRunner(site, *tasks, heartbeat=heartbeat, at_once=at_once)


class ThreadRunner:
    """Runs jobs one after the other in a thread, for a database that no other process serves.

    It finds them in the rows that wait. Looking for them only reads, so an idle server leaves the
    write lock to those who have something to write.
    """

    def __init__(self, site: Site, *tasks: Work) -> None:
        self._site = site
        self._tasks = {task.queue: task for task in tasks}
        self._stopping = threading.Event()
        self._called = threading.Event()
        self._current: Job | None = None
        self._resting: dict[str, tuple[int, float]] = {}
        """How often the job of a row failed, and until when it rests."""
        self._name = " and ".join(self._tasks)
        self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)

    def start(self) -> None:
        """Start running jobs, with those that an earlier process left undone."""
        self._thread.start()

    def call(self) -> None:
        """Say that there may be something to do."""
        self._called.set()

    def stop(self, patience: float = 20.0) -> bool:
        """Let the job under way finish, or put it back; return whether it finished."""
        self._stopping.set()
        self._called.set()
        self._thread.join(patience)
        if self._thread.is_alive() and self._current is not None:
            # The thread dies with the process: its row must not say for ever that it runs.
            self._tasks[self._current.queue].put_back(self._site, self._current.key)
        return not self._thread.is_alive()

    def run_next(self) -> bool:
        """Run the oldest job that is due; return whether there was one."""
        with self._site.reading() as books:
            waiting = [job for task in self._tasks.values() for job in task.waiting(books)]
        job = self._due(sorted(waiting, key=lambda each: each.turn))
        if job is None:
            return False
        self._current, task = job, self._tasks[job.queue]
        try:
            task.run(self._site, job.key)
            self._resting.pop(job.key, None)
        except Later:
            pass  # the row says when it is due again
        except Exception as error:
            # It rests longer each time: a job that always fails leaves the thread to others.
            failures = self._resting.get(job.key, (0, 0.0))[0] + 1
            pause = min(_PAUSE * failures, _LONGEST_PAUSE)
            self._resting[job.key] = (failures, time.monotonic() + pause)
            _log_failure(task, job.key, error)
        finally:
            self._current = None
        return True

    def _due(self, waiting: Sequence[Job]) -> Job | None:
        now, moment, behind = self._site.now(), time.monotonic(), set()
        for job in waiting:
            rested = self._resting.get(job.key, (0, 0.0))[1] <= moment
            if job.lock not in behind and rested and (job.due_at or now) <= now:
                return job
            if job.lock is not None:  # those after it wait for it
                behind.add(job.lock)
        return None

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                if self.run_next():
                    continue
            except Exception as error:  # no database for now
                _LOG.error("%s: unexpected %s", self._name, type(error).__name__)
            self._called.wait(_LOOK)
            self._called.clear()


class QueueRunner:
    """Runs jobs from the queue on PostgreSQL, which any number of machines share.

    A runner that dies sends no sign of life any more, and another one takes over its jobs.
    """

    def __init__(self, site: Site, *tasks: Work, heartbeat: float, at_once: int = 1) -> None:
        if not 0.1 <= heartbeat <= 600:
            raise invalid("heartbeat", heartbeat, "a number from 0.1 to 600")
        self._site = site
        self._tasks = tasks
        self._heartbeat = heartbeat
        """Seconds between signs of life; without three of them in a row a runner counts as dead."""
        self._at_once = at_once
        self._id = secrets.token_hex(16)
        self._held: dict[int, tuple[Work, str]] = {}
        """The jobs under way here, by the queue's numbers: what is done, and for which row."""
        self._patience = 0.0
        self._stopping = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._began, self._over = threading.Event(), threading.Event()
        self._finished = True
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._run()),
            name=" and ".join(task.queue for task in tasks),
            daemon=True,
        )

    def start(self) -> None:
        """Start running jobs."""
        # The library logs the text of exceptions, and that may hold what was read.
        logging.getLogger("procrastinate").setLevel(logging.CRITICAL + 1)
        self._thread.start()
        self._began.wait()

    def call(self) -> None:
        """Do nothing: the database calls its runners itself."""

    def stop(self, patience: float = 20.0) -> bool:
        """Let the jobs under way finish, or put them back; return whether they finished."""
        self._patience = patience
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._stopping.set)
            self._over.wait()
            if self._finished:
                self._thread.join()  # and with it the threads that still use the books
        return self._finished

    async def _run(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._began.set()
        try:
            while not self._stopping.is_set():
                try:
                    await self._connected()
                except Exception as error:  # whatever it is, the database is tried again
                    _LOG.warning("no database for now: %s", type(error).__name__)
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(self._stopping.wait(), min(1.0, self._heartbeat))
        finally:
            self._over.set()

    async def _connected(self) -> None:
        """Run jobs while the database is there."""
        app = self._app()
        async with self._pool() as pool, app.open_async(pool):
            await pool.wait(timeout=_CONNECT_SECONDS)
            working = asyncio.create_task(
                app.run_worker_async(
                    queues=[task.queue for task in self._tasks],
                    concurrency=self._at_once,
                    install_signal_handlers=False,
                    # The books say what became of a row; what is done need not stay in the queue.
                    delete_jobs="always",
                    update_heartbeat_interval=self._heartbeat,
                    stalled_worker_timeout=3 * self._heartbeat,
                    fetch_job_polling_interval=self._heartbeat / 2,
                )
            )
            healing = asyncio.create_task(self._heal(app))
            stopping = asyncio.create_task(self._stopping.wait())
            tasks = (working, healing, stopping)
            try:
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in tasks:
                    task.cancel()
                await self._finish(app, *tasks)

    async def _finish(self, app: App, *tasks: asyncio.Task[Any]) -> None:
        """Let the jobs under way finish; put them back if that takes too long."""
        # Without a database but without a wish to stop, what was begun may take its time.
        patience = self._patience if self._stopping.is_set() else None
        _, late = await asyncio.wait(tasks, timeout=patience)
        if late:
            self._finished = False
            with contextlib.suppress(Exception):  # without a database, others take them back
                for job, (work, key) in self._held.copy().items():
                    await app.job_manager.retry_job_by_id_async(job, datetime.now(UTC))
                    await asyncio.to_thread(work.put_back, self._site, key)
            self._over.set()  # now: the end of this loop would wait for the threads of the jobs
            return
        for task in tasks:
            if not task.cancelled() and (error := task.exception()):
                raise error

    async def _heal(self, app: App) -> None:
        """Give a sign of life; take back the jobs of runners that died, and make lost ones."""
        while True:
            if any(task.queue is Queue.SUBMISSIONS for task in self._tasks):
                await asyncio.to_thread(self._live)
            for task in self._tasks:
                await self._heal_queue(app, task)
            await asyncio.sleep(self._heartbeat)

    def _live(self) -> None:
        """Give a sign of life, for those who look after the server."""
        with self._site.store.writing("workers") as books:
            now = self._site.clock()
            books.counts.add_worker(self._id, stamp(now), stamp(now - 2 * SILENT))

    async def _heal_queue(self, app: App, task: Work) -> None:
        stalled = await app.job_manager.get_stalled_jobs(
            queue=task.queue, seconds_since_heartbeat=3 * self._heartbeat
        )
        for job in stalled:
            with contextlib.suppress(Exception):  # another runner was quicker
                await app.job_manager.retry_job(job)
                _LOG.info("job %s of a dead worker put back", job.id)
        lost = await asyncio.to_thread(
            jobs.enqueue_lost, self._site.store, task.queue, task.waiting
        )
        if lost:
            _LOG.info("%s: %s without a job put into the queue", task.queue, lost)

    def _pool(self) -> AsyncConnectionPool:
        from psycopg_pool import AsyncConnectionPool

        return AsyncConnectionPool(
            self._site.store.address,
            min_size=1,
            max_size=4,
            timeout=_CONNECT_SECONDS,
            open=False,
            # A connection that the database has closed meanwhile is replaced, and not handed out.
            check=AsyncConnectionPool.check_connection,
        )

    def _app(self) -> App:
        import procrastinate

        class Retrying(procrastinate.BaseRetryStrategy):
            def get_retry_decision(self, *, exception: BaseException, job: Called) -> RetryDecision:
                if isinstance(exception, Later):
                    return procrastinate.RetryDecision(retry_at=exception.moment)
                pause = min(_PAUSE + 5 * job.attempts, _LONGEST_PAUSE)
                return procrastinate.RetryDecision(retry_in={"seconds": int(pause)})

        app = procrastinate.App(connector=procrastinate.PsycopgConnector())
        for task in self._tasks:
            queue, call = task.queue, partial(self._call, task)
            app.task(name=queue.task, queue=queue, retry=Retrying(), pass_context=True)(call)
        return app

    def _call(self, task: Work, context: JobContext, /, **arguments: str) -> None:
        (key,) = arguments.values()
        job = int(context.job.id or 0)
        self._held[job] = task, key
        try:
            task.run(self._site, key)
        except Later:
            raise
        except Exception as error:
            _log_failure(task, key, error)
            raise _Failed from None
        finally:
            del self._held[job]


class _Failed(Exception):
    """A job failed for now; the text of what happened must not reach the queue."""


def _log_failure(task: Work, key: str, error: Exception) -> None:
    # The kind of the error, never its text: that may hold what was read.
    _LOG.error("%s %s: unexpected %s", task.queue, key, type(error).__name__)
