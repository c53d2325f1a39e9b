"""Wrong passwords lock an account: soon for the address they come from, much later for all.

So a stranger locks out nobody but himself. They are counted in the books, so that neither a second
server nor a restart gives more guesses.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from easeml_meter.core.buckets import one_taken
from easeml_meter.core.model import stamp
from easeml_meter.core.people import Credentials, Wrong
from easeml_meter.service.actor import Actor, Permission, needs
from easeml_meter.service.place import Site
from easeml_meter.storage.books import Books

FAILURES = 5
"""Wrong passwords in a row, from one address, before they lock."""
FAILURES_ANYWHERE = 100
"""Wrong passwords in a row, from all addresses, before they lock: a crowd must not go on."""

IDLE_KEYS = 256
"""Rows for all guesses that cannot be right."""

LOCK = timedelta(seconds=30)

LONGEST_LOCK = timedelta(hours=1)

KEPT = timedelta(days=1)
"""After a day without a guess, or after the lock, the count begins again."""


def locked_for(failures: int, most: int) -> timedelta:
    """Return for how long wrong passwords lock: from `most` on, for twice as long each time."""
    if failures < most:
        return timedelta(0)
    times: int = 2 ** min(failures - most, 20)
    return min(LOCK * times, LONGEST_LOCK)


def key_of(name: str, address: str, password: str | None) -> str:
    """Return what guesses are counted for.

    With the hash of the password in it, a new password ends every lock.
    """
    return hashlib.sha256(json.dumps([name, address, password]).encode()).hexdigest()


def idle_key(name: str, address: str) -> str:
    """Return what guesses are counted for that cannot be right: one of `IDLE_KEYS`.

    Strangers can make up names for ever; the books must not grow with them.
    """
    return f"{int(key_of(name, address, None), 16) % IDLE_KEYS:064x}"


def begin_guess(books: Books, key: str, now: datetime) -> bool:
    """Count a guess as wrong until it proves right; return whether it may be right at all.

    Counting it before it is checked keeps many at the same moment from going uncounted. Also one
    that comes too early writes a row: its time must not say whether the account exists.
    """
    before = books.guesses.get(key) or Wrong(key, 0, stamp(now))
    if _locked(before.until, now):
        books.guesses.put(before)
        return False
    failures = before.failures + 1
    until = now + locked_for(failures, FAILURES)
    books.guesses.put(Wrong(key, failures, stamp(until)))
    return True


def locked_everywhere(secret: Credentials, now: datetime) -> bool:
    """Whether an account is locked for all addresses."""
    return secret.locked_until is not None and _locked(secret.locked_until, now)


def _locked(until: str, now: datetime) -> bool:
    # No lock ends later than that: the clock of the server that made it was ahead. That of another
    # one may differ a little.
    return now < datetime.fromisoformat(until) <= now + LONGEST_LOCK + LOCK


def counted_everywhere(secret: Credentials, now: datetime, *, right: bool) -> Credentials:
    """Return the credentials of an account after a guess from whatever address."""
    failures = 0 if right else secret.failures + 1
    pause = locked_for(failures, FAILURES_ANYWHERE)
    return replace(secret, failures=failures, locked_until=stamp(now + pause) if pause else None)


@needs(Permission.SIGN_IN)
def count_sign_in(_actor: Actor, site: Site, address: str, per_minute: float) -> None:
    """Count an attempt to sign in from an address, right or wrong, to all servers together.

    Raises:
        TooMany: that many came within a minute.
    """
    key, now = key_of("", address, None), site.clock().timestamp()
    rate, burst = per_minute / 60, max(1.0, per_minute)
    with site.writing() as books:
        known = books.guesses.get(key)
        full_at = datetime.fromisoformat(known.until).timestamp() if known else now
        if full_at > now + burst / rate + 1:  # more than empty: the clock of a server was off
            full_at = now
        after = one_taken(full_at, now, rate, burst)
        books.guesses.put(Wrong(key, 0, stamp(datetime.fromtimestamp(after, UTC))))


def forget_guesses(books: Books, now: datetime) -> None:
    """Forget what was guessed long ago."""
    books.guesses.forget_before(stamp(now - KEPT))
