"""The audit chain in the books: every link holds the digest of the one before."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import fields, replace
from functools import cache
from typing import Any

import sqlalchemy as sa

from easeml_meter.core.model import AuditLink
from easeml_meter.storage import schema
from easeml_meter.storage.books.repository import Repository

_START = "0" * 64
Noted = tuple[str, str, dict[str, Any]]
"""What becomes a link: when, which event, and its details."""


class AuditLinks(Repository):
    """The audit chains of all meters; links are only ever added."""

    def all(self, meter: str) -> list[AuditLink]:
        """Return a meter's chain, the oldest link first."""
        return self._values(schema.audit, AuditLink, "number", meter=meter)

    def of(self, meter: str, event: str) -> list[AuditLink]:
        """Return the links of one event, the oldest first."""
        return self._values(schema.audit, AuditLink, "number", meter=meter, event=event)

    def newest_of(self, meter: str, event: str, count: int) -> list[AuditLink]:
        """Return the last so many links of one event, the newest first."""
        given = {"meter": meter, "event": event, "count": count}
        return [AuditLink(*row) for row in self._connection.execute(_newest_of(), given)]

    def newest(self, meter: str) -> int:
        """Return the number of a meter's newest link; 0 if it has none."""
        return self._last(meter)[0]

    def append(self, meter: str, at: str, event: str, details: dict[str, Any]) -> AuditLink:
        """Add a link to the chain."""
        return self.append_all(meter, [(at, event, details)])[0]

    def append_all(self, meter: str, events: Sequence[Noted]) -> list[AuditLink]:
        """Add links to the chain, in their order."""
        number, previous = self._last(meter)
        links = []
        for at, event, details in events:
            number += 1
            unsigned = AuditLink(meter, number, at, event, details, previous, digest="")
            links.append(replace(unsigned, digest=link_digest(unsigned)))
            previous = links[-1].digest
        self._add(schema.audit, links)
        return links

    def _last(self, meter: str) -> tuple[int, str]:
        for number, digest in self._connection.execute(_last_link(), {"meter": meter}):
            return number, digest
        return 0, _START


@cache
def _last_link() -> sa.Select[Any]:
    table = schema.audit
    query = sa.select(table.c.number, table.c.digest).where(table.c.meter == sa.bindparam("meter"))
    return query.order_by(table.c.number.desc()).limit(1)


@cache
def _newest_of() -> sa.Select[Any]:
    table = schema.audit
    same = (table.c[name] == sa.bindparam(name) for name in ("meter", "event"))
    columns = (table.c[field.name] for field in fields(AuditLink))
    query = sa.select(*columns).where(*same).order_by(table.c.number.desc())
    return query.limit(sa.bindparam("count", type_=sa.Integer))


def link_digest(row: AuditLink) -> str:
    """Give the digest that chains one audit link to the one before."""
    content = [row.meter, row.number, row.at, row.event, row.details, row.previous]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def broken_link(chain: list[AuditLink]) -> int | None:
    """Give the number of the first link that does not fit, or None for a sound chain."""
    previous = _START
    for number, row in enumerate(chain, 1):
        if (row.number, row.previous) != (number, previous) or row.digest != link_digest(row):
            return number
        previous = row.digest
    return None
