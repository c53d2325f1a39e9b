"""The books: what may be written, and what a transaction promises.

Contract, for every database behind it:

- `Store.writing(meter)` is one transaction that holds the meter's only write lock from its first
  line, so that nobody else writes between its reading and its writing. It commits at the end of the
  block, or leaves no trace if the block raises. After it returns, the commit is on disk. Without a
  meter it holds the lock of what belongs to none, such as users. SQLite has one lock for it all.
- `Store.reading()` is a consistent snapshot.
- Entries and audit links are only ever added. A step exists at most once.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import threading
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, fields, replace
from functools import cache
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeVar

import sqlalchemy as sa

from easeml_meter.core.lifecycle import Phase
from easeml_meter.errors import StorageError, invalid
from easeml_meter.storage import schema
from easeml_meter.storage.schema import (
    AuditRow,
    EntryRow,
    GenerationRow,
    HandoverRow,
    MeterRow,
    ValidationRow,
    values,
)

_LOCK_SECONDS = 60
_GENERATIONS = 256
_START = "0" * 64
Row = TypeVar("Row", MeterRow, GenerationRow, ValidationRow, EntryRow, HandoverRow, AuditRow)
# A machine that vanishes in the middle of a transaction must not keep a meter's lock for hours.
# A commit is on disk when it returns, also where the database's own settings are laxer.
_SESSION = f"""
SELECT set_config('lock_timeout', '{_LOCK_SECONDS}s', false),
       set_config('idle_in_transaction_session_timeout', '300s', false),
       set_config('tcp_keepalives_idle', '15', false),
       set_config('tcp_keepalives_interval', '5', false),
       set_config('tcp_keepalives_count', '3', false),
       CASE current_setting('synchronous_commit')
         WHEN 'off' THEN set_config('synchronous_commit', 'on', false)
       END
"""
Event = tuple[str, str, dict[str, Any]]
"""For the audit chain: when, what, and its details."""
_ADDRESSES = "sqlite:///FILE or postgresql://USER:PASSWORD@HOST/NAME"


class Store:
    """A database with the books of one or many meters."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine
        self._told = Told()
        # SQLite lets those who wait for its lock sleep and look again; here they take turns.
        self._turn = threading.Lock() if self.dialect == "sqlite" else nullcontext()

    @classmethod
    def open(cls, url: str) -> Store:
        """Open a database, creating or upgrading its tables."""
        engine = _engine(url)
        store = cls(engine)
        try:
            store._migrate()
        except sa.exc.SQLAlchemyError as error:
            store.close()
            raise StorageError(f"the database cannot be opened: {_reason(error)}") from error
        except StorageError:
            store.close()
            raise
        return store

    @classmethod
    def at(cls, path: Path) -> Store:
        """Open the SQLite database in a file."""
        return cls.open(f"sqlite:///{path}")

    @property
    def dialect(self) -> str:
        """The kind of database: sqlite or postgresql."""
        return self._engine.dialect.name

    @property
    def address(self) -> str:
        """Where the database is, with its password, for another driver."""
        return self._engine.url.set(drivername=self.dialect).render_as_string(hide_password=False)

    def close(self) -> None:
        """Let go of all connections."""
        self._engine.dispose()

    @contextmanager
    def writing(self, meter: str | None = None) -> Iterator[Books]:
        """Hold the write lock; commit at the end, or leave no trace."""
        with self._turn, self._connection("IMMEDIATE") as books:
            books.lock(meter)
            yield books

    @contextmanager
    def reading(self) -> Iterator[Books]:
        """Read a consistent snapshot."""
        with self._connection("DEFERRED") as books:
            yield books

    @contextmanager
    def _connection(self, mode: str) -> Iterator[Books]:
        try:
            options: dict[str, Any] = {"lock": mode}
            if mode == "DEFERRED" and self.dialect != "sqlite":
                options |= {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
            with (
                self._engine.connect().execution_options(**options) as connection,
                connection.begin(),
            ):
                books = Books(connection, self._told, fills=mode == "DEFERRED")
                yield books
            books.remember()
        except (sa.exc.DBAPIError, sa.exc.TimeoutError) as error:
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


@dataclass(frozen=True)
class History:
    """Entries of one test set that are committed, in the order of each tenant's steps."""

    entries: tuple[EntryRow, ...] = ()
    newest: str = ""
    """When the last of them was told."""

    def after(self, added: Iterable[EntryRow]) -> History:
        """Add entries, unless they are here already."""
        entries, newest = list(self.entries), self.newest
        for entry in added:
            if entry.told_at < self.newest:
                continue
            at = bisect_left(entries, _place(entry), key=_place)
            if at == len(entries) or _place(entries[at]) != _place(entry):
                entries.insert(at, entry)
                newest = max(newest, entry.told_at)
        return self if len(entries) == len(self.entries) else History(tuple(entries), newest)


_place = attrgetter("tenant", "step")


class Told:
    """Histories that were read before, by meter and generation: entries are only ever added.

    Reading a long history again for each answer would take longer than all else.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[str, int], History] = {}

    def get(self, meter: str, generation: int) -> History:
        """Give what is known."""
        return self._known.get((meter, generation), History())

    def put(self, meter: str, generation: int, history: History) -> None:
        """Remember entries that are committed."""
        if len(self._known) >= _GENERATIONS:
            self._known.pop(next(iter(self._known)), None)
        self._known[meter, generation] = history


class Books:
    """Reads and writes inside one transaction."""

    def __init__(
        self, connection: sa.Connection, told: Told | None = None, *, fills: bool = False
    ) -> None:
        self._connection = connection
        self._told = told or Told()
        self._fills = fills  # what a writer reads may never be committed
        self._added: list[EntryRow] = []

    @property
    def connection(self) -> sa.Connection:
        """The transaction itself, for the tables of the server."""
        return self._connection

    def lock(self, meter: str | None) -> None:
        """Wait for the lock of a meter, where beginning to write has not taken it already."""
        if self._connection.dialect.name == "sqlite":
            return
        number = int.from_bytes(hashlib.sha256((meter or "").encode()).digest()[:8], signed=True)
        # Not the meter's row: it also has to work before there is one.
        self._connection.execute(_LOCK, {"number": number})

    def add_meter(self, row: MeterRow) -> None:
        """Enter a new meter."""
        self._connection.execute(schema.meters.insert(), values(row))

    def meter(self, meter: str | None = None) -> MeterRow:
        """Give a meter by its id; that of an embedded database, which has exactly one, without."""
        rows = self._rows(schema.meters, MeterRow, **({} if meter is None else {"id": meter}))
        if len(rows) != 1:
            raise StorageError(f"the database holds {len(rows)} meters: exactly one expected")
        return rows[0]

    def overview(
        self, meter: str | None = None
    ) -> tuple[MeterRow, list[GenerationRow], ValidationRow | None]:
        """Give a meter as `meter` does, its test sets, and its newest validation set, at once."""
        which = {} if meter is None else {"id": meter}
        found = self._connection.execute(_overview(tuple(which)), which).all()
        meters = {row[0] for row in found}
        if len(meters) != 1:
            raise StorageError(f"the database holds {len(meters)} meters: exactly one expected")
        one, two = len(fields(MeterRow)), len(fields(MeterRow)) + len(fields(GenerationRow))
        rows = [GenerationRow(*row[one:two]) for row in found if row[one] is not None]
        newest = found[0][two:]
        return (
            MeterRow(*found[0][:one]),
            [replace(row, phase=Phase(row.phase)) for row in rows],
            None if newest[0] is None else ValidationRow(*newest),
        )

    def meters(self) -> list[MeterRow]:
        """Give all meters, the oldest first."""
        table = schema.meters
        rows = self.select(table, order=(table.c.created_at, table.c.id))
        return [MeterRow(**row) for row in rows]

    def has_meter(self) -> bool:
        """Tell whether a meter was entered."""
        return bool(self.select(schema.meters))

    def add_generation(self, row: GenerationRow) -> None:
        """Ask for a test set."""
        self._connection.execute(schema.generations.insert(), values(row))

    def update_generation(self, row: GenerationRow) -> None:
        """Record that a test set moved on."""
        table = schema.generations
        same = (table.c.meter == row.meter) & (table.c.number == row.number)
        self._connection.execute(table.update().where(same), values(row))

    def generations(self, meter: str) -> list[GenerationRow]:
        """Give all test sets of a meter, the oldest first."""
        rows = self._rows(schema.generations, GenerationRow, "number", meter=meter)
        return [replace(row, phase=Phase(row.phase)) for row in rows]

    def add_validation(self, row: ValidationRow) -> None:
        """Enter a validation set."""
        self._connection.execute(schema.validation_sets.insert(), values(row))

    def validations(self, meter: str) -> list[ValidationRow]:
        """Give all validation sets, the oldest first."""
        return self._rows(schema.validation_sets, ValidationRow, "number", meter=meter)

    def add_entries(self, rows: Sequence[EntryRow]) -> None:
        """Enter answers, before they leave."""
        self._connection.execute(schema.entries.insert(), [values(row) for row in rows])
        self._added += rows

    def remember(self) -> None:
        """Know the answers entered here, now that they are committed, without reading them."""
        for place in {(row.meter, row.generation) for row in self._added}:
            added = [row for row in self._added if (row.meter, row.generation) == place]
            self._told.put(*place, self._told.get(*place).after(added))

    def entries(self, meter: str, generation: int, tenant: int | None = None) -> list[EntryRow]:
        """Give the answers told from one test set, in the order of each tenant's steps."""
        known = self._told.get(meter, generation)
        if len(known.entries) != (count := self.count_entries(meter, generation)):
            known = self._completed(known, count, meter, generation)
        if tenant is None:
            return list(known.entries)
        return [entry for entry in known.entries if entry.tenant == tenant]

    def _completed(self, known: History, count: int, meter: str, generation: int) -> History:
        """Read the entries that are not known yet, or all where that does not add up."""
        which = {"meter": meter, "generation": generation}
        newer = self._connection.execute(_since(), which | {"newest": known.newest})
        found = known.after(EntryRow(*row) for row in newer)
        if len(found.entries) != count:
            rows = self._rows(schema.entries, EntryRow, "tenant", "step", **which)
            found = History().after(rows)
        if self._fills:
            self._told.put(meter, generation, found)
        return found

    def count_entries(self, meter: str, generation: int) -> int:
        """Count the answers told from one test set; as they are only ever added, that says all."""
        which = {"meter": meter, "generation": generation}
        return int(self._connection.execute(_count(), which).scalar_one())

    def add_handover(self, row: HandoverRow) -> None:
        """Record that a checkpoint was handed over."""
        self._connection.execute(schema.handovers.insert(), values(row))

    def handovers(self, meter: str, generation: int) -> list[HandoverRow]:
        """Give the hand-overs while a test set was in use, the oldest first."""
        order = ("at", "giver", "receiver")
        which = {"meter": meter, "generation": generation}
        return self._rows(schema.handovers, HandoverRow, *order, **which)

    def audit(self, meter: str) -> list[AuditRow]:
        """Give the audit chain, the oldest link first."""
        return self._rows(schema.audit, AuditRow, "number", meter=meter)

    def append_audit(self, meter: str, at: str, event: str, details: dict[str, Any]) -> AuditRow:
        """Add a link to the audit chain."""
        return self.append_audits(meter, [(at, event, details)])[0]

    def append_audits(self, meter: str, events: Sequence[Event]) -> list[AuditRow]:
        """Add links to the audit chain, in their order."""
        last = self._connection.execute(_last_link(), {"meter": meter}).first()
        number, previous = (last.number, last.digest) if last else (0, _START)
        rows = []
        for at, event, details in events:
            number += 1
            unsigned = AuditRow(meter, number, at, event, details, previous, digest="")
            rows.append(replace(unsigned, digest=link_digest(unsigned)))
            previous = rows[-1].digest
        self._connection.execute(schema.audit.insert(), [values(row) for row in rows])
        return rows

    def select(self, table: sa.Table, where: Any = None, order: Any = None) -> list[dict[str, Any]]:
        """Read rows of a table."""
        query = table.select()
        if where is not None:
            query = query.where(where)
        if order is not None:
            query = query.order_by(*(order if isinstance(order, tuple) else (order,)))
        return [row._asdict() for row in self._connection.execute(query)]

    def _rows(self, table: sa.Table, kind: type[Row], *order: str, **equal: object) -> list[Row]:
        """Read the rows in which some columns have these values."""
        columns = tuple(field.name for field in fields(kind))
        query = _query(table, columns, order, tuple(equal))
        return [kind(*row) for row in self._connection.execute(query, equal)]


# Building a query takes longer than running it: those that are asked often are built once.


@cache
def _query(
    table: sa.Table, columns: tuple[str, ...], order: tuple[str, ...], names: tuple[str, ...]
) -> sa.Select[Any]:
    where = [table.c[name] == sa.bindparam(name) for name in names]
    found = sa.select(*(table.c[name] for name in columns)).where(*where)
    return found.order_by(*(table.c[name] for name in order))


_LOCK = sa.text("SELECT pg_advisory_xact_lock(:number)")


@cache
def _overview(names: tuple[str, ...]) -> sa.Select[Any]:
    meter, test, validation = schema.meters, schema.generations, schema.validation_sets
    all_of_them = validation.alias()
    newest = sa.select(sa.func.max(all_of_them.c.number)).where(all_of_them.c.meter == meter.c.id)
    its_own = (validation.c.meter == meter.c.id) & (validation.c.number == newest.scalar_subquery())
    rows = ((meter, MeterRow), (test, GenerationRow), (validation, ValidationRow))
    return (
        sa.select(*(table.c[field.name] for table, kind in rows for field in fields(kind)))
        .select_from(
            meter.outerjoin(test, test.c.meter == meter.c.id).outerjoin(validation, its_own)
        )
        .where(*(meter.c[name] == sa.bindparam(name) for name in names))
        .order_by(meter.c.id, test.c.number)
    )


@cache
def _since() -> sa.Select[Any]:
    told_at = schema.entries.c.told_at
    columns = tuple(field.name for field in fields(EntryRow))
    query = _query(schema.entries, columns, (), ("meter", "generation"))
    return query.where(told_at >= sa.bindparam("newest"))


@cache
def _count() -> sa.Select[Any]:
    table = schema.entries
    where = [table.c[name] == sa.bindparam(name) for name in ("meter", "generation")]
    return sa.select(sa.func.count()).select_from(table).where(*where)


@cache
def _last_link() -> sa.Select[Any]:
    table = schema.audit
    query = sa.select(table.c.number, table.c.digest).where(table.c.meter == sa.bindparam("meter"))
    return query.order_by(table.c.number.desc()).limit(1)


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
    address = _address(url)
    if address.get_backend_name() == "sqlite":
        return _sqlite(address)
    try:
        # A pooled connection may have outlived a restart of the database: each is tried first.
        engine = sa.create_engine(
            address,
            pool_pre_ping=True,
            pool_size=10,
            max_overflow=20,
            isolation_level="READ COMMITTED",
            connect_args={"connect_timeout": 10},
        )
    except ImportError:
        raise StorageError(
            "PostgreSQL needs a driver; run: pip install 'easeml-meter[server]'"
        ) from None

    @sa.event.listens_for(engine, "connect")
    def configure(connection: Any, _record: object) -> None:
        connection.autocommit = True
        connection.execute(_SESSION)
        connection.autocommit = False

    return engine


def _address(url: str) -> sa.URL:
    try:
        address = sa.make_url(url)
    except sa.exc.ArgumentError:
        raise invalid("database", "an address that cannot be read", _ADDRESSES) from None
    match address.get_backend_name():
        case "sqlite":
            return address
        case "postgresql" | "postgres":
            return address.set(drivername="postgresql+psycopg")
    raise invalid("database", address.drivername, _ADDRESSES)


def _sqlite(address: sa.URL) -> sa.Engine:
    engine = sa.create_engine(address, connect_args={"timeout": _LOCK_SECONDS})

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
