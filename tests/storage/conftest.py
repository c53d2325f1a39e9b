"""A store with one meter, on each database."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.storage.examples import GENERATION, METER

from easeml_meter.storage.store import Store


@pytest.fixture(autouse=True)
def _as_for_users(durable: None, migrating: None) -> None:
    """Ask about the storage as it is."""


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
