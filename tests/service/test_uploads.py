"""Uploads: pieces one after the other and from anywhere, swept when nobody finishes them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.server.helpers import Served, serve

from easeml_meter.core.model import Upload
from easeml_meter.core.people import Role
from easeml_meter.errors import Denied, InvalidInput, MeterError, NotFound, TooLarge
from easeml_meter.service import uploads
from easeml_meter.service.actor import SYSTEM, Actor
from easeml_meter.service.place import Room
from easeml_meter.service.uploads import KEPT, Inbox
from easeml_meter.storage.files import FolderFiles

from .helpers import Clock


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def served(tmp_path: Path, clock: Clock) -> Iterator[Served]:
    with serve(tmp_path / "site", clock=clock) as site:
        yield site


@pytest.fixture
def inbox(served: Served, tmp_path: Path) -> Inbox:
    return Inbox(served.site.space(served.add_meter()), tmp_path / "uploads")


@pytest.fixture
def labeler(served: Served, inbox: Inbox) -> Actor:
    return Actor(((Role.LABELER, 0),), user=served.users["labeler"].id)


@pytest.fixture(autouse=True)
def _small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploads, "PIECE", 4)


def test_pieces_follow_each_other(inbox: Inbox, labeler: Actor) -> None:
    found = uploads.begin_upload(labeler, inbox, "set", 10)
    for offset, content in ((0, b"1234"), (4, b"5678"), (8, b"90")):
        assert inbox.arrived(found) == offset
        for other in (-4, -1, 1, 2, offset + 4, 12, 1 << 70):
            with pytest.raises(MeterError, match=f"offset: {other} given, {offset} is next"):
                uploads.receive_piece(labeler, inbox, found.id, other, b"1234")
        uploads.receive_piece(labeler, inbox, found.id, offset, content)
    assert inbox.arrived(found) == 10
    with inbox.whole(found) as path:
        assert path.read_bytes() == b"1234567890"
    assert not list(inbox.folder.iterdir())


def test_a_piece_that_comes_again_does_no_harm(inbox: Inbox, labeler: Actor) -> None:
    """Its client never heard that it had arrived."""
    found = uploads.begin_upload(labeler, inbox, "set", 10)
    for offset, content in ((0, b"1234"), (0, b"4321"), (4, b"5678"), (0, b"1234"), (8, b"90")):
        uploads.receive_piece(labeler, inbox, found.id, offset, content)
    with inbox.whole(found) as path:
        assert path.read_bytes() == b"1234567890"


def test_a_piece_has_the_size_of_all_but_the_last(inbox: Inbox, labeler: Actor) -> None:
    found = uploads.begin_upload(labeler, inbox, "set", 6)
    for offset, content in ((0, b""), (0, b"123"), (0, b"12345"), (4, b"5"), (4, b"567")):
        if offset:
            uploads.receive_piece(labeler, inbox, found.id, 0, b"1234")
        with pytest.raises(InvalidInput, match=f"{4 if offset == 0 else 2} bytes are next"):
            uploads.receive_piece(labeler, inbox, found.id, offset, content)
        assert inbox.arrived(found) == offset


def fill(labeler: Actor, inbox: Inbox, found: Upload, content: bytes) -> None:
    """Send as many pieces as there are."""
    for offset in range(0, len(content), uploads.PIECE):
        piece = content[offset : offset + uploads.PIECE]
        uploads.receive_piece(labeler, inbox, found.id, offset, piece)


def test_an_unfinished_one_is_not_taken_in_and_stays(inbox: Inbox, labeler: Actor) -> None:
    found = uploads.begin_upload(labeler, inbox, "set", 10)
    with pytest.raises(MeterError, match="0 of 10 bytes have arrived"):
        uploads.finish_upload(labeler, inbox, found.id)
    fill(labeler, inbox, found, b"no sealed!")
    with pytest.raises(MeterError, match="cannot be opened"):
        uploads.finish_upload(labeler, inbox, found.id)
    assert inbox.arrived(uploads.find_upload(labeler, inbox, found.id)) == 10


def test_it_is_found_by_its_owner_at_its_meter_only(
    served: Served, inbox: Inbox, labeler: Actor
) -> None:
    found = uploads.begin_upload(labeler, inbox, "set", 10)
    other = Inbox(served.site.space(served.add_meter(prefix="other-")), inbox.folder)
    stranger = Actor(((Role.LABELER, 0),), user=served.users["stranger"].id)
    for actor, place in ((stranger, inbox), (labeler, other)):
        with pytest.raises(NotFound):
            uploads.find_upload(actor, place, found.id)
    with pytest.raises(Denied):
        uploads.begin_upload(Actor(((Role.DEVELOPER, 1),)), inbox, "set", 10)


def test_those_that_nobody_finishes_are_swept(
    served: Served, inbox: Inbox, labeler: Actor, clock: Clock
) -> None:
    old = uploads.begin_upload(labeler, inbox, "old", 5)
    fill(labeler, inbox, old, b"12345")
    clock.moment += KEPT * 0.75
    young = uploads.begin_upload(labeler, inbox, "young", 5)
    fill(labeler, inbox, young, b"12345")
    clock.moment += KEPT / 2
    uploads.sweep_uploads(SYSTEM, served.site, inbox.folder)
    with pytest.raises(NotFound):
        uploads.find_upload(labeler, inbox, old.id)
    assert uploads.find_upload(labeler, inbox, young.id) == young
    assert (inbox.arrived(old), inbox.arrived(young)) == (0, 5)
    with pytest.raises(Denied):
        uploads.sweep_uploads(labeler, served.site, inbox.folder)


def test_what_a_killed_server_left_on_its_disk_is_swept(
    served: Served, inbox: Inbox, clock: Clock
) -> None:
    killed = inbox.folder / "upload-killed"
    killed.mkdir(parents=True)
    fresh = inbox.folder / "upload-fresh"
    fresh.mkdir()
    for path, age in ((killed, 2), (fresh, 0)):
        moment = (clock.moment - age * KEPT).timestamp()
        os.utime(path, (moment, moment))
    uploads.sweep_uploads(SYSTEM, served.site, inbox.folder)
    assert list(inbox.folder.iterdir()) == [fresh]


def with_room(inbox: Inbox, bytes_free: int, monkeypatch: pytest.MonkeyPatch) -> Inbox:
    """Return an inbox on a disk with so many bytes free, one of which stays so."""
    monkeypatch.setattr(FolderFiles, "free", lambda _: bytes_free)
    return replace(inbox, space=replace(inbox.space, room=Room(free=1)))


def test_an_announcement_keeps_a_tenth_of_the_disk_from_others(
    served: Served, inbox: Inbox, labeler: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of nearly all of it, of which nothing was sent, kept all others out for a day."""
    other, scarce = (
        replace(labeler, user=served.users["stranger"].id),
        with_room(inbox, 101, monkeypatch),
    )
    uploads.begin_upload(labeler, scarce, "set", 100)
    with pytest.raises(TooLarge, match="nearly full"):
        uploads.begin_upload(other, scarce, "set", 91)
    for size in (90, 80):  # each has a tenth for all that they have announced
        uploads.begin_upload(other, scarce, "set", size)
    with pytest.raises(TooLarge, match="nearly full"):
        uploads.begin_upload(labeler, scarce, "set", 81)


def test_a_piece_that_does_not_fit_any_more_is_refused(
    inbox: Inbox, labeler: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = uploads.begin_upload(labeler, inbox, "set", 10)
    with pytest.raises(TooLarge, match="nearly full"):
        fill(labeler, with_room(inbox, 4, monkeypatch), found, b"1234")
    fill(labeler, with_room(inbox, 5, monkeypatch), found, b"1234")
    assert inbox.arrived(found) == 4


def test_one_of_which_nothing_comes_ends_when_there_is_another(
    served: Served, inbox: Inbox, labeler: Actor, clock: Clock
) -> None:
    silent, begun = (uploads.begin_upload(labeler, inbox, name, 10) for name in "ab")
    fill(labeler, inbox, begun, b"1234")
    clock.moment += uploads.SILENT
    other = Inbox(served.site.space(served.add_meter(prefix="other-")), inbox.folder)
    uploads.begin_upload(labeler, other, "c", 10)
    assert uploads.find_upload(labeler, inbox, begun.id) == begun
    with pytest.raises(NotFound):
        uploads.find_upload(labeler, inbox, silent.id)


def test_a_piece_of_an_upload_that_was_cancelled_meanwhile_is_not_kept(
    inbox: Inbox, labeler: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It lay there for ever, and counted for nobody."""
    found = uploads.begin_upload(labeler, inbox, "set", 10)
    fill(labeler, inbox, found, b"1234")
    put = FolderFiles.put

    def slow(self: FolderFiles, name: str, content: bytes) -> str:
        uploads.cancel_upload(labeler, inbox, found.id)
        assert inbox.arrived(found) == 0
        return put(self, name, content)

    monkeypatch.setattr(FolderFiles, "put", slow)
    uploads.receive_piece(labeler, inbox, found.id, 4, b"5678")
    assert inbox.arrived(found) == 0


def test_pieces_without_an_upload_are_swept_when_they_are_old(
    served: Served, inbox: Inbox, labeler: Actor, clock: Clock
) -> None:
    """A server that is killed while it removes an upload leaves some."""
    kept = uploads.begin_upload(labeler, inbox, "set", 3)
    files = inbox.space.files
    assert isinstance(files, FolderFiles)
    for name, age in ((kept.id, 2), ("a" * 32, 2), ("b" * 32, 0)):
        files.put(f"uploads/{name}/0", b"123")
        files.root.joinpath(f"uploads/{name}/.half").write_bytes(b"1")
        moment = (clock.moment - age * KEPT).timestamp()
        os.utime(files.root / "uploads" / name, (moment, moment))
    uploads.sweep_uploads(SYSTEM, served.site, inbox.folder)
    assert sorted(os.listdir(files.root / "uploads")) == sorted([kept.id, "b" * 32])
    assert files.names(f"uploads/{kept.id}") == ["0"]
