"""Totals over the whole site."""

from __future__ import annotations

import threading

from easeml_meter.storage.store import Store


def test_workers_of_two_meters_count_their_first_wait_at_the_same_time(team_database: str) -> None:
    """Each holds the lock of its own meter only."""
    store = Store.open(team_database)

    def count() -> None:
        with store.writing("other") as books:
            books.counts.add_wait(0, 2.0)

    other = threading.Thread(target=count)
    with store.writing("one") as books:
        books.counts.add_wait(0, 1.0)
        other.start()
        other.join(0.5)
    other.join()
    with store.reading() as books:
        assert books.counts.waits() == {0: (2, 3.0)}
    store.close()
