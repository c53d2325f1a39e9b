"""Validation sets in the books."""

from __future__ import annotations

import sqlalchemy as sa

from easeml_meter.core.model import ValidationSet
from easeml_meter.storage import schema
from easeml_meter.storage.books.repository import Repository, columns_of


class ValidationSets(Repository):
    """Validation sets of all meters; the one with the highest number is in force."""

    def add(self, validation_set: ValidationSet) -> None:
        """Enter a validation set."""
        self._connection.execute(schema.validation_sets.insert(), columns_of(validation_set))

    def files(self, most: int) -> list[tuple[str, str]]:
        """Return the newest files with their meters."""
        table = schema.validation_sets
        newest = sa.select(table.c.meter, table.c.blob).order_by(table.c.added_at.desc())
        return [(row[0], row[1]) for row in self._connection.execute(newest.limit(most))]

    def all(self, meter: str) -> list[ValidationSet]:
        """Return all validation sets of a meter, the oldest first."""
        return self._values(schema.validation_sets, ValidationSet, "number", meter=meter)
