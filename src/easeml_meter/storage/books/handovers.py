"""Hand-overs in the books."""

from __future__ import annotations

from easeml_meter.core.model import HandOver
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
