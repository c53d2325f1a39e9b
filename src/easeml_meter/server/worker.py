"""Workers on any number of machines: they answer queued submissions from the same PostgreSQL.

A worker that dies sends no sign of life any more, and another one takes over its submission. What
is done twice is charged once: the same bytes get the answer that stands in the books.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from easeml_meter.errors import MeterError, StorageError, invalid
from easeml_meter.server import logs
from easeml_meter.server.settings import Settings
from easeml_meter.service.place import Site
from easeml_meter.service.submissions import queue
from easeml_meter.storage import jobs

if TYPE_CHECKING:
    from procrastinate import App, JobContext
    from psycopg_pool import AsyncConnectionPool

_LOG = logging.getLogger(__name__)

_RECIPIENT = "server.recipient"
_CONNECT_SECONDS = 5.0
_NEEDED = "the server's, postgresql://...: with SQLite it needs no workers"

Work = Callable[[Site, str], object]


class CannotNow(Exception):
    """A submission could not be answered for now; the job is tried again."""


def prepare(site: Site) -> None:
    """Make ready what server and workers share: the queue, and a note of the server's key."""
    jobs.install(site.store)
    if not site.files.exists(_RECIPIENT):
        site.files.put(_RECIPIENT, f"{site.identity.recipient}\n".encode())
    check_key(site)


def check_key(site: Site) -> None:
    """Refuse another key, or other files, than the server has."""
    try:
        noted = site.files.read(_RECIPIENT).decode().strip()
    except FileNotFoundError:
        place = site.files.location("")
        raise MeterError(
            f"{place}: no server has used these files: start meter serve first, and give the "
            "worker the same --files"
        ) from None
    if noted != str(site.identity.recipient):
        raise MeterError(
            f"the key is not the server's ({site.identity.recipient} given, {noted} needed): "
            "copy the server's key file to this machine"
        )


def run(settings: Settings, tell: Callable[[str], None], *, heartbeat: float) -> None:
    """Work for the server with these settings until a signal asks to stop."""
    logs.configure(settings.log_level)
    if not settings.database.startswith("postgres"):
        raise invalid("database", settings.database.partition(":")[0] or "none", _NEEDED)
    if not settings.key_file.exists():
        raise MeterError(f"{settings.key_file}: no such file: copy the server's key to there")
    site = Site.open(settings.database, settings.files_place, settings.key_file)
    try:
        worker = Worker(site, queue.work, heartbeat, patience=settings.shutdown_seconds)
        check_key(site)
        jobs.install(site.store)
        tell("worker ready")
        worker.run()
    finally:
        site.close()


@dataclass
class Worker:
    """Takes one submission after the other, until it is told to stop."""

    site: Site
    work: Work
    """Answers a submission; done twice, or after it was cancelled, it does nothing."""
    heartbeat: float = 10.0
    """Seconds between signs of life; without three of them in a row a worker counts as dead."""
    patience: float = 20.0
    """Seconds that a submission gets to finish when the worker is told to stop."""

    def __post_init__(self) -> None:
        if self.site.store.dialect != "postgresql":
            raise invalid("database", self.site.store.dialect, _NEEDED)
        if not 0.1 <= self.heartbeat <= 600:
            raise invalid("heartbeat", self.heartbeat, "a number from 0.1 to 600")
        self._held: set[int] = set()
        """Numbers of the jobs under way here."""

    def run(self) -> None:
        """Work until SIGTERM or SIGINT; the submission under way is finished or put back."""
        # The library logs the text of exceptions, and that may hold what was read.
        logging.getLogger("procrastinate").setLevel(logging.CRITICAL + 1)
        asyncio.run(self._run())

    async def _run(self) -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        _LOG.info("worker started")
        while not stop.is_set():
            try:
                await self._connected(stop)
            except Exception as error:  # whatever it is, the database is tried again
                _LOG.warning("no database for now: %s", type(error).__name__)
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(stop.wait(), min(1.0, self.heartbeat))
        _LOG.info("worker stopped")

    async def _connected(self, stop: asyncio.Event) -> None:
        """Work while the database is there."""
        app = self._app()
        async with self._pool() as pool, app.open_async(pool):
            await pool.wait(timeout=_CONNECT_SECONDS)
            working = asyncio.create_task(
                app.run_worker_async(
                    queues=[jobs.QUEUE],
                    install_signal_handlers=False,
                    delete_jobs="always",
                    update_heartbeat_interval=self.heartbeat,
                    stalled_worker_timeout=3 * self.heartbeat,
                    fetch_job_polling_interval=self.heartbeat / 2,
                )
            )
            healing = asyncio.create_task(self._heal(app))
            stopping = asyncio.create_task(stop.wait())
            try:
                await asyncio.wait(
                    {working, healing, stopping}, return_when=asyncio.FIRST_COMPLETED
                )
            finally:
                healing.cancel()
                stopping.cancel()
                working.cancel()
                await self._finish(app, working, healing, stopping, leaving=stop.is_set())

    async def _finish(self, app: App, *tasks: asyncio.Task[Any], leaving: bool) -> None:
        """Let the submission under way finish; put it back if that takes too long."""
        patience = self.patience if leaving else None
        _, late = await asyncio.wait(tasks, timeout=patience)
        if late:
            with contextlib.suppress(Exception):  # without a database, others take it back
                for job in self._held:
                    await app.job_manager.retry_job_by_id_async(job, datetime.now(UTC))
            _LOG.info("worker stopped; a submission was put back")
            # A thread cannot be ended, and would be waited for.
            os._exit(0)
        for task in tasks:
            if not task.cancelled() and (error := task.exception()):
                raise error

    async def _heal(self, app: App) -> None:
        """Take back the jobs of workers that died, and make those that were lost."""
        while True:
            stalled = await app.job_manager.get_stalled_jobs(
                queue=jobs.QUEUE, seconds_since_heartbeat=3 * self.heartbeat
            )
            for job in stalled:
                with contextlib.suppress(Exception):  # another worker was quicker
                    await app.job_manager.retry_job(job)
                    _LOG.info("job %s of a dead worker put back", job.id)
            lost = await asyncio.to_thread(jobs.enqueue_lost, self.site.store)
            if lost:
                _LOG.info("%s submissions without a job put into the queue", lost)
            await asyncio.sleep(self.heartbeat)

    def _pool(self) -> AsyncConnectionPool:
        from psycopg_pool import AsyncConnectionPool

        return AsyncConnectionPool(
            self.site.store.address,
            min_size=1,
            max_size=4,
            timeout=_CONNECT_SECONDS,
            open=False,
            check=AsyncConnectionPool.check_connection,
        )

    def _app(self) -> App:
        import procrastinate

        app = procrastinate.App(connector=procrastinate.PsycopgConnector())
        strategy = procrastinate.RetryStrategy(wait=1, linear_wait=5)
        app.task(name=jobs.TASK, queue=jobs.QUEUE, retry=strategy, pass_context=True)(self._answer)
        return app

    def _answer(self, context: JobContext, submission: str) -> None:
        job = int(context.job.id or 0)
        self._held.add(job)
        try:
            self.work(self.site, submission)
        except StorageError as error:
            raise CannotNow(str(error)) from None
        except Exception as error:
            # The kind of the error, never its text: that may hold what was read.
            _LOG.error("submission %s: unexpected %s", submission, type(error).__name__)
            raise CannotNow(type(error).__name__) from None
        finally:
            self._held.discard(job)
