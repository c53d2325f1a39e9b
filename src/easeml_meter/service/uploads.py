"""Uploads of sealed files: in pieces, resumable, kept on this machine until they are taken in.

Only what is sealed comes this way, so nothing here is in the clear. An upload's file lies on the
machine that began it; where it is missing, the upload begins again at offset 0.
"""

from __future__ import annotations

import fcntl
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path
from typing import BinaryIO

from easeml_meter.core.model import stamp
from easeml_meter.errors import MeterError, NotFound, invalid
from easeml_meter.service.place import Site
from easeml_meter.storage import schema
from easeml_meter.storage.books import Books
from easeml_meter.storage.files import sync, unusable

KEPT = timedelta(days=1)
"""How long an upload that nobody finishes is kept."""
LARGEST = 1 << 50


class WrongOffset(MeterError):
    """A piece does not follow what is here already."""


@dataclass(frozen=True, slots=True)
class Upload:
    """A file on its way."""

    id: str
    meter: str
    user: str
    name: str
    size: int
    created_at: str


@dataclass(frozen=True)
class Uploads:
    """The uploads of a site that arrive at this machine."""

    site: Site
    folder: Path

    def begin(self, meter: str, user: str, name: str, size: int) -> Upload:
        """Announce a file of `size` bytes."""
        if not name.strip() or not name.isprintable() or len(name) > 200:
            raise invalid("name", name[:40], "1 to 200 printable characters")
        if not 1 <= size <= LARGEST:
            raise invalid("size", size, f"a number of bytes from 1 to {LARGEST}")
        self.sweep()
        upload = Upload(secrets.token_hex(16), meter, user, name, size, self.site.now())
        with self.site.store.writing(meter) as books:
            books.connection.execute(schema.uploads.insert(), asdict(upload))
        return upload

    def find(self, meter: str, user: str, identifier: str) -> Upload:
        """Give one's own upload."""
        table = schema.uploads
        where = (table.c.id == identifier) & (table.c.meter == meter) & (table.c.user == user)
        with self.site.reading() as books:
            rows = books.select(table, where)
        if not rows:
            raise NotFound(f"upload {identifier[:32]!r}: none of yours with that id")
        return Upload(**rows[0])

    def offset(self, upload: Upload) -> int:
        """Tell how many bytes are here, on disk."""
        try:
            return self._path(upload.id).stat().st_size
        except FileNotFoundError:
            return 0

    @contextmanager
    def receiving(self, upload: Upload, offset: int) -> Iterator[Piece]:
        """Take a piece that begins at `offset`; what was written is on disk at the end."""
        path = self._path(upload.id)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            handle = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
            with os.fdopen(handle, "wb", buffering=0) as file:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    raise WrongOffset("another request writes this upload: wait for it") from None
                here = file.seek(0, os.SEEK_END)
                if offset != here:
                    raise WrongOffset(f"offset: {offset} given, {here} is next")
                try:
                    yield Piece(file, upload.size - here)
                finally:
                    os.fsync(file.fileno())
            sync(self.folder)
        except OSError as error:
            raise unusable(self.folder, error) from error

    def finished(self, upload: Upload) -> Path:
        """Give the file, if all of it is here."""
        here = self.offset(upload)
        if here != upload.size:
            raise MeterError(f"upload: {here:,} of {upload.size:,} bytes are here: send the rest")
        return self._path(upload.id)

    def remove(self, upload: Upload) -> None:
        """Forget an upload that was taken in, or is not wanted any more."""
        with self.site.store.writing(upload.meter) as books:
            self._forget(books, upload.id)
        self._path(upload.id).unlink(missing_ok=True)

    def sweep(self) -> None:
        """Forget uploads that nobody finished."""
        table = schema.uploads
        oldest = stamp(self.site.clock() - KEPT)
        with self.site.reading() as books:
            old = [Upload(**row) for row in books.select(table, table.c.created_at < oldest)]
        for upload in old:
            self.remove(upload)

    def _forget(self, books: Books, identifier: str) -> None:
        books.connection.execute(schema.uploads.delete().where(schema.uploads.c.id == identifier))

    def _path(self, identifier: str) -> Path:
        return self.folder / f"{identifier}.part"


@dataclass
class Piece:
    """What is being received; never more than was announced."""

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
