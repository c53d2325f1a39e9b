"""Deliveries in the books: messages that wait, and what became of the others."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import sqlalchemy as sa

from easeml_meter.core.notifications import Delivery, DeliveryState
from easeml_meter.storage import schema
from easeml_meter.storage.books.repository import Repository, columns_of


class Deliveries(Repository):
    """Messages to webhooks and by e-mail."""

    def add(self, delivery: Delivery) -> None:
        """Enter a message that is to be sent."""
        self._connection.execute(schema.deliveries.insert(), columns_of(delivery))

    def get(self, identifier: str) -> Delivery | None:
        """Return a message, or None if it was removed with its webhook."""
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
        self._connection.execute(table.update().where(open_), columns_of(delivery))

    def forget(self, before: str) -> None:
        """Remove the records of old messages to webhooks."""
        table = schema.deliveries
        over = (table.c.state != str(DeliveryState.WAITING)) & (table.c.created_at < before)
        # Those of e-mails stay: they keep the same e-mail from being written again.
        self._connection.execute(table.delete().where(over, table.c.webhook.is_not(None)))


def _read(delivery: Delivery) -> Delivery:
    return replace(delivery, state=DeliveryState(delivery.state))
