"""Uploads of sealed files: in pieces, resumable, kept on this machine until they are taken in.

Only what is sealed comes this way, so nothing here is in the clear. An upload's file lies on the
machine where it began; where it is missing, the upload starts again at offset 0.
"""

from __future__ import annotations

import fcntl
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import BinaryIO

from easeml_meter.checks import check_name
from easeml_meter.core.model import LabelRequest, Upload, stamp
from easeml_meter.errors import MeterError, NotFound, TooLarge, TooMany, invalid
from easeml_meter.service.actor import Actor, Permission, needs
from easeml_meter.service.place import Site, Workspace
from easeml_meter.service.room import MOST_UPLOADS
from easeml_meter.service.testsets.parts import add_labels
from easeml_meter.service.testsets.reuse import UNDECIDED, Decisions
from easeml_meter.storage.files import sync, unusable

KEPT = timedelta(days=1)
"""How long an upload that nobody finishes is kept."""
LARGEST = 1 << 50
_WAIT = 60
"""Seconds after which a client tries again when too many uploads are unfinished."""


@dataclass(frozen=True)
class Inbox:
    """Where the uploads for one meter arrive: a folder of this machine, shared by all meters."""

    space: Workspace
    folder: Path

    def arrived(self, upload: Upload) -> int:
        """Return how many bytes are here, on disk."""
        try:
            return self.path(upload).stat().st_size
        except FileNotFoundError:
            return 0

    def path(self, upload: Upload) -> Path:
        """Return where the bytes of an upload lie."""
        return self.folder / f"{upload.id}.part"


@needs(Permission.ADD_TEST_SET)
def begin_upload(actor: Actor, inbox: Inbox, name: str, size: int) -> Upload:
    """Announce a file of `size` bytes.

    Raises:
        InvalidInput: no usable name or size.
        TooMany: the actor has too many unfinished uploads.
        TooLarge: there is no room for it.
    """
    check_name("name", name)
    if not 1 <= size <= LARGEST:
        raise invalid("size", size, f"a number of bytes from 1 to {LARGEST}")
    space = inbox.space
    with space.writing() as books:
        _check_room(actor, inbox, books.uploads.all(), size)
        meter = books.meters.get(space.meter).id
        upload = Upload(secrets.token_hex(16), meter, actor.user, name, size, space.now())
        books.uploads.add(upload)
    return upload


def _check_room(actor: Actor, inbox: Inbox, unfinished: list[Upload], size: int) -> None:
    room = inbox.space.room
    if room is None:
        return
    own = [upload for upload in unfinished if upload.user == actor.user]
    if len(own) >= MOST_UPLOADS:
        raise TooMany(f"{len(own)} uploads of yours are unfinished: finish or cancel one", _WAIT)
    if room.per_user and sum(each.size for each in own) + size > room.per_user:
        line = f"size: {size:,} bytes given, your uploads may take {room.per_user:,} in all"
        raise TooLarge(f"{line}: finish or cancel another one")
    coming = sum(each.size - inbox.arrived(each) for each in unfinished)
    room.check_disk(inbox.folder, coming + size)


@needs(Permission.ADD_TEST_SET)
def find_upload(actor: Actor, inbox: Inbox, identifier: str) -> Upload:
    """Return an upload of the actor's own.

    Raises:
        NotFound: there is none, or it is somebody else's.
    """
    with inbox.space.reading() as books:
        found = books.uploads.get(identifier)
    if found is None or (found.meter, found.user) != (inbox.space.meter, actor.user):
        raise NotFound(f"upload {identifier[:32]!r}: none of yours with that id")
    return found


@needs(Permission.ADD_TEST_SET)
@contextmanager
def receive_piece(actor: Actor, inbox: Inbox, identifier: str, offset: int) -> Iterator[Piece]:
    """Take a piece that begins at `offset`; what was written is on disk at the end.

    Raises:
        NotFound: there is no such upload of the actor's.
        MeterError: another offset is next, or another request writes this upload.
    """
    upload = find_upload(actor, inbox, identifier)
    try:
        inbox.folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(inbox.path(upload), os.O_WRONLY | os.O_CREAT, 0o600)
        with os.fdopen(handle, "wb", buffering=0) as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise MeterError("another request writes this upload: wait for it") from None
            here = file.seek(0, os.SEEK_END)
            if offset != here:
                raise MeterError(f"offset: {offset} given, {here} is next")
            try:
                yield Piece(upload, file, upload.size - here)
            finally:
                os.fsync(file.fileno())  # the offset told next must survive a power cut
        sync(inbox.folder)
    except OSError as error:
        raise unusable(inbox.folder, error) from error


@needs(Permission.ADD_TEST_SET)
def finish_upload(
    actor: Actor,
    inbox: Inbox,
    identifier: str,
    decisions: Decisions = UNDECIDED,
    *,
    part: bool = False,
) -> LabelRequest:
    """Take in the labels that were uploaded, as `add_labels` does.

    Raises:
        NotFound: there is no such upload of the actor's.
        MeterError: not all of it is here, or what `add_labels` raises; the upload is then kept.
    """
    upload = find_upload(actor, inbox, identifier)
    here = inbox.arrived(upload)
    if here != upload.size:
        raise MeterError(f"upload: {here:,} of {upload.size:,} bytes have arrived: send the rest")
    if inbox.space.room is not None:
        inbox.space.room.check_free(inbox.space.files.free(), upload.size)
    added = add_labels(actor, inbox.space, inbox.path(upload), decisions, part=part)
    _remove(inbox, upload)
    return added


@needs(Permission.ADD_TEST_SET)
def cancel_upload(actor: Actor, inbox: Inbox, identifier: str) -> None:
    """Forget an upload.

    Raises:
        NotFound: there is no such upload of the actor's.
    """
    _remove(inbox, find_upload(actor, inbox, identifier))


@needs(Permission.MANAGE)
def sweep_uploads(_: Actor, site: Site, folder: Path) -> None:
    """Forget the uploads of all meters that nobody finished."""
    oldest = stamp(site.clock() - KEPT)
    with site.reading() as books:
        old = books.uploads.before(oldest)
    for upload in old:
        _remove(Inbox(site.space(upload.meter), folder), upload)


def _remove(inbox: Inbox, upload: Upload) -> None:
    with inbox.space.writing() as books:
        books.uploads.remove(upload.id)
    inbox.path(upload).unlink(missing_ok=True)


@dataclass
class Piece:
    """What is being received; never more than was announced."""

    upload: Upload
    file: BinaryIO
    left: int

    def write(self, data: bytes) -> None:
        """Add bytes."""
        if len(data) > self.left:
            raise invalid("upload", "more bytes", "as many as were announced as its size")
        view = memoryview(data)
        while view:
            view = view[self.file.write(view) :]
        self.left -= len(data)
