"""Notifications: labelers get e-mail, and whoever the setting `notify` names hears what happens.

Messages are sent again if they did not arrive, for a day. The audit chain is their outbox: what
happened is sent exactly if its link was committed. Each chain has a cursor, the last link that was
looked at. Each message is a row of `deliveries` and a job that names it. Delivery is at least once.

E-mail says that labels are needed, that a deadline is near, or that a submission waits for labels.
Which e-mails are needed follows from the open requests and orders, so a labeler who joins later
gets one too. An order is known by its number and size, which are the same whatever is submitted.
"""

from __future__ import annotations

import hashlib
import logging
import random
import secrets
import smtplib
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from email.message import EmailMessage
from typing import Any

from easeml_meter.core.model import Event, LabelOrder, MeterRecord, TestSet, stamp
from easeml_meter.core.people import Delivery, DeliveryState, Role, Undelivered, Unsendable
from easeml_meter.errors import invalid, not_installed
from easeml_meter.service.actor import SYSTEM, Actor, Permission, needs
from easeml_meter.service.jobs import Later, Work
from easeml_meter.service.place import Site
from easeml_meter.service.submissions.waiting import open_order, orders_of
from easeml_meter.storage import jobs
from easeml_meter.storage.books import Books
from easeml_meter.storage.jobs import Job, Queue

SAID: dict[str, str] = {
    Event.REQUESTED: "Test set {generation}: {labels:,} rows are needed.",
    Event.PART_ADDED: "Test set {generation}: {rows:,} labels have arrived.",
    Event.TEST_SET_ADDED: "Test set {generation}: all {rows:,} rows are here.",
    Event.LABELS_ASKED: "Test set {generation}, order {order}: {labels:,} labels are asked for.",
    Event.SPENT: "Test set {generation} is spent.",
    Event.RELEASED: "Test set {generation} is released.",
    Event.HAND_OVER_REQUESTED: "Team {receiver} asks to continue from a model of team {giver}.",
    Event.HAND_OVER_DECLINED: "Team {receiver} does not continue from a model of team {giver}.",
    Event.HANDED_OVER: "Team {receiver} continues from a model of team {giver}.",
}
"""What is said of a link: no answer, no model, and no step of a team."""

_FIRST_WAIT = timedelta(seconds=20)
_LONGEST_WAIT = timedelta(hours=3)
_GIVE_UP = timedelta(days=1)
_KEPT = timedelta(days=30)
"""How long the records of messages are kept."""

_LOG = logging.getLogger(__name__)

Send = Callable[[Delivery], None]
"""Sends a message; raises `Undelivered` if it did not arrive."""


@dataclass(frozen=True)
class Sender:
    """Sends messages. Never logs what they say."""

    mail: MailServer | None = None
    others: Any = None
    """Apprise, with the addresses that the setting `notify` names."""

    def __call__(self, message: Delivery) -> None:
        """Send a message, or raise `Undelivered`."""
        if message.address and self.mail is not None:
            send(message, self.mail)
        elif message.address or self.others is None:
            raise Undelivered("there is no such receiver any more")
        elif not self.others.notify(title=message.body["subject"], body=message.body["text"]):
            raise Undelivered("a receiver did not take it")


def others_named(notify: str) -> Any:
    """Return Apprise with the addresses in the setting `notify`."""
    try:
        import apprise
    except ImportError as error:
        raise not_installed("the setting notify needs", error, "notify") from error
    for name in ("apprise", "urllib3"):  # their lines hold the addresses, and with them secrets
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    found = apprise.Apprise()
    if not found.add(notify):
        raise invalid(
            "notify", "(hidden)", "addresses as Apprise writes them, such as ntfy://TOPIC"
        )
    return found


@needs(Permission.OPERATE)
def collect(actor: Actor, site: Site, *, emails: bool = False, others: bool = False) -> int:
    """Make the messages that open requests and new links of the chains call for; return how many.

    Any number of servers may do this at the same time. With `emails`, labelers get e-mail; with
    `others`, those whom the setting `notify` names hear of links.

    Raises:
        Denied: the actor is not the server itself.
    """
    with site.reading() as books:  # an idle server must not take the write lock
        behind = others and books.deliveries.behind()
        addressed = emails_needed(books, site.clock()) if emails else []
    if not behind and not addressed:
        return 0
    with site.writing() as books:
        made = _of_links(site, books) if others else []
        if emails:
            made += emails_needed(books, site.clock())
        for delivery in made:
            enqueue(books, delivery)
        books.deliveries.forget(stamp(site.clock() - _KEPT))
    return len(made)


def enqueue(books: Books, delivery: Delivery) -> None:
    """Enter a message, and the job that sends it, in one transaction."""
    books.deliveries.add(delivery)
    jobs.enqueue(books, _job_of(delivery))


def _job_of(delivery: Delivery) -> Job:
    """Return the job that sends a message; messages do not wait for one another."""
    return Job(Queue.NOTIFICATIONS, delivery.id, due_at=delivery.due_at)


def _of_links(site: Site, books: Books) -> list[Delivery]:
    names = {meter.id: meter.name for meter in books.meters.all()}
    # What is older is no news: so much is said when the setting is used for the first time.
    since = stamp(site.clock() - _GIVE_UP)
    made = []
    for link in books.deliveries.look():
        said = SAID.get(link.event)
        if said is not None and link.at >= since:
            body = {"subject": names[link.meter], "text": said.format(**link.details)}
            made.append(Delivery.new(secrets.token_hex(16), "", body, site.now()))
    return made


def delivering(send: Send) -> Work:
    """Return the task that sends waiting messages."""
    return Work(
        Queue.NOTIFICATIONS,
        waiting=lambda books: [_job_of(each) for each in books.deliveries.waiting()],
        run=lambda site, identifier: deliver(SYSTEM, site, identifier, send),
    )


@needs(Permission.OPERATE)
def deliver(actor: Actor, site: Site, identifier: str, send: Send) -> None:
    """Send a message that waits; once it arrived or was given up, do nothing.

    Raises:
        Denied: the actor is not the server itself.
        Later: it did not arrive, and is tried again then.
    """
    with site.reading() as books:
        delivery = books.deliveries.get(identifier)
    if delivery is None or delivery.state is not DeliveryState.WAITING:
        return
    # Sent outside of a transaction: a receiver that takes its time must hold no lock. Whoever dies
    # before the end sends it again.
    tried = replace(delivery, attempts=delivery.attempts + 1)
    try:
        send(tried)
    except Unsendable as error:
        _LOG.warning("delivery %s is given up: %s", tried.id, error)
        tried = replace(tried, state=DeliveryState.GIVEN_UP)
    except Undelivered as error:
        _LOG.warning("delivery %s, attempt %d: %s", tried.id, tried.attempts, error)
        tried = _after_failure(tried, site.clock())
    else:
        tried = replace(tried, state=DeliveryState.SENT)
    with site.writing() as books:
        books.deliveries.record(tried)
    if tried.state is DeliveryState.WAITING:
        raise Later(datetime.fromisoformat(tried.due_at))


def _after_failure(delivery: Delivery, now: datetime) -> Delivery:
    """Return when to try again, each time after twice the wait, or give up after a day."""
    longest = min(_FIRST_WAIT * (1 << min(delivery.attempts - 1, 20)), _LONGEST_WAIT)
    # Not all at the same moment: a receiver that was down would be flooded.
    due = now + longest * random.uniform(0.5, 1)  # noqa: S311  spreads load, keeps no secret
    if due > datetime.fromisoformat(delivery.created_at) + _GIVE_UP:
        return replace(delivery, state=DeliveryState.GIVEN_UP)
    return replace(delivery, due_at=stamp(due))


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
    """Hand an e-mail to the mail server."""
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
    return bool(meter.settings.get("sample", {}).get("on_demand"))


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
