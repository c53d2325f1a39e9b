"""A stranger who guesses passwords locks out nobody but himself, at however many servers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from easeml_meter.core.model import stamp
from easeml_meter.core.people import Credentials, Wrong
from easeml_meter.errors import TooMany
from easeml_meter.service.actor import ANYONE
from easeml_meter.service.guesses import (
    FAILURES,
    FAILURES_ANYWHERE,
    KEPT,
    LOCK,
    LONGEST_LOCK,
    begin_guess,
    count_sign_in,
    counted_everywhere,
    forget_guesses,
    key_of,
    locked_everywhere,
    locked_for,
)
from easeml_meter.service.place import Site
from easeml_meter.storage.books import Books
from easeml_meter.storage.store import Store

from .helpers import StoppedClock

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ANN = key_of("ann", "192.0.2.1", "hash")


@pytest.fixture
def books(database: str) -> Iterator[Books]:
    store = Store.open(database)
    with store.writing() as opened:
        yield opened
    store.close()


def test_too_many_wrong_ones_lock_for_twice_as_long_each_time(books: Books) -> None:
    now = NOW
    assert all(begin_guess(books, ANN, now) for _ in range(FAILURES))
    for times in (1, 2, 4):
        assert not begin_guess(books, ANN, now + times * LOCK - LOCK / 2)
        now += times * LOCK
        assert begin_guess(books, ANN, now)
    assert locked_for(10**6, FAILURES) == LONGEST_LOCK


def test_a_server_whose_clock_was_ahead_locks_nobody_out_for_as_long(books: Books) -> None:
    ahead = NOW + timedelta(hours=36)
    for _ in range(FAILURES):
        begin_guess(books, ANN, ahead)
    assert begin_guess(books, ANN, NOW)
    assert not begin_guess(books, ANN, NOW)  # and what was counted still counts
    secret = Credentials("ann", "hash", FAILURES_ANYWHERE)
    for moment, locked in ((ahead, False), (NOW, True), (NOW + LOCK / 2, True)):
        counted = counted_everywhere(secret, moment, right=False)
        assert locked_everywhere(counted, NOW) is locked


def test_the_longest_lock_holds_where_clocks_differ_a_little(books: Books) -> None:
    made = NOW + timedelta(seconds=2)
    books.guesses.put(Wrong(ANN, 100, stamp(made + LONGEST_LOCK)))
    assert not begin_guess(books, ANN, NOW)


def test_a_right_one_begins_the_count_again(books: Books) -> None:
    for _ in range(3 * FAILURES):
        assert begin_guess(books, ANN, NOW)
        books.guesses.forget(ANN)


def test_attempts_of_an_address_are_counted_whatever_the_clocks_of_servers_say(
    tmp_path: Path, database: str
) -> None:
    clock = StoppedClock()
    with closing(Site.open(database, tmp_path / "files", tmp_path / "key", clock)) as site:

        def taken(address: str = "192.0.2.1", per_minute: float = 3) -> int:
            for count in range(10):
                try:
                    count_sign_in(ANYONE, site, address, per_minute)
                except TooMany:
                    return count
            raise AssertionError

        assert (taken(), taken("192.0.2.2"), taken("192.0.2.3", 0.5)) == (3, 3, 1)
        clock.pass_by(timedelta(seconds=20))
        assert taken() == 1
        clock.pass_by(timedelta(days=2))
        assert taken() == 3
        # The clock that was ahead by two days is set right: nobody is locked out for so long.
        clock.pass_by(-timedelta(days=2))
        assert taken() == 3


def test_others_are_not_locked_and_a_new_password_is_another_count(books: Books) -> None:
    for _ in range(FAILURES):
        begin_guess(books, ANN, NOW)
    assert not begin_guess(books, ANN, NOW)
    for other in (("bob", "192.0.2.1", "hash"), ("ann", "", "hash"), ("ann", "192.0.2.1", None)):
        assert begin_guess(books, key_of(*other), NOW)


def test_counts_are_forgotten_a_day_after_their_lock(books: Books) -> None:
    for _ in range(FAILURES):
        begin_guess(books, ANN, NOW)
    forget_guesses(books, NOW + KEPT)
    assert books.guesses.get(ANN) is not None
    forget_guesses(books, NOW + KEPT + LOCK + timedelta(seconds=1))
    assert books.guesses.get(ANN) is None


def test_two_servers_count_together(database: str) -> None:
    """Each process counted for itself: with two of them, ten guesses were taken."""
    stores = [Store.open(database), Store.open(database)]
    taken = 0
    for number in range(4 * FAILURES):
        with stores[number % 2].writing() as books:
            taken += begin_guess(books, ANN, NOW)
    assert taken == FAILURES
    for store in stores:
        store.close()
