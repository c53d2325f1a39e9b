"""Backups on a schedule: an older one is dropped only for one that could be restored."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest

from easeml_meter.errors import MeterError
from easeml_meter.service.actor import SYSTEM
from easeml_meter.service.backup import Place
from easeml_meter.service.place import Site
from easeml_meter.service.shelf import NOTE, shelve_verified, verified_at
from easeml_meter.storage import schema
from easeml_meter.storage.files import FolderFiles, open_files
from easeml_meter.storage.shelf import Shelf

from .sites import Room, make_room, make_site


@pytest.fixture
def room(tmp_path: Path, database: str) -> Iterator[Room]:
    site = make_site(tmp_path / "site", database)
    yield make_room(site, tmp_path / "room")
    site.close()


@pytest.fixture
def place(room: Room) -> Place:
    return Place.of_site(room.site)


def spoil(site: Site) -> None:
    """Change the books behind the back of the audit chain."""
    with site.writing() as books:
        books.connection.execute(schema.entries.update().values(model="another"))


def test_a_backup_that_is_not_sound_costs_no_older_one(
    room: Room, place: Place, tmp_path: Path
) -> None:
    shelf = Shelf.at(tmp_path / "shelf")
    room.submit(1, model="m1")
    first = shelve_verified(SYSTEM, place, tmp_path / "shelf", keep=1)
    spoil(room.site)
    with pytest.raises(MeterError, match="is not sound"):
        shelve_verified(SYSTEM, place, tmp_path / "shelf", keep=1)
    assert first.name in shelf.names()
    assert {*first.members.values()} <= {*shelf.contents()}
    assert verified_at(room.site.files) == datetime.fromisoformat(first.at)


def test_the_newest_backup_of_a_whole_site_is_noted(
    room: Room, place: Place, tmp_path: Path
) -> None:
    files = room.site.files
    assert verified_at(files) is None
    shelve_verified(SYSTEM, place, tmp_path / "one", meter=room.id)
    assert verified_at(files) is None
    for _ in range(2):
        made = shelve_verified(SYSTEM, place, tmp_path / "all")
        assert verified_at(files) == datetime.fromisoformat(made.at)


@pytest.mark.parametrize("text", ["", "yesterday", "\x00"])
def test_a_note_that_cannot_be_read_is_no_backup(tmp_path: Path, text: str) -> None:
    files = FolderFiles(tmp_path)
    files.put(NOTE, text.encode())
    assert verified_at(files) is None
    files.put(NOTE, b"\xff")
    assert verified_at(files) is None


def test_files_that_are_away_know_of_no_backup(s3_url: str) -> None:
    assert verified_at(open_files(s3_url)) is None
    assert verified_at(open_files("s3://no-such-bucket-anywhere/meter")) is None
