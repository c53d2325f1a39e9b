"""Backups on a schedule: an older one is dropped only for one that could be restored."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from easeml_meter.errors import MeterError
from easeml_meter.service.actor import SYSTEM
from easeml_meter.service.backup import Contents, Place
from easeml_meter.service.keys import rotate_key
from easeml_meter.service.place import Site
from easeml_meter.service.restore import check_backup
from easeml_meter.service.shelf import NOTE, shelve_verified, verified_at
from easeml_meter.storage import schema
from easeml_meter.storage.files import FolderFiles, open_files
from easeml_meter.storage.shelf import Shelf
from easeml_meter.vault.keys import Identity
from easeml_meter.vault.sealing import seal

from .helpers import rows
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


def test_a_clock_that_was_ahead_costs_no_backup_that_was_just_verified(
    room: Room, place: Place, tmp_path: Path
) -> None:
    shelf = Shelf.at(tmp_path / "shelf")
    ahead = replace(place, clock=lambda: place.clock() + timedelta(hours=36))
    early = shelve_verified(SYSTEM, ahead, tmp_path / "shelf")
    room.submit(1, model="m1")
    made = shelve_verified(SYSTEM, place, tmp_path / "shelf", keep=1)
    assert shelf.names() == [made.name, early.name]
    assert {*made.members.values()} <= {*shelf.contents()}


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


def of_meter(room: Room) -> Path:
    files = room.site.files
    assert isinstance(files, FolderFiles)
    return files.root / "meters" / room.id


def flip(path: Path) -> None:
    """Change one bit in the middle of a file, as a failing disk does."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))


def kept_backup(room: Room, place: Place, folder: Path) -> Contents:
    """Make a good backup, and hand in one model more."""
    room.submit(1, model="m1")
    made = shelve_verified(SYSTEM, place, folder, keep=1)
    room.submit(2, model="m2")
    return made


def assert_refused(room: Room, place: Place, folder: Path, first: Contents, said: str) -> None:
    """Nothing is dropped, nothing is noted, and the good backup is still the newest."""
    with pytest.raises(MeterError, match=said) as refused:
        shelve_verified(SYSTEM, place, folder, keep=1)
    assert "no earlier one was dropped" in str(refused.value)
    assert "\n" not in str(refused.value)
    shelf = Shelf.at(folder)
    assert shelf.names() == [first.name]
    assert {*first.members.values()} <= {*shelf.contents()}
    assert room.site.files.read(NOTE).decode() == first.at
    assert check_backup(SYSTEM, room.site.identity, folder)


@pytest.mark.parametrize("pattern", ["testsets/*.sealed", "validation/*", "predictions/*.age"])
@pytest.mark.parametrize("how", ["missing", "damaged"])
def test_a_file_that_is_lost_or_damaged_costs_no_older_backup(
    room: Room, place: Place, tmp_path: Path, pattern: str, how: str
) -> None:
    first = kept_backup(room, place, tmp_path / "shelf")
    path = max(of_meter(room).glob(pattern))
    if how == "missing":
        path.unlink()
    else:
        flip(path)
    assert_refused(room, place, tmp_path / "shelf", first, f"{path.name} is {how}")


def test_a_server_that_lost_all_its_files_costs_no_older_backup(
    room: Room, place: Place, tmp_path: Path
) -> None:
    """It was called sound, and the last good backup was dropped for it."""
    first = kept_backup(room, place, tmp_path / "shelf")
    meters = of_meter(room).parent
    meters.rename(tmp_path / "elsewhere")
    assert_refused(room, place, tmp_path / "shelf", first, r"and 3 more files: mount")
    (tmp_path / "elsewhere").rename(meters)
    made = shelve_verified(SYSTEM, place, tmp_path / "shelf", keep=1)
    assert Shelf.at(tmp_path / "shelf").names() == [made.name]


def test_a_check_finds_another_test_set_in_the_place_of_one(
    room: Room, place: Place, tmp_path: Path
) -> None:
    """It opens, as it is sealed for the same meter and number; its rows have never answered."""
    first = kept_backup(room, place, tmp_path / "shelf")
    (path,) = of_meter(room).glob("testsets/*.sealed")
    path.unlink()
    others = rows(1 - room.session.test_labels, seed=9)
    to = [room.site.identity.recipient]
    seal(others, path, meter=room.id, generation=1, label="label", id_column="id", recipients=to)
    assert_refused(room, place, tmp_path / "shelf", first, "is not the one that the books name")


def test_a_released_test_set_needs_its_sealed_files_no_more(
    room: Room, place: Place, tmp_path: Path
) -> None:
    """Whoever removed them to make room still has backups, as long as the plain rows are there."""
    for number in range(4):
        room.submit(number, model=f"m{number}")
    room.meter.release()
    folder = of_meter(room)
    for path in (*folder.glob("testsets/*.sealed"), *folder.glob("predictions/*.age")):
        path.unlink()
    made = shelve_verified(SYSTEM, place, tmp_path / "shelf", keep=1)
    assert len(made.missing) == 5
    (folder / "released" / "1" / "testset.parquet").unlink()
    assert_refused(room, place, tmp_path / "shelf", made, "sealed is missing")


def test_a_key_that_was_changed_leaves_backups_sound(
    room: Room, place: Place, tmp_path: Path
) -> None:
    """The sealed file has another digest then than when it was delivered."""
    room.submit(1, model="m1")
    key = tmp_path / "site" / "server.key"
    rotate_key(SYSTEM, place, key, room.site)
    again = replace(place, identity=Identity.read(key))
    assert shelve_verified(SYSTEM, again, tmp_path / "shelf", keep=1).missing == ()


def test_good_bytes_take_the_place_of_bad_ones(room: Room, place: Place, tmp_path: Path) -> None:
    """A content that went bad on the shelf was never written again: every night failed."""
    folder = tmp_path / "shelf"
    kept_backup(room, place, folder)
    for path in (folder / "contents").iterdir():
        path.write_bytes(path.read_bytes() + b"x")
    second = shelve_verified(SYSTEM, place, folder, keep=2)
    assert check_backup(SYSTEM, room.site.identity, folder)
    assert Shelf.at(folder).names()[-1] == second.name
    assert verified_at(room.site.files) == datetime.fromisoformat(second.at)


def test_a_place_that_keeps_nothing_right_is_named(
    room: Room, place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "shelf"
    first = kept_backup(room, place, folder)
    put = Shelf.put

    def spoiled(self: Shelf, content: Iterable[bytes], afresh: Collection[str] = ()) -> str:
        digest = put(self, content, afresh)
        (folder / "contents" / digest).write_bytes(b"bad")
        return digest

    with monkeypatch.context() as patched:
        patched.setattr(Shelf, "put", spoiled)
        with pytest.raises(MeterError, match=r"audit\.jsonl is damaged.*another place") as refused:
            shelve_verified(SYSTEM, place, folder, keep=1)
    assert "restored" not in str(refused.value)
    assert Shelf.at(folder).names() == [first.name]
