"""Backups: the books and the files of one meter, or of a whole site.

One plain tar. The rows of each table are JSON lines from one snapshot of the books; sealed files,
kept submissions and notices go in as they lie there, encrypted; validation sets and released test
sets are plain. A manifest lists every member with its SHA-256 and is signed with the server's key.

Books without the files that they name are sound and worth little: nothing can be measured or
released any more. So each is looked for, and whether it is whole.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import math
import os
import tarfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from io import BufferedReader, BytesIO
from itertools import chain
from pathlib import Path
from tempfile import SpooledTemporaryFile
from typing import IO, Any, cast

from easeml_meter.checks import is_id
from easeml_meter.core.history import MeterState
from easeml_meter.core.lifecycle import Phase
from easeml_meter.core.model import Event, TestSet, stamp
from easeml_meter.errors import InvalidInput, MeterError, NotFound, VaultError, invalid
from easeml_meter.service.actor import Actor, Permission, needs
from easeml_meter.service.place import ORDERS, TEST_SETS, Clock, Home, Site, Workspace
from easeml_meter.service.submissions.measuring import open_sealed
from easeml_meter.service.submissions.waiting import order_files
from easeml_meter.service.testsets.release import TEST_SET, released_folder
from easeml_meter.service.testsets.windows import batch_files
from easeml_meter.storage.books import Books
from easeml_meter.storage.books.copies import METER_TABLES, SCHEMA, SITE_TABLES
from easeml_meter.storage.files import Files
from easeml_meter.storage.journal import LINES, SUFFIX, entries_in
from easeml_meter.storage.store import Store
from easeml_meter.tables.source import file_digest
from easeml_meter.tables.writing import new_file
from easeml_meter.vault.keys import Identity, check_wrapped, signing_key
from easeml_meter.version import __version__

FORMAT = 1
MANIFEST = "manifest.json"
KEY = "key"

_CHUNK = 1 << 20
_IN_MEMORY = 16 << 20
_LONGEST_MANIFEST = 256 << 20


@dataclass(frozen=True)
class Place:
    """What is backed up, and restored to: a site, or the folder of an embedded meter."""

    store: Store
    identity: Identity = field(repr=False)
    clock: Clock
    space: Callable[[str], Workspace]
    single: bool = False
    """Whether it holds one meter only."""
    files: Files | None = None
    """Those of a site, which all its servers share."""

    @classmethod
    def of_site(cls, site: Site) -> Place:
        """Return a server's site as a place."""
        return cls(site.store, site.identity, site.clock, site.space, files=site.files)

    @classmethod
    def of_folder(cls, home: Home) -> Place:
        """Return the folder of an embedded meter as a place."""
        space = home.workspace()
        return cls(space.store, space.identity, space.clock, lambda _: space, single=True)


@dataclass(frozen=True)
class Counted:
    """A meter in a backup."""

    id: str
    name: str
    answers: int


@dataclass(frozen=True)
class Contents:
    """What the manifest of a backup says."""

    at: str
    recipient: str
    """The public half of the key that opens what is sealed."""
    whole: bool
    """All of a site, accounts included."""
    single: bool
    """The folder of an embedded meter."""
    meters: tuple[Counted, ...]
    missing: tuple[str, ...]
    """Files that the books name and that were not there."""
    with_key: bool
    members: dict[str, str]
    """The SHA-256 of each member."""


@needs(Permission.OPERATE)
def back_up(
    _: Actor, place: Place, out: Path, *, meter: str | None = None, key: Path | None = None
) -> Contents:
    """Write a backup of one meter, or of all; with the secret key in `key`, if given.

    Raises:
        InvalidInput: there is a file of that name already.
        NotFound: there is no such meter, or none at all in a folder.
        StorageError: the books or a file cannot be read.
    """
    with (
        new_file(out, private=True) as stream,
        tarfile.open(fileobj=stream, mode="w", format=tarfile.GNU_FORMAT) as archive,
    ):
        writer = _Writer(archive)
        contents = _fill(writer, place, meter, key)
        # The manifest last: a backup that breaks off has none, and is none.
        writer.write(MANIFEST, BytesIO(_manifest(contents, place.identity)))
    return contents


def _fill(writer: _Writer, place: Place, meter: str | None, key: Path | None) -> Contents:
    with place.store.reading() as books:
        # One snapshot for all tables: rows of different moments would contradict each other.
        at = stamp(place.clock())
        rows = [row for row in books.meters.all() if meter in (None, row.id)]
        if not rows and (meter is not None or place.single):
            raise NotFound("there is no such meter" if meter else "there is no meter")
        for row in rows:
            for table in METER_TABLES:
                lines = _lines(books.copies.rows(table, row.id))
                writer.lines(f"meters/{row.id}/books/{table}.jsonl", lines)
        if meter is None:
            for table in SITE_TABLES:
                writer.lines(f"site/{table}.jsonl", _lines(books.copies.rows(table)))
        named = {row.id: named_files(books, place.space(row.id).state(books)) for row in rows}
        counted = tuple(Counted(row.id, row.name, books.copies.answers(row.id)) for row in rows)
    # After the rows: what they name is there, and journals may hold more but never less.
    for row in rows:
        _copy_files(writer, f"meters/{row.id}/files", place.space(row.id).files, named[row.id])
    if key is not None:
        writer.write(KEY, BytesIO(key.read_bytes()))
    return Contents(
        at=at,
        recipient=place.identity.recipient,
        whole=meter is None,
        single=place.single,
        meters=counted,
        missing=tuple(writer.missing),
        with_key=key is not None,
        members=dict(writer.members),
    )


def _lines(rows: Iterable[dict[str, Any]]) -> Iterator[str]:
    return (json.dumps(row, sort_keys=True) for row in rows)


def _copy_files(writer: _Writer, prefix: str, files: Files, named: set[str]) -> None:
    """Copy files by name, and all that lie in folders."""
    single = {name for name in named if not name.endswith("/")}
    for folder in named - single:
        single |= {folder + name for name in files.names(folder.rstrip("/"))}
    # Journals first: a submission is kept before its answer is in one, and they may know of more
    # answers than the rows that were read before.
    for name in sorted(name for name in single if name.endswith(LINES)):
        # A journal may grow while it is copied: by lines, so that none is cut in half.
        lines = files.lines(name)
        writer.lines(f"{prefix}/{name}", lines)
        if name.endswith(SUFFIX):
            single |= {entry.blob for entry in entries_in(lines) if entry.blob}
    for name in sorted(name for name in single if not name.endswith(LINES)):
        try:
            with files.local(name) as path, path.open("rb") as source:
                writer.write(f"{prefix}/{name}", source)
        except FileNotFoundError:
            writer.missing.append(f"{prefix}/{name}")


class _Writer:
    """Writes members into a tar, and remembers their digests."""

    def __init__(self, archive: tarfile.TarFile) -> None:
        self._archive = archive
        self.members: dict[str, str] = {}
        self.missing: list[str] = []

    def lines(self, name: str, lines: Iterable[str]) -> None:
        """Write a member of lines; a tar needs to know their size first."""
        with SpooledTemporaryFile(max_size=_IN_MEMORY) as spooled:
            spooled.writelines(f"{line}\n".encode() for line in lines)
            self.write(name, cast(IO[bytes], spooled))

    def write(self, name: str, source: IO[bytes]) -> None:
        member = tarfile.TarInfo(name)
        # It may be the key: nobody else may read what is extracted.
        member.mode, member.size = 0o600, source.seek(0, os.SEEK_END)
        source.seek(0)
        read = _Digested(source)
        self._archive.addfile(member, cast(IO[bytes], read))
        self.members[name] = read.sha256.hexdigest()


class _Digested:
    """A file that is digested while it is read."""

    def __init__(self, source: IO[bytes]) -> None:
        self._source = source
        self.sha256 = hashlib.sha256()

    def read(self, size: int) -> bytes:
        piece = self._source.read(size)
        self.sha256.update(piece)
        return piece


def _manifest(contents: Contents, identity: Identity) -> bytes:
    said = {
        "format": FORMAT,
        "program": __version__,
        "schema": SCHEMA,
        **asdict(contents),
    }
    text = json.dumps(said, sort_keys=True, indent=1)
    return json.dumps({"manifest": text, "signature": _signature(text, identity)}).encode()


def _signature(manifest: str, identity: Identity) -> str:
    key = hmac.digest(signing_key(identity), b"easeml-meter/1 backup", hashlib.sha256)
    return hmac.new(key, manifest.encode(), hashlib.sha256).hexdigest()


class Backup:
    """A backup opened for reading."""

    def __init__(self, opened: tarfile.TarFile, path: Path) -> None:
        self._archive = opened
        self._path = path
        found = opened.getmembers()
        self._members = {each.name: each for each in found}
        # Plain files alone: no link leads elsewhere, and no hole is written out.
        if len(self._members) < len(found) or not all(map(_plain, found)):
            raise _damaged(path)
        self._manifest, self._signature, self.contents = self._read_manifest()

    @classmethod
    @contextmanager
    def open(cls, path: Path) -> Iterator[Backup]:
        """Open a backup and read its manifest."""
        try:
            with tarfile.open(path, "r:") as opened:
                yield cls(opened, path)
        except tarfile.TarError:
            raise _damaged(path) from None

    def _read_manifest(self) -> tuple[str, str, Contents]:
        # Read before it is verified, for the key that it names: believed only after `check`.
        try:
            with self._open(self._members[MANIFEST]) as source:
                signed = json.loads(source.read(_LONGEST_MANIFEST))
            text, signature = str(signed["manifest"]), str(signed["signature"])
            said = json.loads(text)
            found = {name: said.pop(name) for name in ("format", "program", "schema")}
            meters = tuple(Counted(**each) for each in said.pop("meters"))
            contents = Contents(**said, meters=meters)
        except (KeyError, TypeError, ValueError):
            raise invalid("backup", str(self._path), "a file that meter backup wrote") from None
        if found["format"] != FORMAT or found["schema"] != SCHEMA:
            raise InvalidInput(
                f"{self._path}: made by version {found['program']} with another schema: restore "
                "it with that version, then upgrade"
            )
        return text, signature, contents

    def check(self, identity: Identity) -> None:
        """Verify that this key's holder made it, and every byte of it."""
        if self.contents.recipient != identity.recipient:
            raise InvalidInput(
                f"{self._path}: sealed to the key {self.contents.recipient}, and the key here is "
                f"{identity.recipient}: give the first one's file (at a server, --key FILE) and an "
                "empty folder; leave the one here where it is"
            )
        if not hmac.compare_digest(self._signature, _signature(self._manifest, identity)):
            raise _damaged(self._path)
        members = self.contents.members
        # Not one member more: what the signature does not cover is not restored.
        if {*self._members} != {*members, MANIFEST}:
            raise _damaged(self._path)
        # They become names of folders, and no name may lead elsewhere.
        if not all(is_id(each.id) for each in self.contents.meters):
            raise _damaged(self._path)
        if bad := [name for name, digest in members.items() if self._digest(name) != digest]:
            # All are looked at: whoever mends one wants to know of the others.
            more = f", and {len(bad) - 1} more" if bad[1:] else ""
            raise MeterError(
                f"{self._path}: {bad[0]} is damaged, or changed since it was made{more}: nothing "
                "was restored"
            )

    def _digest(self, name: str) -> str:
        with self.member(name) as source:
            return hashlib.file_digest(source, "sha256").hexdigest()

    def key(self) -> bytes | None:
        """Return the secret key, if it is in the backup."""
        return self.member(KEY).read() if self.contents.with_key else None

    def _open(self, member: tarfile.TarInfo) -> BufferedReader:
        return cast(BufferedReader, self._archive.extractfile(member))

    def member(self, name: str) -> BufferedReader:
        """Open a member."""
        if name not in self._members:
            raise _damaged(self._path)
        return self._open(self._members[name])

    def rows(self, table: str, meter: str | None = None) -> Iterator[dict[str, Any]]:
        """Return the rows of a table, a meter's or the site's."""
        folder = "site" if meter is None else f"meters/{meter}/books"
        with self.member(f"{folder}/{table}.jsonl") as source:
            for line in source:
                yield json.loads(line)

    def files(self, meter: str) -> list[str]:
        """List the files of a meter."""
        prefix = f"meters/{meter}/files/"
        return [name[len(prefix) :] for name in self.contents.members if name.startswith(prefix)]

    def file(self, meter: str, name: str) -> IO[bytes]:
        """Open a file of a meter."""
        return self.member(f"meters/{meter}/files/{name}")


def _plain(member: tarfile.TarInfo) -> bool:
    return member.type in (tarfile.REGTYPE, tarfile.AREGTYPE) and not member.issparse()


def _damaged(path: Path) -> MeterError:
    return MeterError(f"{path}: damaged, or changed since it was made: nothing was restored")


_SEALED, _WRAPPED = ".sealed", ".age"

Check = Callable[[str], str | None]
"""Reads the file of a name, and says what is wrong with it, if anything is."""


def named_files(books: Books, state: MeterState) -> set[str]:
    """Return the files that the books name; folders, which end in a slash, go as a whole."""
    meter, rows = state.meter.id, state.generations
    named = {f"{TEST_SETS}/", f"{ORDERS}/"} | books.copies.files(meter)
    named |= set(batch_files(state))
    # Parts that were merged into a test set are gone.
    waiting = [row for row in rows if row.rows is None]
    named |= {part.blob for row in waiting for part in books.parts.all(row)}
    released = [row.number for row in rows if row.phase is Phase.RELEASED]
    return named | {f"{released_folder(number)}/" for number in released}


@needs(Permission.OPERATE)
def faults(_: Actor, space: Workspace) -> list[str]:
    """Read every file that the books name; say of each what is wrong with it, if anything is.

    What is encrypted must open. Of test sets that were archived, or released and lie there in the
    clear, sealed files and kept submissions may be gone: nothing is measured on them any more.

    Raises:
        NotFound: there is no such meter.
    """
    files = space.files
    with space.reading() as books:
        checks, needed = _checks(space, books, space.state(books))
    for folder in (TEST_SETS, ORDERS):
        # The books do not name the notices to labelers.
        lying = [f"{folder}/{name}" for name in files.names(folder) if name.endswith(_WRAPPED)]
        checks = dict.fromkeys(lying, partial(_check_wrapped, space)) | checks
    there = {name for name in checks if files.exists(name)}
    # Whoever is told of one file only is told of the worst.
    lost = sorted(needed - there, key=lambda name: (not name.endswith(_SEALED), name))
    missing = [f"{name} is missing" for name in lost]
    found = (checks[name](name) for name in sorted(there))
    return missing + [each for each in found if each is not None]


def _checks(space: Workspace, books: Books, state: MeterState) -> tuple[dict[str, Check], set[str]]:
    """Return how each file is checked that the books name, and which of them must be there."""
    meter = state.meter.id
    checks: dict[str, Check] = {}
    needed: set[str] = set()
    # A new key changes the end of a sealed file, and with it the digest of all of it.
    same_key = not books.audit.of(meter, Event.KEY_CHANGED)
    for row in state.generations:
        kept = {entry.blob for entry in books.entries.all(meter, row.number) if entry.blob}
        wrapped = kept.union(order_files(books, row))
        own: dict[str, Check] = dict.fromkeys(wrapped, partial(_check_wrapped, space))
        if row.blob:
            known = (row.manifest or {}).get("sha256") if same_key else None
            own[row.blob] = partial(_check_sealed, space, row, known)
        elif row.rows is None:
            parts = [part.blob for part in books.parts.all(row)]
            own |= dict.fromkeys(parts, partial(_check_sealed, space, row, None))
        checks |= own
        if not _is_over(space, state, row):
            needed |= own.keys()
    for each in books.validation.all(meter):
        checks[each.blob] = partial(_check_plain, space, each.digest)
        needed.add(each.blob)
    return checks, needed.union(batch_files(state))


def _is_over(space: Workspace, state: MeterState, test_set: TestSet) -> bool:
    """Whether nothing needs what is sealed of a test set any more."""
    if test_set.phase is Phase.ARCHIVED:
        return True
    # The next rows join those of a window, or of a set that is topped up, also after its release.
    joined = state.spec.meter.renewal.joined
    plain = f"{released_folder(test_set.number)}/{TEST_SET}"
    return test_set.phase is Phase.RELEASED and not joined and space.files.exists(plain)


def _check_sealed(space: Workspace, test_set: TestSet, known: str | None, name: str) -> str | None:
    try:
        with open_sealed(space, test_set, space.files.location(name)) as opened:
            found = opened.verify_bytes()
    except VaultError:
        return f"{name} is damaged: it does not open"
    if known in (None, found):
        return None
    return f"{name} is not the one that the books name: it has another SHA-256"


def _check_wrapped(space: Workspace, name: str) -> str | None:
    try:
        with space.files.local(name) as path:
            check_wrapped(path, space.identity)
    except VaultError:
        return f"{name} is damaged: it does not open"
    return None


def _check_plain(space: Workspace, digest: str, name: str) -> str | None:
    with space.files.local(name) as path:
        found = file_digest(path)
    return None if found == digest else f"{name} is damaged: it has another SHA-256"


def meters_among(files: Files) -> int:
    """Count the meters that have files there, whatever the books say."""
    return sum(files.size(f"meters/{each}") > 0 for each in files.folders("meters", math.inf))


@needs(Permission.OPERATE)
def check_mounted(_: Actor, site: Site, *, new: bool = False) -> None:
    """Refuse to work beside a folder that has nothing of what the books name, or the reverse.

    All versions wrote test sets and validation sets before the books named them. One that is there
    is enough: if some are lost, the other meters go on. `new`: that the books are empty is meant.

    Raises:
        MeterError: none is there; a share is not mounted, or the setting names another place. Or
            the books are those of a site that was never used, and the files are not.
    """
    with site.reading() as books:
        if not new and not books.meters.all() and not books.users.all():
            if many := meters_among(site.files):
                raise MeterError(
                    f"{site.files.location('').rstrip('/')}: the files hold {many:,} meters, and "
                    "the database has none: bring it back with meter restore, or say --new-site"
                )
            return
        named = (
            f"meters/{row.id}/{name}"
            for row in books.meters.all()
            for name in _handed_in(site.space(row.id).state(books))
        )
        first = next(named, None)
        if first is None or any(map(site.files.exists, chain([first], named))):
            return
    raise MeterError(
        f"{site.files.location('').rstrip('/')}: none of the files is there that the books name "
        f"(such as {first}): mount their folder, correct the setting files, or bring them back "
        "with meter restore"
    )


def _handed_in(state: MeterState) -> list[str]:
    """Return the files of test sets, and of the validation set in use."""
    sets = [row.blob for row in state.generations if row.blob and row.phase is not Phase.ARCHIVED]
    return [*sets, *([state.validation.blob] if state.validation else [])]
