"""Webhooks: who is told over HTTP what happens at a meter, and what is waiting to be sent.

The audit chain is the outbox: an event is to be told exactly if its link was committed. Each
webhook remembers the last link it has looked at. Delivery is at least once.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import logging
import random
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

import sqlalchemy as sa

from easeml_meter.core.model import AuditLink, stamp
from easeml_meter.errors import MeterError, NotFound, VaultError, invalid
from easeml_meter.service.letters import enqueue_letters
from easeml_meter.service.place import Site
from easeml_meter.storage import schema
from easeml_meter.storage.books import Books
from easeml_meter.vault.keys import unwrap, wrap

EVENTS = {
    "labels requested": "requested",
    "labels received": "part added",
    "test set added": "test set added",
    "spent": "spent",
    "released": "released",
}
"""What can be told, and the audit link that says it. Signals (`told:TENANT`) have to be named."""

TOLD = "told"
MOST = 20
"""Webhooks of one meter."""

_COUNTED = {"part added": 1, "part withdrawn": -1}
_TOLD = ("generation", "tenant", "step", "answer", "model")
_SECRET_PREFIX = "whsec_"  # noqa: S105 - what a secret looks like, not one
_KEY_BYTES = 32
_LONGEST_URL = 500

_FIRST_WAIT = timedelta(seconds=20)
_LONGEST_WAIT = timedelta(hours=3)
_GIVE_UP = timedelta(days=1)
_LEASE = timedelta(minutes=10)
"""For so long a message belongs to the sender that took it; if that one dies, to the next."""
_AT_ONCE = 16
_KEPT = timedelta(days=30)

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Webhook:
    """An address that is told what happens at a meter."""

    id: str
    meter: str
    url: str
    events: tuple[str, ...]
    created_at: str
    waiting: int = 0
    sent: int = 0
    given_up: int = 0


@dataclass(frozen=True, slots=True)
class Message:
    """What a sender carries: a signed body to a URL, or a letter if there are no headers."""

    id: str
    address: str
    body: dict[str, Any]
    content: bytes
    headers: dict[str, str] | None
    """The id, time and signature of a webhook's message."""


Send = Callable[[Message], None]
"""Carries a message; raises `Undelivered` if it did not arrive."""


class Undelivered(MeterError):
    """A message did not arrive; it is tried again later."""


def add_webhook(
    site: Site, meter: str, url: str, events: Sequence[str] = tuple(EVENTS)
) -> tuple[Webhook, str]:
    """Tell an address what happens from now on; the signing secret is given once."""
    check_url(url)
    secret = _SECRET_PREFIX + base64.b64encode(secrets.token_bytes(_KEY_BYTES)).decode()
    sealed = base64.b64encode(wrap(secret.encode(), [site.identity.recipient])).decode()
    with site.writing() as books:
        books.lock(meter)
        situation = site.space(meter).state(books)
        chosen = _events(events, situation.tenants)
        table = schema.webhooks
        if len(books.select(table, table.c.meter == meter)) >= MOST:
            raise invalid("webhooks", MOST + 1, f"at most {MOST} for one meter: remove one first")
        webhook = Webhook(secrets.token_hex(16), meter, url, chosen, site.now())
        details = {"webhook": webhook.id, "host": urlsplit(url).hostname, "events": list(chosen)}
        link = books.audit.append(meter, webhook.created_at, "webhook added", details)
        row = {
            "id": webhook.id,
            "meter": meter,
            "url": url,
            "events": list(chosen),
            "secret": sealed,
            "seen": link.number,
            "created_at": webhook.created_at,
        }
        books.connection.execute(table.insert(), row)
    return webhook, secret


def webhooks(site: Site, meter: str) -> list[Webhook]:
    """List a meter's webhooks, the oldest first, with what became of their messages."""
    table, sent = schema.webhooks, schema.deliveries
    with site.reading() as books:
        rows = books.select(table, table.c.meter == meter, order=(table.c.created_at, table.c.id))
        count = sa.select(sent.c.webhook, sent.c.state, sa.func.count()).group_by(
            sent.c.webhook, sent.c.state
        )
        mine = count.where(sent.c.webhook.in_([row["id"] for row in rows]))
        counts = {(hook, state): number for hook, state, number in books.connection.execute(mine)}
    return [
        Webhook(
            row["id"],
            meter,
            row["url"],
            tuple(row["events"]),
            row["created_at"],
            waiting=counts.get((row["id"], "waiting"), 0),
            sent=counts.get((row["id"], "sent"), 0),
            given_up=counts.get((row["id"], "given up"), 0),
        )
        for row in rows
    ]


def remove_webhook(site: Site, meter: str, identifier: str) -> None:
    """Tell an address nothing more, not even what is waiting."""
    table, sent = schema.webhooks, schema.deliveries
    with site.writing() as books:
        books.lock(meter)
        mine = (table.c.meter == meter) & (table.c.id == identifier)
        if books.connection.execute(table.delete().where(mine)).rowcount == 0:
            raise NotFound(f"webhook {identifier[:32]!r}: none with that id")
        books.connection.execute(sent.delete().where(sent.c.webhook == identifier))
        books.audit.append(meter, site.now(), "webhook removed", {"webhook": identifier})


def check_url(url: str) -> None:
    """Refuse what is no address to send to."""
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        usable = False
    if not usable or len(url) > _LONGEST_URL or not url.isascii() or not url.isprintable():
        raise invalid("url", url[:80], f"http(s)://HOST/..., at most {_LONGEST_URL} characters")
    if " " in url or parts.username or parts.password or parts.fragment:
        raise invalid("url", "(hidden)", "no user, password, fragment or blank in it")


def _events(events: Sequence[str], tenants: int) -> tuple[str, ...]:
    known = [*EVENTS, *(f"{TOLD}:{tenant}" for tenant in range(1, tenants + 1))]
    for event in events:
        if event not in known:
            raise invalid("event", event[:40], f"one of {', '.join(known)}")
    if not events:
        raise invalid("events", [], f"at least one of {', '.join(known)}")
    return tuple(name for name in known if name in events)


def deliver_due(site: Site, send: Send, *, letters: bool = False) -> int:
    """Send what is due; give the number of messages that arrived.

    Any number of threads, processes and machines may call it. With `letters`, labelers get e-mail.
    """
    if _news(site):
        _enqueue(site)
    if letters:
        enqueue_letters(site)
    arrived = 0
    for row in _claim(site, letters=letters):
        try:
            send(_message(site, row))
        except (Undelivered, VaultError) as error:
            _LOG.warning("delivery %s, attempt %d: %s", row["id"], row["attempts"], error)
            _settle(site, row, arrived=False)
        else:
            _settle(site, row, arrived=True)
            arrived += 1
    return arrived


def sign(secret: str, identifier: str, moment: datetime, content: bytes) -> dict[str, str]:
    """Return the headers that identify and sign a body, as Standard Webhooks 1.0.0 defines them."""
    encoded = secret.removeprefix(_SECRET_PREFIX)
    # Webhooks made before this format keep their secret: its own bytes are then the key.
    key = base64.b64decode(encoded) if encoded != secret else secret.encode()
    seconds = str(int(moment.timestamp()))
    signed = f"{identifier}.{seconds}.".encode() + content
    digest = hmac.new(key, signed, hashlib.sha256).digest()
    return {
        "webhook-id": identifier,
        "webhook-timestamp": seconds,
        "webhook-signature": f"v1,{base64.b64encode(digest).decode()}",
    }


def _news(site: Site) -> bool:
    """Tell whether a webhook has links to look at, without taking a lock."""
    hooks, links = schema.webhooks, schema.audit
    query = sa.select(hooks.c.id).join(links, links.c.meter == hooks.c.meter)
    with site.reading() as books:
        found = books.connection.execute(query.where(links.c.number > hooks.c.seen).limit(1))
        return found.first() is not None


def _enqueue(site: Site) -> None:
    """Make messages of the audit links that webhooks have not looked at."""
    hooks, links = schema.webhooks, schema.audit
    with site.writing() as books:
        names = {row.id: row.name for row in books.meters.all()}
        for hook in books.select(hooks):
            unseen = (links.c.meter == hook["meter"]) & (links.c.number > hook["seen"])
            found = [AuditLink(**row) for row in books.select(links, unseen, order=links.c.number)]
            for link in found:
                if (event := _event(link, hook["events"])) is not None:
                    body = {
                        "event": event,
                        "meter": link.meter,
                        "name": names[link.meter],
                        "link": link.number,
                        "at": link.at,
                        "details": _details(books, link),
                    }
                    _put(books, site.now(), hook["id"], hook["url"], body)
            if found:
                changes = {"seen": found[-1].number}
                books.connection.execute(hooks.update().where(hooks.c.id == hook["id"]), changes)
        sent = schema.deliveries
        old = (sent.c.state != "waiting") & (sent.c.created_at < stamp(site.clock() - _KEPT))
        books.connection.execute(sent.delete().where(old & sent.c.webhook.is_not(None)))


def _event(link: AuditLink, events: list[str]) -> str | None:
    """Give what a link is called outside, if the webhook is to be told of it."""
    if link.event == TOLD:
        return TOLD if f"{TOLD}:{link.details['tenant']}" in events else None
    return next((name for name in events if EVENTS.get(name) == link.event), None)


def _details(books: Books, link: AuditLink) -> dict[str, Any]:
    """Give what is told of a link: of a signal what was published, of labels how many are here."""
    if link.event == TOLD:
        return {name: link.details[name] for name in _TOLD}
    if link.event != EVENTS["labels received"]:
        return link.details
    links, number = schema.audit, link.details["generation"]
    before = (links.c.meter == link.meter) & (links.c.number <= link.number)
    here = 0
    for row in books.select(links, before & links.c.event.in_(list(_COUNTED))):
        if row["details"]["generation"] == number:
            here += _COUNTED[row["event"]] * row["details"]["rows"]
    needed = {row.number: row.labels_needed for row in books.testsets.all(link.meter)}
    return link.details | {"labels_here": here, "labels_needed": needed[number]}


def _put(books: Books, now: str, webhook: str, url: str, body: dict[str, Any]) -> None:
    row = {
        "id": secrets.token_hex(16),
        "webhook": webhook,
        "address": url,
        "body": body,
        "state": "waiting",
        "attempts": 0,
        "due_at": now,
        "created_at": now,
    }
    books.connection.execute(schema.deliveries.insert(), row)


def _claim(site: Site, *, letters: bool) -> list[dict[str, Any]]:
    """Take the messages that are due, so that nobody else sends them at the same time."""
    table = schema.deliveries
    now = site.clock()
    due = (table.c.state == "waiting") & (table.c.due_at <= stamp(now))
    if not letters:
        due &= table.c.webhook.is_not(None)
    query = table.select().where(due).order_by(table.c.due_at).limit(_AT_ONCE)
    with site.reading() as books:
        if books.connection.execute(query).first() is None:
            return []
    with site.writing() as books:
        rows = [dict(row) for row in books.connection.execute(query).mappings()]
        for row in rows:
            row["attempts"] += 1
            taken = {"attempts": row["attempts"], "due_at": stamp(now + _LEASE)}
            books.connection.execute(table.update().where(table.c.id == row["id"]), taken)
    return rows


def _message(site: Site, row: dict[str, Any]) -> Message:
    content = json.dumps(row["body"], sort_keys=True).encode()
    headers = None
    if row["webhook"] is not None:
        table = schema.webhooks
        with site.reading() as books:
            found = books.select(table, table.c.id == row["webhook"])
        if not found:
            raise Undelivered("the webhook was removed")
        sealed = base64.b64decode(found[0]["secret"])
        secret = unwrap(sealed, site.identity, "the secret of a webhook").decode()
        headers = sign(secret, row["id"], site.clock(), content)
    return Message(row["id"], row["address"], row["body"], content, headers)


def _settle(site: Site, row: dict[str, Any], *, arrived: bool) -> None:
    """Record what became of a message, unless another sender has taken it meanwhile."""
    table = schema.deliveries
    now = site.clock()
    due = now + _wait(row["attempts"])
    last = datetime.fromisoformat(row["created_at"]) + _GIVE_UP
    changes = {"due_at": stamp(due)}
    if arrived:
        changes = {"state": "sent"}
    elif due > last:
        changes = {"state": "given up"}
    mine = (table.c.id == row["id"]) & (table.c.attempts == row["attempts"])
    with site.writing() as books:
        books.connection.execute(table.update().where(mine), changes)


def _wait(attempts: int) -> timedelta:
    """Wait twice as long every time, and not all at the same moment."""
    longest = min(_FIRST_WAIT * (1 << min(attempts - 1, 20)), _LONGEST_WAIT)
    share = random.uniform(0.5, 1)  # noqa: S311  spreads load, keeps no secret
    return longest * share
