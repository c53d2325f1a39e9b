"""Parts in the books: labels delivered for a test set that is still requested."""

from __future__ import annotations

from easeml_meter.core.model import Part, TestSet
from easeml_meter.storage import schema
from easeml_meter.storage.books.repository import Repository, columns_of


class Parts(Repository):
    """Parts of the test sets of all meters."""

    def add(self, part: Part) -> None:
        """Enter a part."""
        self._connection.execute(schema.parts.insert(), columns_of(part))

    def all(self, test_set: TestSet) -> list[Part]:
        """Return the parts delivered for a test set, the oldest first."""
        which = {"meter": test_set.meter, "generation": test_set.number}
        return self._values(schema.parts, Part, "number", **which)

    def remove(self, part: Part) -> None:
        """Remove a part that was withdrawn."""
        table = schema.parts
        place = ("meter", "generation", "number")
        same = (table.c[name] == getattr(part, name) for name in place)
        self._connection.execute(table.delete().where(*same))
