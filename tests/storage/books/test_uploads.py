"""Uploads in the books."""

from __future__ import annotations

from tests.storage.examples import NOW, write

from easeml_meter.core.model import Upload
from easeml_meter.storage import schema
from easeml_meter.storage.store import Store


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
