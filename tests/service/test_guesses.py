"""A stranger who guesses passwords locks out nobody but himself."""

from __future__ import annotations

from datetime import UTC, datetime

from easeml_meter.service.guesses import FAILURES, LOCK, LONGEST_LOCK, Guesses, locked_for

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def test_too_many_wrong_ones_lock_for_twice_as_long_each_time() -> None:
    guesses, now = Guesses(), NOW
    assert all(guesses.begin("a", now) for _ in range(FAILURES))
    for times in (1, 2, 4):
        assert not guesses.begin("a", now + times * LOCK - LOCK / 2)
        now += times * LOCK
        assert guesses.begin("a", now)
    assert locked_for(10**6, FAILURES) == LONGEST_LOCK


def test_a_right_one_begins_the_count_again() -> None:
    guesses = Guesses()
    for _ in range(3 * FAILURES):
        assert guesses.begin("a", NOW)
        guesses.right("a")


def test_others_are_not_locked_and_locks_are_not_crowded_out() -> None:
    guesses = Guesses()
    for _ in range(FAILURES):
        guesses.begin("a", NOW)
    for number in range(20_000):
        assert guesses.begin(number, NOW)
    assert len(guesses._wrong) <= 10_000
    assert not guesses.begin("a", NOW)
