"""Several questions, and rows of several tables, in one statement: the same as one by one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

import pytest
import sqlalchemy as sa
from tests.storage.examples import ENTRY, METER, NOW

from easeml_meter.core.history import Folded
from easeml_meter.core.idempotency import KeyedRequest
from easeml_meter.core.ledger import Account
from easeml_meter.errors import StorageError
from easeml_meter.storage import schema
from easeml_meter.storage.books import Books
from easeml_meter.storage.books.repository import columns_of
from easeml_meter.storage.store import Store

KEY = KeyedRequest("anna", "key", "r", NOW, 200, {"n": 1})
OTHER = replace(KEY, key="other", body=None)
PAIRS = {(1, ENTRY.submission), (2, "b" * 64)}
FOLDED = Folded(Account(1, steps=1), 1)


@contextmanager
def statements(store: Store) -> Iterator[list[str]]:
    """Give what is sent to the database."""
    sent: list[str] = []

    def note(*given: Any) -> None:
        sent.append(given[2])

    sa.event.listen(store._engine, "before_cursor_execute", note)
    yield sent
    sa.event.remove(store._engine, "before_cursor_execute", note)


def enter(books: Books) -> None:
    books.audit.append_all(METER.id, [(NOW, "told", {"step": 1})])
    books.entries.add([ENTRY])
    books.accounts.put(METER.id, 1, [FOLDED])
    books.idempotency.put([KEY, OTHER])


def ask(books: Books) -> list[object]:
    return [
        books.meters.overview(METER.id),
        books.idempotency.known([KEY, OTHER, replace(KEY, key="unknown")]),
        books.accounts.complete(METER.id, 1),
        books.entries.of_submissions(METER.id, 1, PAIRS),
        books.audit.newest(METER.id),
    ]


def look(books: Books) -> None:
    requests = [KEY, OTHER, replace(KEY, key="unknown")]
    books.read_ahead(
        METER.id, state=True, requests=requests, generation=1, submissions=PAIRS, chain=True
    )


def test_what_is_read_ahead_is_what_is_read(store: Store) -> None:
    """Also of empty tables; JSON, nulls and truth values included."""
    for _ in range(2):
        with store.reading() as books:
            alone = ask(books)
        with store.reading() as books:
            look(books)
            with statements(store) as sent:
                assert ask(books) == alone
            if store.dialect == "postgresql":
                assert sent == []
        with store.writing(METER.id) as books:
            if not books.entries.all(METER.id, 1):
                enter(books)


def test_an_answer_read_ahead_counts_once_and_until_something_is_written(store: Store) -> None:
    with store.writing(METER.id) as books:
        look(books)
        assert ask(books)[3] == []
        enter(books)
        assert books.entries.of_submissions(METER.id, 1, PAIRS) == [ENTRY]
    later = replace(ENTRY, step=2, tenant=2, submission="b" * 64)
    with store.writing(METER.id) as books:
        look(books)
        books.entries.add([later])
        assert later in books.entries.of_submissions(METER.id, 1, PAIRS)
        look(books)
        with books.entering():
            books.audit.append(METER.id, NOW, "told", {})
        assert books.audit.newest(METER.id) == 2


def test_what_is_entered_at_once_is_what_is_entered_one_by_one(store: Store) -> None:
    with store.writing(METER.id) as books, statements(store) as sent:
        with books.entering():
            enter(books)
        if store.dialect == "postgresql":  # where the chain ends, and all rows
            assert len(sent) == 2
    with store.reading() as books:
        together = ask(books)
        links = books.audit.all(METER.id)
    assert together[1] == {KEY.place: KEY, OTHER.place: OTHER}
    assert together[2:] == [{1: FOLDED}, [ENTRY], 1]
    changed = replace(FOLDED, account=Account(1, steps=2), step=1)
    with store.writing(METER.id) as books, books.entering():
        books.accounts.put(METER.id, 1, [changed])
        books.idempotency.put([replace(KEY, body={"n": 2})])
    with store.reading() as books:
        assert books.accounts.complete(METER.id, 1) == {1: changed}
        assert books.idempotency.known([KEY])[KEY.place].body == {"n": 2}
        assert books.audit.all(METER.id) == links


def test_what_was_read_ahead_of_a_lock_is_read_again(store: Store) -> None:
    """Whoever held it may have written what was read."""
    with store.writing("another") as books:
        look(books)
        if store.dialect == "postgresql":
            with store.writing(METER.id) as others:
                others.idempotency.put([KEY])
        else:
            books.connection.execute(schema.idempotency.insert(), columns_of(KEY))
        books.lock(METER.id)
        asked = [KEY, OTHER, replace(KEY, key="unknown")]
        assert books.idempotency.known(asked) == {KEY.place: KEY}


def test_what_is_changed_inside_is_changed_after_what_was_added_before(store: Store) -> None:
    with store.writing(METER.id) as books, books.entering():
        books.idempotency.put([replace(KEY, created_at="2026"), replace(OTHER, created_at="2027")])
        books.idempotency.forget_before("2027")
    with store.reading() as books:
        assert set(books.idempotency.known([KEY, OTHER])) == {OTHER.place}


def test_rows_of_one_table_keep_their_order(store: Store) -> None:
    with store.writing(METER.id) as books, books.entering():
        books.idempotency.put([KEY])
        books.idempotency.put([replace(KEY, body={"n": 3})])
    with store.reading() as books:
        assert books.idempotency.known([KEY])[KEY.place].body == {"n": 3}


def test_rows_that_cannot_be_entered_take_the_others_with_them(store: Store) -> None:
    with store.writing(METER.id) as books:
        enter(books)

    def again() -> None:
        with store.writing(METER.id) as books, books.entering():
            books.idempotency.put([replace(KEY, key="third")])
            books.entries.add([replace(ENTRY, submission="e" * 64)])  # the same step

    with pytest.raises(StorageError):
        again()
    with store.writing(METER.id) as books:
        assert books.entries.all(METER.id, 1) == [ENTRY]
        assert set(books.idempotency.known([KEY, replace(KEY, key="third")])) == {KEY.place}


def test_an_error_inside_enters_nothing(store: Store) -> None:
    with store.writing(METER.id) as books:
        with suppress(ZeroDivisionError), books.entering():
            books.idempotency.put([KEY])
            raise ZeroDivisionError
        if store.dialect == "postgresql":
            assert books.idempotency.known([KEY]) == {}
        books.idempotency.put([OTHER])  # at once again
        assert OTHER.place in books.idempotency.known([OTHER])
