"""The schema that the migration makes is the one that the code declares."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from tests.postgresql import Cluster
from tests.storage.examples import METER

from easeml_meter.errors import StorageError
from easeml_meter.storage import jobs, migrate, schema, store
from easeml_meter.storage.store import Store

NEXT = """
import sqlalchemy as sa
from alembic import op

revision, down_revision = "0003", "0002"

def upgrade():
    op.add_column("meters", sa.Column("color", sa.String(9)))
    op.execute("UPDATE meters SET color = 'green', name = 'dogs'")
    op.drop_table("guesses")
"""
"""A migration that changes tables and rows."""


@pytest.fixture(params=["sqlite", "postgresql"])
def empty(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The address of a database of each kind without tables."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'meter.db'}"
        return
    cluster: Cluster = request.getfixturevalue("postgresql")
    address = cluster.new_database()
    yield address
    cluster.drop(address)


def assert_declared(opened: Store) -> None:
    with opened.reading() as books:
        options = {"compare_type": True, "compare_server_default": True}
        context = MigrationContext.configure(books.connection, opts=options)
        assert compare_metadata(context, schema.metadata) == []
        found = sa.inspect(books.connection)
        for table in schema.metadata.sorted_tables:
            declared = {
                tuple(column.name for column in constraint.columns)
                for constraint in table.constraints
                if isinstance(constraint, sa.UniqueConstraint)
            }
            made = {
                tuple(each["column_names"]) for each in found.get_unique_constraints(table.name)
            }
            assert made == declared, table.name
            primary = tuple(found.get_pk_constraint(table.name)["constrained_columns"])
            assert primary == tuple(column.name for column in table.primary_key), table.name
            declared_links = {
                (each.referred_table.name, tuple(each.column_keys))
                for each in table.foreign_key_constraints
            }
            links = {
                (str(each["referred_table"]), tuple(each["constrained_columns"]))
                for each in found.get_foreign_keys(table.name)
            }
            assert links == declared_links, table.name
            indexes = {
                str(each["name"])
                for each in found.get_indexes(table.name)
                if not each.get("duplicates_constraint")
            }
            assert indexes == {str(each.name) for each in table.indexes}, table.name


def test_migrations_make_the_declared_schema(empty: str) -> None:
    opened = Store.open(empty)
    assert_declared(opened)
    opened.close()


def test_head_is_the_newest_migration() -> None:
    config = Config()
    config.set_main_option("script_location", str(migrate.FOLDER))
    found = ScriptDirectory.from_config(config)
    assert found.get_heads() == [schema.HEAD]
    assert found.get_bases() == ["0002"]


def test_many_servers_start_at_once(empty: str) -> None:
    def start(_: int) -> None:
        opened = Store.open(empty)
        jobs.install(opened)
        opened.close()

    with ThreadPoolExecutor(6) as threads:
        list(threads.map(start, range(6)))
    opened = Store.open(empty)
    with opened.reading() as books:
        assert set(schema.metadata.tables) <= set(sa.inspect(books.connection).get_table_names())
    opened.close()


def test_opening_again_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "meter.db"
    Store.at(path).close()
    before = path.read_bytes()
    Store.at(path).close()
    assert path.read_bytes() == before


@pytest.mark.parametrize("last", ["CREATE TABLE tokens", "INSERT INTO alembic_version"])
def test_a_migration_cut_short_leaves_nothing_behind(empty: str, last: str) -> None:
    engine = store._engine(empty)

    @sa.event.listens_for(engine, "before_cursor_execute")
    def fail(*call: Any) -> None:
        if last in call[2]:
            raise RuntimeError("power cut")

    with pytest.raises(RuntimeError, match="power cut"):
        migrate.upgrade(engine)
    assert sa.inspect(engine).get_table_names() == []
    engine.dispose()


def everything(engine: sa.Engine) -> dict[str, list[Any]]:
    """Return all rows of all tables."""
    with engine.connect() as connection:
        found = sa.MetaData()
        found.reflect(connection)
        return {each.name: list(connection.execute(each.select())) for each in found.sorted_tables}


@pytest.mark.parametrize("last", ["UPDATE meters", "DROP TABLE guesses", "UPDATE alembic_version"])
def test_an_upgrade_cut_short_leaves_the_old_database_whole(
    empty: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, last: str
) -> None:
    opened = Store.open(empty)
    with opened.writing() as books:
        books.meters.add(METER)
    opened.close()
    folder = tmp_path / "migrations"
    shutil.copytree(migrate.FOLDER, folder, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "versions" / "0002_next.py").write_text(NEXT)
    monkeypatch.setattr(migrate, "FOLDER", folder)
    engine = store._engine(empty)
    before = everything(engine)

    def fail(*call: Any) -> None:
        if last in call[2]:
            raise RuntimeError("power cut")

    sa.event.listen(engine, "before_cursor_execute", fail)
    with pytest.raises(RuntimeError, match="power cut"):
        migrate.upgrade(engine)
    sa.event.remove(engine, "before_cursor_execute", fail)
    assert everything(engine) == before
    migrate.upgrade(engine)
    after = everything(engine)
    assert before.keys() - after.keys() == {"guesses"}
    assert [(row.name, row.color) for row in after["meters"]] == [("dogs", "green")]
    engine.dispose()


def test_a_database_newer_than_the_program(empty: str) -> None:
    Store.open(empty).close()
    engine = store._engine(empty)
    with engine.begin() as connection:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = '9999'"))
    engine.dispose()
    with pytest.raises(StorageError, match="'9999', and this program reads '0002'"):
        Store.open(empty)


@pytest.mark.slow
def test_new_databases_are_made_alike(tmp_path: Path) -> None:
    """Whatever order sets have in a process: equal answers must be equal bytes."""
    make = "import sys; from easeml_meter.storage.store import Store; Store.open(sys.argv[1])"
    made = set()
    for seed in range(8):
        path = tmp_path / f"{seed}.db"
        command_line = [sys.executable, "-c", make, f"sqlite:///{path}"]
        subprocess.run(command_line, env=os.environ | {"PYTHONHASHSEED": str(seed)}, check=True)
        with closing(sqlite3.connect(path)) as database:
            made.add(tuple(database.execute("SELECT name, sql FROM sqlite_master ORDER BY rowid")))
    assert len(made) == 1
