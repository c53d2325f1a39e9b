"""Parts of a test set in the books."""

from __future__ import annotations

from dataclasses import replace

from tests.storage.examples import GENERATION, NOW, write

from easeml_meter.core.model import Part
from easeml_meter.storage.store import Store


def test_parts_are_listed_by_number_and_removed_one_by_one(store: Store) -> None:
    parts = [Part("m", 1, n, 5, f"{n:064}", f"parts/{n}", "u", NOW) for n in (1, 2, 3)]
    with store.writing() as books:
        for part in reversed(parts):
            books.parts.add(part)
    write(store, lambda books: books.parts.remove(parts[1]))
    with store.reading() as books:
        assert books.parts.all(GENERATION) == [parts[0], parts[2]]
        assert books.parts.all(replace(GENERATION, number=2)) == []
