"""The tables of the queue: made once, upgraded with the library, never taken backwards."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import sqlalchemy as sa
from tests.postgresql import Cluster

from easeml_meter.errors import StorageError
from easeml_meter.storage import jobs
from easeml_meter.storage.jobs import Job, Queue
from easeml_meter.storage.store import Store

JOB = Job(Queue.SUBMISSIONS, "s", "m/1")


@pytest.fixture
def store(postgresql: Cluster) -> Iterator[Store]:
    address = postgresql.new_database()
    opened = Store.open(address)
    yield opened
    opened.close()
    postgresql.drop(address)


def shape(store: Store) -> object:
    """Describe the queue's tables and functions."""
    questions = (
        "SELECT table_name, column_name, data_type FROM information_schema.columns "
        "WHERE table_name LIKE 'procrastinate%' ORDER BY 1, 2",
        "SELECT proname, pronargs FROM pg_proc WHERE proname LIKE 'procrastinate%' ORDER BY 1, 2",
        "SELECT tgname FROM pg_trigger WHERE tgname LIKE 'procrastinate%' ORDER BY 1",
    )
    with store.reading() as books:
        return [books.connection.execute(sa.text(each)).fetchall() for each in questions]


def waiting(store: Store) -> list[tuple[str, str]]:
    with store.reading() as books:
        question = "SELECT lock, args ->> 'key' FROM procrastinate_jobs ORDER BY id"
        return [(row[0], row[1]) for row in books.connection.execute(sa.text(question))]


def test_installing_again_changes_nothing(store: Store) -> None:
    jobs.install(store)
    with store.writing("m") as books:
        jobs.enqueue(books, JOB)
    before = shape(store)
    jobs.install(store)
    assert shape(store) == before
    assert waiting(store) == [("m/1", "s")]


@pytest.mark.parametrize("oldest", ["03.00.00_01", "03.02.00_01"])
def test_an_older_librarys_tables_are_upgraded(
    store: Store, postgresql: Cluster, oldest: str
) -> None:
    for name, script in jobs._migrations().items():
        if name[: len(oldest)] <= oldest:
            with store.writing() as books:
                jobs._run(books, script)
            last = name
    with store.writing() as books:
        jobs._run(books, f"CREATE TABLE queue_version AS SELECT '{last}' AS version")
    jobs.install(store)
    fresh = Store.open(postgresql.new_database())
    jobs.install(fresh)
    assert shape(store) == shape(fresh)
    fresh.close()
    with store.writing("m") as books:
        jobs.enqueue(books, JOB)
    assert waiting(store) == [("m/1", "s")]


def test_a_newer_librarys_tables_are_left_alone(store: Store) -> None:
    jobs.install(store)
    with store.writing() as books:
        jobs._record(books, "99.00.00_01")
    with pytest.raises(StorageError, match="update procrastinate"):
        jobs.install(store)


def test_a_job_is_part_of_the_transaction(store: Store) -> None:
    jobs.install(store)

    def fail() -> None:
        with store.writing("m") as books:
            jobs.enqueue(books, JOB)
            raise RuntimeError("power cut")

    with pytest.raises(RuntimeError, match="power cut"):
        fail()
    assert waiting(store) == []


def test_without_its_tables_it_says_so(store: Store) -> None:
    with pytest.raises(StorageError, match="queue cannot be used"), store.writing("m") as books:
        jobs.enqueue(books, JOB)
