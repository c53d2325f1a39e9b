"""Uploads in the books: files announced, and those taken in lately."""

from __future__ import annotations

from easeml_meter.core.model import Upload
from easeml_meter.storage import schema
from easeml_meter.storage.books.repository import Repository, columns_of, query


class Uploads(Repository):
    """Uploads of all meters."""

    def add(self, upload: Upload) -> None:
        """Enter an upload."""
        self._connection.execute(schema.uploads.insert(), columns_of(upload))

    def get(self, identifier: str) -> Upload | None:
        """Return an upload, if there is one with this id."""
        found = self._values(schema.uploads, Upload, id=identifier)
        return found[0] if found else None

    def all(self) -> list[Upload]:
        """Return the uploads of everybody."""
        return self._values(schema.uploads, Upload)

    def before(self, moment: str) -> list[Upload]:
        """Return the uploads announced before a moment."""
        older = query(schema.uploads, Upload, ("created_at",), ()).where(
            schema.uploads.c.created_at < moment
        )
        return [Upload(*row) for row in self._connection.execute(older)]

    def take(self, identifier: str, digest: str) -> None:
        """Note that the file of an upload, with this digest, was taken in."""
        table = schema.uploads
        self._connection.execute(table.update().where(table.c.id == identifier), {"digest": digest})

    def remove(self, identifier: str) -> None:
        """Forget an upload."""
        table = schema.uploads
        self._connection.execute(table.delete().where(table.c.id == identifier))
