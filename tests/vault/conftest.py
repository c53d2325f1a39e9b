"""A labeler's table, keys, and a sealed file to play with."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from easeml_meter.vault.keys import Identity
from easeml_meter.vault.manifest import Manifest
from easeml_meter.vault.sealing import seal

Seal = Callable[..., Manifest]


@pytest.fixture(scope="session")
def meter_key() -> Identity:
    return Identity.new()


@pytest.fixture(scope="session")
def labeler_key() -> Identity:
    return Identity.new()


@pytest.fixture
def table() -> pa.Table:
    rows = 10
    return pa.table(
        {
            "name": [f"row-{i}" for i in range(rows)],
            "size": pa.array([i * 0.5 for i in range(rows)]),
            "words": [["a", "b"][: i % 3] for i in range(rows)],
            "kind": [("cat", "dog", "bird")[i % 3] for i in range(rows)],
        }
    )


@pytest.fixture
def seal_it(meter_key: Identity, labeler_key: Identity) -> Seal:
    """Seal with the usual settings, any of which can be replaced."""

    def sealed(source: Any, destination: Path, **changed: Any) -> Manifest:
        settings: dict[str, Any] = {
            "meter": "cats",
            "generation": 1,
            "label": "kind",
            "recipients": [meter_key.recipient, labeler_key.recipient],
            "clock": lambda: datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC),
        }
        return seal(source, destination, **{**settings, **changed})

    return sealed
