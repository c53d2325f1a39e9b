"""The contract of `Store`, for every database behind it: SQLite and PostgreSQL."""

from __future__ import annotations

import multiprocessing
import os
import re
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
from tests.postgresql import Cluster
from tests.storage.examples import ENTRY, GENERATION, METER, NOW, VALIDATION, step, write

from easeml_meter.core.lifecycle import Phase
from easeml_meter.errors import InvalidInput, StorageError
from easeml_meter.storage import store as store_module
from easeml_meter.storage.books import Books
from easeml_meter.storage.books.audit import broken_link
from easeml_meter.storage.store import Store, alone, in_use, sqlite_url


def test_rows_come_back_as_they_went_in(store: Store) -> None:
    delivered = replace(
        GENERATION,
        phase=Phase.ACTIVE,
        rows=123,
        fingerprint="f" * 64,
        manifest={"columns": [{"name": "x", "type": "double"}]},
        blob="testsets/1.sealed",
    )
    with store.writing() as books:
        books.testsets.update(delivered)
        books.validation.add(VALIDATION)
        books.entries.add([ENTRY])
        link = books.audit.append("m", NOW, "told", {"step": 1, "model": "ü"})
    with store.reading() as books:
        assert books.meters.all()
        assert books.meters.get() == METER
        assert books.testsets.all("m") == [delivered]
        assert books.validation.all("m") == [VALIDATION]
        assert books.entries.all("m", 1) == [ENTRY]
        assert books.audit.all("m") == [link]


def test_several_rows_come_back_as_they_went_in_whatever_they_say(store: Store) -> None:
    words = ["", '"', "\\", "\\u0041", "null", "ü, 漢, \N{SLIGHTLY SMILING FACE}", "{}", "1e400"]
    entries = [
        replace(ENTRY, step=step, submission=f"{step:064}", model=word)
        for step, word in enumerate(words, 1)
    ]
    details = {"text": words, "deep": {"null": None, "large": 2**60, "small": 0.1}}
    with store.writing() as books:
        books.entries.add(entries)
        links = books.audit.append_all("m", [("t", word, details) for word in words])
    with store.reading() as books:
        assert books.entries.all("m", 1) == entries
        assert books.audit.all("m") == links


def test_rows_outlive_the_process(store: Store, url: str) -> None:
    with store.writing() as books:
        books.entries.add([ENTRY])
    store.close()
    again = Store.open(url)
    with again.reading() as books:
        assert books.entries.all("m", 1) == [ENTRY]
    again.close()


def test_an_exception_leaves_no_trace(store: Store) -> None:
    def fail(_: Books) -> None:
        raise RuntimeError("power cut")

    with pytest.raises(RuntimeError, match="power cut"):
        write(
            store,
            lambda books: books.entries.add([ENTRY]),
            lambda books: books.validation.add(VALIDATION),
            lambda books: books.audit.append("m", NOW, "told", {}),
            lambda books: books.testsets.update(replace(GENERATION, phase=Phase.ACTIVE)),
            fail,
        )
    with store.reading() as books:
        assert books.entries.all("m", 1) == []
        assert books.validation.all("m") == []
        assert books.audit.all("m") == []
        assert books.testsets.all("m") == [GENERATION]
    with store.writing() as books:  # and the lock is free again
        books.entries.add([ENTRY])


@pytest.mark.parametrize(
    ("deed", "what"),
    [
        (lambda books: books.entries.add([replace(ENTRY, submission="t" * 64)]), "a step twice"),
        (lambda books: books.entries.add([replace(ENTRY, step=2)]), "a submission twice"),
        (lambda books: books.entries.add([step(5, generation=9)]), "an unknown test set"),
        (lambda books: books.testsets.add(GENERATION), "a generation twice"),
        (lambda books: books.meters.add(METER), "a meter twice"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_must_not_be_entered_is_refused(
    store: Store, deed: Callable[[Books], None], what: str
) -> None:
    with store.writing() as books:
        books.entries.add([ENTRY])
    with pytest.raises(StorageError) as refused:
        write(store, lambda books: books.audit.append("m", NOW, "told", {"what": what}), deed)
    assert "\n" not in str(refused.value)
    with store.reading() as books:
        assert books.entries.all("m", 1) == [ENTRY]
        assert books.audit.all("m") == []


def increment(url: str, times: int) -> None:
    """Read the last step, then write the next one."""
    store = Store.open(url)
    for _ in range(times):
        with store.writing() as books:
            books.entries.add([step(len(books.entries.all("m", 1)) + 1)])
            books.audit.append("m", NOW, "told", {})
    store.close()


def assert_counted(store: Store, times: int) -> None:
    with store.reading() as books:
        assert [entry.step for entry in books.entries.all("m", 1)] == list(range(1, times + 1))
        assert broken_link(books.audit.all("m")) is None
        assert len(books.audit.all("m")) == times


def test_four_threads_lose_no_step(store: Store, url: str) -> None:
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(increment, [url] * 4, [10] * 4))
    assert_counted(store, 40)


@pytest.mark.slow
def test_two_processes_lose_no_step(store: Store, url: str) -> None:
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=increment, args=(url, 15)) for _ in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        assert process.exitcode == 0
    assert_counted(store, 30)


def test_a_writer_waits_until_the_other_one_is_done(store: Store, url: str) -> None:
    waiting = threading.Thread(target=increment, args=(url, 1))
    with store.writing() as books:
        waiting.start()
        waiting.join(0.2)
        assert waiting.is_alive()
        assert books.entries.all("m", 1) == []
        books.entries.add([step(1)])
        books.audit.append("m", NOW, "told", {})
    waiting.join()
    assert_counted(store, 2)


def test_reading_sees_one_moment_and_needs_no_lock(store: Store, url: str) -> None:
    other = Store.open(url)
    with store.reading() as before:
        assert before.entries.all("m", 1) == []
        with other.writing() as books:
            books.entries.add([ENTRY])
            assert before.entries.all("m", 1) == []  # not yet committed
        assert before.entries.all("m", 1) == []  # committed after this moment
    with store.reading() as after:
        assert after.entries.all("m", 1) == [ENTRY]
    other.close()


def assert_one_line(error: StorageError, *words: str) -> None:
    assert "\n" not in str(error)
    for word in words:
        assert word in str(error)


def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    path = tmp_path / "meter.db"
    path.write_bytes(b"this is no database, " * 100)
    with pytest.raises(StorageError) as refused:
        Store.at(path)
    assert_one_line(refused.value, "cannot be opened", "not a database")
    assert path.read_bytes() == b"this is no database, " * 100


def test_a_database_damaged_in_the_middle(tmp_path: Path) -> None:
    path = tmp_path / "meter.db"
    store = Store.at(path)
    with store.writing() as books:
        books.meters.add(METER)
        books.testsets.add(GENERATION)
        for number in range(1, 200):
            books.entries.add([step(number)])
    store.close()
    content = bytearray(path.read_bytes())
    for page in range(4096, len(content), 4096):
        content[page : page + 4096] = b"\xaa" * 4096
    path.write_bytes(content)
    with pytest.raises(StorageError) as refused, Store.at(path).reading() as books:
        books.entries.all("m", 1)
    assert_one_line(refused.value)


def test_a_directory_in_place_of_the_file(tmp_path: Path) -> None:
    with pytest.raises(StorageError) as refused:
        Store.at(tmp_path)
    assert_one_line(refused.value, "cannot be opened")


def test_a_folder_that_does_not_exist(tmp_path: Path) -> None:
    with pytest.raises(StorageError) as refused:
        Store.at(tmp_path / "nowhere" / "meter.db")
    assert_one_line(refused.value, "cannot be opened")


def test_a_database_newer_than_the_program(tmp_path: Path) -> None:
    path = tmp_path / "meter.db"
    Store.at(path).close()
    database = sqlite3.connect(path)
    database.execute("UPDATE alembic_version SET version_num = '9999'")
    database.commit()
    database.close()
    before = path.read_bytes()
    with pytest.raises(StorageError) as refused:
        Store.at(path)
    assert_one_line(refused.value, "'9999'", "use the easeml-meter that wrote it")
    assert path.read_bytes() == before


READ_ONLY = """
import os, sys
from pathlib import Path
from easeml_meter.storage.store import (Store)
from easeml_meter.errors import StorageError

path = Path(sys.argv[1])
Store.at(path).close()  # the other account may not be able to read the installation
os.setgid(65534)
os.setuid(65534)
try:
    with Store.at(path).writing() as books:
        books.audit.append("m", "", "told", {})
except StorageError as error:
    print(error)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="becoming another account needs root")
@pytest.mark.slow
def test_a_folder_that_may_only_be_read() -> None:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        path = Path(folder) / "meter.db"
        Store.at(path).close()
        before = path.read_bytes()
        done = subprocess.run(
            [sys.executable, "-c", READ_ONLY, path], capture_output=True, text=True, check=False
        )
        assert done.stderr == ""
        assert done.stdout.count("\n") == 1
        assert "readonly" in done.stdout
        assert path.read_bytes() == before


def test_nobody_writes_through_a_snapshot_that_grew_old(store: Store, url: str) -> None:
    """Writing in a reading transaction is no way around the lock."""
    other = Store.open(url)

    def read_then_write() -> None:
        with store.reading() as stale:
            number = len(stale.entries.all("m", 1)) + 1
            write(other, lambda books: books.entries.add([step(1)]))
            stale.entries.add([step(number)])

    with pytest.raises(StorageError):
        read_then_write()
    other.close()
    with store.reading() as books:
        assert [entry.step for entry in books.entries.all("m", 1)] == [1]


SAFE: dict[str, dict[str, object]] = {
    "sqlite": {"PRAGMA journal_mode": "wal", "PRAGMA synchronous": 2, "PRAGMA foreign_keys": 1},
    "postgresql": {"SHOW synchronous_commit": "on", "SHOW lock_timeout": "1min"},
}


def test_settings_of_every_connection(store: Store) -> None:
    with store.reading() as books:
        for question, answer in SAFE[store.dialect].items():
            assert books.connection.execute(sa.text(question)).scalar() == answer, question


def test_a_connection_is_tried_with_a_question_only_where_that_is_in_doubt(
    postgresql: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = postgresql.new_database(empty=False)
    store = Store.open(url)
    asked: list[str] = []
    execute = psycopg.Cursor.execute

    def note(cursor: Any, query: Any, *given: Any, **options: Any) -> Any:
        asked.append(str(query))
        return execute(cursor, query, *given, **options)

    monkeypatch.setattr(psycopg.Cursor, "execute", note)
    with store.asking():  # no transaction, which begins with a statement
        pass
    asked.clear()
    for _ in range(3):
        with store.asking():
            pass
    assert asked == []  # it was tried just now
    with psycopg.connect(url, autocommit=True) as other:
        ended = other.execute(
            "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity "
            "WHERE pid <> pg_backend_pid() AND datname = current_database()"
        )
        assert ended.fetchall() == [(True,)]
    with store.reading() as books:  # on a new connection
        assert books.meters.all() == []
    monkeypatch.setattr(store_module, "_TRIED_SECONDS", 0.0)
    asked.clear()
    with store.asking():
        pass
    assert asked == [";"]  # it was idle for so long
    store.close()
    postgresql.drop(url)


def test_a_question_alone_begins_no_transaction(store: Store) -> None:
    with store.asking() as books:
        books.tokens.holder("0" * 64)
        driver: Any = books.connection.connection.driver_connection
        if store.dialect == "postgresql":
            assert driver.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
    with store.reading() as books:  # the same connection, as before
        books.tokens.holder("0" * 64)
        if store.dialect == "postgresql":
            assert driver.info.transaction_status == psycopg.pq.TransactionStatus.INTRANS


def test_only_one_holds_a_database_and_frees_it_in_the_end(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'new' / 'meter.db'}"
    with alone(url):
        with pytest.raises(StorageError, match="stop that first"), alone(url):
            pass
        with alone(f"sqlite:///{tmp_path / 'other.db'}"):
            pass
    with alone(url):
        pass


def test_a_database_is_held_under_all_of_its_names(tmp_path: Path) -> None:
    """A second server that came through a symbolic link was let in."""
    (tmp_path / "new").mkdir()
    (tmp_path / "folder").symlink_to("new")
    (tmp_path / "link.db").symlink_to("new/meter.db")  # also one that is made only now
    names = [tmp_path / each for each in ("new/meter.db", "folder/meter.db", "link.db")]
    for held in names:
        with alone(sqlite_url(held)):
            assert not any(is_free(sqlite_url(other)) for other in names)


ODD_FOLDERS = ["run?1", "run?2", "run", "a b", "a%20b", "feature%2Fx", "a%zz", "100%", "a@b:c#d&é"]


def test_a_database_is_in_its_own_folder_whatever_that_is_called(tmp_path: Path) -> None:
    """Names such as CI gives to workspaces: two of them shared one database, outside of both."""
    folders = [*ODD_FOLDERS, os.fsdecode(b"caf\xe9")]
    for name in folders:
        path = tmp_path / name / "meter.db"
        with alone(sqlite_url(path)):
            Store.at(path).close()
        assert path.is_file()
        seen = Store.look(sqlite_url(path))
        assert seen is not None
        seen.close()
    assert sorted(os.listdir(tmp_path)) == sorted(folders)


def is_free(url: str) -> bool:
    try:
        with alone(url):
            return True
    except StorageError:
        return False


def test_servers_share_a_database_that_no_restore_may_use_meanwhile(
    postgresql: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = postgresql.new_database(empty=True)
    monkeypatch.setattr(store_module, "_PRESENCE_SECONDS", 0.05)
    with in_use(url):
        with in_use(url), pytest.raises(StorageError, match="stop all of them first"), alone(url):
            pass
        # A session that was ended takes its lock along; the server is there all the same.
        engine = store_module._engine(url)
        with engine.connect() as connection:
            others = "pid <> pg_backend_pid() AND datname = current_database()"
            count = f"SELECT count(*) FROM pg_stat_activity WHERE {others}"  # noqa: S608
            patience = time.monotonic() + 20
            while connection.exec_driver_sql(count).scalar_one() > 1:  # some are still closing
                assert time.monotonic() < patience, "a closed connection stays"
                connection.rollback()  # statistics are those of the transaction's beginning
            end = f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {others}"  # noqa: S608
            assert connection.exec_driver_sql(end).all() == [(True,)]
        engine.dispose()
        patience = time.monotonic() + 20
        while is_free(url):
            assert time.monotonic() < patience, "the lock was not taken again"
    with alone(url):
        with pytest.raises(StorageError, match="start when it is done"), in_use(url):
            pass
        with pytest.raises(StorageError, match="stop all of them first"), alone(url):
            pass
    with in_use(url):
        pass
    postgresql.drop(url)


def test_a_server_that_lost_its_session_is_there_again_at_the_next_look(
    postgresql: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until it is, a restore may begin beside it."""
    url = postgresql.new_database(empty=True)
    present = store_module._Present(url)
    assert present._take()
    assert present._connection is not None
    mine = present._connection.exec_driver_sql("SELECT pg_backend_pid()").scalar_one()
    with psycopg.connect(Store.look(url).address, autocommit=True) as other:  # type: ignore[union-attr]
        other.execute("SELECT pg_terminate_backend(%s)", [mine])
    free: list[bool] = []

    def wait(_: float) -> bool:
        free.append(is_free(url))
        return len(free) > 1

    monkeypatch.setattr(present, "_stopping", SimpleNamespace(wait=wait))
    present._stay()
    present._engine.dispose()
    assert free == [True, False]
    postgresql.drop(url)


@pytest.mark.parametrize(
    "password",
    ["hun@ter2", "a@b@ter2", "hun/1@ter2", "hun@1/ter2", "hun@1:2/ter2", "hun@ter2:ter3"],
)
def test_an_at_sign_in_a_password_is_refused_without_a_word_of_it(password: str) -> None:
    """What follows it was taken for the host, and printed: "failed to resolve host 'ter2@...'"."""
    with pytest.raises(InvalidInput) as refused:
        Store.open(f"postgresql://meter:{password}@127.0.0.1:1/x")
    assert "write @ in a password as %40" in str(refused.value)
    for part in re.split("[@/:]", password):
        if len(part) > 1:
            assert part not in str(refused.value)


@pytest.mark.parametrize("address", ["meter:hun%40ter2@127.0.0.1:1/x", "me@corp:x@127.0.0.1:1/x@y"])
def test_at_signs_where_they_belong_are_read(address: str) -> None:
    with pytest.raises(StorageError, match=r"127\.0\.0\.1"):  # nobody listens there
        Store.open(f"postgresql://{address}")
