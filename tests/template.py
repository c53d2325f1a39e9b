"""New SQLite databases that are copied from one that was migrated once in each test process.

Running all migrations takes longer than most tests. Those in `tests/storage` ask about migrations,
so they run them.
"""

from __future__ import annotations

import sqlite3
import tempfile
import threading
from collections.abc import Iterator
from contextlib import closing
from functools import cache
from pathlib import Path

import pytest
import sqlalchemy as sa

from easeml_meter.storage import migrate

_upgrade = migrate.upgrade
_one_at_a_time = threading.Lock()


@cache
def _template() -> sqlite3.Connection:
    """Return a database in memory with the tables of today."""
    found = sqlite3.connect(":memory:", check_same_thread=False)
    with tempfile.TemporaryDirectory() as folder:
        engine = sa.create_engine(f"sqlite:///{folder}/template.db")
        _upgrade(engine)
        engine.dispose()
        with closing(sqlite3.connect(Path(folder) / "template.db")) as migrated:
            migrated.backup(found)
    return found


def upgrade(engine: sa.Engine) -> None:
    """Fill an empty SQLite database with the tables of today; upgrade any other as usual."""
    if engine.dialect.name == "sqlite":
        with _one_at_a_time, engine.connect() as connection:
            own = connection.connection.driver_connection
            assert isinstance(own, sqlite3.Connection)
            if not own.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                _template().backup(own)
                return
    _upgrade(engine)


@pytest.fixture(scope="session", autouse=True)
def _copying() -> Iterator[None]:
    """Copy new databases instead of migrating them, in every test but those of the storage."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(migrate, "upgrade", upgrade)
        yield


@pytest.fixture
def migrating(monkeypatch: pytest.MonkeyPatch) -> None:
    """Migrate new databases, as for users."""
    monkeypatch.setattr(migrate, "upgrade", _upgrade)
