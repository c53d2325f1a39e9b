"""Test sets, their parts, uploads and releases, and validation sets."""

from __future__ import annotations

import sqlalchemy as sa

from easeml_meter.core.lifecycle import Phase
from easeml_meter.core.model import Part, ReleaseRequest, TestSet, Upload, ValidationSet
from easeml_meter.storage import schema
from easeml_meter.storage.books.repository import Repository, query


class TestSets(Repository):
    """Test sets of all meters."""

    __test__ = False  # not a test of pytest's

    def add(self, test_set: TestSet) -> None:
        """Enter a request for a test set."""
        self._add(schema.generations, [test_set])

    def update(self, test_set: TestSet) -> None:
        """Record that a test set moved on."""
        table = schema.generations
        same = (table.c.meter == test_set.meter) & (table.c.number == test_set.number)
        self._connection.execute(table.update().where(same), schema.columns_of(test_set))

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


class Parts(Repository):
    """Parts of the test sets of all meters."""

    def add(self, part: Part) -> None:
        """Enter a part."""
        self._add(schema.parts, [part])

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


class Releases(Repository):
    """Requests for a release, at most one for each test set."""

    def put(self, request: ReleaseRequest) -> None:
        """Enter a request, in place of an earlier one for the same test set."""
        table = schema.releases
        which = (table.c.meter == request.meter, table.c.generation == request.generation)
        self._connection.execute(table.delete().where(*which))
        self._connection.execute(table.insert(), schema.columns_of(request))

    def get(self, identifier: str) -> ReleaseRequest | None:
        """Return a request, or None if there is none any more."""
        found = self._values(schema.releases, ReleaseRequest, id=identifier)
        return found[0] if found else None

    def of(self, meter: str, generation: int) -> ReleaseRequest | None:
        """Return the request for a test set, or None if there is none."""
        which = {"meter": meter, "generation": generation}
        found = self._values(schema.releases, ReleaseRequest, **which)
        return found[0] if found else None

    def waiting(self) -> list[ReleaseRequest]:
        """Return the requests that wait or are under way, the oldest first."""
        found = self._values(schema.releases, ReleaseRequest, "turn", "at", "id")
        return [each for each in found if each.problem is None]

    def change(self, request: ReleaseRequest) -> None:
        """Record where a request stands, unless it is gone."""
        table = schema.releases
        change = table.update().where(table.c.id == request.id)
        self._connection.execute(change, schema.columns_of(request))

    def remove(self, identifier: str) -> None:
        """Remove a request: the test set is released."""
        table = schema.releases
        self._connection.execute(table.delete().where(table.c.id == identifier))


class ValidationSets(Repository):
    """Validation sets of all meters; the one with the highest number is in force."""

    def add(self, validation_set: ValidationSet) -> None:
        """Enter a validation set."""
        self._add(schema.validation_sets, [validation_set])

    def files(self, most: int) -> list[tuple[str, str]]:
        """Return the newest files with their meters."""
        table = schema.validation_sets
        newest = sa.select(table.c.meter, table.c.blob).order_by(table.c.added_at.desc())
        return [(row[0], row[1]) for row in self._connection.execute(newest.limit(most))]

    def all(self, meter: str) -> list[ValidationSet]:
        """Return all validation sets of a meter, the oldest first."""
        return self._values(schema.validation_sets, ValidationSet, "number", meter=meter)


class Uploads(Repository):
    """Uploads of all meters."""

    def add(self, upload: Upload) -> None:
        """Enter an upload."""
        self._add(schema.uploads, [upload])

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
