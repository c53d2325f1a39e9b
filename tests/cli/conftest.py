"""A meter to give bad input to, a server, and a home of their own for the tests of commands."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.office import Admins, Office
from tests.cli.workbench import (
    VALIDATION,
    Workbench,
    animals,
    wrong,
)
from tests.live import Live, live

from easeml_meter.client import connection


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A meter with a test set, a validation set and one answer; good files of predictions."""
    folder = tmp_path_factory.mktemp("template")
    desk = Workbench(folder)
    labels = animals(desk.init())
    desk.validate(VALIDATION)
    desk.deliver(labels)
    desk.submit(labels, VALIDATION, name="first")
    desk.predictions(wrong(labels, 2), VALIDATION, name="good")
    return folder


@pytest.fixture
def desk(template: Path, tmp_path: Path) -> Workbench:
    shutil.copytree(template, tmp_path / "desk")
    return Workbench(tmp_path / "desk")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """A server with an admin and no meters."""
    with live(tmp_path_factory.mktemp("site") / "server", logins_per_minute=0) as found:
        yield found


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Forget the settings of whoever runs the tests."""
    monkeypatch.setattr(connection, "FIRST_PAUSE", 0.001)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for name in ("METER_SERVER", "METER_TOKEN", "METER_NAME", "METER_FOLDER", "METER_INSECURE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def office(site: Live, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Office:
    return Office(site, tmp_path, monkeypatch)


@pytest.fixture
def admins(site: Live, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Admins:
    found = Admins(site, tmp_path, monkeypatch)
    found.make()
    return found
