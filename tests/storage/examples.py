"""One of each value that the books keep."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from sqlalchemy import Table

from easeml_meter.core.lifecycle import Phase
from easeml_meter.core.model import (
    Entry,
    MeterRecord,
    TestSet,
    ValidationSet,
)
from easeml_meter.storage.books import Books
from easeml_meter.storage.store import Store

NOW = "2026-01-01T00:00:00.000000+00:00"

METER = MeterRecord("m", "cats", {"question": {"ask": "gap"}, "budget": {"steps": 4}}, NOW)

GENERATION = TestSet("m", 1, Phase.REQUESTED, 100, NOW)

VALIDATION = ValidationSet("m", 1, "d" * 64, 20, {"label": "y", "classes": None}, "v/1.csv", NOW)

ENTRY = Entry(
    meter="m",
    generation=1,
    tenant=1,
    step=1,
    answer="2",
    model="a model – with ünïcode",
    submission="s" * 64,
    validation_number=1,
    validation_set="d" * 64,
    validation_loss="1/3",
    blob="predictions/s.age",
    told_at=NOW,
)


def step(number: int, **changes: Any) -> Entry:
    return replace(ENTRY, step=number, submission=f"{number:064}", **changes)


def write(store: Store, *deeds: Callable[[Books], object]) -> None:
    """Do all of it in one transaction."""
    with store.writing() as books:
        for deed in deeds:
            deed(books)


def stored(books: Books, table: Table) -> list[dict[str, Any]]:
    """Return the rows of a table as they lie in the database."""
    return [row._asdict() for row in books.connection.execute(table.select())]
