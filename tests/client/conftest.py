"""A server, and people who use a meter there and in a folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.client.people import People, people_at
from tests.live import Live, live
from tests.service.helpers import small_spec

from easeml_meter.client import connection
from easeml_meter.core.people import Role
from easeml_meter.meter import Meter


@pytest.fixture(autouse=True)
def no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """The key of the digests of ids in ledgers."""
    monkeypatch.delenv("METER_KEY", raising=False)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with live(tmp_path_factory.mktemp("site") / "server") as found:
        yield found


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(connection, "FIRST_PAUSE", 0.001)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def options() -> dict[str, Any]:
    """What is special about the meter."""
    return {}


@pytest.fixture
def at_server(site: Live, tmp_path: Path, options: dict[str, Any]) -> Iterator[People]:
    yield from people_at(site, tmp_path, f"{tmp_path.name}-", **options)


@pytest.fixture
def in_folder(tmp_path: Path, options: dict[str, Any]) -> Iterator[People]:
    with Meter.create(tmp_path / "meter", small_spec(**options), name=f"{tmp_path.name}-meter"):
        pass
    with (
        Meter.open(tmp_path / "meter", role=Role.LABELER) as labeler,
        Meter.open(tmp_path / "meter", role=Role.DEVELOPER) as developer,
    ):
        yield People(tmp_path, labeler, developer)


@pytest.fixture(params=["in_folder", "at_server"])
def people(request: pytest.FixtureRequest) -> People:
    found = request.getfixturevalue(request.param)
    assert isinstance(found, People)
    return found
