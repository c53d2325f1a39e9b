"""The schema that migrations make is the one that the code declares, from every older one."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from tests.postgresql import Cluster
from tests.storage.examples import ENTRY

from easeml_meter.core.lifecycle import Phase
from easeml_meter.core.model import AuditLink, MeterRecord, TestSet, ValidationSet
from easeml_meter.errors import StorageError
from easeml_meter.storage import jobs, migrate, schema, store
from easeml_meter.storage.books.audit import broken_link, link_digest
from easeml_meter.storage.store import Store

FOLDER = Path(migrate.__file__).parent / "migrations"
NOW = "2026-01-01T00:00:00.000000+00:00"


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


def config() -> Config:
    made = Config()
    made.set_main_option("script_location", str(FOLDER))
    return made


def scripts() -> ScriptDirectory:
    return ScriptDirectory.from_config(config())


def older() -> list[str]:
    """List all released schemas but the newest."""
    found = [each.revision for each in scripts().walk_revisions()]
    return sorted(found)[:-1]


def make(address: str, version: str, rows: dict[str, list[dict[str, Any]]]) -> None:
    """Make a database as an older program left it; JSON is given as text."""
    engine = store._engine(address)
    try:
        with engine.connect().execution_options(lock="IMMEDIATE") as connection, connection.begin():
            settings = config()
            settings.attributes["connection"] = connection
            command.upgrade(settings, version)
            for table, values in rows.items():
                for value in values:
                    names = ", ".join(f'"{name}"' for name in value)
                    places = ", ".join(f":{name}" for name in value)
                    order = f"INSERT INTO {table} ({names}) VALUES ({places})"  # noqa: S608
                    connection.execute(sa.text(order), value)
    finally:
        engine.dispose()


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
    assert scripts().get_current_head() == schema.HEAD
    assert scripts().get_bases() == ["0001"]
    assert len(scripts().get_heads()) == 1


METER = MeterRecord("m", "cats – ünïcode", {"meter": {"steps": 4}}, NOW)
GENERATION = TestSet(
    "m",
    1,
    Phase.ACTIVE,
    100,
    NOW,
    rows=123,
    fingerprint="f" * 64,
    manifest={"columns": ["x"]},
    blob="testsets/1.sealed",
)
VALIDATION = ValidationSet("m", 1, "d" * 64, 20, {"label": "y"}, "v/1.csv", NOW)
_LINK = AuditLink("m", 1, NOW, "told", {"step": 1, "model": "ü"}, "0" * 64, "")
LINK = replace(_LINK, digest=link_digest(_LINK))


def written(row: Any, *left_out: str) -> dict[str, Any]:
    """Write a row as an older program did, without columns that came later."""
    values = {name: getattr(row, name) for name in row.__slots__ if name not in left_out}
    return {
        name: json.dumps(value) if isinstance(value, dict) else value
        for name, value in values.items()
    }


LATER = ("first_edge", "old", "token", "asked")
"""What entries have had since schema 0006."""

# What the first release wrote; later ones wrote that too.
ROWS = {
    "meters": [written(METER)],
    "generations": [written(GENERATION, "reason", "deadline", "count")],
    "validation_sets": [written(VALIDATION)],
    "entries": [written(ENTRY, "user", *LATER) | {"tenant": 0}],
    "audit": [written(LINK)],
}


@pytest.mark.parametrize("version", older())
def test_every_released_schema_is_upgraded_with_its_rows(empty: str, version: str) -> None:
    entries = {"entries": [written(ENTRY, *LATER)]}
    make(empty, version, ROWS if version < "0003" else ROWS | entries)
    opened = Store.open(empty)
    assert_declared(opened)
    with opened.reading() as books:
        assert books.meters.all() == [METER]
        assert books.testsets.all("m") == [GENERATION]
        assert books.validation.all("m") == [VALIDATION]
        assert books.entries.all("m", 1) == [ENTRY]
        assert books.audit.all("m") == [LINK]
        assert broken_link(books.audit.all("m")) is None
    with opened.writing("m") as books:
        books.entries.add([replace(ENTRY, step=2, submission="t" * 64)])
        books.audit.append("m", NOW, "told", {"step": 2})
        assert broken_link(books.audit.all("m")) is None
    opened.close()


def test_tenants_are_counted_from_one_and_entries_learn_their_users(empty: str) -> None:
    places = [(tenant, step) for tenant in (0, 1, 2) for step in (1, 2)]
    rows = {name: ROWS[name] for name in ("meters", "generations", "validation_sets")}
    rows["entries"] = [
        written(
            replace(ENTRY, tenant=tenant, step=step, submission=f"{step:064}"),
            "user",
            *LATER,
        )
        for tenant, step in places
    ]
    named = {"generation": 1, "tenant": 3, "step": 2, "user": "anna"}
    rows["audit"] = [written(LINK), written(replace(LINK, number=2, details=named))]
    rows["handovers"] = [
        {"meter": "m", "generation": 1, "giver": giver, "receiver": receiver, "at": NOW}
        for giver, receiver in ((0, 1), (1, 0), (1, 2))
    ]
    make(empty, "0002", rows)
    opened = Store.open(empty)
    with opened.reading() as books:
        found = {(entry.tenant, entry.step): entry.user for entry in books.entries.all("m", 1)}
        pairs = {(row.giver, row.receiver) for row in books.handovers.all("m", 1)}
    assert found == {(tenant + 1, step): "" for tenant, step in places} | {(3, 2): "anna"}
    assert pairs == {(1, 2), (2, 1), (2, 3)}
    opened.close()


def test_a_program_of_the_version_before_cannot_enter_answers(empty: str) -> None:
    """It would count tenants from 0, and give the first one a budget that is spent."""
    make(empty, "0002", ROWS)
    Store.open(empty).close()
    entered = written(replace(ENTRY, step=2, submission="t" * 64), "user", *LATER)
    with pytest.raises(sa.exc.IntegrityError):
        make(empty, "head", {"entries": [entered]})


def test_many_servers_start_at_once(empty: str) -> None:
    make(empty, "0001", ROWS)
    failed: list[Exception] = []

    def start() -> None:
        try:
            opened = Store.open(empty)
            jobs.install(opened)
            opened.close()
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=start) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    opened = Store.open(empty)
    assert_declared_besides_queue(opened)
    opened.close()


def assert_declared_besides_queue(opened: Store) -> None:
    with opened.reading() as books:
        tables = set(sa.inspect(books.connection).get_table_names())
        assert set(schema.metadata.tables) <= tables
        assert books.entries.all("m", 1) == [ENTRY]


def test_opening_again_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "meter.db"
    Store.at(path).close()
    before = path.read_bytes()
    Store.at(path).close()
    assert path.read_bytes() == before


def test_a_migration_cut_short_leaves_nothing_behind(empty: str) -> None:
    engine = store._engine(empty)

    @sa.event.listens_for(engine, "before_cursor_execute")
    def fail(*call: Any) -> None:
        if "CREATE TABLE webhooks" in call[2]:
            raise RuntimeError("power cut")

    with pytest.raises(RuntimeError, match="power cut"):
        migrate.upgrade(engine)
    assert sa.inspect(engine).get_table_names() == []
    engine.dispose()


def test_an_upgrade_cut_short_leaves_the_old_database(empty: str) -> None:
    make(empty, "0001", ROWS)
    engine = store._engine(empty)

    @sa.event.listens_for(engine, "before_cursor_execute")
    def fail(*call: Any) -> None:
        if "CREATE TABLE webhooks" in call[2]:
            raise RuntimeError("power cut")

    with pytest.raises(RuntimeError, match="power cut"):
        migrate.upgrade(engine)
    with engine.connect() as connection:
        found = connection.execute(sa.text("SELECT version_num FROM alembic_version"))
        assert found.scalar_one() == "0001"
        assert not sa.inspect(connection).has_table("users")
    engine.dispose()
    opened = Store.open(empty)
    assert_declared(opened)
    opened.close()


def test_a_database_newer_than_the_program(empty: str) -> None:
    Store.open(empty).close()
    engine = store._engine(empty)
    with engine.begin() as connection:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = '9999'"))
    engine.dispose()
    with pytest.raises(StorageError, match="'9999', newer than this program"):
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
