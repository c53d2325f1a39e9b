"""E-mail to labelers: labels are needed, a deadline is near, or a submission waits for labels.

Which e-mails are needed follows from the open requests and orders, so a labeler who joins later
gets one too. An order is known by its number and size, which are the same whatever is submitted.
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

from easeml_meter.core.model import LabelOrder, MeterRecord, TestSet, stamp
from easeml_meter.core.notifications import Delivery, Undelivered, Unsendable
from easeml_meter.core.people import Role
from easeml_meter.errors import invalid
from easeml_meter.service.submissions.waiting import open_order, orders_of
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


Body = dict[str, str]
"""The `subject` and the `text` of an e-mail, and what it is `about`."""


def emails_needed(books: Books, now: datetime) -> list[Delivery]:
    """Return the e-mails that open requests and orders call for and that were not written yet."""
    meters = {meter.id: meter for meter in books.meters.all()}
    made: dict[str, Delivery] = {}
    for meter, body in _called_for(books, meters, now):
        for address in books.seats.addresses(meter, Role.LABELER):
            # Named by what it says to whom: nobody gets the same e-mail twice.
            said = f"{address}\n{body['subject']}\n{body['about']}"
            key = hashlib.sha256(said.encode()).hexdigest()[:32]
            made[key] = Delivery.new(key, address, body, stamp(now))
    known = books.deliveries.known(made)
    return [delivery for key, delivery in made.items() if key not in known]


def _called_for(
    books: Books, meters: dict[str, MeterRecord], now: datetime
) -> Iterator[tuple[str, Body]]:
    """Yield what the labelers of a meter are told, whether or not they know it already."""
    for request in books.testsets.requested():
        meter = meters[request.meter]
        yield meter.id, _needed(request, meter)
        if request.deadline and datetime.fromisoformat(request.deadline) - now <= NEAR:
            yield meter.id, _reminder(request, meter)
    for test_set in books.testsets.active():
        meter = meters[test_set.meter]
        if _on_demand(meter) and (order := open_order(orders_of(books, test_set))):
            yield meter.id, _waited_for(order, meter)


def send(message: Delivery, mail: MailServer) -> None:
    """Hand an e-mail to the mail server.

    Raises:
        Unsendable: it cannot be made, since its address is none.
        Undelivered: the mail server did not take it.
    """
    try:
        email = _written(message, mail)
    except Exception as error:  # the parser of addresses raises whatever it stumbles over
        raise Unsendable(f"the e-mail cannot be made ({type(error).__name__})") from None
    try:
        with _signed_in(mail) as server:
            server.send_message(email)
    except (OSError, smtplib.SMTPException, ValueError) as error:
        raise Undelivered(f"the mail server did not take it ({type(error).__name__})") from None


def _written(message: Delivery, mail: MailServer) -> EmailMessage:
    email = EmailMessage()
    email["From"] = mail.sender
    email["To"] = message.address
    email["Subject"] = message.body["subject"]
    email["Message-ID"] = f"<{message.id}@{mail.sender.rpartition('@')[2]}>"
    email.set_content(message.body["text"])
    return email


@contextmanager
def _signed_in(mail: MailServer) -> Iterator[smtplib.SMTP]:
    with smtplib.SMTP(mail.host, mail.port, timeout=_SECONDS) as server:
        if mail.starttls:
            # With its certificate checked: otherwise anybody in between would get the password.
            server.starttls(context=ssl.create_default_context())
        if mail.user and mail.password:
            server.login(mail.user, mail.password)
        yield server


def _on_demand(meter: MeterRecord) -> bool:
    """Whether test sets are sealed without labels, which are asked for later."""
    return bool(meter.settings["meter"].get("on_demand"))


def _needed(request: TestSet, meter: MeterRecord) -> Body:
    unit = "inputs" if _on_demand(meter) else "labels"
    return {
        "subject": f"{meter.name}: {request.labels_needed:,} {unit} are needed",
        "about": f"{request.meter} {request.number}",
        "text": _text(request, meter),
    }


def _reminder(request: TestSet, meter: MeterRecord) -> Body:
    return {
        "subject": f"{meter.name}: the deadline for labels is near",
        "about": f"{request.meter} {request.number} {request.deadline}",
        "text": _text(request, meter),
    }


def _text(request: TestSet, meter: MeterRecord) -> str:
    rows = "rows with ids, without labels" if _on_demand(meter) else "labelled rows"
    lines = [
        f"The meter {meter.name} asks for test set {request.number}: "
        f"{request.labels_needed:,} {rows}, sealed on your machine.",
        f"Reason: {request.reason}" if request.reason else "",
        f"Deadline: {request.deadline}" if request.deadline else "",
        "See meter testset requests, meter seal and meter testset add.",
    ]
    return "\n".join(filter(None, lines)) + "\n"


def _waited_for(order: LabelOrder, meter: MeterRecord) -> Body:
    return {
        "subject": f"{meter.name}: a submission waits for {order.labels:,} labels",
        "about": f"{meter.id} {order.generation} {order.number}",
        "text": f"The meter {meter.name} asks for order {order.number} of test set "
        f"{order.generation}: {order.labels:,} labels.\nNothing is answered until they are here.\n"
        "See meter testset wanted and meter testset label.\n",
    }
