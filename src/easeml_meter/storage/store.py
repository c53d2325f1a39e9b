"""The books: what may be written, and what a transaction promises.

Contract, for every database behind it:

- `Store.writing(meter)` is one transaction that holds the meter's only write lock from its first
  line, so that nobody else writes between its reading and its writing. It commits at the end of the
  block, or leaves no trace if the block raises. After it returns, the commit is on disk. Without a
  meter it holds the lock of what belongs to none, such as users. SQLite has one lock for it all.
- `Store.reading()` is a consistent snapshot; `Store.asking()` is one for each question.
- Entries and audit links are only ever added. A step exists at most once.
"""

from __future__ import annotations

import fcntl
import os
import select
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import sqlalchemy as sa

from easeml_meter.errors import StorageError, invalid
from easeml_meter.storage import schema
from easeml_meter.storage.books import BEGIN, Books, taking_lock

_LOCK_SECONDS = 60
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
_BEGIN = "BEGIN ISOLATION LEVEL READ COMMITTED"
_SNAPSHOT = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_TRIED_SECONDS = 5.0
"""How long a connection that was tried is taken to work, unless its end is seen."""
_PRESENCE_SECONDS = 5.0
"""Between two looks of a server at the lock that says it is there."""
_STILL_THERE = sa.text("SELECT 1")
_NUMBER = int.from_bytes(b"meterdb")
_ALONE = sa.text(f"SELECT pg_try_advisory_lock({_NUMBER})")
_TOGETHER = sa.text(f"SELECT pg_try_advisory_lock_shared({_NUMBER})")
_GONE = sa.text("SELECT pg_advisory_unlock_all()")
_ESCAPED = "write @ in a password as %40"
_ADDRESSES = "sqlite:///FILE or postgresql://USER:PASSWORD@HOST/NAME"


class Store:
    """A database with the books of one or many meters."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine
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
        return cls.open(sqlite_url(path))

    @classmethod
    def look(cls, url: str) -> Store | None:
        """Open a database as it is, without making or upgrading anything; None if it is not there.

        Raises:
            StorageError: it is there, and cannot be used.
        """
        address = _address(url)
        sqlite = address.get_backend_name() == "sqlite"
        if sqlite and not Path(address.database or "").is_file():
            return None
        return cls(_engine(url))

    @staticmethod
    def file(url: str) -> Path | None:
        """Return the file of a SQLite database; None for any other."""
        address = _address(url)
        sqlite = address.get_backend_name() == "sqlite"
        return Path(address.database) if sqlite and address.database else None

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
        # First the turn, then the lock of the database: whoever waits holds neither connection nor
        # lock.
        with self._turn, self._connection(self._locked(meter)) as books:
            yield books

    def reading(self) -> AbstractContextManager[Books]:
        """Read a consistent snapshot."""
        return self._connection("BEGIN DEFERRED" if self._sqlite else _SNAPSHOT)

    def asking(self) -> AbstractContextManager[Books]:
        """Read without a transaction: PostgreSQL then answers a question in one round trip.

        A single statement sees one moment; two of them may see two.
        """
        return self._connection("BEGIN DEFERRED" if self._sqlite else "")

    @property
    def _sqlite(self) -> bool:
        return self.dialect == "sqlite"

    def _locked(self, meter: str | None) -> str:
        # In one round trip. What is read afterwards is of a moment after the lock was taken.
        return "BEGIN IMMEDIATE" if self._sqlite else f"{_BEGIN}; {taking_lock(meter)}"

    @contextmanager
    def _connection(self, begin: str) -> Iterator[Books]:
        try:
            with self._engine.connect() as connection:
                connection.info[BEGIN] = begin
                with connection.begin():
                    yield Books(connection)
        except (sa.exc.DBAPIError, sa.exc.TimeoutError) as error:
            raise StorageError(f"the books cannot be used: {_reason(error)}") from error

    def _migrate(self) -> None:
        with self._engine.connect() as connection:
            found = Books(connection).version()
        # Imported only if there is something to upgrade: alembic takes long to load.
        if found != schema.HEAD:
            from easeml_meter.storage.migrate import UnknownVersion, upgrade

            try:
                upgrade(self._engine)
            except UnknownVersion:
                raise StorageError(
                    f"the database has version {str(found)[:32]!r}, and this program reads "
                    f"{schema.HEAD!r}: use the easeml-meter that wrote it"
                ) from None


def sqlite_url(path: Path) -> str:
    """Return the address of the SQLite database in a file, whatever its folders are called."""
    name = str(path)
    # A folder such as run?1 or feature%2Fx, as CI names them, must not become another one: some
    # versions of SQLAlchemy take what follows a % for a character of an address.
    if sa.make_url("sqlite:///%25").database == "%":
        name = name.replace("%", "%25").replace("?", "%3F")
    return f"sqlite:///{name}"


@contextmanager
def in_use(url: str) -> Iterator[None]:
    """Keep restores away from a database, and from SQLite every other server; make its folder.

    The operating system, or PostgreSQL, frees the lock when the process ends, however it ends.

    Raises:
        StorageError: a restore uses the database, or on SQLite another server.
    """
    with _alone_on_sqlite(url) if _is_sqlite(url) else _Present(url):
        yield


@contextmanager
def alone(url: str) -> Iterator[None]:
    """Keep every server, worker and other restore away from a database; make its folder if new."""
    if _is_sqlite(url):
        with _alone_on_sqlite(url):
            yield
        return
    engine = _engine(url)
    try:
        with _session(engine) as connection:
            if not connection.execute(_ALONE).scalar_one():
                raise StorageError(
                    "another meter serve, meter worker or meter restore uses the database: stop "
                    "all of them first"
                )
            try:
                yield
            finally:
                _let_go(connection)
    except sa.exc.DBAPIError as error:
        raise StorageError(f"the database cannot be used: {_reason(error)}") from error
    finally:
        engine.dispose()


class _Present:
    """Holds a lock of PostgreSQL that all servers and workers share.

    A session that ends, as with a restart of the database, takes its locks along: they are taken
    again.
    """

    def __init__(self, url: str) -> None:
        self._engine = _engine(url)
        self._connection: sa.Connection | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._stay, name="presence", daemon=True)

    def __enter__(self) -> None:
        try:
            if not self._take():
                self._engine.dispose()
                raise StorageError("a meter restore uses the database: start when it is done")
        except sa.exc.DBAPIError as error:
            self._engine.dispose()
            raise StorageError(f"the database cannot be opened: {_reason(error)}") from error
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()
        self._engine.dispose()

    def _take(self) -> bool:
        connection = _session(self._engine)
        if not connection.execute(_TOGETHER).scalar_one():
            connection.close()
            return False
        self._connection = connection
        return True

    def _stay(self) -> None:
        while not self._stopping.wait(_PRESENCE_SECONDS):
            try:
                if self._connection is not None:
                    self._connection.execute(_STILL_THERE)
            except sa.exc.DBAPIError:
                self._connection = None
            if self._connection is None:
                # At once: without the lock, a restore may begin. If the database is away, it comes
                # back, or nothing works.
                with suppress(sa.exc.DBAPIError):
                    self._take()
        if self._connection is not None:
            _let_go(self._connection)
            self._connection.close()


def _let_go(connection: sa.Connection) -> None:
    """Free the locks of a session now: PostgreSQL ends it some time after it was closed."""
    with suppress(sa.exc.DBAPIError):
        connection.execute(_GONE)


def _session(engine: sa.Engine) -> sa.Connection:
    """Return a connection outside of transactions: its locks last until it is closed."""
    connection = engine.connect()
    connection.info[BEGIN] = ""
    return connection


def _is_sqlite(url: str) -> bool:
    return _address(url).get_backend_name() == "sqlite"


@contextmanager
def _alone_on_sqlite(url: str) -> Iterator[None]:
    address = _address(url)
    if not address.database:
        yield
        return
    # By its real name: a server that comes through a symbolic link uses the same database.
    path = Path(f"{os.path.realpath(address.database)}.lock")
    # The database holds hashes of passwords, and the key beside it opens test sets.
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with path.open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StorageError(
                f"{address.database}: another meter serve or meter restore uses it: stop that "
                "first, or use PostgreSQL for several servers"
            ) from None
        yield


def _engine(url: str) -> sa.Engine:
    address = _address(url)
    if address.get_backend_name() == "sqlite":
        return _sqlite(address)
    try:
        # A pooled connection may have outlived a restart of the database: each is tried first.
        # Never with `skip_autocommit_rollback`: transactions are not begun by the driver here, and
        # one that failed would go on for whoever gets its connection next.
        engine = sa.create_engine(
            address,
            pool_pre_ping=True,
            pool_size=10,
            max_overflow=20,
            isolation_level="AUTOCOMMIT",  # transactions are begun below, not by the driver
            connect_args={"connect_timeout": 10},
        )
    except ImportError:
        raise StorageError(
            "PostgreSQL needs a driver; run: pip install 'easeml-meter[server]'"
        ) from None

    # Rows that are entered together go in one statement, not one by one.
    engine.dialect.use_insertmanyvalues_wo_returning = True
    engine.dialect.do_ping = _tried(engine.dialect.do_ping)  # type: ignore[assignment,method-assign]

    @sa.event.listens_for(engine, "connect")
    def configure(connection: Any, _record: object) -> None:
        connection.autocommit = True
        connection.execute(_SESSION)

    def begin(connection: sa.PoolProxiedConnection) -> None:
        if how := connection.info.pop(BEGIN, _BEGIN):
            connection.driver_connection.execute(how, prepare=False)  # type: ignore[union-attr]

    engine.dialect.do_begin = begin  # type: ignore[assignment,method-assign]
    return engine


def _tried(ping: Callable[[Any], bool]) -> Callable[[Any], bool]:
    """Return what tries a connection, and asks the database only if that is in doubt.

    A database that stops says so, or is cut off: its end of the connection can then be read. So
    that need not be asked with a round trip before every transaction.
    """
    tried: WeakKeyDictionary[Any, float] = WeakKeyDictionary()

    def look(connection: Any) -> bool:
        now = time.monotonic()
        told = select.poll()
        told.register(connection.fileno(), select.POLLIN)
        if now - tried.get(connection, -_TRIED_SECONDS) < _TRIED_SECONDS and not told.poll(0):
            return True
        ping(connection)
        tried[connection] = now
        return True

    return look


def _address(url: str) -> sa.URL:
    try:
        address = sa.make_url(url)
    except (sa.exc.ArgumentError, ValueError):  # of a port that is no number
        wanted = f"{_ADDRESSES}; {_ESCAPED}" if "@" in url else _ADDRESSES
        raise invalid("database", "an address that cannot be read", wanted) from None
    match address.get_backend_name():
        case "sqlite":
            return address
        case "postgresql" | "postgres":
            # Whatever follows the first @ of a password is read as host and name of the database,
            # and the driver would quote it.
            if "@" in (address.host or "") or "/" in (address.database or "").partition("@")[2]:
                given = "an address with several @ (hidden)"
                raise invalid("database", given, f"{_ADDRESSES}; {_ESCAPED}")
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

    def begin(connection: sa.PoolProxiedConnection) -> None:
        how = connection.info.pop(BEGIN, "BEGIN DEFERRED")
        connection.driver_connection.execute(how)  # type: ignore[union-attr]

    # Not by an event: SQLAlchemy looks for listeners at every statement once an engine has one.
    engine.dialect.do_begin = begin  # type: ignore[assignment,method-assign]
    return engine


def _reason(error: sa.exc.SQLAlchemyError) -> str:
    original = getattr(error, "orig", None)
    return str(original or error).split("\n", maxsplit=1)[0]
