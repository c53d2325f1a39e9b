"""Test sets in the books, found across meters and never two of the same rows; parts and uploads."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.storage.examples import GENERATION, METER, NOW, write

from easeml_meter.core.lifecycle import Phase
from easeml_meter.core.model import Part, Upload
from easeml_meter.errors import StorageError
from easeml_meter.storage import schema
from easeml_meter.storage.store import Store


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


def test_the_same_rows_cannot_be_two_test_sets(store: Store) -> None:
    first, second = (replace(GENERATION, number=n, fingerprint="f" * 64) for n in (1, 2))
    with pytest.raises(StorageError):
        write(
            store,
            lambda books: books.testsets.update(first),
            lambda books: books.testsets.add(second),
        )


def test_files_in_use_are_named_before_the_newest(store: Store) -> None:
    sets = [
        replace(
            GENERATION, number=n, phase=phase, blob=f"{n}.sealed", changed_at=f"2026-01-0{n}T00"
        )
        for n, phase in ((2, Phase.ACTIVE), (3, Phase.SPENT), (4, Phase.SPENT))
    ]
    write(store, *(lambda books, each=each: books.testsets.add(each) for each in sets))
    with store.reading() as books:
        found = [name for _, name in books.testsets.files(2)]
        assert books.testsets.files(100)[0] == ("m", "2.sealed")
        assert len(books.testsets.files(100)) == 3  # what was only asked for has no file
    assert found == ["2.sealed", "4.sealed"]


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
