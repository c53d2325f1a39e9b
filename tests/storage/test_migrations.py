"""The schema that migrations make is the one that the code declares."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

from easeml_meter.storage import migrate, schema, store
from easeml_meter.storage.store import Store

FOLDER = Path(migrate.__file__).parent / "migrations"


def scripts() -> ScriptDirectory:
    config = Config()
    config.set_main_option("script_location", str(FOLDER))
    return ScriptDirectory.from_config(config)


def test_migrations_make_the_declared_schema(tmp_path: Path) -> None:
    opened = Store.at(tmp_path / "meter.db")
    with opened.reading() as books:
        options = {"compare_type": True, "compare_server_default": True}
        context = MigrationContext.configure(books._connection, opts=options)
        assert compare_metadata(context, schema.metadata) == []
        found = sa.inspect(books._connection)
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
    opened.close()


def test_head_is_the_newest_migration() -> None:
    assert scripts().get_current_head() == schema.HEAD
    assert scripts().get_bases() == ["0001"]


def test_opening_again_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "meter.db"
    Store.at(path).close()
    before = path.read_bytes()
    Store.at(path).close()
    assert path.read_bytes() == before


def test_a_migration_cut_short_leaves_nothing_behind(tmp_path: Path) -> None:
    engine = store._engine(f"sqlite:///{tmp_path / 'meter.db'}")

    @sa.event.listens_for(engine, "before_cursor_execute")
    def fail(*call: Any) -> None:
        if "CREATE TABLE audit" in call[2]:
            raise RuntimeError("power cut")

    with pytest.raises(RuntimeError, match="power cut"):
        migrate.upgrade(engine)
    assert sa.inspect(engine).get_table_names() == []
    engine.dispose()
