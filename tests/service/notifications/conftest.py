"""A site of each kind of database."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.service.sites import make_site

from easeml_meter.service.place import Site


@pytest.fixture
def site(tmp_path: Path, database: str) -> Iterator[Site]:
    opened = make_site(tmp_path / "site", database)
    yield opened
    opened.close()
