"""What the tests of the server share."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path

import argon2
import pytest
from tests.server.helpers import Served, serve
from tests.service.helpers import StoppedClock


@pytest.fixture
def cheap_hashes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hash passwords quickly."""
    cheap = functools.partial(argon2.PasswordHasher, time_cost=1, memory_cost=8, parallelism=1)
    monkeypatch.setattr(argon2, "PasswordHasher", cheap)


@pytest.fixture
def clock() -> StoppedClock:
    return StoppedClock()


@pytest.fixture
def served(tmp_path: Path, clock: StoppedClock, database: str) -> Iterator[Served]:
    """A site whose time stands still, on each database."""
    with serve(tmp_path / "site", clock=clock, database=database, logins_per_minute=0) as each:
        yield each
