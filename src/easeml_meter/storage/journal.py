"""A second copy of the answers, kept beside the sealed test set.

A database can be deleted, or an old one copied back. What was told stays told: the journal lies
with the test set, under its fingerprint, and the books are completed from it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import suppress
from functools import lru_cache
from operator import attrgetter

from easeml_meter.core.model import Entry, HandOver
from easeml_meter.storage.files import Files
from easeml_meter.storage.schema import values

SUFFIX = ".journal"
_HANDOVERS = ".handovers"


class Journal:
    """An append-only list of entries, one line each."""

    def __init__(self, files: Files, name: str) -> None:
        self._files = files
        self._name = name
        self._handovers = name.removesuffix(SUFFIX) + _HANDOVERS

    def append(self, entries: list[Entry]) -> None:
        """Add lines and wait until they are on disk."""
        if entries:
            lines = [json.dumps(values(entry), sort_keys=True) for entry in entries]
            self._files.append(self._name, lines)

    def count(self) -> int:
        """Count the lines, or what they come in, without reading them: cheap, and enough to see
        that nothing is missing.
        """
        return self._files.count(self._name)

    def read(self) -> list[Entry]:
        """Give all entries."""
        return entries_in(self._files.lines(self._name))

    def append_handover(self, row: HandOver) -> None:
        """Add a hand-over, in a file of its own, and wait until it is on disk."""
        self._files.append(self._handovers, [json.dumps(values(row), sort_keys=True)])

    def handovers(self) -> list[HandOver]:
        """Give all hand-overs, the oldest first."""
        found = []
        for line in self._files.lines(self._handovers):
            with suppress(ValueError, TypeError):  # cut short by a crash
                found.append(HandOver(**json.loads(line)))
        return sorted(found, key=lambda row: row.at)


def entries_in(lines: Iterable[str]) -> list[Entry]:
    """Read the lines of a journal; one cut short by a crash was never told, and is left out.

    Two answers at the same moment may both enter the one before them: it counts once.
    """
    found = [entry for entry in map(_entry, dict.fromkeys(lines)) if entry is not None]
    return sorted(found, key=attrgetter("tenant", "step"))


@lru_cache(maxsize=20_000)  # a journal is read again and again while it grows
def _entry(line: str) -> Entry | None:
    try:
        return Entry(**json.loads(line))
    except (ValueError, TypeError):
        return None
