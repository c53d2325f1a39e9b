"""The books: one repository for each noun, all inside one transaction.

Only this package and its siblings in `storage` speak SQL. What comes out are values of `core`;
rows stay inside. Entries and audit links are only ever added.
"""

from __future__ import annotations

import hashlib
from functools import cached_property
from typing import Any

import sqlalchemy as sa

from easeml_meter.storage.books.accounts import Accounts
from easeml_meter.storage.books.audit import AuditLinks
from easeml_meter.storage.books.copies import Copies
from easeml_meter.storage.books.counts import Counts
from easeml_meter.storage.books.deliveries import Deliveries
from easeml_meter.storage.books.entries import Entries
from easeml_meter.storage.books.guesses import WrongPasswords
from easeml_meter.storage.books.handovers import HandOvers
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

    @cached_property
    def meters(self) -> Meters:
        """Meters."""
        return Meters(self.connection)

    @cached_property
    def testsets(self) -> TestSets:
        """Test sets, requested or delivered."""
        return TestSets(self.connection)

    @cached_property
    def parts(self) -> Parts:
        """Parts of test sets that are still requested."""
        return Parts(self.connection)

    @cached_property
    def uploads(self) -> Uploads:
        """Files that are being sent."""
        return Uploads(self.connection)

    @cached_property
    def validation(self) -> ValidationSets:
        """Validation sets."""
        return ValidationSets(self.connection)

    @cached_property
    def entries(self) -> Entries:
        """The answers that were given."""
        return Entries(self.connection)

    @cached_property
    def accounts(self) -> Accounts:
        """What the entries of each tenant come to."""
        return Accounts(self.connection)

    @cached_property
    def handovers(self) -> HandOvers:
        """Hand-overs between tenants."""
        return HandOvers(self.connection)

    @cached_property
    def audit(self) -> AuditLinks:
        """The audit chain of each meter."""
        return AuditLinks(self.connection)

    @cached_property
    def users(self) -> Users:
        """Accounts of people and programs."""
        return Users(self.connection)

    @cached_property
    def guesses(self) -> WrongPasswords:
        """Wrong passwords."""
        return WrongPasswords(self.connection)

    @cached_property
    def seats(self) -> Seats:
        """Who has which role at which meter."""
        return Seats(self.connection)

    @cached_property
    def tokens(self) -> Tokens:
        """Tokens of all users."""
        return Tokens(self.connection)

    @cached_property
    def counts(self) -> Counts:
        """Totals over the whole site."""
        return Counts(self.connection)

    @cached_property
    def copies(self) -> Copies:
        """Wholesale copies, for backups."""
        return Copies(self.connection)

    def version(self) -> str | None:
        """Return the version of the tables; None if there are none yet."""
        if not sa.inspect(self.connection).has_table("alembic_version"):
            return None
        found = self.connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalar()
        return None if found is None else str(found)

    @cached_property
    def submissions(self) -> Submissions:
        """Submissions that wait for a worker, or waited."""
        return Submissions(self.connection)

    @cached_property
    def releases(self) -> Releases:
        """Releases that wait for a worker."""
        return Releases(self.connection)

    @cached_property
    def deliveries(self) -> Deliveries:
        """Messages on their way."""
        return Deliveries(self.connection)

    def lock(self, meter: str | None) -> None:
        """Wait for the lock of a meter, or of any other name, until the transaction ends.

        SQLite has one lock, which beginning to write has taken already.
        """
        if self.connection.dialect.name != "sqlite":
            self.connection.exec_driver_sql(taking_lock(meter))

    def select(self, table: sa.Table, where: Any = None, order: Any = None) -> list[dict[str, Any]]:
        """Read rows of a table that has no repository yet."""
        query = table.select()
        if where is not None:
            query = query.where(where)
        if order is not None:
            query = query.order_by(*(order if isinstance(order, tuple) else (order,)))
        return [row._asdict() for row in self.connection.execute(query)]
