"""Restoring a backup: answers given since then still count, so none comes back."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from easeml_meter.core.lifecycle import Phase
from easeml_meter.core.model import AuditLink, Entry, Event, TestSet, stamp
from easeml_meter.errors import InvalidInput, MeterError, NotFound, invalid
from easeml_meter.service.actor import Actor, Permission, needs
from easeml_meter.service.audit import verify
from easeml_meter.service.backup import Backup, Counted, Place, faults
from easeml_meter.service.journal import reconcile
from easeml_meter.service.place import RECIPIENT, TEST_SETS, Site, Workspace
from easeml_meter.service.testsets.requests import retire
from easeml_meter.service.testsets.reuse import claim, refuse_claimed
from easeml_meter.storage.books import Books
from easeml_meter.storage.books.copies import METER_TABLES, SITE_TABLES
from easeml_meter.storage.files import Files, FolderFiles
from easeml_meter.storage.journal import LINES, SUFFIX, Journal, entries_in, retired_at
from easeml_meter.storage.store import Store
from easeml_meter.vault.keys import Identity

_RESTORING = "restoring"
"""Lies with the files of a meter while a restore brings some to where nobody knew its answers."""

NOTE = "server.backup"
"""When the backup was made that was verified last, beside the files that servers share."""

Step = tuple[str, int, int]
"""Fingerprint, tenant and step: what can have been answered only once."""


@dataclass(frozen=True)
class Restored:
    """What became of one meter."""

    id: str
    name: str
    backup_at: str
    answers_then: int
    answers_now: int
    witnessed: bool
    """Whether books or journals were here that tell what was answered since the backup.

    Of a meter without a test set, neither there nor here, nothing can have been.
    """


@dataclass(frozen=True)
class Restoration:
    """What was brought back of a backup, and what was left out."""

    meters: list[Restored]
    accounts: int
    """Accounts of the backup that this site lacks: they come back only where there are none."""
    seats: int
    """Seats of people whom this site does not know."""


@needs(Permission.OPERATE)
def restore(
    _: Actor,
    place: Place,
    source: Path,
    *,
    meter: str | None = None,
) -> Restoration:
    """Restore all meters of a backup, or one; accounts only where there are none yet.

    Which tokens were revoked since the backup is not known here, so all that come with accounts
    are revoked.

    Raises:
        InvalidInput: the backup, or what is here, belongs to another key.
        MeterError: it is damaged, or contradicts what is here; nothing is restored.
        NotFound: it has no such meter.
    """
    with Backup.open(source) as backup:
        backup.check(place.identity)
        _check_owner(place, source)
        chosen = [each for each in backup.contents.meters if meter in (None, each.id)]
        if not chosen and (meter is not None or place.single):
            raise NotFound(f"{source}: holds no such meter")
        if place.single:
            _check_single(place, chosen)
        cases = [_Case.read(place, backup, each) for each in chosen]
        for case in cases:
            # All before the first file is brought: a backup is restored whole, or not at all.
            case.check()
        for case in cases:
            # Files and journals first: what the books name is there when they are committed.
            case.bring_files()
        if place.files and not place.files.exists(RECIPIENT):
            # Or a server that starts here without the key makes one that opens nothing of this.
            place.files.put(RECIPIENT, f"{place.identity.recipient}\n".encode())
        with place.store.writing() as books:
            if backup.contents.whole and not books.users.all():
                for table in SITE_TABLES:
                    books.copies.add(table, backup.rows(table))
                # One that was revoked since the backup would be valid again.
                books.tokens.revoke(stamp(place.clock()))
            for case in cases:
                books.lock(case.meter.id)
            restored = [case.bring_books(books) for case in cases]
            known = {row["id"] for row in books.copies.rows("users")}
        for case in cases:
            case.space.files.remove(_RESTORING)
        seated = [row["user"] for case in cases for row in backup.rows("members", case.meter.id)]
        seats = [user for user in seated if user not in known]
        everybody = backup.contents.whole and meter is None
        people = {row["id"] for row in backup.rows("users")} - known if everybody else {*seats}
    return Restoration(restored, len(people), len(seats))


def _check_owner(place: Place, source: Path) -> None:
    """Refuse a key that is not of the files here: what it brought would not open beside them."""
    noted = _recipient(place.files) if place.files else None
    keys = [each.recipient for each in (place.identity, place.identity.former) if each]
    if noted and noted not in keys:
        raise InvalidInput(
            f"{source}: sealed to the key {keys[0]}, and the files here belong to {noted}: "
            "nothing was restored; restore it into an empty folder"
        )


def _recipient(files: Files) -> str | None:
    """Return the public half of the key that files belong to; None: it is not noted."""
    try:
        return files.read(RECIPIENT).decode().strip()
    except FileNotFoundError:
        return None


@needs(Permission.OPERATE)
def check_backup(
    actor: Actor, identity: Identity, source: Path, *, files: Files | None = None
) -> list[Restored]:
    """Restore a backup into a folder of its own, audit every meter there, and remove it all.

    All files that the books name must be there, and open. If it is of a whole site, and `files` are
    that site's, they get a note of its time, for the site's servers to show.

    Raises:
        MeterError: it is damaged, or a meter in it is not sound, or lacks a file.
    """
    with TemporaryDirectory(prefix="easeml-meter-") as folder:
        there = FolderFiles(Path(folder) / "files")
        site = Site(Store.at(Path(folder) / "meter.db"), there, identity)
        try:
            restored = restore(actor, Place.of_site(site), source).meters
            for each in restored:
                found = verify(actor, site.space(each.id))
                if found.problems:
                    told = f"meter {each.name!r} is not sound: {found.problems[0]}"
                    raise MeterError(f"{source}: {told}")
                if wrong := faults(actor, site.space(each.id)):
                    more = f", and {len(wrong) - 1} more files" if wrong[1:] else ""
                    raise MeterError(
                        f"{source}: meter {each.name!r} is not whole: {wrong[0]}{more}: use an "
                        "earlier backup, or bring the files back and make another"
                    )
        finally:
            site.close()
    with Backup.open(source) as backup:
        contents = backup.contents
    if contents.whole and files is not None and _recipient(files) == identity.recipient:
        files.put(NOTE, contents.at.encode())
    return restored


def verified_at(files: Files) -> datetime | None:
    """Return when the backup verified last was made; None: not known, or the files are away."""
    try:
        return datetime.fromisoformat(files.read(NOTE).decode())
    except (OSError, MeterError, ValueError):
        return None


@dataclass
class _Case:
    """One meter: what the backup says of it, and what lies here."""

    backup: Backup
    meter: Counted
    space: Workspace
    generations: list[TestSet]
    """The delivered test sets of the backup."""
    told: dict[Step, Entry]
    """All answers of the backup: its books' and its journals'."""
    here: dict[Step, Entry]
    """All answers that are known here."""
    chain: list[AuditLink]
    """The audit chain here; empty: the meter is not known."""
    witnessed: bool

    @classmethod
    def read(cls, place: Place, backup: Backup, meter: Counted) -> _Case:
        """Compare, without changing anything."""
        space = place.space(meter.id)
        rows = [TestSet(**row) for row in backup.rows("generations", meter.id)]
        delivered = [row for row in rows if row.fingerprint is not None]
        prints = {row.number: str(row.fingerprint) for row in delivered}
        entries = [Entry(**row) for row in backup.rows("entries", meter.id)]
        told = {(prints[each.generation], each.tenant, each.step): each for each in entries}
        for name in backup.files(meter.id):
            if name.endswith(SUFFIX):
                with backup.file(meter.id, name) as source:
                    lines = entries_in(line.decode() for line in source)
                told |= _by_step(name, lines)
        here: dict[Step, Entry] = {}
        with place.store.reading() as books:
            chain = books.audit.all(meter.id)
            sets = books.testsets.all(meter.id)
            for row in sets:
                for entry in books.entries.all(meter.id, row.number):
                    here[str(row.fingerprint), entry.tenant, entry.step] = entry
        files = space.files.names(TEST_SETS)
        for name in files:
            if name.endswith(SUFFIX):
                here |= _by_step(name, Journal(space.files, f"{TEST_SETS}/{name}").read())
        sealed = delivered or any(row.fingerprint for row in sets) or files
        witnessed = not sealed or (bool(chain or files) and told.keys() <= here.keys())
        # What a restore that was cut short has brought is the backup's own word.
        witnessed = witnessed and not space.files.exists(_RESTORING)
        return cls(backup, meter, space, delivered, told, here, chain, witnessed)

    def check(self) -> None:
        for step, entry in self.told.items():
            other = self.here.get(step)
            if other is not None and (entry.submission, entry.answer) != (
                other.submission,
                other.answer,
            ):
                raise MeterError(
                    f"meter {self.meter.name!r}: step {entry.step} of team {entry.tenant} "
                    "was answered differently here and in the backup: two copies were in use; "
                    "nothing was restored"
                )
        with self.space.reading() as books:
            for row in self.generations:
                refuse_claimed(self.space, books, row.meter, str(row.fingerprint))

    def bring_files(self) -> None:
        """Add the files, notes of ownership and lines of journals that are missing here."""
        files = self.space.files
        with self.space.reading() as books:
            for row in self.generations:
                claim(self.space, books, row.meter, str(row.fingerprint))
        if not self.witnessed:
            files.put(_RESTORING, b"A restore was begun here and not ended: run it again.\n")
        for name in self.backup.files(self.meter.id):
            if name.endswith(LINES):
                if not name.endswith(SUFFIX):
                    self._bring_lines(name)
            elif not files.exists(name):
                with (
                    self.backup.file(self.meter.id, name) as source,
                    files.writing(name) as path,
                    path.open("wb") as target,
                ):
                    shutil.copyfileobj(source, target, 1 << 20)
        # What only the books here know goes in, too: then the journals hold all that was told.
        told: dict[str, list[Entry]] = {}
        for (fingerprint, *_), entry in (self.told | self.here).items():
            told.setdefault(fingerprint, []).append(entry)
        for fingerprint, entries in told.items():
            journal = Journal(files, f"{TEST_SETS}/{fingerprint}{SUFFIX}")
            known = {(entry.tenant, entry.step) for entry in journal.read()}
            missing = [entry for entry in entries if (entry.tenant, entry.step) not in known]
            journal.append(missing, len(entries))
        for name in self.backup.files(self.meter.id):
            if name.endswith(SUFFIX):
                self._bring_retirement(name)

    def _bring_retirement(self, name: str) -> None:
        """Add that a test set was retired, last: it counts as an answer more than there are."""
        journal = Journal(self.space.files, name)
        with self.backup.file(self.meter.id, name) as source:
            at = retired_at(line.decode() for line in source)
        if at is not None and not journal.retired():
            journal.retire(at, 0)

    def _bring_lines(self, name: str) -> None:
        known = set(self.space.files.lines(name))
        with self.backup.file(self.meter.id, name) as source:
            given = [line.decode(errors="replace").rstrip("\n") for line in source]
        if missing := [line for line in given if line not in known]:
            self.space.files.append(name, missing)

    def bring_books(self, books: Books) -> Restored:
        """Enter the meter, unless the books here are as new; complete them from the journals."""
        meter, now = self.meter.id, self.space.now()
        chain = [AuditLink(**row) for row in self.backup.rows("audit", meter)]
        # What is here was compared without the lock.
        if books.audit.all(meter) != self.chain:
            raise MeterError("the meter was used meanwhile: try again")
        # Only a chain that goes on from the one here is newer. Otherwise the books here stay, and
        # the journals complete them.
        if len(self.chain) < len(chain) and self.chain == chain[: len(self.chain)]:
            self._enter(books)
        state = self.space.state(books)
        for test_set in state.generations:
            if test_set.fingerprint is not None:
                given = self.space, books, state, test_set
                histories, _ = reconcile(*given, restoring=True)
                if test_set.phase is Phase.ACTIVE and histories.all_spent:
                    retire(self.space, books, state, test_set)
        restored = Restored(
            id=meter,
            name=self.meter.name,
            backup_at=self.backup.contents.at,
            answers_then=self.meter.answers,
            answers_now=books.copies.answers(meter),
            witnessed=self.witnessed,
        )
        said = ("backup_at", "answers_then", "answers_now", "witnessed")
        details = {name: getattr(restored, name) for name in said}
        books.audit.append(meter, now, Event.RESTORED, details)
        return restored

    def _enter(self, books: Books) -> None:
        """Put the rows of the backup in the place of older ones."""
        meter = self.meter.id
        users = {row["id"] for row in books.copies.rows("users")}
        books.copies.remove(meter)
        for table in METER_TABLES:
            rows: Iterable[dict[str, Any]] = self.backup.rows(table, meter)
            if table in ("members", "submissions"):  # people the site does not know have no seat
                rows = [row for row in rows if row["user"] in users]
            books.copies.add(table, rows)


def _check_single(place: Place, chosen: list[Counted]) -> None:
    """A folder is the home of one meter."""
    with place.store.reading() as books:
        ids = {row.id for row in books.meters.all()} | {each.id for each in chosen}
    if len(ids) > 1:
        raise invalid("meter", f"{len(ids)} of them", "one folder holds one: choose --meter")


def _by_step(name: str, entries: list[Entry]) -> dict[Step, Entry]:
    fingerprint = Path(name).name.removesuffix(SUFFIX)
    return {(fingerprint, entry.tenant, entry.step): entry for entry in entries}
