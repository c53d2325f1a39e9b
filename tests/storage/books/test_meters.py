"""Meters in the books: one overview in place of single questions."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.storage.examples import GENERATION, METER, VALIDATION

from easeml_meter.errors import NotFound, StorageError
from easeml_meter.storage.books import Books
from easeml_meter.storage.store import Store


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
