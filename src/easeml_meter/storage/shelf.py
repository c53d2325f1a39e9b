"""A shelf of backups: contents named by their digest, each kept once, and a manifest per backup.

What did not change since an earlier backup is on the shelf already. Nothing on it is ever changed,
but for good bytes in the place of bad ones, so a backup that breaks off leaves the earlier ones
whole.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO

from easeml_meter.errors import InvalidInput
from easeml_meter.storage.files import Files, copy_into, open_files

_CONTENTS = "contents"
_MANIFESTS = "backups"
_NAME = re.compile(r"\d+\.json")


class Shelf:
    """Contents and manifests in a folder, or under a URL."""

    def __init__(self, files: Files) -> None:
        self._files = files

    @classmethod
    def at(cls, place: str | Path) -> Shelf:
        """Open the shelf in a folder, or under a URL such as s3://."""
        # Backups hold validation sets and hashes of passwords, and some the secret key.
        return cls(open_files(place, private=True))

    def put(self, content: Iterable[bytes], afresh: Collection[str] = ()) -> str:
        """Keep a content; return its SHA-256.

        One that is here already is left alone, unless it is to be written `afresh`.
        """
        # Written elsewhere first: its name is its digest, which is known at the end only.
        digest = hashlib.sha256()
        with TemporaryDirectory(prefix="easeml-meter-") as folder:
            path = Path(folder) / "content"
            with path.open("wb") as stream:
                for piece in content:
                    digest.update(piece)
                    stream.write(piece)
            name = f"{_CONTENTS}/{digest.hexdigest()}"
            if digest.hexdigest() in afresh or not self._files.exists(name):
                copy_into(self._files, name, path)
        return digest.hexdigest()

    def open(self, digest: str) -> IO[bytes]:
        """Open a content; FileNotFoundError if it is not here."""
        with self._files.local(f"{_CONTENTS}/{digest}") as path:
            return path.open("rb")  # an open file stays readable when a local copy is removed

    def contents(self) -> list[str]:
        """List the digests of all contents."""
        return self._files.names(_CONTENTS)

    def add(self, name: str, manifest: bytes) -> None:
        """Keep a manifest: from now on, there is a backup of this name."""
        self._files.put(f"{_MANIFESTS}/{name}", manifest)

    def names(self) -> list[str]:
        """List the names of the backups, the oldest first; what else lies there is none."""
        return [name for name in self._files.names(_MANIFESTS) if _NAME.fullmatch(name)]

    def manifest(self, name: str | None = None) -> bytes:
        """Return the manifest of a backup; without a name, of the newest.

        Raises:
            InvalidInput: there is no such backup.
        """
        names, place = self.names(), self._files.location("").rstrip("/")
        if not names:
            raise InvalidInput(f"{place}: no backup there: name the place of meter backup --to")
        chosen = names[-1] if name is None else name
        if chosen not in names:
            raise InvalidInput(f"{place}: no backup {chosen[:80]!r}: the newest is {names[-1]}")
        return self._files.read(f"{_MANIFESTS}/{chosen}")

    def take_back(self, name: str) -> None:
        """Remove the manifest of a backup; what only it needs goes when others are dropped."""
        self._files.remove(f"{_MANIFESTS}/{name}")

    def drop(self, names: Iterable[str], kept: Collection[str]) -> None:
        """Remove backups, then all contents but those that are `kept`."""
        # Manifests first: whatever is listed as a backup has all its contents.
        for name in names:
            self._files.remove(f"{_MANIFESTS}/{name}")
        for digest in self.contents():
            if digest not in kept:
                self._files.remove(f"{_CONTENTS}/{digest}")
