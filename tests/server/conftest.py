"""What the tests of the server share."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.server.driving import begin
from tests.server.helpers import Served, serve
from tests.service.helpers import Labels, StoppedClock

from easeml_meter.server.logs import JsonLines


@pytest.fixture
def clock() -> StoppedClock:
    return StoppedClock()


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    """A site on SQLite; tests of limits make one of their own."""
    with serve(tmp_path / "site", requests_per_second=0) as each:
        yield each


@pytest.fixture
def served_on_each_database(tmp_path: Path, clock: StoppedClock, database: str) -> Iterator[Served]:
    """A site whose time stands still, on each database."""
    with serve(tmp_path / "site", clock=clock, database=database, logins_per_minute=0) as each:
        yield each


@pytest.fixture
def meter(served: Served) -> str:
    """A meter with a user for each seat, and nothing in it."""
    return served.add_meter()


@pytest.fixture
def labels(served: Served, meter: str, tmp_path: Path) -> Labels:
    """The hidden labels of the meter, once both of its sets are there."""
    return begin(served, meter, tmp_path)


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    """Collect everything that any library logs, as a server would write it."""
    text = io.StringIO()
    handler = logging.StreamHandler(text)
    handler.setFormatter(JsonLines())
    root, own = logging.getLogger(), logging.getLogger("easeml_meter")
    root.addHandler(handler)
    own.setLevel("DEBUG")
    yield text
    root.removeHandler(handler)
    own.setLevel(logging.NOTSET)
