"""Webhooks in the books, each with the last audit link that it has looked at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from easeml_meter.core.model import AuditLink
from easeml_meter.core.notifications import DeliveryState, Webhook
from easeml_meter.storage import schema
from easeml_meter.storage.books.repository import Repository


@dataclass(frozen=True, slots=True)
class Unseen:
    """A webhook with the audit links that it has not looked at yet."""

    webhook: Webhook
    links: tuple[AuditLink, ...]


class Webhooks(Repository):
    """The webhooks of all meters."""

    def add(self, webhook: Webhook, *, secret: str, seen: int) -> None:
        """Enter a webhook with its sealed secret; it is told of links after the one `seen`."""
        row = {
            "id": webhook.id,
            "meter": webhook.meter,
            "url": webhook.url,
            "events": list(webhook.events),
            "secret": secret,
            "seen": seen,
            "created_at": webhook.created_at,
        }
        self._connection.execute(schema.webhooks.insert(), row)

    def of(self, meter: str) -> list[Webhook]:
        """Return a meter's webhooks, the oldest first, with what became of their messages."""
        table, sent = schema.webhooks, schema.deliveries
        query = table.select().where(table.c.meter == meter)
        rows = self._connection.execute(query.order_by(table.c.created_at, table.c.id)).all()
        counted = (
            sa.select(sent.c.webhook, sent.c.state, sa.func.count())
            .where(sent.c.webhook.in_([row.id for row in rows]))
            .group_by(sent.c.webhook, sent.c.state)
        )
        counts = {(row[0], row[1]): row[2] for row in self._connection.execute(counted)}
        return [
            _webhook(row, {each: counts.get((row.id, each), 0) for each in DeliveryState})
            for row in rows
        ]

    def remove(self, meter: str, identifier: str) -> bool:
        """Remove a webhook of a meter and its messages; return whether there was one."""
        table, sent = schema.webhooks, schema.deliveries
        mine = (table.c.meter == meter) & (table.c.id == identifier)
        if self._connection.execute(table.delete().where(mine)).rowcount == 0:
            return False
        self._connection.execute(sent.delete().where(sent.c.webhook == identifier))
        return True

    def secret(self, identifier: str) -> str | None:
        """Return a webhook's sealed secret, or None if the webhook was removed."""
        table = schema.webhooks
        query = sa.select(table.c.secret).where(table.c.id == identifier)
        found: str | None = self._connection.execute(query).scalar()
        return found

    def change_secret(self, identifier: str, secret: str) -> None:
        """Keep a webhook's secret, sealed anew."""
        table = schema.webhooks
        change = table.update().where(table.c.id == identifier)
        self._connection.execute(change, {"secret": secret})

    def behind(self) -> bool:
        """Whether some webhook has links to look at."""
        hooks, links = schema.webhooks, schema.audit
        query = sa.select(hooks.c.id).join(links, links.c.meter == hooks.c.meter)
        return (
            self._connection.execute(query.where(links.c.number > hooks.c.seen).limit(1)).first()
            is not None
        )

    def look(self) -> list[Unseen]:
        """Return each webhook that is behind with its new links, which it has then looked at."""
        table, links = schema.webhooks, schema.audit
        found = []
        for hook in self._connection.execute(table.select()).all():
            query = links.select().where(links.c.meter == hook.meter, links.c.number > hook.seen)
            rows = self._connection.execute(query.order_by(links.c.number))
            unseen = tuple(AuditLink(**row) for row in rows.mappings())
            if unseen:
                change = table.update().where(table.c.id == hook.id)
                self._connection.execute(change, {"seen": unseen[-1].number})
                found.append(Unseen(_webhook(hook), unseen))
        return found


def _webhook(row: Any, counts: dict[DeliveryState, int] | None = None) -> Webhook:
    numbers = {state.name.lower(): count for state, count in (counts or {}).items()}
    return Webhook(row.id, row.meter, row.url, tuple(row.events), row.created_at, **numbers)
