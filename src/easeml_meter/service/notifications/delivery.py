"""Sending the messages: over HTTP or by e-mail, again if they did not arrive, for a day.

Each message is a row of `deliveries` and a job that names it. The row is what admins see.
"""

from __future__ import annotations

import base64
import json
import logging
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from easeml_meter.core.model import stamp
from easeml_meter.core.notifications import (
    Delivery,
    DeliveryState,
    Message,
    Undelivered,
    Unsendable,
)
from easeml_meter.errors import VaultError
from easeml_meter.service.actor import SYSTEM, Actor, Permission, needs
from easeml_meter.service.jobs import Later, Work
from easeml_meter.service.notifications import emails, webhooks
from easeml_meter.service.notifications.emails import MailServer
from easeml_meter.service.notifications.events import job_of
from easeml_meter.service.place import Site
from easeml_meter.storage.jobs import Queue
from easeml_meter.vault.keys import unwrap

_FIRST_WAIT = timedelta(seconds=20)
_LONGEST_WAIT = timedelta(hours=3)
_GIVE_UP = timedelta(days=1)

_LOG = logging.getLogger(__name__)

Send = Callable[[Message], None]
"""Sends a message; raises `Undelivered` if it did not arrive."""


@dataclass(frozen=True)
class Sender:
    """Sends messages. Never logs what they say."""

    mail: MailServer | None = None
    private: bool = False
    """Whether webhooks may lead to this machine and to private networks."""

    def __call__(self, message: Message) -> None:
        """Send a message, or raise `Undelivered`."""
        if message.headers is not None:
            webhooks.post(message, private=self.private)
        elif self.mail is None:
            raise Undelivered("there is no mail server")
        else:
            emails.send(message, self.mail)


def delivering(send: Send) -> Work:
    """Return the task that sends waiting messages."""
    return Work(
        Queue.NOTIFICATIONS,
        waiting=lambda books: [job_of(each) for each in books.deliveries.waiting()],
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
        secret = books.webhooks.secret(delivery.webhook) if delivery and delivery.webhook else None
    if delivery is None or delivery.state is not DeliveryState.WAITING:
        return
    # Sent outside of a transaction: a receiver that takes its time must hold no lock. Whoever dies
    # before the end sends it again, and receivers know it by its id.
    tried = replace(delivery, attempts=delivery.attempts + 1)
    try:
        send(_message(site, tried, secret))
    except Unsendable as error:
        _LOG.warning("delivery %s is given up: %s", tried.id, error)
        tried = replace(tried, state=DeliveryState.GIVEN_UP)
    except (Undelivered, VaultError) as error:
        _LOG.warning("delivery %s, attempt %d: %s", tried.id, tried.attempts, error)
        tried = _after_failure(tried, site.clock())
    else:
        tried = replace(tried, state=DeliveryState.SENT)
    with site.writing() as books:
        books.deliveries.record(tried)
    if tried.state is DeliveryState.WAITING:
        raise Later(datetime.fromisoformat(tried.due_at))


def _message(site: Site, delivery: Delivery, secret: str | None) -> Message:
    content = json.dumps(delivery.body, sort_keys=True).encode()
    headers = None
    if delivery.webhook is not None:
        if secret is None:
            raise Undelivered("the webhook was removed")
        opened = unwrap(base64.b64decode(secret), site.identity, "the secret of a webhook")
        headers = webhooks.sign(opened.decode(), delivery.id, site.clock(), content)
    return Message(delivery.id, delivery.address, delivery.body, content, headers)


def _after_failure(delivery: Delivery, now: datetime) -> Delivery:
    """Return when to try again, each time after twice the wait, or give up after a day."""
    longest = min(_FIRST_WAIT * (1 << min(delivery.attempts - 1, 20)), _LONGEST_WAIT)
    # Not all at the same moment: a receiver that was down would be flooded.
    due = now + longest * random.uniform(0.5, 1)  # noqa: S311  spreads load, keeps no secret
    if due > datetime.fromisoformat(delivery.created_at) + _GIVE_UP:
        return replace(delivery, state=DeliveryState.GIVEN_UP)
    return replace(delivery, due_at=stamp(due))
