"""Token buckets: a rate, and how many at once. One is known by the moment it will be full again."""

from __future__ import annotations

from easeml_meter.errors import TooMany


def one_taken(full_at: float | None, now: float, rate: float, burst: float) -> float:
    """Return when a bucket will be full again, after one more was taken; None: it is full.

    Raises:
        TooMany: it is empty.
    """
    after = max(now if full_at is None else full_at, now) + 1 / rate
    wait = after - now - burst / rate
    if wait > 1e-5:  # moments are kept in microseconds
        raise TooMany("too many requests in too short a time: wait", wait)
    return after
