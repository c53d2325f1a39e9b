"""Deliveries in the books: messages that wait, and what became of the others."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

import sqlalchemy as sa

from easeml_meter.core.model import AuditLink
from easeml_meter.core.notifications import Delivery, DeliveryState
from easeml_meter.storage import schema
from easeml_meter.storage.books.repository import Repository


class Deliveries(Repository):
    """Messages, and how far the chains that they are made of were looked at."""

    def add(self, delivery: Delivery) -> None:
        """Enter a message that is to be sent."""
        self._add(schema.deliveries, [delivery])

    def get(self, identifier: str) -> Delivery | None:
        """Return a message, or None if there is none."""
        found = self._values(schema.deliveries, Delivery, id=identifier)
        return _read(found[0]) if found else None

    def waiting(self) -> list[Delivery]:
        """Return the messages still to be sent, the one due first first."""
        waiting = str(DeliveryState.WAITING)
        found = self._values(schema.deliveries, Delivery, "due_at", "id", state=waiting)
        return [_read(each) for each in found]

    def known(self, identifiers: Collection[str]) -> set[str]:
        """Return those of these ids that messages have."""
        table = schema.deliveries
        query = sa.select(table.c.id).where(table.c.id.in_(list(identifiers)))
        return set(self._connection.execute(query).scalars())

    def record(self, delivery: Delivery) -> None:
        """Record what became of a message, unless its fate was sealed meanwhile."""
        table = schema.deliveries
        # Of two senders, one of which was taken for dead, the slower must not undo a "sent".
        open_ = (table.c.id == delivery.id) & (table.c.state == str(DeliveryState.WAITING))
        self._connection.execute(table.update().where(open_), schema.columns_of(delivery))

    def forget(self, before: str) -> None:
        """Remove the records of old messages."""
        table = schema.deliveries
        over = (table.c.state != str(DeliveryState.WAITING)) & (table.c.created_at < before)
        # Those of e-mails stay: they keep the same e-mail from being written again.
        self._connection.execute(table.delete().where(over, table.c.address == ""))

    def behind(self) -> bool:
        """Whether there are links that were not looked at yet."""
        return self._connection.execute(_unseen().limit(1)).first() is not None

    def look(self) -> list[AuditLink]:
        """Return the links that were not looked at yet, which they then were."""
        rows = self._connection.execute(_unseen().order_by("meter", "number")).mappings()
        found = [AuditLink(**row) for row in rows]
        meters = schema.meters
        for meter, number in {link.meter: link.number for link in found}.items():
            change = meters.update().where(meters.c.id == meter)
            self._connection.execute(change, {"notified": number})
        return found


def _unseen() -> sa.Select[Any]:
    links, meters = schema.audit, schema.meters
    mine = (links.c.meter == meters.c.id) & (links.c.number > meters.c.notified)
    return sa.select(links).join(meters, mine)


def _read(delivery: Delivery) -> Delivery:
    return replace(delivery, state=DeliveryState(delivery.state))
