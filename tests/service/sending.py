"""What tests of notifications share: senders that keep what they get, receivers, a mail server."""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.service.helpers import Clock
from tests.storage.examples import stored

from easeml_meter.core.people import Delivery, Role, Undelivered
from easeml_meter.service import seats, users
from easeml_meter.service.actor import SYSTEM
from easeml_meter.service.jobs import ThreadRunner
from easeml_meter.service.notifications import MailServer, Send, collect, delivering
from easeml_meter.service.place import Site
from easeml_meter.storage import schema


class Mailbox:
    """A sender that keeps what it is given, or refuses it."""

    def __init__(self) -> None:
        self.messages: list[Delivery] = []
        self.refuses = False

    def __call__(self, message: Delivery) -> None:
        self.messages.append(message)
        if self.refuses:
            raise Undelivered("answered with 500")

    @property
    def said(self) -> list[str]:
        return [message.body["text"] for message in self.messages]


def clock_of(site: Site) -> Clock:
    assert isinstance(site.clock, Clock)
    return site.clock


def states(site: Site) -> list[str]:
    """Return where each message stands."""
    with site.reading() as books:
        return [row["state"] for row in stored(books, schema.deliveries)]


def deliver_due(site: Site, send: Send, *, emails: bool = False, others: bool = True) -> int:
    """Make the messages of what happened and send what is due; return how many arrived."""
    arrived = 0

    def counting(message: Delivery) -> None:
        nonlocal arrived
        send(message)
        arrived += 1

    collect(SYSTEM, site, emails=emails, others=others)
    runner = ThreadRunner(site, delivering(counting))
    while runner.run_next():
        pass
    return arrived


def spend(site: Site, meter: str) -> None:
    """Let something happen."""
    with site.store.writing(meter) as books:
        books.audit.append(meter, site.now(), "spent", {"generation": 1})


class _Receiver(BaseHTTPRequestHandler):
    """Answers as its server says, and keeps what it got."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.got.append((self.path, dict(self.headers), body))  # type: ignore[attr-defined]
        self.send_response(self.server.status)  # type: ignore[attr-defined]
        self.send_header("Location", "/elsewhere")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def receiving(status: int = 204) -> Iterator[tuple[str, list[Any]]]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Receiver)
    server.got, server.status = [], status  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://localhost:{server.server_port}", server.got  # type: ignore[attr-defined]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Smtp(socketserver.StreamRequestHandler):
    """Just enough of a mail server."""

    def handle(self) -> None:
        self.wfile.write(b"220 here\r\n")
        while line := self.rfile.readline():
            verb = line[:4].upper()
            if verb == b"EHLO":
                self.wfile.write(b"250 here\r\n")
            elif verb == b"RCPT" and b"refused" in line:
                self.wfile.write(b"550 no\r\n")
            elif verb == b"DATA":
                self.wfile.write(b"354 go\r\n")
                email = b""
                while (line := self.rfile.readline()) != b".\r\n":
                    email += line
                self.server.mails.append(email.decode())  # type: ignore[attr-defined]
                self.wfile.write(b"250 taken\r\n")
            elif verb == b"QUIT":
                self.wfile.write(b"221 bye\r\n")
                return
            else:
                self.wfile.write(b"250 fine\r\n")


@contextmanager
def mail_server() -> Iterator[tuple[MailServer, list[str]]]:
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), _Smtp) as server:
        server.mails = []  # type: ignore[attr-defined]
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        port = int(server.server_address[1])
        try:
            mail = MailServer("127.0.0.1", "meter@example.org", port, starttls=False)
            yield mail, server.mails  # type: ignore[attr-defined]
        finally:
            server.shutdown()
            thread.join()


def labeler(site: Site, meter: str, name: str, email: str | None) -> None:
    user = users.add_user(SYSTEM, site, name, email=email)
    seats.add_seat(SYSTEM, site.space(meter), user.id, Role.LABELER)
