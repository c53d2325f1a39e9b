"""A database that is lent again is as good as new; one that was changed is not lent again."""

from __future__ import annotations

import psycopg
import pytest
from tests.postgresql import Cluster

ROWS = """
SELECT sum((xpath('/row/n/text()', query_to_xml(
  format('SELECT count(*) AS n FROM %s', oid::regclass), false, true, '')))[1]::text::int)
FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace
"""
JOB = """
INSERT INTO procrastinate_jobs (queue_name, task_name, args) VALUES ('q', 't', '{}') RETURNING id
"""


def test_rows_of_another_test_are_gone(postgresql: Cluster) -> None:
    first = postgresql.lend()
    with psycopg.connect(first) as connection:
        before = connection.execute(ROWS).fetchone()
        made = connection.execute(JOB).fetchone()
        assert connection.execute(ROWS).fetchone() != before
    left = psycopg.connect(first)
    left.execute("SELECT 1")
    postgresql.take_back(first)
    with pytest.raises(psycopg.OperationalError):
        left.execute("SELECT 1")
    left.close()
    again = postgresql.lend()
    assert again == first
    with psycopg.connect(again) as connection:
        assert connection.execute(ROWS).fetchone() == before
        assert connection.execute(JOB).fetchone() == made  # and counting begins anew
    postgresql.take_back(again)


@pytest.mark.parametrize(
    "change",
    [
        "CREATE TABLE odd (number int)",
        "ALTER TABLE procrastinate_jobs ADD COLUMN odd int",
        "ALTER TABLE procrastinate_jobs ALTER COLUMN args DROP NOT NULL",
        "ALTER TABLE procrastinate_jobs DISABLE TRIGGER ALL",
        "DROP TABLE procrastinate_events CASCADE",
        "GRANT SELECT ON alembic_version TO PUBLIC",
        "UPDATE alembic_version SET version_num = 'older'",
        "UPDATE queue_version SET version = 'older'",
        "CREATE SCHEMA odd",
        "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET work_mem = ''1MB''',"
        " current_database()); END $$",
    ],
)
def test_a_database_that_was_changed_is_not_lent_again(postgresql: Cluster, change: str) -> None:
    changed = postgresql.lend()
    with psycopg.connect(changed) as connection:
        connection.execute(change)
    postgresql.take_back(changed)
    address = postgresql.lend()
    assert address != changed
    with pytest.raises(psycopg.OperationalError, match="does not exist"):
        psycopg.connect(changed)
    postgresql.take_back(address)
