"""Submissions in the books: the queue, and what became of those that were in it."""

from __future__ import annotations

from dataclasses import replace

from easeml_meter.core.submissions import FINAL, SubmissionState, Ticket
from easeml_meter.storage import schema
from easeml_meter.storage.books.repository import Repository, columns_of


class Submissions(Repository):
    """Submissions that wait for a worker, or waited."""

    def add(self, ticket: Ticket) -> None:
        """Enter a submission that waits."""
        self._connection.execute(schema.submissions.insert(), columns_of(ticket))

    def get(self, identifier: str) -> Ticket | None:
        """Return a submission, or None if there is none, or none any more."""
        found = self._values(schema.submissions, Ticket, id=identifier)
        return _read(found[0]) if found else None

    def of(self, meter: str, tenant: int) -> list[Ticket]:
        """Return a tenant's submissions, the oldest first."""
        which = {"meter": meter, "tenant": tenant}
        found = self._values(schema.submissions, Ticket, "created_at", "id", **which)
        return [_read(each) for each in found]

    def unfinished(self) -> list[Ticket]:
        """Return the submissions that wait or are under way, the oldest first."""
        table = schema.submissions
        query = table.select().where(table.c.state.not_in([str(each) for each in FINAL]))
        rows = self._connection.execute(query.order_by(table.c.created_at, table.c.id))
        return [_read(Ticket(**row)) for row in rows.mappings()]

    def change(self, ticket: Ticket) -> None:
        """Record where a submission stands, unless it is finished already."""
        table = schema.submissions
        # Another worker may have ended it meanwhile, when this one was taken for dead.
        unfinished = table.c.state.not_in([str(each) for each in FINAL])
        change = table.update().where(table.c.id == ticket.id, unfinished)
        self._connection.execute(change, columns_of(ticket))

    def remove(self, identifier: str) -> None:
        """Remove a submission from the queue."""
        table = schema.submissions
        self._connection.execute(table.delete().where(table.c.id == identifier))


def _read(ticket: Ticket) -> Ticket:
    return replace(ticket, state=SubmissionState(ticket.state))
