"""Uploads of sealed files: in pieces of one size, one after the other, kept until taken in.

Only what is sealed comes this way, so nothing here is in the clear. Each piece is a file among the
meter's, named by where it begins, that appears whole or not at all: so any server takes the next
one, and how many there are says how much is here.
"""

from __future__ import annotations

import secrets
import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

from easeml_meter.checks import check_name
from easeml_meter.core.model import LabelRequest, Upload, stamp
from easeml_meter.errors import MeterError, NotFound, TooLarge, TooMany, invalid
from easeml_meter.service.actor import Actor, Permission, needs
from easeml_meter.service.place import MOST_UPLOADS, Site, Workspace
from easeml_meter.service.testsets.parts import add_labels, taken_in
from easeml_meter.service.testsets.reuse import UNDECIDED, LabelerDecisions
from easeml_meter.storage.books import Books
from easeml_meter.storage.files import unusable
from easeml_meter.tables.source import file_digest
from easeml_meter.vault.containers import begins_container

KEPT = timedelta(days=1)
"""How long an upload is kept that nobody finishes, and what became of one that was finished."""
LARGEST = 1 << 37
PIECE = 4 << 20
"""Bytes of every piece but the last."""
_UPLOADS = "uploads"
"""The folder of a meter with a folder of pieces for each upload."""
SILENT = timedelta(minutes=15)
"""How long an upload is kept of which nothing comes, once somebody else has one."""
_SHARE = 10
"""One part in so many of the free disk is kept for what each user has announced."""
_WAIT = 60
"""Seconds after which a client tries again when too many uploads are unfinished."""


@dataclass(frozen=True)
class Inbox:
    """Where the uploads for one meter arrive: as files of the meter, which all servers share."""

    space: Workspace
    folder: Path
    """A folder of this machine, where an upload is put together at its end."""

    def at(self, meter: str) -> Inbox:
        """Return the inbox of another meter of the same server."""
        beside = self.space.beside
        return self if beside is None else replace(self, space=beside(meter))

    def arrived(self, upload: Upload) -> int:
        """Return how many bytes are here, on disk, or were taken in: all from the first one on."""
        if upload.digest:
            return upload.size
        return min(len(self.space.files.names(_folder(upload))) * PIECE, upload.size)

    def check_room(self, size: int) -> None:
        """Refuse a file unless it fits among the meter's files, and on the disk of this machine."""
        if self.space.room is not None:
            self.space.room.check_free(self.space.files.free(), size)
            self.space.room.check_disk(self.folder, size)

    @contextmanager
    def whole(self, upload: Upload) -> Iterator[Path]:
        """Assemble an upload; yield a path on this machine with all of its bytes."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with TemporaryDirectory(prefix="upload-", dir=self.folder) as scratch:
            path = Path(scratch) / "whole"
            with path.open("wb") as target:
                for start in range(0, upload.size, PIECE):
                    with self.space.files.local(_name(upload, start)) as piece:
                        target.write(piece.read_bytes())
            yield path


def _folder(upload: Upload) -> str:
    return f"{_UPLOADS}/{upload.id}"


def _name(upload: Upload, start: int) -> str:
    return f"{_folder(upload)}/{start:0{len(str(LARGEST))}d}"


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
    with space.reading() as books:
        unfinished = _unfinished(books)
    for each in unfinished:
        at = inbox.at(each.meter)
        if each.created_at < stamp(space.clock() - SILENT) and not at.arrived(each):
            _remove(at, each)
    with space.writing() as books:
        _check_room(actor, inbox, _unfinished(books), size)
        meter = books.meters.get(space.meter).id
        upload = Upload(secrets.token_hex(16), meter, actor.user, name, size, space.now())
        books.uploads.add(upload)
    return upload


def _unfinished(books: Books) -> list[Upload]:
    return [each for each in books.uploads.all() if not each.digest]


def _check_room(actor: Actor, inbox: Inbox, unfinished: list[Upload], size: int) -> None:
    room, free = inbox.space.room, inbox.space.files.free()
    if room is None:
        return
    own = [upload for upload in unfinished if upload.user == actor.user]
    if len(own) >= MOST_UPLOADS:
        raise TooMany(f"{len(own)} uploads of yours are unfinished: finish or cancel one", _WAIT)
    if room.per_user and sum(each.size for each in own) + size > room.per_user:
        line = f"size: {size:,} bytes given, your uploads may take {room.per_user:,} in all"
        raise TooLarge(f"{line}: finish or cancel another one")
    announced = Counter[str]()
    for each in unfinished:
        announced[each.user] += each.size
    # Nobody keeps others out by announcing: pieces have to fit, too, when they come.
    share = (free or 0) // _SHARE
    room.check_free(free, size + sum(min(each, share) for each in announced.values()))


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
def receive_piece(
    actor: Actor, inbox: Inbox, identifier: str, offset: int, content: bytes
) -> Upload:
    """Take the piece that begins at `offset`; one that is here already stays as it is.

    Raises:
        InvalidInput: it is longer or shorter than the piece there.
        NotFound: there is no such upload of the actor's.
        MeterError: no piece begins there, or one before it is not here yet.
        TooLarge: there is no room for it.
    """
    upload = find_upload(actor, inbox, identifier)
    here = inbox.arrived(upload)
    if offset not in range(0, upload.size, PIECE) or offset > here:
        raise MeterError(f"offset: {offset} given, {here} is next")
    needed = min(PIECE, upload.size - offset)
    if len(content) != needed:
        raise invalid("piece", f"{len(content):,} bytes", f"{needed:,} bytes are next")
    if offset < here:
        return upload
    inbox.check_room(len(content))
    files = inbox.space.files
    files.put(_name(upload, offset), content)
    # Whoever removes an upload takes its row first and then lists its pieces. This one was there in
    # time to be listed, or else the row is gone now.
    with inbox.space.reading() as books:
        row = books.uploads.get(upload.id)
    gone = row is None or row.digest is not None
    if gone:
        files.remove(_name(upload, offset))
    return upload


@needs(Permission.ADD_TEST_SET)
def finish_upload(
    actor: Actor,
    inbox: Inbox,
    identifier: str,
    decisions: LabelerDecisions = UNDECIDED,
    *,
    part: bool = False,
) -> LabelRequest:
    """Take in the labels that were uploaded, as `add_labels` does; done before, say so again.

    Raises:
        NotFound: there is no such upload of the actor's.
        MeterError: not all of it is here, or what `add_labels` raises; the upload is then kept.
    """
    upload = find_upload(actor, inbox, identifier)
    if upload.digest:
        if (before := taken_in(actor, inbox.space, upload.digest)) is not None:
            return before
        raise MeterError("upload: what it became was withdrawn: send it again")
    here = inbox.arrived(upload)
    if here != upload.size:
        raise MeterError(f"upload: {here:,} of {upload.size:,} bytes have arrived: send the rest")
    inbox.check_room(upload.size)
    with inbox.whole(upload) as path:
        added = _take_in(actor, inbox.space, path, decisions, part=part)
        digest = file_digest(path)
    with inbox.space.writing() as books:
        books.uploads.take(upload.id, digest)
    _remove_pieces(inbox, upload)
    return added


def _take_in(
    actor: Actor, space: Workspace, path: Path, decisions: LabelerDecisions, *, part: bool
) -> LabelRequest:
    """Take in labels; the same file once more is what it became."""
    try:
        return add_labels(actor, space, path, decisions, part=part)
    except MeterError:
        if (before := taken_in(actor, space, file_digest(path))) is None:
            raise
        return before


@needs(Permission.ADD_TEST_SET)
def take_in_whole(
    actor: Actor,
    inbox: Inbox,
    content: bytes,
    decisions: LabelerDecisions = UNDECIDED,
    *,
    part: bool = False,
) -> LabelRequest:
    """Take in labels that came in one request, as `add_labels` does.

    Raises:
        InvalidInput: they are not sealed.
        TooLarge: there is no room for them.
        MeterError: what `add_labels` raises.
    """
    inbox.check_room(len(content))
    # Before anything is written: plain labels, sent by mistake, must not touch the disk.
    if not begins_container(content):
        needed = "seal the rows first: meter seal ROWS --label COLUMN --out FILE.sealed"
        raise invalid("file", f"{len(content):,} bytes that are not sealed", needed)
    inbox.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with TemporaryDirectory(prefix="upload-", dir=inbox.folder) as scratch:
        path = Path(scratch) / "whole"
        try:
            path.write_bytes(content)
        except OSError as error:
            raise unusable(path.parent, error) from error
        return _take_in(actor, inbox.space, path, decisions, part=part)


@needs(Permission.ADD_TEST_SET)
def cancel_upload(actor: Actor, inbox: Inbox, identifier: str) -> None:
    """Forget an upload.

    Raises:
        NotFound: there is no such upload of the actor's.
    """
    _remove(inbox, find_upload(actor, inbox, identifier))


@needs(Permission.MANAGE)
def sweep_uploads(_: Actor, site: Site, folder: Path) -> None:
    """Forget the old uploads of all meters, finished or not."""
    oldest = stamp(site.clock() - KEPT)
    with site.reading() as books:
        old = books.uploads.before(oldest)
    for upload in old:
        _remove(Inbox(site.space(upload.meter), folder), upload)
    _sweep_left(site)
    # What a killed server was putting together.
    for left in folder.iterdir() if folder.is_dir() else ():
        if left.stat().st_mtime < (site.clock() - KEPT).timestamp():
            shutil.rmtree(left)


def _sweep_left(site: Site) -> None:
    """Remove the pieces of uploads that are no longer in the books, as after a crash."""
    before = (site.clock() - KEPT).timestamp()
    with site.reading() as books:
        spaces = [site.space(meter.id) for meter in books.meters.all()]
    # Before the books are read again: an upload is entered there before its first piece arrives.
    left = [(each.files, name) for each in spaces for name in each.files.folders(_UPLOADS, before)]
    with site.reading() as books:
        known = {upload.id for upload in books.uploads.all()}
    for files, name in left:
        if name not in known:
            files.remove_folder(f"{_UPLOADS}/{name}")


def _remove(inbox: Inbox, upload: Upload) -> None:
    # The row first: whoever still sends a piece finds no upload, and does not finish half of one.
    with inbox.space.writing() as books:
        books.uploads.remove(upload.id)
    _remove_pieces(inbox, upload)


def _remove_pieces(inbox: Inbox, upload: Upload) -> None:
    for name in inbox.space.files.names(_folder(upload)):
        inbox.space.files.remove(f"{_folder(upload)}/{name}")
