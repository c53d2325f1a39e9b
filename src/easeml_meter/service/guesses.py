"""Wrong passwords in a row, by account and address: a stranger locks out nobody but himself."""

from __future__ import annotations

import threading
from collections.abc import Hashable
from datetime import datetime, timedelta

FAILURES = 5
"""Wrong passwords in a row, from one address, before they lock."""
FAILURES_ANYWHERE = 100
"""Wrong passwords in a row, from all addresses, before they lock: a crowd must not go on."""

LOCK = timedelta(seconds=30)

LONGEST_LOCK = timedelta(hours=1)

_MOST = 10_000
"""Accounts and addresses that are remembered before those without a lock are forgotten."""


def locked_for(failures: int, most: int) -> timedelta:
    """Return for how long wrong passwords lock: from `most` on, for twice as long each time."""
    if failures < most:
        return timedelta(0)
    times: int = 2 ** min(failures - most, 20)
    return min(LOCK * times, LONGEST_LOCK)


class Guesses:
    """What was guessed, in the memory of one server: an attacker cannot restart it."""

    def __init__(self) -> None:
        self._wrong: dict[Hashable, tuple[int, datetime]] = {}
        self._lock = threading.Lock()

    def begin(self, key: Hashable, now: datetime) -> bool:
        """Count a guess as wrong until `right` is called; return whether it may be right at all.

        Counting it before it is checked keeps many at the same moment from going uncounted.
        """
        with self._lock:
            failures, until = self._wrong.get(key, (0, now))
            if until > now:
                return False
            if len(self._wrong) >= _MOST:
                self._wrong = {key: each for key, each in self._wrong.items() if each[1] > now}
            self._wrong[key] = (failures + 1, now + locked_for(failures + 1, FAILURES))
            return True

    def right(self, key: Hashable) -> None:
        """Begin to count from zero again."""
        with self._lock:
            self._wrong.pop(key, None)
