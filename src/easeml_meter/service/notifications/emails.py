"""E-mail to labelers: labels are needed, or a deadline is near.

Which e-mails are needed follows from the open requests, so a labeler who joins later gets one too.
"""

from __future__ import annotations

import hashlib
import smtplib
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from email.message import EmailMessage

from easeml_meter.core.model import TestSet, stamp
from easeml_meter.core.notifications import Delivery, Message, Undelivered
from easeml_meter.core.people import Role
from easeml_meter.errors import invalid
from easeml_meter.storage.books import Books

NEAR = timedelta(days=3)
"""How long before a deadline labelers are reminded."""

_SECONDS = 15
"""How long one attempt to send may take."""


@dataclass(frozen=True)
class MailServer:
    """Where e-mail is handed in."""

    host: str
    sender: str
    """The address that e-mail comes from."""
    port: int = 587
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    starttls: bool = True

    def __post_init__(self) -> None:
        if "@" not in self.sender or not self.sender.isprintable():
            raise invalid("sender", self.sender[:80], "an e-mail address")
        if not 1 <= self.port <= 65535:
            raise invalid("port", self.port, "a number from 1 to 65535")
        if self.password and not self.starttls:
            raise invalid("starttls", False, "a password is sent over an encrypted connection only")


def emails_needed(books: Books, now: datetime) -> list[Delivery]:
    """Return the e-mails that the open requests call for and that were not written yet."""
    names = {meter.id: meter.name for meter in books.meters.all()}
    made: dict[str, Delivery] = {}
    for request in books.testsets.requested():
        name = names[request.meter]
        bodies = [_needed(request, name)]
        if request.deadline and datetime.fromisoformat(request.deadline) - now <= NEAR:
            bodies.append(_reminder(request, name))
        for address in books.seats.addresses(request.meter, Role.LABELER):
            for known_as, body in bodies:
                # Named by what it says to whom: nobody gets the same e-mail twice.
                said = f"{address}\n{known_as}\n{body['about']}"
                key = hashlib.sha256(said.encode()).hexdigest()[:32]
                made[key] = Delivery.new(key, None, address, body, stamp(now))
    known = books.deliveries.known(made)
    return [delivery for key, delivery in made.items() if key not in known]


def send(message: Message, mail: MailServer) -> None:
    """Hand an e-mail to the mail server.

    Raises:
        Undelivered: the mail server did not take it.
    """
    try:
        email = EmailMessage()
        email["From"] = mail.sender
        email["To"] = message.address
        email["Subject"] = message.body["subject"]
        email["Message-ID"] = f"<{message.id}@{mail.sender.rpartition('@')[2]}>"
        email.set_content(message.body["text"])
        with _signed_in(mail) as server:
            server.send_message(email)
    except (OSError, smtplib.SMTPException, ValueError) as error:
        raise Undelivered(f"the mail server did not take it ({type(error).__name__})") from None


def reach(mail: MailServer) -> None:
    """Sign in to the mail server and leave again.

    Raises:
        Undelivered: it cannot be reached, or does not let us in.
    """
    try:
        with _signed_in(mail) as server:
            server.noop()
    except (OSError, smtplib.SMTPException, ValueError) as error:
        raise Undelivered(f"the mail server does not let us in ({type(error).__name__})") from None


@contextmanager
def _signed_in(mail: MailServer) -> Iterator[smtplib.SMTP]:
    with smtplib.SMTP(mail.host, mail.port, timeout=_SECONDS) as server:
        if mail.starttls:
            server.starttls(context=ssl.create_default_context())
        if mail.user and mail.password:
            server.login(mail.user, mail.password)
        yield server


def _needed(request: TestSet, name: str) -> tuple[str, dict[str, str]]:
    labels = f"{name}: {request.labels_needed:,} labels are"
    body = {
        "subject": f"{labels} needed",
        "about": f"{request.meter} {request.number}",
        "text": _text(request, name),
    }
    # The subject of earlier versions is in the name of the e-mails they sent: keep it there.
    return f"{labels} asked for", body


def _reminder(request: TestSet, name: str) -> tuple[str, dict[str, str]]:
    body = {
        "subject": f"{name}: the deadline for labels is near",
        "about": f"{request.meter} {request.number} {request.deadline}",
        "text": _text(request, name),
    }
    return body["subject"], body


def _text(request: TestSet, name: str) -> str:
    lines = [
        f"The meter {name} asks for test set {request.number}: "
        f"{request.labels_needed:,} labelled rows, sealed on your machine.",
        f"Reason: {request.reason}" if request.reason else "",
        f"Deadline: {request.deadline}" if request.deadline else "",
        "See meter testset requests, meter seal and meter testset add.",
    ]
    return "\n".join(filter(None, lines)) + "\n"
