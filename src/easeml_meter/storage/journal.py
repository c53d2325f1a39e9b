"""A second copy of the answers, kept beside the sealed test set.

A database can be deleted, or an old one copied back. What was told stays told: the journal lies
with the test set, under its fingerprint, and the books are completed from it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from operator import attrgetter
from typing import Any, TypeVar, get_type_hints

from easeml_meter.core.model import Entry, HandOver, Promotion
from easeml_meter.storage.files import Files
from easeml_meter.storage.schema import columns_of

SUFFIX = ".journal"
_HANDOVERS = ".handovers"
_PROMOTIONS = ".promotions"
_TOP_UPS = ".top-ups"
LINES = (SUFFIX, _HANDOVERS, _PROMOTIONS, _TOP_UPS)
"""Endings of all files that are lists of lines: in an object store, they are folders."""
_RETIRED = "retired"
_FINGERPRINT = "fingerprint"
_FORMAT = 2

_MOST = 10**12
"""No number of an entry is larger, and no database takes one of any size."""
_NO_LINE = (ValueError, TypeError, KeyError, RecursionError)
"""What reading a line may raise, if it was cut short or written by somebody else."""
Row = TypeVar("Row", Entry, HandOver, Promotion)
Dated = TypeVar("Dated", HandOver, Promotion)
# Found out once: a journal has a line for every answer.
_TYPES: dict[type[Any], dict[str, Any]] = {
    kind: get_type_hints(kind) for kind in (Entry, HandOver, Promotion)
}


class Journal:
    """An append-only list of entries, one line each."""

    def __init__(self, files: Files, name: str) -> None:
        self._files = files
        self._name = name
        self._handovers = name.removesuffix(SUFFIX) + _HANDOVERS
        self._promotions = name.removesuffix(SUFFIX) + _PROMOTIONS
        self._top_ups = name.removesuffix(SUFFIX) + _TOP_UPS

    def append(self, entries: list[Entry], answers: int) -> None:
        """Add lines and wait until they are on disk; `answers` is how many there are then."""
        if entries:
            self._files.append(self._name, [_line(entry) for entry in entries], answers)

    def answers(self) -> int | None:
        """Return how many answers are in here, without reading them; None: not known.

        Whoever appends has seen under the lock that all earlier answers are here, or adds them. So
        if this many were here when the last lines came, none of them is missing.
        """
        return self._files.total(self._name)

    def read(self) -> list[Entry]:
        """Return all entries."""
        return entries_in(self._files.lines(self._name))

    def retire(self, at: str, answers: int) -> None:
        """Add that the test set was retired early after this many answers.

        It is counted like one more answer, so a server with older books reads the whole journal.
        Books that were older themselves may know of fewer answers than there are in here.
        """
        total = max(answers, len(self.read())) + 1
        self._files.append(self._name, [json.dumps({_RETIRED: at})], total)

    def retired(self) -> bool:
        """Whether the test set was retired early."""
        return retired_at(self._files.lines(self._name)) is not None

    def append_handover(self, row: HandOver) -> None:
        """Add a hand-over, in a file of its own, and wait until it is on disk."""
        self._files.append(self._handovers, [_line(row)])

    def handovers(self) -> list[HandOver]:
        """Return all hand-overs, the oldest first; one that was added twice counts once."""
        return self._rows(self._handovers, HandOver)

    def append_promotion(self, row: Promotion) -> None:
        """Add a promotion, in a file of its own, and wait until it is on disk."""
        self._files.append(self._promotions, [_line(row)])

    def promotions(self) -> list[Promotion]:
        """Return all promotions, the oldest first; one that was added twice counts once."""
        return self._rows(self._promotions, Promotion)

    def _rows(self, name: str, kind: type[Dated]) -> list[Dated]:
        rows = (_row(kind, line) for line in dict.fromkeys(self._files.lines(name)))
        return sorted((row for row in rows if row is not None), key=lambda row: row.at)

    def append_top_up(self, fingerprint: str) -> None:
        """Add which test set these rows became a part of, in a file of its own."""
        self._files.append(self._top_ups, [json.dumps({_FINGERPRINT: fingerprint})])

    def top_ups(self) -> list[str]:
        """Return the fingerprints of the test sets that these rows became a part of."""
        lines = map(_mapping, self._files.lines(self._top_ups))
        return [str(line[_FINGERPRINT]) for line in lines if _FINGERPRINT in line]


def entries_in(lines: Iterable[str]) -> list[Entry]:
    """Read the lines of a journal; one cut short by a crash was never told, and is left out.

    Two answers at the same moment may both enter the one before them: it counts once.
    """
    rows = (_row(Entry, line) for line in dict.fromkeys(lines))
    return sorted((row for row in rows if row is not None), key=attrgetter("tenant", "step"))


def retired_at(lines: Iterable[str]) -> str | None:
    """Return when a test set was retired early, as its journal says; None: it was not."""
    found = (_mapping(line) for line in lines)
    return next((str(each[_RETIRED]) for each in found if _RETIRED in each), None)


def _row(kind: type[Row], line: str) -> Row | None:
    try:
        return _checked(kind(**_read(line)))
    except _NO_LINE:  # cut short by a crash
        return None


def _mapping(line: str) -> dict[str, Any]:
    try:
        return dict(json.loads(line))
    except _NO_LINE:  # cut short by a crash
        return {}


def _checked(row: Row) -> Row:
    """Refuse fields of other types than ours: a line that somebody else wrote is no answer."""
    for name, kind in _TYPES[type(row)].items():
        value = getattr(row, name)
        if type(value) is not kind or (kind is int and not 0 <= value <= _MOST):
            raise ValueError(name)
    return row


def _line(row: Entry | HandOver | Promotion) -> str:
    return json.dumps({"format": _FORMAT, **columns_of(row)}, sort_keys=True)


def _read(line: str) -> dict[str, Any]:
    """Return the fields of a line. Whatever format it names, it counts if it has them all."""
    fields = dict(json.loads(line))
    fields.pop("format", None)
    return fields
