"""Meters of every earlier schema go on once migrated; a migration that fails leaves them whole."""

from __future__ import annotations

import json
import sqlite3
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from tests.cli.running import Captured, run
from tests.postgresql import Cluster
from tests.storage.test_migrations import make

from easeml_meter.meter import Meter
from easeml_meter.service.place import Home
from easeml_meter.storage import migrate, store
from easeml_meter.storage.schema import HEAD
from easeml_meter.storage.store import Store

DATA = Path(__file__).parents[1] / "data" / "schemas"
VERSIONS = sorted(path.name.partition(".")[0] for path in DATA.glob("*.tar.xz"))
ORDER = ("meters", "generations", "validation_sets", "entries", "audit")
"""Tables with rows in the fixtures, in an order in which they can be filled."""


@pytest.fixture(params=VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


@pytest.fixture
def folder(version: str, tmp_path: Path) -> Path:
    """What a program of that schema left."""
    with tarfile.open(DATA / f"{version}.tar.xz") as packed:
        packed.extractall(tmp_path, filter="data")
    return tmp_path


@pytest.fixture(params=["sqlite", "postgresql"])
def address(request: pytest.FixtureRequest, folder: Path, version: str) -> Iterator[str]:
    """The database: as it was left, or the same rows in PostgreSQL at the same schema."""
    path = Home(folder / "meter").database
    if request.param == "sqlite":
        yield f"sqlite:///{path}"
        return
    cluster: Cluster = request.getfixturevalue("postgresql")
    made = cluster.new_database(empty=True)
    with sqlite3.connect(path) as connection:
        connection.row_factory = sqlite3.Row
        rows = {name: [_row(row) for row in connection.execute(_all(name))] for name in ORDER}
    make(made, version, rows)
    yield made
    cluster.drop(made)


def _row(row: sqlite3.Row) -> dict[str, Any]:
    """Return a row for PostgreSQL, which knows what is true."""
    return {
        name: bool(value) if name == "after_reset" else value for name, value in dict(row).items()
    }


def _all(table: str) -> str:
    return f"SELECT * FROM {table}"  # noqa: S608


@contextmanager
def meter_at(folder: Path, address: str) -> Iterator[Meter]:
    opened = Store.open(address)
    try:
        yield Meter(replace(Home(folder / "meter").workspace(), open_store=lambda: opened))
    finally:
        opened.close()


def submit(meter: Meter, folder: Path, number: int) -> Any:
    given = folder / "given"
    files = given / f"test-{number}.csv", given / f"validation-{number}.csv"
    return meter.submit(*files, model=f"m{number}")


def goes_on(meter: Meter, folder: Path) -> None:
    """Check that what was told is known, that it is repeated for free, and that more is told."""
    told = json.loads((folder / "told.json").read_text())
    assert len(told) == 3
    again = submit(meter, folder, 2)
    assert (str(again.answer), again.step, again.repeated) == (told[2], 3, True)
    later = [submit(meter, folder, number) for number in (3, 4)]
    assert [(str(each.answer), each.step, each.repeated) for each in later] == [
        ("3", 4, False),
        ("3", 5, False),
    ]
    steps = meter.history()[0].signals
    assert [str(each.answer) for each in steps] == [*told, "3", "3"]
    assert meter.audit().problems == ()


def test_the_schemas_that_were_in_use_are_here() -> None:
    assert {"0001", "0002", "0003", "0004", "0005", "0006", "0007", "0008", "0009"} <= set(VERSIONS)
    assert max(VERSIONS) < HEAD


def test_a_meter_is_migrated_and_goes_on(folder: Path, address: str) -> None:
    with meter_at(folder, address) as meter:
        goes_on(meter, folder)
    opened = Store.open(address)
    with opened.reading() as books:
        assert books.version() == HEAD
    opened.close()


def everything(engine: sa.Engine) -> dict[str, list[tuple[Any, ...]]]:
    """Return all rows of all tables."""
    with engine.connect() as connection:
        names = sorted(sa.inspect(connection).get_table_names())
        return {
            name: sorted(map(tuple, connection.exec_driver_sql(_all(name))), key=repr)
            for name in names
        }


def test_a_migration_that_fails_at_its_end_leaves_the_old_state_whole(
    folder: Path, address: str
) -> None:
    engine = store._engine(address)
    before = everything(engine)

    @sa.event.listens_for(engine, "before_cursor_execute")
    def fail(*call: Any) -> None:
        if "UPDATE alembic_version" in call[2] and HEAD in f"{call[2]} {call[3]}":
            raise RuntimeError("power cut")

    with pytest.raises(RuntimeError, match="power cut"):
        migrate.upgrade(engine)
    sa.event.remove(engine, "before_cursor_execute", fail)
    assert everything(engine) == before
    engine.dispose()
    with meter_at(folder, address) as meter:
        goes_on(meter, folder)


def test_a_backup_is_restored_and_goes_on(folder: Path, version: str, capsys: Captured) -> None:
    """That of schema 0004 was refused, though its rows are those of 0003."""
    if version == "0001":
        assert not (folder / "backup").exists()  # it had none
        return
    there = folder / "there"
    code, _, err = run(capsys, "restore", str(folder / "backup"), "-C", str(there))
    assert code == 0, err
    told = json.loads((folder / "told.json").read_text())
    meter = Meter.open(there)
    again = submit(meter, folder, 2)
    assert (str(again.answer), again.step, again.repeated) == (told[2], 3, True)
    assert submit(meter, folder, 3).step == 4
