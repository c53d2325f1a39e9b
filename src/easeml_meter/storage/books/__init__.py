"""The books: one repository for each noun, all inside one transaction.

Only this package and its siblings in `storage` speak SQL. What comes out are values of `core`;
rows stay inside. Entries and audit links are only ever added.
"""

from __future__ import annotations

import hashlib

import sqlalchemy as sa

from easeml_meter.storage.books.audit import AuditLinks
from easeml_meter.storage.books.copies import Copies
from easeml_meter.storage.books.entries import Accounts, Entries, HandOvers
from easeml_meter.storage.books.meters import Meters
from easeml_meter.storage.books.testsets import Parts, Releases, TestSets, Uploads, ValidationSets
from easeml_meter.storage.books.users import Seats, Tokens, Users, WrongPasswords
from easeml_meter.storage.books.work import Counts, Deliveries, Submissions

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
        self.meters = Meters(connection)
        self.testsets = TestSets(connection)
        self.parts = Parts(connection)
        self.uploads = Uploads(connection)
        self.validation = ValidationSets(connection)
        self.entries = Entries(connection)
        self.accounts = Accounts(connection)
        self.handovers = HandOvers(connection)
        self.audit = AuditLinks(connection)
        self.users = Users(connection)
        self.guesses = WrongPasswords(connection)
        self.seats = Seats(connection)
        self.tokens = Tokens(connection)
        self.counts = Counts(connection)
        self.copies = Copies(connection)
        self.submissions = Submissions(connection)
        self.releases = Releases(connection)
        self.deliveries = Deliveries(connection)

    def version(self) -> str | None:
        """Return the version of the tables; None if there are none yet."""
        if not sa.inspect(self.connection).has_table("alembic_version"):
            return None
        found = self.connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalar()
        return None if found is None else str(found)

    def lock(self, meter: str | None) -> None:
        """Wait for the lock of a meter, or of any other name, until the transaction ends.

        SQLite has one lock, which beginning to write has taken already.
        """
        if self.connection.dialect.name != "sqlite":
            self.connection.exec_driver_sql(taking_lock(meter))
