"""Releases that wait for a worker."""

from __future__ import annotations

from easeml_meter.core.model import ReleaseRequest
from easeml_meter.storage import schema
from easeml_meter.storage.books.repository import Repository, columns_of


class Releases(Repository):
    """Requests for a release, at most one for each test set."""

    def put(self, request: ReleaseRequest) -> None:
        """Enter a request, in place of an earlier one for the same test set."""
        table = schema.releases
        which = (table.c.meter == request.meter, table.c.generation == request.generation)
        self._connection.execute(table.delete().where(*which))
        self._connection.execute(table.insert(), columns_of(request))

    def get(self, identifier: str) -> ReleaseRequest | None:
        """Return a request, or None if there is none any more."""
        found = self._values(schema.releases, ReleaseRequest, id=identifier)
        return found[0] if found else None

    def of(self, meter: str, generation: int) -> ReleaseRequest | None:
        """Return the request for a test set, or None if there is none."""
        which = {"meter": meter, "generation": generation}
        found = self._values(schema.releases, ReleaseRequest, **which)
        return found[0] if found else None

    def waiting(self) -> list[ReleaseRequest]:
        """Return the requests that wait or are under way, the oldest first."""
        found = self._values(schema.releases, ReleaseRequest, "turn", "at", "id")
        return [each for each in found if each.problem is None]

    def change(self, request: ReleaseRequest) -> None:
        """Record where a request stands, unless it is gone."""
        table = schema.releases
        change = table.update().where(table.c.id == request.id)
        self._connection.execute(change, columns_of(request))

    def remove(self, identifier: str) -> None:
        """Remove a request: the test set is released."""
        table = schema.releases
        self._connection.execute(table.delete().where(table.c.id == identifier))
