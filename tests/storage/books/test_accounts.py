"""Stored accounts, on both databases: they come back as they were, and show when they are old."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from tests.storage.examples import ENTRY, GENERATION, METER

from easeml_meter.core.history import Folded, fold
from easeml_meter.core.ledger import Account, Ledger
from easeml_meter.core.questions.planning import required_labels
from easeml_meter.core.signals import State
from easeml_meter.spec import MeterSpec
from easeml_meter.storage.store import Store


@pytest.fixture
def store(database: str) -> Iterator[Store]:
    opened = Store.open(database)
    with opened.writing() as books:
        books.meters.add(METER)
        for number in (1, 2):
            books.testsets.add(replace(GENERATION, number=number))
    yield opened
    opened.close()


def folded(tenant: int, steps: int) -> Folded:
    return Folded(Account(tenant, steps, State(top=2)), steps)


@pytest.mark.parametrize("options", [{}, {"protocol": "incremental"}], ids=str)
def test_an_account_comes_back_to_the_last_bit(store: Store, options: dict[str, object]) -> None:
    spec = MeterSpec.uniform(signals=3, tolerance=0.2, steps=20, delta=0.1, **options)  # type: ignore[arg-type]
    ledger = Ledger(spec, required_labels(spec).labels)
    answers = ["1", "1", "2", "2", "3", "3"]
    entries = [replace(ENTRY, step=n, answer=answer) for n, answer in enumerate(answers, 1)]
    for length in range(len(entries) + 1):
        stored = fold(ledger, entries[:length], 1)
        with store.writing() as books:
            books.accounts.put("m", 1, [stored])
        with store.reading() as books:
            assert books.accounts.all("m", 1) == {1: stored}


def test_accounts_are_stored_by_test_set_and_tenant(store: Store) -> None:
    with store.writing() as books:
        books.accounts.put("m", 1, [folded(1, 1), folded(2, 5)])
        books.accounts.put("m", 2, [folded(1, 7)])
        books.accounts.put("m", 1, [folded(1, 2)])
        books.accounts.put("m", 1, [])
    with store.reading() as books:
        assert books.accounts.all("m", 1) == {1: folded(1, 2), 2: folded(2, 5)}
        assert books.accounts.all("m", 2) == {1: folded(1, 7)}
        assert books.accounts.all("other", 1) == {}


def test_accounts_that_lack_entries_or_have_too_many_are_not_complete(store: Store) -> None:
    with store.writing() as books:
        for tenant, step in ((1, 1), (1, 2), (2, 1), (2, 2), (3, 1)):
            books.entries.add([replace(ENTRY, tenant=tenant, step=step, submission=f"{step:064}")])
        stored = [folded(1, 2), folded(2, 1), folded(3, 2), folded(4, 0), folded(5, 1)]
        books.accounts.put("m", 1, stored)
    with store.reading() as books:
        assert books.accounts.complete("m", 1) == {1: folded(1, 2), 4: folded(4, 0)}
