"""A throwaway PostgreSQL: one cluster per test process, an empty database per test."""

from __future__ import annotations

import contextlib
import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from easeml_meter.storage import jobs
from easeml_meter.storage.store import Store

PACKAGE = "the tests need PostgreSQL; run: apt-get install postgresql"

# Without fsync a commit survives a kill of the database, though not a power cut: enough to test
# with, and fast. All else is as in production.
SETTINGS = {
    "fsync": "off",
    "full_page_writes": "off",
    "max_connections": "200",
    "shared_buffers": "32MB",
    "autovacuum": "off",
}


_ALONE = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid()
"""
_EMPTY = """
DO $$ DECLARE found record; filled boolean; BEGIN
  FOR found IN SELECT oid::regclass AS name FROM pg_class
    WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace
    AND relname NOT IN ('alembic_version', 'queue_version')
  LOOP
    EXECUTE format('SELECT EXISTS (SELECT FROM %s)', found.name) INTO filled;
    IF filled THEN EXECUTE format('DELETE FROM %s', found.name); END IF;
  END LOOP;
  FOR found IN SELECT seqrelid::regclass AS name, seqstart FROM pg_sequence LOOP
    PERFORM setval(found.name, found.seqstart, false);
  END LOOP;
END $$
"""
_STATE = """
SELECT
  (SELECT md5(string_agg(concat(relname, relkind, relnatts, relacl), ',' ORDER BY oid))
   FROM pg_class WHERE oid >= 16384 OR relname = 'pg_largeobject_metadata'),
  (SELECT md5(string_agg(concat(conname, pg_get_constraintdef(oid)), ',' ORDER BY oid))
   FROM pg_constraint WHERE oid >= 16384),
  (SELECT md5(string_agg(concat(attname, atttypid, attnotnull), ',' ORDER BY attrelid, attnum))
   FROM pg_attribute WHERE attrelid >= 16384 AND attnum > 0),
  (SELECT md5(string_agg(concat(proname, prosrc), ',' ORDER BY oid))
   FROM pg_proc WHERE oid >= 16384),
  (SELECT md5(string_agg(concat(tgname, tgenabled), ',' ORDER BY oid))
   FROM pg_trigger WHERE NOT tgisinternal),
  (SELECT string_agg(version_num, ',') FROM alembic_version),
  (SELECT string_agg(own::text, ',') FROM queue_version AS own),
  (SELECT count(*) FROM pg_namespace),
  (SELECT count(*) FROM pg_largeobject_metadata),
  (SELECT count(*) FROM pg_db_role_setting AS own JOIN pg_database AS here ON here.oid = setdatabase
   WHERE datname = current_database())
"""
"""What tells a database from its template, but for the rows that were removed."""


class Cluster:
    """A PostgreSQL server of one's own, that can be stopped and started again."""

    def __init__(
        self,
        folder: Path,
        host: str = "127.0.0.1",
        inside: tuple[str, ...] = (),
        **settings: str,
    ) -> None:
        self.folder = folder
        self.settings = SETTINGS | settings
        self.host = host
        self.port = free_port()
        self._inside = inside
        """A command before the server's own, such as one that enters a network namespace."""
        self._process: subprocess.Popen[bytes] | None = None
        self._free: list[str] = []
        """Databases that were used and emptied."""
        own = _account()
        if own:
            shutil.chown(folder, own)
        made = subprocess.run(
            [
                *(*_as_account(), _program("initdb"), "-D", f"{folder}/data", "-U", "postgres"),
                *("-A", "trust", "--no-sync", "-E", "UTF8", "--locale", "C.UTF-8"),
                # It sorts a before B before c, as most servers do and Python does not.
                *("--locale-provider", "icu", "--icu-locale", "en-US"),
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        assert made.returncode == 0, made.stderr
        if host != "127.0.0.1":
            with (folder / "data" / "pg_hba.conf").open("a") as file:
                file.write("host all all samenet trust\n")

    def start(self) -> None:
        """Start it and wait until it answers."""
        settings = self.settings | {
            "listen_addresses": self.host,
            "port": str(self.port),
            "unix_socket_directories": str(self.folder),
        }
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [*self._inside, *_as_account(), _program("postgres"), "-D", f"{self.folder}/data"]
                + [f"--{name}={value}" for name, value in settings.items()],
                stdout=subprocess.DEVNULL,
                stderr=log,
            )
        for _ in range(600):
            assert self._process.poll() is None, (self.folder / "log").read_text()
            with contextlib.suppress(psycopg.OperationalError):
                self._admin().close()
                return
            time.sleep(0.05)
        raise AssertionError((self.folder / "log").read_text())

    def stop(self, *, how: signal.Signals = signal.SIGINT) -> None:
        """Stop it: SIGINT ends all sessions first, SIGQUIT is a crash."""
        assert self._process is not None
        self._process.send_signal(how)
        self._process.wait()
        self._process = None

    def died(self) -> bool:
        """Whether it has stopped by itself."""
        return self._process is None or self._process.poll() is not None

    def restart(self, *, how: signal.Signals = signal.SIGINT) -> None:
        """Stop it and start it again."""
        self.stop(how=how)
        self.start()

    def new_database(self, *, empty: bool = True) -> str:
        """Make a database, empty or with the tables of today; return its address."""
        template = "template0" if empty else self._template
        name = f"test_{secrets.token_hex(8)}"
        with self._admin() as connection:
            # Cheaper than a checkpoint, which is the price of copying files.
            order = sql.SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY wal_log")
            connection.execute(order.format(sql.Identifier(name), sql.Identifier(template)))
        return f"postgresql://postgres@{self.host}:{self.port}/{name}"

    @cached_property
    def _template(self) -> str:
        """A database to copy: that is faster than to migrate each anew."""
        address = self.new_database()
        store = Store.open(address)
        jobs.install(store)
        store.close()
        return address.rpartition("/")[2]

    def lend(self) -> str:
        """Give a database with the tables of today, and without rows; it may have been used."""
        return self._free.pop() if self._free else self.new_database(empty=False)

    def take_back(self, address: str) -> None:
        """Empty a database that was lent, to lend it again: to copy one takes ten times as long.

        One whose tables, settings or kept rows are not those of the template is dropped.
        """
        name = address.rpartition("/")[2]
        with self._admin(name) as connection:
            connection.execute(_ALONE)
            # Neither triggers nor references stand in the way.
            connection.execute("SET session_replication_role = replica")
            connection.execute(_EMPTY)
            kept = connection.execute(_STATE).fetchone() == self._state
        if kept:
            self._free.append(address)
        else:
            self.drop(address)

    @cached_property
    def _state(self) -> tuple[object, ...] | None:
        """What the template has."""
        with self._admin(self._template) as connection:
            return connection.execute(_STATE).fetchone()

    def drop(self, address: str) -> None:
        """Remove a database, whoever is still connected to it."""
        with self._admin() as connection:
            order = sql.SQL("DROP DATABASE {} WITH (FORCE)")
            connection.execute(order.format(sql.Identifier(address.rpartition("/")[2])))

    def _admin(self, database: str = "postgres") -> psycopg.Connection:
        # By the socket, which is there in whatever network the server is.
        address = f"host={self.folder} port={self.port} user=postgres dbname={database}"
        return psycopg.connect(address, autocommit=True)


def free_port() -> int:
    """Give a port that nobody uses."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _program(name: str) -> str:
    """Find a program of the newest version installed."""
    found = list(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    if not found:
        pytest.fail(PACKAGE, pytrace=False)
    return str(max(found, key=lambda path: int(path.parts[4])))


def _account() -> str | None:
    """Give the account to run it as: PostgreSQL refuses to be root."""
    return pwd.getpwnam("postgres").pw_name if os.geteuid() == 0 else None


def _as_account() -> list[str]:
    # It ends with the tests, however these end.
    command = ["setpriv", "--pdeathsig", "INT"]
    account = _account()
    if account:
        command += ["--reuid", account, "--regid", account, "--init-groups"]
    return command


@contextlib.contextmanager
def running(host: str = "127.0.0.1", inside: tuple[str, ...] = ()) -> Iterator[Cluster]:
    """Run a cluster of one's own in a folder that vanishes."""
    _program("postgres")
    # Not in pytest's folders, which other accounts cannot enter; short, for a socket's name.
    with tempfile.TemporaryDirectory(prefix="meter-pg-") as folder:
        cluster = Cluster(Path(folder), host, inside)
        cluster.start()
        try:
            yield cluster
        finally:
            cluster.stop(how=signal.SIGQUIT)


@pytest.fixture(scope="session")
def postgresql() -> Iterator[Cluster]:
    """Give the cluster of this test process."""
    with running() as cluster:
        yield cluster


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Give the address of a database of each kind, without rows."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'meter.db'}"
        return
    cluster: Cluster = request.getfixturevalue("postgresql")
    address = cluster.lend()
    yield address
    cluster.take_back(address)


@pytest.fixture
def team_database(postgresql: Cluster) -> Iterator[str]:
    """Give the address of a PostgreSQL database, without rows."""
    address = postgresql.lend()
    yield address
    postgresql.take_back(address)
