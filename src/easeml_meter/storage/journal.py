"""A second copy of the answers, kept beside the sealed test set.

A database can be deleted, or an old one copied back. What was told stays told: the journal lies
with the test set, under its fingerprint, and the books are completed from it.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path

from easeml_meter.storage.schema import EntryRow


class Journal:
    """An append-only file of entries, one line each."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def append(self, entries: list[EntryRow]) -> None:
        """Add lines and wait until they are on disk."""
        if not entries:
            return
        lines = [json.dumps(asdict(entry), sort_keys=True) for entry in entries]
        # It starts on a fresh line even if a crash has cut the last one short.
        text = "\n".join(["", *lines, ""])
        new = not self._path.exists()
        # One write to a file opened for appending: lines of two processes do not mix.
        handle = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(handle, text.encode())
            os.fsync(handle)
        finally:
            os.close(handle)
        if new:
            sync_folder(self._path.parent)

    def read(self) -> list[EntryRow]:
        """Give all entries; a last line cut short by a crash was never told, and is left out."""
        try:
            lines = self._path.read_bytes().split(b"\n")
        except FileNotFoundError:
            return []
        found = []
        for line in lines:
            try:
                found.append(EntryRow(**json.loads(line)))
            except (ValueError, TypeError):
                continue
        return found


def sync_folder(path: Path) -> None:
    """Wait until the names in a folder are on disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
