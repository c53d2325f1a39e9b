"""A site to click through has people who can sign in, and meters in different states."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.cli.running import run
from tests.server.process import started

from easeml_meter.core.lifecycle import Phase
from easeml_meter.core.people import Role
from easeml_meter.demo.site import PEOPLE, fill
from easeml_meter.meter import Meter
from easeml_meter.service.actor import SYSTEM
from easeml_meter.service.place import Site
from easeml_meter.service.users import check_password, list_users


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Site, str]]:
    folder = tmp_path_factory.mktemp("site")
    database = f"sqlite:///{folder / 'meter.db'}"
    with closing(Site.open(database, folder / "files", folder / "key")) as site:
        yield site, fill(site)


def test_everybody_signs_in_with_the_password(filled: tuple[Site, str]) -> None:
    site, password = filled
    assert {user.name for user in list_users(SYSTEM, site)} == set(PEOPLE)
    admins = {name for name in PEOPLE if check_password(site, name, password).admin}
    assert admins == {"ada"}


def test_every_state_is_there_and_the_books_are_sound(filled: tuple[Site, str]) -> None:
    site, _ = filled
    with site.reading() as books:
        records = books.meters.all()
    states = set()
    for record in records:
        meter = Meter(site.space(record.id), Role.OWNER)
        assert meter.audit().sound
        states.add(tuple(test_set.phase for test_set in meter.generations))
        for signal in meter.status(generation=1).signals:
            assert signal.told_at < site.clock()
    released, requested = Phase.RELEASED, Phase.REQUESTED
    assert states == {(requested,), (Phase.ACTIVE,), (released, requested)}
    assert len(records) == 4


def test_it_is_served(tmp_path: Path) -> None:
    with started(tmp_path / "new", "--demo") as server:
        with server.client("none") as client:
            # It is told where a new server tells the token of its admin.
            answer = client.post("/login", json={"name": "dan", "password": server.token})
        assert answer.status_code == 200, answer.text


def test_a_folder_that_exists_is_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = run(capsys, "serve", "--demo", "--folder", str(tmp_path))
    assert (code, list(tmp_path.iterdir())) == (2, [])
    assert "exists: serve it with meter serve --folder" in err
