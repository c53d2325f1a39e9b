"""The books: what may be written, and what a transaction promises.

Contract, for every database behind it:

- `Store.writing()` is one transaction that holds the meter's only write lock from its first
  line, so that nobody else reads or writes between its reading and its writing. It commits at the
  end of the block, or leaves no trace if the block raises. After it returns, the commit is on disk.
- `Store.reading()` is a consistent snapshot.
- Entries and audit links are only ever added. A step exists at most once.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from easeml_meter.core.lifecycle import Phase
from easeml_meter.errors import MeterError
from easeml_meter.storage import schema
from easeml_meter.storage.schema import AuditRow, EntryRow, GenerationRow, MeterRow, ValidationRow

_LOCK_SECONDS = 60
_START = "0" * 64


class StorageError(MeterError):
    """The database cannot be used; nothing was written."""


class Store:
    """A database with the books of one or many meters."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    @classmethod
    def open(cls, url: str) -> Store:
        """Open a database, creating or upgrading its tables."""
        engine = _engine(url)
        store = cls(engine)
        try:
            store._migrate()
        except sa.exc.SQLAlchemyError as error:
            raise StorageError(f"the database cannot be opened: {_reason(error)}") from error
        return store

    @classmethod
    def at(cls, path: Path) -> Store:
        """Open the SQLite database in a file."""
        return cls.open(f"sqlite:///{path}")

    def close(self) -> None:
        """Let go of all connections."""
        self._engine.dispose()

    @contextmanager
    def writing(self) -> Iterator[Books]:
        """Hold the write lock; commit at the end, or leave no trace."""
        with self._connection("IMMEDIATE") as books:
            yield books

    @contextmanager
    def reading(self) -> Iterator[Books]:
        """Read a consistent snapshot."""
        with self._connection("DEFERRED") as books:
            yield books

    @contextmanager
    def _connection(self, mode: str) -> Iterator[Books]:
        try:
            with (
                self._engine.connect().execution_options(lock=mode) as connection,
                connection.begin(),
            ):
                yield Books(connection)
        except sa.exc.DBAPIError as error:
            raise StorageError(f"the books cannot be used: {_reason(error)}") from error

    def _migrate(self) -> None:
        with self._engine.connect() as connection:
            tables = sa.inspect(connection).get_table_names()
            found = None
            if "alembic_version" in tables:
                found = connection.exec_driver_sql(
                    "SELECT version_num FROM alembic_version"
                ).scalar()
        if found != schema.HEAD:
            from easeml_meter.storage.migrate import UnknownVersion, upgrade

            try:
                upgrade(self._engine)
            except UnknownVersion:
                raise StorageError(
                    f"the database has version {str(found)[:32]!r}, newer than this program "
                    f"({schema.HEAD!r}): update easeml-meter"
                ) from None


class Books:
    """Reads and writes inside one transaction."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def add_meter(self, row: MeterRow) -> None:
        """Enter a new meter."""
        self._connection.execute(schema.meters.insert(), asdict(row))

    def meter(self) -> MeterRow:
        """Give the meter of an embedded database, which has exactly one."""
        rows = self._select(schema.meters)
        if len(rows) != 1:
            raise StorageError(f"the database holds {len(rows)} meters: exactly one expected")
        return MeterRow(**rows[0])

    def has_meter(self) -> bool:
        """Tell whether a meter was entered."""
        return bool(self._select(schema.meters))

    def add_generation(self, row: GenerationRow) -> None:
        """Ask for a test set."""
        self._connection.execute(schema.generations.insert(), asdict(row))

    def update_generation(self, row: GenerationRow) -> None:
        """Record that a test set moved on."""
        table = schema.generations
        same = (table.c.meter == row.meter) & (table.c.number == row.number)
        self._connection.execute(table.update().where(same), asdict(row))

    def generations(self, meter: str) -> list[GenerationRow]:
        """Give all test sets of a meter, the oldest first."""
        table = schema.generations
        rows = self._select(table, table.c.meter == meter, order=table.c.number)
        return [replace(GenerationRow(**row), phase=Phase(row["phase"])) for row in rows]

    def add_validation(self, row: ValidationRow) -> None:
        """Enter a validation set."""
        self._connection.execute(schema.validation_sets.insert(), asdict(row))

    def validations(self, meter: str) -> list[ValidationRow]:
        """Give all validation sets, the oldest first."""
        table = schema.validation_sets
        rows = self._select(table, table.c.meter == meter, order=table.c.number)
        return [ValidationRow(**row) for row in rows]

    def add_entry(self, row: EntryRow) -> None:
        """Enter an answer, before it leaves."""
        self._connection.execute(schema.entries.insert(), asdict(row))

    def entries(self, meter: str, generation: int, tenant: int | None = None) -> list[EntryRow]:
        """Give the answers told from one test set, in the order of each tenant's steps."""
        table = schema.entries
        where = (table.c.meter == meter) & (table.c.generation == generation)
        if tenant is not None:
            where &= table.c.tenant == tenant
        rows = self._select(table, where, order=(table.c.tenant, table.c.step))
        return [EntryRow(**row) for row in rows]

    def audit(self, meter: str) -> list[AuditRow]:
        """Give the audit chain, the oldest link first."""
        table = schema.audit
        rows = self._select(table, table.c.meter == meter, order=table.c.number)
        return [AuditRow(**row) for row in rows]

    def append_audit(self, meter: str, at: str, event: str, details: dict[str, Any]) -> AuditRow:
        """Add a link to the audit chain."""
        table = schema.audit
        last = (
            self._connection.execute(
                table.select()
                .where(table.c.meter == meter)
                .order_by(table.c.number.desc())
                .limit(1)
            )
            .mappings()
            .first()
        )
        number = last["number"] + 1 if last else 1
        previous = last["digest"] if last else _START
        unsigned = AuditRow(meter, number, at, event, details, previous, digest="")
        row = replace(unsigned, digest=link_digest(unsigned))
        self._connection.execute(table.insert(), asdict(row))
        return row

    def _select(
        self, table: sa.Table, where: Any = None, order: Any = None
    ) -> list[dict[str, Any]]:
        query = table.select()
        if where is not None:
            query = query.where(where)
        if order is not None:
            query = query.order_by(*(order if isinstance(order, tuple) else (order,)))
        return [dict(row) for row in self._connection.execute(query).mappings()]


def link_digest(row: AuditRow) -> str:
    """Give the digest that chains one audit link to the one before."""
    content = [row.meter, row.number, row.at, row.event, row.details, row.previous]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def broken_link(chain: list[AuditRow]) -> int | None:
    """Give the number of the first link that does not fit, or None for a sound chain."""
    previous = _START
    for number, row in enumerate(chain, 1):
        if (row.number, row.previous) != (number, previous) or row.digest != link_digest(row):
            return number
        previous = row.digest
    return None


def _engine(url: str) -> sa.Engine:
    engine = sa.create_engine(url, connect_args={"timeout": _LOCK_SECONDS})

    @sa.event.listens_for(engine, "connect")
    def configure(connection: sqlite3.Connection, _record: object) -> None:
        connection.isolation_level = None  # transactions are begun below, not by the driver
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")  # a commit survives a power cut
        connection.execute("PRAGMA foreign_keys = ON")

    @sa.event.listens_for(engine, "begin")
    def begin(connection: sa.Connection) -> None:
        mode = connection.get_execution_options().get("lock", "DEFERRED")
        connection.exec_driver_sql(f"BEGIN {mode}")

    return engine


def _reason(error: sa.exc.SQLAlchemyError) -> str:
    original = getattr(error, "orig", None)
    return str(original or error).split("\n", maxsplit=1)[0]
