"""Bring a database to the newest schema, with alembic."""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.util import CommandError

from easeml_meter.storage.books import BEGIN, Books

FOLDER = Path(__file__).parent / "migrations"


class UnknownVersion(Exception):
    """The database was written by a version of the program that this one does not know."""


def upgrade(engine: sa.Engine) -> None:
    """Create the tables, or upgrade an older database, in one transaction."""
    config = Config()
    config.set_main_option("script_location", str(FOLDER))
    with engine.connect() as connection:
        if connection.dialect.name == "sqlite":
            connection.info[BEGIN] = "BEGIN IMMEDIATE"  # two servers may start at the same time
        with connection.begin():
            config.attributes["connection"] = connection
            Books(connection).lock(None)
            try:
                command.upgrade(config, "head")
            except CommandError as error:
                raise UnknownVersion(str(error)) from error
