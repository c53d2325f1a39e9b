"""Backups: the books and the files of one meter, or of a whole site.

One file (`tables.archive`), or one of several on a shelf (`storage.shelf`). The rows of each table
are JSON lines from one snapshot of the books; sealed files, kept submissions and notices go in as
they lie there, encrypted; validation sets and released test sets are plain. A manifest lists every
member with its SHA-256 and is signed with the server's key.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import IO, Any

from easeml_meter.checks import is_id
from easeml_meter.core.model import stamp
from easeml_meter.errors import DamagedBackup, InvalidInput, NotFound, invalid
from easeml_meter.service.actor import Actor, Permission, needs
from easeml_meter.service.holdings import named_files
from easeml_meter.service.place import Clock, Home, Site, Workspace
from easeml_meter.service.submissions.keeping import file_of
from easeml_meter.storage.books.copies import METER_TABLES, SCHEMA, SITE_TABLES
from easeml_meter.storage.files import Files
from easeml_meter.storage.journal import LINES, SUFFIX, entries_in
from easeml_meter.storage.shelf import Shelf
from easeml_meter.storage.store import Store
from easeml_meter.tables import archive
from easeml_meter.tables.writing import new_file
from easeml_meter.vault.keys import Identity, signing_key
from easeml_meter.version import __version__

FORMAT = 1
MANIFEST = "manifest.json"
KEY = "key"

_CHUNK = 1 << 20
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

    @property
    def name(self) -> str:
        """What the backup is called on a shelf; later ones come later."""
        return f"{re.sub(r'[^0-9]', '', self.at[:26])}.json"


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
    with new_file(out, private=True) as stream:
        contents = _fill(_Writer(partial(_packed, stream)), place, meter, key)
        archive.add(stream, MANIFEST, [_manifest(contents, place.identity)])
        archive.finish(stream)
    return contents


@needs(Permission.OPERATE)
def shelve(
    _: Actor,
    place: Place,
    shelf: Shelf,
    *,
    meter: str | None = None,
    key: Path | None = None,
    afresh: Collection[str] = (),
) -> Contents:
    """Add a backup to a shelf, where only what changed is new, and contents that went bad there.

    Those are written `afresh`, by their SHA-256.

    Raises:
        NotFound: there is no such meter, or none at all in a folder.
        StorageError: the books or a file cannot be read.
    """
    writer = _Writer(lambda _, content: shelf.put(content, afresh))
    contents = _fill(writer, place, meter, key)
    # The manifest last: a backup that breaks off has none, and does not count.
    shelf.add(contents.name, _manifest(contents, place.identity))
    return contents


@needs(Permission.OPERATE)
def thin(_: Actor, shelf: Shelf, keep: int, verified: str) -> None:
    """Drop all backups of a shelf but the newest, and what only they need.

    Never the one that was just `verified`: after a clock that was ahead, older ones are the newest
    by their names. One at a time: another backup that is being added could lose what it has just
    kept.

    Raises:
        MeterError: the shelf cannot be read or changed.
    """
    names = shelf.names()
    dropped = [name for name in names[:-keep] if name != verified]
    kept = [_members(shelf.manifest(name)) for name in names if name not in dropped]
    shelf.drop(dropped, {digest for members in kept for digest in members.values()})


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
        writer.write(KEY, [key.read_bytes()])
    return Contents(
        at=at,
        recipient=place.identity.recipient,
        whole=meter is None,
        single=place.single,
        meters=counted,
        missing=tuple(writer.missing),
        with_key=key is not None,
        members=writer.members,
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
            single |= {file_of(entry.blob) for entry in entries_in(lines) if entry.blob}
    for name in sorted(name for name in single if not name.endswith(LINES)):
        try:
            with files.local(name) as path, path.open("rb") as source:
                writer.write(f"{prefix}/{name}", iter(partial(source.read, _CHUNK), b""))
        except FileNotFoundError:
            writer.missing.append(f"{prefix}/{name}")


class _Writer:
    """Writes members, and remembers their digests; `put` writes one, and returns its SHA-256."""

    def __init__(self, put: Callable[[str, Iterable[bytes]], str]) -> None:
        self._put = put
        self.members: dict[str, str] = {}
        self.missing: list[str] = []

    def lines(self, name: str, lines: Iterable[str]) -> None:
        """Write a member of lines."""
        self.write(name, (f"{line}\n".encode() for line in lines))

    def write(self, name: str, content: Iterable[bytes]) -> None:
        """Write a member."""
        self.members[name] = self._put(name, content)


def _packed(stream: IO[bytes], name: str, content: Iterable[bytes]) -> str:
    """Add a member to an archive; return its SHA-256."""
    digest = hashlib.sha256()

    def digested() -> Iterator[bytes]:
        for piece in content:
            digest.update(piece)
            yield piece

    archive.add(stream, name, digested())
    return digest.hexdigest()


class _Shelved:
    """A backup on a shelf, read as an archive is."""

    def __init__(self, shelf: Shelf, name: str | None) -> None:
        self._shelf = shelf
        self._manifest = shelf.manifest(name)
        try:
            self._members = _members(self._manifest)
        except (KeyError, TypeError, ValueError):
            raise archive.DamagedArchive("the manifest cannot be read") from None

    def namelist(self) -> list[str]:
        """List the members, and the manifest."""
        return [*self._members, MANIFEST]

    def open(self, name: str) -> IO[bytes]:
        """Open a member; KeyError if there is none of this name."""
        if name == MANIFEST:
            return BytesIO(self._manifest)
        try:
            return self._shelf.open(self._members[name])
        except FileNotFoundError:
            raise archive.DamagedArchive(f"{name} is not on the shelf") from None


def _members(manifest: bytes) -> dict[str, str]:
    members = json.loads(json.loads(manifest)["manifest"])["members"]
    return {str(name): str(digest) for name, digest in members.items()}


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

    def __init__(self, opened: archive.Archive | _Shelved, path: Path | str) -> None:
        self._archive = opened
        self._path = path
        self._manifest, self._signature, self.contents = self._read_manifest()

    @classmethod
    @contextmanager
    def open(cls, source: Path | str, name: str | None = None) -> Iterator[Backup]:
        """Open a backup and read its manifest; of a shelf (a folder or URL), the newest or `name`.

        Raises:
            InvalidInput: there is none, or it is of another kind.
        """
        try:
            if "://" in str(source) or Path(source).is_dir():
                yield cls(_Shelved(Shelf.at(source), name), source)
                return
            with Path(source).open("rb") as stream:
                yield cls(archive.Archive(stream), source)
        except archive.DamagedArchive:
            raise _damaged(source) from None

    def _read_manifest(self) -> tuple[str, str, Contents]:
        # Read before it is verified, for the key that it names: believed only after `check`.
        try:
            with self._archive.open(MANIFEST) as source:
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
        if {*self._archive.namelist()} != {*members, MANIFEST}:
            raise _damaged(self._path)
        # They become names of folders, and no name may lead elsewhere.
        if not all(is_id(each.id) for each in self.contents.meters):
            raise _damaged(self._path)
        if bad := [name for name, digest in members.items() if self._digest(name) != digest]:
            # All are looked at: whoever mends one wants to know of the others.
            more = f", and {len(bad) - 1} more" if bad[1:] else ""
            said = f"{bad[0]} is damaged, or changed since it was made{more}"
            digests = {members[name] for name in bad}
            raise DamagedBackup(self._path, said, "nothing was restored", digests)

    def _digest(self, name: str) -> str | None:
        """Return the SHA-256 of a member; None: it is not there any more."""
        digest = hashlib.sha256()
        try:
            with self.member(name) as source:
                while piece := source.read(_CHUNK):
                    digest.update(piece)
        except archive.DamagedArchive:
            return None
        return digest.hexdigest()

    def key(self) -> bytes | None:
        """Return the secret key, if it is in the backup."""
        return self.member(KEY).read() if self.contents.with_key else None

    def member(self, name: str) -> IO[bytes]:
        """Open a member."""
        try:
            return self._archive.open(name)
        except KeyError:
            raise _damaged(self._path) from None

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


def _damaged(path: Path | str) -> DamagedBackup:
    return DamagedBackup(path, "damaged, or changed since it was made", "nothing was restored")
