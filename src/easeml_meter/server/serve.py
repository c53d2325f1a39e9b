"""`meter serve`: open the site, listen, and stop without losing what was accepted.

Two programs that do not agree where a request ends can be made to take one for two: what a proxy
may read differently is refused. Crowds and slow bodies are the proxy's (deploy/nginx.conf).
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import logging
import re
import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from types import FrameType
from typing import Any

import h11
import pyarrow as pa
import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from easeml_meter.errors import MeterError
from easeml_meter.scoring.command import clear_runs
from easeml_meter.server import logs, worker
from easeml_meter.server.app import create_app
from easeml_meter.server.errors import Peers
from easeml_meter.server.settings import Settings
from easeml_meter.service.actor import SYSTEM
from easeml_meter.service.guesses import forget_guesses
from easeml_meter.service.jobs import runner
from easeml_meter.service.notifications import (
    MailServer,
    Sender,
    collect,
    delivering,
    others_named,
)
from easeml_meter.service.place import Site
from easeml_meter.service.tokens import admin_can_sign_in, make_admin_token
from easeml_meter.service.uploads import sweep_uploads
from easeml_meter.storage.files import unusable
from easeml_meter.storage.store import in_use
from easeml_meter.tables import apart
from easeml_meter.version import __version__

_LOG = logging.getLogger(__name__)

_HOUR = 3600.0
_OFTEN = 2.0
"""Seconds between two looks at the books for messages to send."""
_MMAP_THRESHOLD = -3
"""The parameter of that name of mallopt(3)."""
_LARGE = 1 << 20
_AT_ONCE = 4
"""Messages that are sent at the same time, where the database lets several be under way."""


def _sender(settings: Settings) -> Sender:
    others = others_named(settings.notify) if settings.notify else None
    if not settings.smtp_host:
        return Sender(None, others)
    mail = MailServer(
        settings.smtp_host,
        settings.smtp_from,
        settings.smtp_port,
        settings.smtp_user or None,
        settings.smtp_password or None,
        settings.smtp_starttls,
    )
    return Sender(mail, others)


def open_site(settings: Settings) -> Site:
    """Open what the settings name; folder, database and key are made if new."""
    try:
        # The database holds hashes of passwords, and the key beside it opens test sets.
        settings.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return worker.site_of(settings)
    except OSError as error:
        raise unusable(settings.folder, error) from error


def run(
    settings: Settings,
    tell: Callable[[str], None],
    *,
    new_admin_token: bool = False,
    new_site: bool = False,
) -> None:
    """Serve until a signal asks to stop.

    `tell` gets the address and, when no admin could sign in otherwise, an admin's token. That is
    said once and never logged. `new_site`: an empty database beside files of meters is meant.
    """
    logs.configure(settings.log_level)
    apart.start()  # before there is a key, a database or a thread
    give_memory_back()
    sender = _sender(settings)  # wrong settings are told now, not when the first mail is due
    with _in_use(settings):
        _serve(settings, sender, tell, new_admin_token=new_admin_token, new_site=new_site)


def give_memory_back() -> None:
    """Have what a large request took given back when it ends, and not kept for the next one."""
    # Arrow's own allocator keeps what its threads have freed, and a server has many.
    pa.set_memory_pool(pa.system_memory_pool())
    with suppress(OSError, AttributeError):  # not the C library of GNU
        # The largest block that is kept grows with each that is freed, unless it is said.
        ctypes.CDLL(None).mallopt(_MMAP_THRESHOLD, _LARGE)


@contextmanager
def _in_use(settings: Settings) -> Iterator[None]:
    """Lock the database before it is opened: a newer program would upgrade its tables."""
    with ExitStack() as held:
        try:
            held.enter_context(in_use(settings.database_url))
        except OSError as error:
            raise unusable(settings.folder, error) from error
        yield


def _serve(
    settings: Settings,
    sender: Sender,
    tell: Callable[[str], None],
    *,
    new_admin_token: bool,
    new_site: bool,
) -> None:
    clear_runs()  # what a server that was killed left of the models that it ran
    site = open_site(settings)
    try:
        worker.prepare(site, new_site=new_site)
        app = create_app(site, settings)
        config = _config(app, settings)
        with _listen(settings) as listening, _background(app, sender):

            def listens() -> None:
                needed = new_admin_token or not admin_can_sign_in(SYSTEM, site)
                if needed:
                    secret, invitation = make_admin_token(SYSTEM, site)
                    tell(f"admin token, valid for a day, shown only now: {secret}")
                address = _announce(settings, listening, tell)
                if needed:
                    link = f"{settings.public_url or address}/join#{invitation}"
                    tell(f"or choose the password of admin, once, within a day: {link}")

            Server(config, app.state.stopping, listens).run(sockets=[listening])
        _LOG.info("stopped")
    finally:
        # Last: the background threads, which ended above, use the books until they are done.
        site.close()


def _announce(settings: Settings, listening: socket.socket, tell: Callable[[str], None]) -> str:
    """Announce the address at which the server listens, and return it."""
    host, port = listening.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    address = f"{'https' if settings.tls_key else 'http'}://{shown}:{port}"
    tell(f"easeml-meter {__version__} serves at {address}")
    _LOG.info("started", extra={"fields": {"address": address}})
    if settings.in_the_clear:
        _LOG.warning(
            "tokens travel in the clear: set tls_certificate and tls_key, or listen at 127.0.0.1 "
            "behind a trusted_proxy"
        )
    return address


class Server(uvicorn.Server):
    """Uvicorn's server; it reports when it listens, and stops with success on a signal."""

    def __init__(
        self,
        config: uvicorn.Config,
        stopping: threading.Event,
        listening: Callable[[], None],
    ) -> None:
        super().__init__(config)
        self._stopping = stopping
        self._listening = listening

    async def startup(self, sockets: Sequence[socket.socket] | None = None) -> None:
        """Start to listen."""
        # What is loaded by now stays loaded. Collecting it as garbage held up requests for 0.1 s.
        gc.collect()
        gc.freeze()
        await super().startup(list(sockets or []))
        if self.started:
            self._listening()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop; a second signal does not wait for requests."""
        # Uvicorn's own method would raise the signal again at the end, and the process would fail.
        self.force_exit = self.should_exit
        self.should_exit = True
        self._stopping.set()


def _config(app: FastAPI, settings: Settings) -> uvicorn.Config:
    config = uvicorn.Config(
        app,
        # Named, so that other libraries that happen to be installed do not replace them.
        http=StrictProtocol,
        loop="asyncio",
        ws="none",
        ssl_certfile=settings.tls_certificate,
        ssl_keyfile=settings.tls_key,
        # Without a list uvicorn would believe the headers of everyone on this machine.
        proxy_headers=bool(settings.trusted_proxy),
        forwarded_allow_ips=list(settings.trusted_proxy),
        timeout_graceful_shutdown=settings.shutdown_seconds,
        timeout_keep_alive=settings.header_seconds,
        # Uvicorn's own lines hold paths, and with them names and the secrets of links.
        log_config=None,
        access_log=False,
        server_header=False,
        lifespan="off",
    )
    try:
        config.load()
    except (OSError, ssl.SSLError) as error:
        files = f"{settings.tls_certificate} and {settings.tls_key}"
        raise MeterError(f"{files}: cannot be used for TLS: {error.strerror or error}") from error
    config.loaded_app = Peers(config.loaded_app)
    return config


def _listen(settings: Settings) -> socket.socket:
    place = (settings.host, settings.port)
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        listening = socket.create_server(place, family=family, backlog=2048)
        # asyncio does so only for sockets that name their protocol; without it an answer waits
        # up to 40 ms for the client to acknowledge its headers.
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listening
    except OSError as error:
        # What Python adds to the reason names the place once more.
        reason = str(error.strerror or error).partition(" (while")[0]
        raise MeterError(
            f"{settings.host}:{settings.port}: cannot listen there ({reason}): choose another "
            "--host or --port"
        ) from error


@contextmanager
def _background(app: FastAPI, sender: Sender) -> Iterator[None]:
    """Do in threads what belongs to no request; at the end stop in an order that loses nothing.

    By then no request is left that could queue anything. First those stop that make jobs, then
    those that run them, and the books are closed after all of them.
    """
    site, settings = app.state.site, app.state.settings
    stopping: threading.Event = app.state.stopping
    sending = runner(site, delivering(sender), at_once=_AT_ONCE)
    runners = [sending]
    if site.store.dialect == "sqlite":
        # No other process serves SQLite, so models run here. On PostgreSQL that is for `meter
        # worker`.
        app.state.worker = runner(site, *worker.tasks(settings))
        runners.append(app.state.worker)

    def collecting() -> None:
        wanted = {"emails": sender.mail is not None, "others": sender.others is not None}
        if collect(SYSTEM, site, **wanted):
            sending.call()

    def housekeeping() -> None:
        sweep_uploads(SYSTEM, site, settings.folder / "uploads")
        with site.writing() as books:
            forget_guesses(books, site.clock())

    threads = [
        threading.Thread(target=_every, args=(seconds, work, stopping), daemon=True)
        for seconds, work in (
            (_OFTEN, collecting),
            (_HOUR, housekeeping),
        )
    ]
    for thread in threads:
        thread.start()
    for each in runners:
        each.start()
    try:
        yield
    finally:
        stopping.set()
        for thread in threads:
            thread.join(settings.shutdown_seconds)
        for each in runners:
            each.stop(settings.shutdown_seconds)


def _every(seconds: float, work: Callable[[], None], stopping: threading.Event) -> None:
    while not stopping.is_set():
        try:
            work()
        except Exception as error:  # it may go better the next time
            _LOG.error("%s failed", work.__name__, exc_info=error)
        stopping.wait(seconds)


_LARGEST_HEAD = 1 << 14
_MOST_HEADERS = 100
_ODD_LINES = re.compile(rb"(?<!\r)\n|\n[ \t]")
"""Ends of lines that are read differently: a bare LF, and a folded header."""


class StrictProtocol(H11Protocol):
    """Uvicorn's protocol, which ends a connection whose head is late or odd."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.conn = _Parser(h11.SERVER, _LARGEST_HEAD)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first head as long as for the next."""
        super().connection_made(transport)
        late = self.loop.call_later(self.timeout_keep_alive, self.timeout_keep_alive_handler)
        self.timeout_keep_alive_task = late

    def _unset_keepalive_if_required(self) -> None:
        if self.conn.their_state is not h11.IDLE:  # a head that trickles is as late as none
            super()._unset_keepalive_if_required()


class _Parser(h11.Connection):
    def next_event(self) -> Any:
        """Return what was received next, or raise `h11.RemoteProtocolError`."""
        if self.their_state is h11.IDLE:
            head = self.trailing_data[0].partition(b"\r\n\r\n")[0]
            if len(head) > _LARGEST_HEAD or head.count(b"\n") > _MOST_HEADERS:
                raise h11.RemoteProtocolError("too many headers")
            if _ODD_LINES.search(head):
                raise h11.RemoteProtocolError("odd ends of lines")
        event = super().next_event()
        names = {name for name, _ in event.headers} if isinstance(event, h11.Request) else set()
        # RFC 9112, section 6.3: a request with both may be an attempt at smuggling another.
        if {b"content-length", b"transfer-encoding"} <= names:
            raise h11.RemoteProtocolError("two lengths of one body")
        return event
