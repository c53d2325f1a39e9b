"""`meter worker`: runs queued models on any number of machines, from one PostgreSQL.

When a worker dies, another one takes over its submission. A submission that is run twice is charged
once, because the same bytes get the answer that is in the books already.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Callable

from easeml_meter.errors import MeterError, invalid
from easeml_meter.scoring.command import clear_runs
from easeml_meter.server import logs
from easeml_meter.server.settings import Settings
from easeml_meter.service.actor import SYSTEM
from easeml_meter.service.backup import check_mounted
from easeml_meter.service.jobs import QueueRunner, Runner, Work
from easeml_meter.service.place import RECIPIENT, Site
from easeml_meter.service.submissions.measuring import Conditions
from easeml_meter.service.submissions.queue import answering
from easeml_meter.service.testsets.releasing import releasing
from easeml_meter.storage.store import in_use
from easeml_meter.tables import apart

_LOG = logging.getLogger(__name__)

_NEEDED = (
    "name the server's with --database postgresql://... (on SQLite, the server runs models itself)"
)


def prepare(site: Site, *, new_site: bool = False) -> None:
    """Leave a note of the server's key beside its files, for workers to compare theirs with.

    Raises:
        MeterError: the key is another one, or files or books are away: nothing is noted then.
    """
    check_mounted(SYSTEM, site, new=new_site)
    if not site.files.exists(RECIPIENT):
        site.files.put(RECIPIENT, f"{site.identity.recipient}\n".encode())
    check_key(site)


def check_key(site: Site) -> None:
    """Raise `MeterError` unless key and files are the server's: answers would not open."""
    if site.identity.former is not None:
        raise MeterError("a change of the key was interrupted: run meter key rotate once more")
    try:
        noted = site.files.read(RECIPIENT).decode().strip()
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


def site_of(settings: Settings) -> Site:
    """Open the site that the settings name, as its servers and workers use it."""
    return Site.open(
        settings.database_url,
        settings.files_place,
        settings.key_file,
        allowed_losses=settings.allowed_loss,
        limits=settings.table_limits,
        room=settings.room,
    )


def run(settings: Settings, tell: Callable[[str], None], *, heartbeat: float) -> None:
    """Work for the server with these settings until a signal asks to stop."""
    logs.configure(settings.log_level)
    apart.start()  # before there is a key, a database or a thread
    # Its scheme alone is shown: the address of a database holds the password.
    if not settings.database.startswith("postgres"):
        raise invalid("database", settings.database.partition(":")[0] or None, _NEEDED)
    if not settings.key_file.exists():
        raise MeterError(f"{settings.key_file}: no such file: copy the server's key to there")
    clear_runs()
    with in_use(settings.database):
        _work(settings, tell, heartbeat)


def _work(settings: Settings, tell: Callable[[str], None], heartbeat: float) -> None:
    site = site_of(settings)
    try:
        running = QueueRunner(site, *tasks(settings), heartbeat=heartbeat)
        # Before the first job: with another key, nothing that waits could be opened.
        check_key(site)
        work(running, tell, patience=settings.shutdown_seconds)
    finally:
        site.close()


def tasks(settings: Settings) -> tuple[Work, ...]:
    """Return what runs models: one runner does all of it, so that no two compete for a machine."""
    from easeml_meter.report.page import html_page

    conditions = Conditions(
        executor=settings.executor, visible_seconds=60.0 * settings.model_minutes
    )
    return answering(conditions), releasing(html_page)


def work(running: Runner, tell: Callable[[str], None], *, patience: float) -> None:
    """Run jobs until SIGTERM or SIGINT; the submission under way is finished or put back."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    running.start()
    tell("worker ready")
    stop.wait()
    if not running.stop(patience):
        _LOG.info("worker stopped; a submission was put back")
        os._exit(0)  # a thread cannot be ended, and would be waited for
    _LOG.info("worker stopped")
