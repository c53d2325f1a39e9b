"""Making and sending messages: again if they did not arrive, for a day.

The audit chain is the outbox: what happened is sent exactly if its link was committed. Each chain
has a cursor, the last link that was looked at. Each message is a row of `deliveries` and a job that
names it. Delivery is at least once.
"""

from __future__ import annotations

import logging
import random
import secrets
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from easeml_meter.core.model import Event, stamp
from easeml_meter.core.notifications import Delivery, DeliveryState, Undelivered, Unsendable
from easeml_meter.errors import invalid, not_installed
from easeml_meter.service.actor import SYSTEM, Actor, Permission, needs
from easeml_meter.service.jobs import Later, Work
from easeml_meter.service.notifications import emails
from easeml_meter.service.notifications.emails import MailServer, emails_needed
from easeml_meter.service.place import Site
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
            emails.send(message, self.mail)
        elif message.address or self.others is None:
            raise Undelivered("there is no such receiver any more")
        elif not self.others.notify(title=message.body["subject"], body=message.body["text"]):
            raise Undelivered("a receiver did not take it")


def others_named(notify: str) -> Any:
    """Return Apprise with the addresses in the setting `notify`.

    Raises:
        InvalidInput: one of them cannot be read.
        MeterError: the package is not installed.
    """
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
