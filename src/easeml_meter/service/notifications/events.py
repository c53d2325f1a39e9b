"""Which events are sent to webhooks, and the step from audit links to messages.

The audit chain is the outbox: a message is made exactly if its link was committed. Each webhook
remembers the last link it has looked at. Delivery is at least once.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from datetime import timedelta
from fractions import Fraction
from typing import Any

from easeml_meter.core.model import AuditLink, Event, stamp
from easeml_meter.core.notifications import Delivery, Webhook
from easeml_meter.core.signals import Rules, answer_named
from easeml_meter.errors import invalid
from easeml_meter.service.actor import Actor, Permission, needs
from easeml_meter.service.notifications.emails import emails_needed
from easeml_meter.service.place import Site
from easeml_meter.spec import MeterSpec
from easeml_meter.storage import jobs
from easeml_meter.storage.books import Books
from easeml_meter.storage.jobs import Job, Queue

EVENTS = {
    "labels requested": Event.REQUESTED,
    "labels received": Event.PART_ADDED,
    "test set added": Event.TEST_SET_ADDED,
    "labels asked for": Event.LABELS_ASKED,
    "spent": Event.SPENT,
    "released": Event.RELEASED,
    "hand-over requested": Event.HAND_OVER_REQUESTED,
    "hand-over declined": Event.HAND_OVER_DECLINED,
    "handed over": Event.HANDED_OVER,
}
"""What can be sent, and the audit link that says it. Signals (`told:TENANT`) have to be named."""

TOLD = Event.TOLD.value

_COUNTED = {Event.PART_ADDED: 1, Event.PART_WITHDRAWN: -1}
# Of a signal only what its developers see: not who submitted, nor the digest of the submission.
_TOLD = ("generation", "tenant", "step", "answer", "model")
_HAND_OVERS = (Event.HAND_OVER_REQUESTED, Event.HAND_OVER_DECLINED, Event.HANDED_OVER)
_HANDED_OVER = ("generation", "giver", "receiver")
_KEPT = timedelta(days=30)
"""How long the records of messages are kept."""


def all_events(tenants: int) -> list[str]:
    """Return the names of all events of a meter with so many tenants."""
    return [*EVENTS, *(f"{TOLD}:{tenant}" for tenant in range(1, tenants + 1))]


def chosen_events(events: Sequence[str], tenants: int) -> tuple[str, ...]:
    """Return these events in the order of the list; raise `InvalidInput` for any other."""
    known = all_events(tenants)
    for event in events:
        if event not in known:
            raise invalid("event", event[:40], f"one of {', '.join(known)}")
    if not events:
        raise invalid("events", [], f"at least one of {', '.join(known)}")
    return tuple(name for name in known if name in events)


@needs(Permission.OPERATE)
def collect(actor: Actor, site: Site, *, emails: bool = False) -> int:
    """Make the messages that new audit links and open requests call for; return how many.

    Any number of servers may do this at the same time. With `emails`, labelers get e-mail.

    Raises:
        Denied: the actor is not the server itself.
    """
    with site.reading() as books:  # an idle server must not take the write lock
        behind = books.webhooks.behind()
        addressed = emails_needed(books, site.clock()) if emails else []
    if not behind and not addressed:
        return 0
    with site.writing() as books:
        made = _of_links(site, books)
        if emails:
            made += emails_needed(books, site.clock())
        for delivery in made:
            enqueue(books, delivery)
        books.deliveries.forget(stamp(site.clock() - _KEPT))
    return len(made)


def enqueue(books: Books, delivery: Delivery) -> None:
    """Enter a message, and the job that sends it, in one transaction."""
    books.deliveries.add(delivery)
    jobs.enqueue(books, job_of(delivery))


def job_of(delivery: Delivery) -> Job:
    """Return the job that sends a message; messages do not wait for one another."""
    return Job(Queue.NOTIFICATIONS, delivery.id, due_at=delivery.due_at)


def _of_links(site: Site, books: Books) -> list[Delivery]:
    names = {meter.id: meter.name for meter in books.meters.all()}
    made = []
    for unseen in books.webhooks.look():
        for link in unseen.links:
            if (event := _event(link, unseen.webhook)) is not None:
                body = {
                    "event": event,
                    "meter": link.meter,
                    "name": names[link.meter],
                    "link": link.number,
                    "at": link.at,
                    "details": _details(books, link),
                }
                webhook, url = unseen.webhook.id, unseen.webhook.url
                made.append(Delivery.new(secrets.token_hex(16), webhook, url, body, site.now()))
    return made


def _event(link: AuditLink, webhook: Webhook) -> str | None:
    """Return what a link is called outside, or None if the webhook did not choose it."""
    if link.event == TOLD:
        return TOLD if f"{TOLD}:{link.details['tenant']}" in webhook.events else None
    return next((name for name in webhook.events if EVENTS.get(name) == link.event), None)


def _edges(books: Books, link: AuditLink) -> dict[str, Any]:
    """Return the edges of a band where they were drawn: elsewhere its number says them."""
    first_edge = link.details.get("first_edge")
    if first_edge is None:
        return {}
    settings = next(each.settings for each in books.meters.all() if each.id == link.meter)
    rules = Rules(MeterSpec.from_mapping(settings), Fraction(first_edge))
    return {"gap": rules.range_of(answer_named(link.details["answer"]))}


def _details(books: Books, link: AuditLink) -> dict[str, Any]:
    """Return what is sent of a link: of a signal what was published, of labels how many came."""
    if link.event == TOLD:
        return {name: link.details[name] for name in _TOLD} | _edges(books, link)
    if link.event in _HAND_OVERS:
        return {name: link.details[name] for name in _HANDED_OVER}
    if link.event != Event.PART_ADDED:
        return link.details
    number = link.details["generation"]
    here = sum(
        _COUNTED[Event(each.event)] * each.details["rows"]
        for each in books.audit.all(link.meter)[: link.number]
        if each.event in _COUNTED and each.details["generation"] == number
    )
    needed = {row.number: row.labels_needed for row in books.testsets.all(link.meter)}
    return link.details | {"labels_here": here, "labels_needed": needed[number]}
