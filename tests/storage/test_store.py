"""The contract of `Store`, for every database behind it: SQLite and PostgreSQL."""

from __future__ import annotations

import multiprocessing
import os
import sqlite3
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from easeml_meter.core.lifecycle import Phase
from easeml_meter.core.model import (
    AuditLink,
    Entry,
    MeterRecord,
    Part,
    TestSet,
    Upload,
    ValidationSet,
)
from easeml_meter.errors import NotFound, StorageError
from easeml_meter.storage import schema
from easeml_meter.storage.books import Books
from easeml_meter.storage.books.audit import broken_link, link_digest
from easeml_meter.storage.store import Store

NOW = "2026-01-01T00:00:00.000000+00:00"

METER = MeterRecord("m", "cats", {"meter": {"steps": 4}, "bands": [{"lower": 0.0}]}, NOW)
GENERATION = TestSet("m", 1, Phase.REQUESTED, 100, NOW)
VALIDATION = ValidationSet("m", 1, "d" * 64, 20, {"label": "y", "classes": None}, "v/1.csv", NOW)
ENTRY = Entry(
    meter="m",
    generation=1,
    tenant=1,
    step=1,
    answer="2",
    after_reset=False,
    model="a model – with ünïcode",
    submission="s" * 64,
    validation_number=1,
    validation_set="d" * 64,
    validation_loss="1/3",
    blob="predictions/s.age",
    told_at=NOW,
)


@pytest.fixture
def url(database: str) -> str:
    return database


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    opened = Store.open(url)
    with opened.writing() as books:
        books.meters.add(METER)
        books.testsets.add(GENERATION)
    yield opened
    opened.close()


def step(number: int, **changes: Any) -> Entry:
    return replace(ENTRY, step=number, submission=f"{number:064}", **changes)


def write(store: Store, *deeds: Callable[[Books], object]) -> None:
    """Do all of it in one transaction."""
    with store.writing() as books:
        for deed in deeds:
            deed(books)


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


def test_an_overview_is_what_single_questions_give(store: Store) -> None:
    def same(books: Books, meter: str | None, of: str) -> None:
        validations = books.validation.all(of)
        expected = (books.meters.get(of), books.testsets.all(of), ([None, *validations])[-1])
        assert books.meters.overview(meter) == expected

    with store.writing() as books:
        same(books, None, "m")
        for number in (2, 10, 9):
            books.testsets.add(replace(GENERATION, number=number, manifest={"number": number}))
            books.validation.add(replace(VALIDATION, number=number, digest=f"{number:064}"))
            same(books, None, "m")
            same(books, "m", "m")
        books.meters.add(replace(METER, id="other", name="without anything"))
        same(books, "other", "other")
        books.validation.add(replace(VALIDATION, meter="other"))
        same(books, "other", "other")
        same(books, "m", "m")
        with pytest.raises(NotFound):
            books.meters.overview("absent")
        for meter, count in ((None, 2),):
            with pytest.raises(StorageError, match=f"holds {count} meters: exactly one expected"):
                books.meters.overview(meter)


def test_parts_are_listed_by_number_and_removed_one_by_one(store: Store) -> None:
    parts = [Part("m", 1, n, 5, f"{n:064}", f"parts/{n}", "u", NOW) for n in (1, 2, 3)]
    with store.writing() as books:
        for part in reversed(parts):
            books.parts.add(part)
    write(store, lambda books: books.parts.remove(parts[1]))
    with store.reading() as books:
        assert books.parts.all(GENERATION) == [parts[0], parts[2]]
        assert books.parts.all(replace(GENERATION, number=2)) == []


def test_uploads_are_found_by_id_and_by_age(store: Store) -> None:
    user = {"admin": False, "disabled": False, "failures": 0, "created_at": NOW}
    old, young = (Upload(f"{n:032}", "m", "u", "set", 10, f"2026-01-0{n}") for n in (1, 2))
    with store.writing() as books:
        books.connection.execute(schema.users.insert(), {"id": "u", "name": "u", **user})
        for upload in (young, old):
            books.uploads.add(upload)
    with store.reading() as books:
        assert (books.uploads.get(old.id), books.uploads.get("f" * 32)) == (old, None)
        assert books.uploads.before(young.created_at) == [old]
    write(store, lambda books: books.uploads.remove(old.id))
    with store.reading() as books:
        assert books.uploads.before("2027") == [young]


def test_requests_and_owners_are_found_across_meters(store: Store) -> None:
    other = replace(GENERATION, meter="n")
    delivered = replace(GENERATION, phase=Phase.ACTIVE, fingerprint="f" * 64)
    write(
        store,
        lambda books: books.meters.add(replace(METER, id="n")),
        lambda books: books.testsets.add(other),
    )
    with store.reading() as books:
        assert books.testsets.requested() == [GENERATION, other]
        assert books.testsets.owners("f" * 64) == set()
    write(store, lambda books: books.testsets.update(delivered))
    with store.reading() as books:
        assert books.testsets.requested() == [other]
        assert books.testsets.owners("f" * 64) == {"m"}


def test_rows_outlive_the_process(store: Store, url: str) -> None:
    with store.writing() as books:
        books.entries.add([ENTRY])
    store.close()
    again = Store.open(url)
    with again.reading() as books:
        assert books.entries.all("m", 1) == [ENTRY]
    again.close()


def test_entries_come_in_the_order_of_each_tenants_steps(store: Store) -> None:
    with store.writing() as books:
        for tenant, number in ((2, 2), (1, 2), (2, 1), (1, 10), (1, 1)):
            books.entries.add([step(number, tenant=tenant)])
    with store.reading() as books:
        found = [(entry.tenant, entry.step) for entry in books.entries.all("m", 1)]
        assert found == [(1, 1), (1, 2), (1, 10), (2, 1), (2, 2)]
        assert [entry.step for entry in books.entries.all("m", 1, tenant=2)] == [1, 2]
        assert books.entries.all("m", 2) == []


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


def test_the_same_rows_cannot_be_two_test_sets(store: Store) -> None:
    first, second = (replace(GENERATION, number=n, fingerprint="f" * 64) for n in (1, 2))
    with pytest.raises(StorageError):
        write(
            store,
            lambda books: books.testsets.update(first),
            lambda books: books.testsets.add(second),
        )


def test_the_same_submission_of_another_tenant_or_validation_set_is_another(store: Store) -> None:
    with store.writing() as books:
        books.entries.add([ENTRY])
        books.entries.add([replace(ENTRY, tenant=2)])
        books.entries.add([replace(ENTRY, step=2, validation_set="e" * 64)])
        assert len(books.entries.all("m", 1)) == 3


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
    threads = [threading.Thread(target=increment, args=(url, 10)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert_counted(store, 40)


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


def chain(store: Store) -> list[AuditLink]:
    with store.writing() as books:
        for number in range(1, 6):
            books.audit.append("m", NOW, "told", {"step": number})
    with store.reading() as books:
        return books.audit.all("m")


def test_a_sound_chain(store: Store) -> None:
    links = chain(store)
    assert [link.number for link in links] == [1, 2, 3, 4, 5]
    assert broken_link(links) is None
    assert broken_link([]) is None


@pytest.mark.parametrize(
    "changes",
    [
        {"at": "2027"},
        {"event": "released"},
        {"details": {"step": 9}},
        {"meter": "n"},
        {"number": 9},
        {"previous": "0" * 64},
        {"digest": "0" * 64},
    ],
    ids=str,
)
def test_a_changed_link_shows(store: Store, changes: dict[str, Any]) -> None:
    links = chain(store)
    links[2] = replace(links[2], **changes)
    assert broken_link(links) == 3


def test_a_changed_link_with_its_digest_made_to_fit_shows_one_later(store: Store) -> None:
    links = chain(store)
    changed = replace(links[2], details={"step": 9})
    links[2] = replace(changed, digest=link_digest(changed))
    assert broken_link(links) == 4


@pytest.mark.parametrize("index", range(4))
def test_a_removed_link_shows(store: Store, index: int) -> None:
    links = chain(store)
    del links[index]
    assert broken_link(links) == index + 1


@pytest.mark.parametrize("index", range(4))
def test_reordered_links_show(store: Store, index: int) -> None:
    links = chain(store)
    links[index], links[index + 1] = links[index + 1], links[index]
    assert broken_link(links) == index + 1


def test_links_cut_off_at_the_end_are_not_seen_by_the_chain_alone(store: Store) -> None:
    # That is what the journal beside the test set is for: see tests/properties/test_durability.py.
    assert broken_link(chain(store)[:-1]) is None


def test_chains_of_two_meters_are_apart(store: Store) -> None:
    with store.writing() as books:
        books.meters.add(replace(METER, id="n"))
        first = books.audit.append("m", NOW, "created", {})
        second = books.audit.append("n", NOW, "created", {})
        assert (first.number, second.number) == (1, 1)
    with pytest.raises(StorageError, match="2 meters"), store.reading() as books:
        books.meters.get()


# Files that are no database


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
    assert_one_line(refused.value, "'9999'", "newer", "update easeml-meter")
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
