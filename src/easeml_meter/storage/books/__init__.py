"""The books: one repository for each noun, all inside one transaction.

Only this package and its siblings in `storage` speak SQL. What comes out are values of `core`;
rows stay inside. Entries and audit links are only ever added.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from typing import Any

import sqlalchemy as sa

from easeml_meter.core.idempotency import KeyedRequest
from easeml_meter.storage.books.accounts import Accounts
from easeml_meter.storage.books.audit import AuditLinks
from easeml_meter.storage.books.copies import Copies
from easeml_meter.storage.books.counts import Counts
from easeml_meter.storage.books.deliveries import Deliveries
from easeml_meter.storage.books.entries import Entries
from easeml_meter.storage.books.exchange import Exchange, Query
from easeml_meter.storage.books.guesses import WrongPasswords
from easeml_meter.storage.books.handovers import HandOvers
from easeml_meter.storage.books.idempotency import KeyedRequests
from easeml_meter.storage.books.meters import Meters
from easeml_meter.storage.books.parts import Parts
from easeml_meter.storage.books.releases import Releases
from easeml_meter.storage.books.seats import Seats
from easeml_meter.storage.books.submissions import Submissions
from easeml_meter.storage.books.testsets import TestSets
from easeml_meter.storage.books.tokens import Tokens
from easeml_meter.storage.books.uploads import Uploads
from easeml_meter.storage.books.users import Users
from easeml_meter.storage.books.validation import ValidationSets

BEGIN = "begin"
"""Where a connection says how its next transaction begins; empty: there is none."""


def taking_lock(meter: str | None) -> str:
    """Return the statement with which PostgreSQL waits for the lock of a meter."""
    number = int.from_bytes(hashlib.sha256((meter or "").encode()).digest()[:8], signed=True)
    # An advisory lock, not the meter's row: it must work before there is a row.
    return f"SELECT pg_advisory_xact_lock({number})"


class Books:
    """Reads and writes inside one transaction, by noun."""

    def __init__(self, connection: sa.Connection) -> None:
        self.connection = connection
        self._exchange = Exchange(connection)

    @cached_property
    def meters(self) -> Meters:
        """Meters."""
        return Meters(self._exchange)

    @cached_property
    def testsets(self) -> TestSets:
        """Test sets, requested or delivered."""
        return TestSets(self._exchange)

    @cached_property
    def parts(self) -> Parts:
        """Parts of test sets that are still requested."""
        return Parts(self._exchange)

    @cached_property
    def uploads(self) -> Uploads:
        """Files that are being sent."""
        return Uploads(self._exchange)

    @cached_property
    def validation(self) -> ValidationSets:
        """Validation sets."""
        return ValidationSets(self._exchange)

    @cached_property
    def entries(self) -> Entries:
        """The answers that were given."""
        return Entries(self._exchange)

    @cached_property
    def accounts(self) -> Accounts:
        """What the entries of each tenant come to."""
        return Accounts(self._exchange)

    @cached_property
    def handovers(self) -> HandOvers:
        """Hand-overs between tenants."""
        return HandOvers(self._exchange)

    @cached_property
    def audit(self) -> AuditLinks:
        """The audit chain of each meter."""
        return AuditLinks(self._exchange)

    @cached_property
    def users(self) -> Users:
        """Accounts of people and programs."""
        return Users(self._exchange)

    @cached_property
    def guesses(self) -> WrongPasswords:
        """Wrong passwords."""
        return WrongPasswords(self._exchange)

    @cached_property
    def seats(self) -> Seats:
        """Who has which role at which meter."""
        return Seats(self._exchange)

    @cached_property
    def tokens(self) -> Tokens:
        """Tokens of all users."""
        return Tokens(self._exchange)

    @cached_property
    def idempotency(self) -> KeyedRequests:
        """Requests that came with an Idempotency-Key."""
        return KeyedRequests(self._exchange)

    @cached_property
    def counts(self) -> Counts:
        """Totals over the whole site."""
        return Counts(self._exchange)

    @cached_property
    def copies(self) -> Copies:
        """Wholesale copies, for backups."""
        return Copies(self._exchange)

    def version(self) -> str | None:
        """Return the version of the tables; None if there are none yet."""
        if not sa.inspect(self.connection).has_table("alembic_version"):
            return None
        found = self.connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalar()
        return None if found is None else str(found)

    @cached_property
    def submissions(self) -> Submissions:
        """Submissions that wait for a worker, or waited."""
        return Submissions(self._exchange)

    @cached_property
    def releases(self) -> Releases:
        """Releases that wait for a worker."""
        return Releases(self._exchange)

    @cached_property
    def deliveries(self) -> Deliveries:
        """Messages on their way."""
        return Deliveries(self._exchange)

    def lock(self, meter: str | None) -> None:
        """Wait for the lock of a meter, or of any other name, until the transaction ends.

        SQLite has one lock, which beginning to write has taken already.
        """
        if self.connection.dialect.name != "sqlite":
            self._exchange.forget()  # whoever held the lock may have written what was read
            self.connection.exec_driver_sql(taking_lock(meter))

    def read_ahead(
        self,
        meter: str,
        *,
        state: bool = False,
        requests: Sequence[KeyedRequest] = (),
        generation: int | None = None,
        submissions: Collection[tuple[int, str]] = (),
        chain: bool = False,
    ) -> None:
        """Read what will be asked next all at once, where each question is a round trip.

        The meter's `state`, the keys of `requests`, the accounts of a test set, the answers to
        `submissions`, and where the audit `chain` ends. All of it is of one moment, and is read
        again if anything is written, or a lock is taken, before it is asked for.
        """
        asked: list[Query] = []
        if state:
            asked.append(self.meters.question(meter))
        if requests:
            asked.append(self.idempotency.question({each.place for each in requests}))
        if generation is not None:
            asked.append(self.accounts.question(meter, generation))
        if submissions:
            asked.append(self.entries.question(meter, submissions))
        if chain:
            asked.append(self.audit.question(meter))
        if len(asked) > 1:
            self._exchange.read_ahead(*asked)

    def entering(self) -> AbstractContextManager[None]:
        """Enter what is added inside at the end, all at once, where each statement is a round trip.

        Entries, accounts, audit links and keys; what was added is not read inside.
        """
        return self._exchange.entering()

    def select(self, table: sa.Table, where: Any = None, order: Any = None) -> list[dict[str, Any]]:
        """Read rows of a table that has no repository yet."""
        query = table.select()
        if where is not None:
            query = query.where(where)
        if order is not None:
            query = query.order_by(*(order if isinstance(order, tuple) else (order,)))
        return [row._asdict() for row in self.connection.execute(query)]
