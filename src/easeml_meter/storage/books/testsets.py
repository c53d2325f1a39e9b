"""Test sets in the books: requested, delivered, spent, released."""

from __future__ import annotations

import sqlalchemy as sa

from easeml_meter.core.lifecycle import Phase
from easeml_meter.core.model import TestSet
from easeml_meter.storage import schema
from easeml_meter.storage.books.repository import Repository, columns_of


class TestSets(Repository):
    """Test sets of all meters."""

    __test__ = False  # not a test of pytest's

    def add(self, test_set: TestSet) -> None:
        """Enter a request for a test set."""
        self._connection.execute(schema.generations.insert(), columns_of(test_set))

    def update(self, test_set: TestSet) -> None:
        """Record that a test set moved on."""
        table = schema.generations
        same = (table.c.meter == test_set.meter) & (table.c.number == test_set.number)
        self._connection.execute(table.update().where(same), columns_of(test_set))

    def all(self, meter: str) -> list[TestSet]:
        """Return all test sets of a meter, the oldest first."""
        return self._where(meter=meter)

    def requested(self) -> list[TestSet]:
        """Return the test sets that labels are needed for, of all meters."""
        return self._where(phase=str(Phase.REQUESTED))

    def active(self) -> list[TestSet]:
        """Return the test sets of all meters that answer submissions."""
        return self._where(phase=str(Phase.ACTIVE))

    def delivered(self) -> list[TestSet]:
        """Return the test sets of all meters that have arrived, in whatever phase they are now."""
        return [each for each in self._where() if each.rows is not None]

    def files(self, most: int) -> list[tuple[str, str]]:
        """Return some sealed files with their meters: those that answer first, then the newest."""
        table = schema.generations
        found = (
            sa.select(table.c.meter, table.c.blob)
            .where(table.c.blob.is_not(None))
            .order_by(table.c.phase != str(Phase.ACTIVE), table.c.changed_at.desc())
            .limit(most)
        )
        return [(row[0], row[1]) for row in self._connection.execute(found)]

    def archived(self) -> set[str]:
        """Return the meters that were given up."""
        return {each.meter for each in self._where(phase=str(Phase.ARCHIVED))}

    def owners(self, fingerprint: str) -> set[str]:
        """Return the meters that have or had a test set with these rows."""
        return {each.meter for each in self._where(fingerprint=fingerprint)}

    def _where(self, **equal: object) -> list[TestSet]:
        return self._values(schema.generations, TestSet, "meter", "number", **equal)
