"""Hand-overs in the books: those that count, and those that wait for a tenant to agree."""

from __future__ import annotations

from easeml_meter.core.model import HandOver, HandOverRequest
from easeml_meter.storage import schema
from easeml_meter.storage.books.repository import Repository, columns_of


class HandOvers(Repository):
    """Hand-overs between the tenants of a meter; each counts for one test set."""

    def add(self, handover: HandOver) -> None:
        """Record that a checkpoint was handed over."""
        self._connection.execute(schema.handovers.insert(), columns_of(handover))

    def all(self, meter: str, generation: int) -> list[HandOver]:
        """Return the hand-overs while a test set was in use, the oldest first."""
        which = {"meter": meter, "generation": generation}
        return self._values(schema.handovers, HandOver, "at", "giver", "receiver", **which)

    def request(self, request: HandOverRequest) -> None:
        """Enter a request, or replace it by one to which more tenants have agreed."""
        self.withdraw(request)
        self._connection.execute(schema.handover_requests.insert(), columns_of(request))

    def requests(self, meter: str, generation: int) -> list[HandOverRequest]:
        """Return the requests that wait, the oldest first."""
        table, which = schema.handover_requests, {"meter": meter, "generation": generation}
        return self._values(table, HandOverRequest, "at", "giver", "receiver", **which)

    def withdraw(self, request: HandOverRequest) -> None:
        """Remove a request, if it is there."""
        table = schema.handover_requests
        key = [column == getattr(request, column.name) for column in table.primary_key]
        self._connection.execute(table.delete().where(*key))
