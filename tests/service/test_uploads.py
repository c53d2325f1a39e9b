"""Uploads: pieces in any order and from anywhere, swept when nobody finishes them."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from tests.server.helpers import Served, serve

from easeml_meter.core.model import Upload
from easeml_meter.core.people import Role
from easeml_meter.errors import Denied, InvalidInput, MeterError, NotFound, TooLarge
from easeml_meter.service import uploads
from easeml_meter.service.actor import SYSTEM, Actor
from easeml_meter.service.place import Workspace
from easeml_meter.service.room import Room
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


def test_pieces_come_in_any_order_and_at_the_same_time(inbox: Inbox, labeler: Actor) -> None:
    found = uploads.begin_upload(labeler, inbox, "set", 10)
    with uploads.receive_piece(labeler, inbox, found.id, 6) as last:
        last.write(b"7890")
        with uploads.receive_piece(labeler, inbox, found.id, 0) as first:
            first.write(b"123")
        assert inbox.missing(found) == [(3, 10)]
    assert inbox.missing(found) == [(3, 6)]
    with uploads.receive_piece(labeler, inbox, found.id, 3) as piece:
        with pytest.raises(InvalidInput, match="more bytes"):
            piece.write(b"4567")
        piece.write(b"456")
    assert inbox.missing(found) == []
    with inbox.whole(found) as path:
        assert path.read_bytes() == b"1234567890"
    assert not list(inbox.folder.iterdir())


def test_two_that_send_the_same_bytes_do_no_harm(inbox: Inbox, labeler: Actor) -> None:
    found = uploads.begin_upload(labeler, inbox, "set", 10)
    with uploads.receive_piece(labeler, inbox, found.id, 0) as longer:
        longer.write(b"12345")
        with uploads.receive_piece(labeler, inbox, found.id, 3) as other:
            other.write(b"4567890")
    assert inbox.arrived(found) == 10
    with inbox.whole(found) as path:
        assert path.read_bytes() == b"1234567890"


def test_half_a_piece_does_not_take_the_place_of_the_whole_one(
    inbox: Inbox, labeler: Actor
) -> None:
    """A connection that hangs ends after its client has sent the same bytes again."""
    found = uploads.begin_upload(labeler, inbox, "set", 10)
    with uploads.receive_piece(labeler, inbox, found.id, 0) as hanging:
        hanging.write(b"123")
        with uploads.receive_piece(labeler, inbox, found.id, 0) as again:
            again.write(b"1234567890")
        assert inbox.arrived(found) == 10
    assert inbox.arrived(found) == 10
    with inbox.whole(found) as path:
        assert path.read_bytes() == b"1234567890"


def test_a_long_piece_is_kept_span_by_span(
    inbox: Inbox, labeler: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uploads, "SPAN", 4)
    found = uploads.begin_upload(labeler, inbox, "set", 10)
    with uploads.receive_piece(labeler, inbox, found.id, 0) as piece:
        piece.write(b"123")
        assert inbox.arrived(found) == 0
        piece.write(b"456789")
        assert inbox.pieces(found) == [(0, 4), (4, 8)]
    assert inbox.pieces(found) == [(0, 4), (4, 8), (8, 9)]


def test_many_tiny_pieces_are_refused(
    inbox: Inbox, labeler: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uploads, "MOST_PIECES", 2)
    found = uploads.begin_upload(labeler, inbox, "set", 10)
    for offset in (0, 1):
        with uploads.receive_piece(labeler, inbox, found.id, offset) as piece:
            piece.write(b"1")
    with (
        pytest.raises(MeterError, match="send larger ones"),
        uploads.receive_piece(labeler, inbox, found.id, 2),
    ):
        pass


def test_what_arrived_before_a_failure_is_kept(inbox: Inbox, labeler: Actor) -> None:
    found = uploads.begin_upload(labeler, inbox, "set", 10)
    receiving = uploads.receive_piece(labeler, inbox, found.id, 0)
    receiving.__enter__().write(b"123")
    assert not receiving.__exit__(RuntimeError, RuntimeError("cut"), None)
    assert inbox.arrived(found) == 3


def test_a_piece_never_exceeds_the_size_announced(inbox: Inbox, labeler: Actor) -> None:
    found = uploads.begin_upload(labeler, inbox, "set", 3)
    with (
        pytest.raises(InvalidInput, match="as many as were announced"),
        uploads.receive_piece(labeler, inbox, found.id, 0) as piece,
    ):
        piece.write(b"1234")
    assert inbox.arrived(found) == 0


def test_an_unfinished_one_is_not_taken_in_and_stays(inbox: Inbox, labeler: Actor) -> None:
    found = uploads.begin_upload(labeler, inbox, "set", 10)
    with pytest.raises(MeterError, match="0 of 10 bytes have arrived"):
        uploads.finish_upload(labeler, inbox, found.id)
    with uploads.receive_piece(labeler, inbox, found.id, 0) as piece:
        piece.write(b"no sealed!")
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
    with uploads.receive_piece(labeler, inbox, old.id, 0) as piece:
        piece.write(b"12345")
    clock.moment += KEPT * 0.75
    young = uploads.begin_upload(labeler, inbox, "young", 5)
    with uploads.receive_piece(labeler, inbox, young.id, 0) as piece:
        piece.write(b"12345")
    clock.moment += KEPT / 2
    uploads.sweep_uploads(SYSTEM, served.site, inbox.folder)
    with pytest.raises(NotFound):
        uploads.find_upload(labeler, inbox, old.id)
    assert uploads.find_upload(labeler, inbox, young.id) == young
    assert inbox.pieces(old) == []
    assert inbox.pieces(young) == [(0, 5)]
    with pytest.raises(Denied):
        uploads.sweep_uploads(labeler, served.site, inbox.folder)


def test_what_a_killed_server_left_on_its_disk_is_swept(
    served: Served, inbox: Inbox, clock: Clock
) -> None:
    killed = inbox.folder / "upload-killed"
    killed.mkdir(parents=True)
    (inbox.folder / "of-an-earlier-version.part").write_bytes(b"123")
    fresh = inbox.folder / "upload-fresh"
    fresh.mkdir()
    for path, age in ((killed, 2), (inbox.folder / "of-an-earlier-version.part", 2), (fresh, 0)):
        moment = (clock.moment - age * KEPT).timestamp()
        os.utime(path, (moment, moment))
    uploads.sweep_uploads(SYSTEM, served.site, inbox.folder)
    assert list(inbox.folder.iterdir()) == [fresh]


def with_room(inbox: Inbox, bytes_free: int, monkeypatch: pytest.MonkeyPatch) -> Inbox:
    """Return an inbox on a disk with so many bytes free, one of which stays so."""
    monkeypatch.setattr(FolderFiles, "free", lambda _: bytes_free)
    return replace(inbox, space=replace(inbox.space, room=Room(free=1)))


@pytest.mark.parametrize(("bytes_free", "looked_at"), [(1000, 0), (24, 1), (16, 2)])
def test_pieces_are_counted_outside_of_the_lock_and_only_if_room_is_scarce(
    inbox: Inbox,
    labeler: Actor,
    monkeypatch: pytest.MonkeyPatch,
    bytes_free: int,
    looked_at: int,
) -> None:
    """Everybody waited while all pieces of everybody were counted."""
    for size in (9, 10):
        found = uploads.begin_upload(labeler, inbox, "set", size)
        with uploads.receive_piece(labeler, inbox, found.id, 0) as piece:
            piece.write(b"x" * (size - 2))
    looked, pieces = [], Inbox.pieces

    def watched(self: Inbox, upload: Upload) -> list[tuple[int, int]]:
        database = self.space.store.address.removeprefix("sqlite:///")
        with closing(sqlite3.connect(database, timeout=0)) as other:
            other.execute("BEGIN IMMEDIATE")  # an error, if anybody holds the lock
        looked.append(upload.size)
        return pieces(self, upload)

    monkeypatch.setattr(Inbox, "pieces", watched)
    uploads.begin_upload(labeler, with_room(inbox, bytes_free, monkeypatch), "set", 10)
    assert looked == [10, 9][:looked_at]


def test_room_that_is_promised_to_others_is_not_given_again(
    inbox: Inbox, labeler: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    uploads.begin_upload(labeler, inbox, "set", 10)
    found = uploads.begin_upload(labeler, inbox, "set", 8)
    with uploads.receive_piece(labeler, inbox, found.id, 0) as piece:
        piece.write(b"12345")
    scarce = with_room(inbox, 20, monkeypatch)
    with pytest.raises(TooLarge, match="nearly full"):
        uploads.begin_upload(labeler, scarce, "set", 7)
    monkeypatch.setattr(uploads, "_MOST_COUNTED", 1)
    with pytest.raises(TooLarge, match="nearly full"):
        uploads.begin_upload(labeler, scarce, "set", 6)
    monkeypatch.setattr(uploads, "_MOST_COUNTED", 2)
    uploads.begin_upload(labeler, scarce, "set", 6)


def test_a_piece_of_an_upload_that_was_cancelled_meanwhile_is_not_kept(
    inbox: Inbox, labeler: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It lay there for ever, and counted for nobody."""
    monkeypatch.setattr(uploads, "SPAN", 4)
    found = uploads.begin_upload(labeler, inbox, "set", 10)
    with uploads.receive_piece(labeler, inbox, found.id, 0) as piece:
        piece.write(b"123456")
        assert inbox.pieces(found) == [(0, 4)]
        uploads.cancel_upload(labeler, inbox, found.id)
        piece.write(b"7890")
    assert inbox.pieces(found) == []


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
    assert files.sizes(f"uploads/{kept.id}") == {"0": 3}


def test_what_is_taken_in_is_what_was_checked(
    inbox: Inbox, labeler: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slower request for the same bytes replaced the file after it was checked."""
    found = uploads.begin_upload(labeler, inbox, "set", 3)
    slower = uploads.receive_piece(labeler, inbox, found.id, 0)
    slower.__enter__().write(b"bad")
    with uploads.receive_piece(labeler, inbox, found.id, 0) as piece:
        piece.write(b"fit")
    seen = []

    def add_labels(_actor: Actor, _space: Workspace, path: Path, *_: object, **__: object) -> None:
        seen.append(path.read_bytes())
        slower.__exit__(None, None, None)
        seen.append(path.read_bytes())

    monkeypatch.setattr(uploads, "add_labels", add_labels)
    uploads.finish_upload(labeler, inbox, found.id)
    assert seen[0] == seen[1]
