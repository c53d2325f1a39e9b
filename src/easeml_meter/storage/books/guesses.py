"""Wrong passwords in the books."""

from __future__ import annotations

from easeml_meter.core.people import Wrong
from easeml_meter.storage import schema
from easeml_meter.storage.books.repository import Repository, columns_of


class WrongPasswords(Repository):
    """How often a password was wrong, by account and address."""

    def get(self, key: str) -> Wrong | None:
        """Return what was counted; None: nothing."""
        found = self._values(schema.guesses, Wrong, key=key)
        return found[0] if found else None

    def put(self, wrong: Wrong) -> None:
        """Record a count, in place of the earlier one."""
        self.forget(wrong.key)
        self._connection.execute(schema.guesses.insert(), columns_of(wrong))

    def forget(self, key: str) -> None:
        """Begin to count from zero again."""
        table = schema.guesses
        self._connection.execute(table.delete().where(table.c.key == key))

    def forget_before(self, moment: str) -> None:
        """Forget those whose lock, if they had one, ended before this moment."""
        table = schema.guesses
        self._connection.execute(table.delete().where(table.c.until < moment))
