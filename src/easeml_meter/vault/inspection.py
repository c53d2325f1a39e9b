"""A sealed file from elsewhere, read for the first time: by a child process, with limits.

A child tries whether it can be read at a bounded cost (`tables.apart`), before this process does.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from easeml_meter.errors import VaultError
from easeml_meter.tables.apart import answer_apart
from easeml_meter.tables.source import TableLimits
from easeml_meter.vault.containers import Location, secret_of, whole_location
from easeml_meter.vault.keys import Identity, opaque
from easeml_meter.vault.sealing import WHAT, SealedTestSet


@dataclass(frozen=True)
class Inspected:
    """What a file turned out to be."""

    generation: int
    """The test set that it was sealed for."""
    sha256: str
    """Of the file; empty if it was sealed for another test set than the one that is expected."""


@dataclass(frozen=True)
class Delivered:
    """A file that should be a sealed test set, with its own key and no other."""

    location: str
    meter: str
    generations: tuple[int, ...]
    """The test sets it may have been sealed for, first the one that is expected."""
    _secret: bytes = field(repr=False)

    @classmethod
    def of(
        cls, location: Location, identity: Identity, *, meter: str, generations: tuple[int, ...]
    ) -> Delivered:
        """Unwrap the key of a file, and read nothing else of it."""
        secret = secret_of(location, identity, WHAT)
        return cls(whole_location(location), meter, generations, secret)

    def inspect(self, limits: TableLimits | None = None) -> Inspected:
        """Read all of it, in this process."""
        for number in self.generations:
            with suppress(VaultError), self._open(number) as sealed:
                expected = number == self.generations[0]
                digest = sealed.verify(limits).sha256 if expected else ""
                return Inspected(number, digest)
        with opaque(WHAT):
            raise ValueError("sealed for none of these")

    def inspect_apart(self, limits: TableLimits) -> Inspected:
        """Read all of it in a child, which gets nothing but the key of this file."""
        # An input may be a picture: it is as long as it likes, within a row group.
        own = replace(limits, longest_text=limits.most_decoded_bytes)
        size = os.path.getsize(self.location)
        again = "seal its rows again with `meter seal`, or fewer of them"
        found, _ = answer_apart(
            _inspected,
            *(self, own),
            size=size,
            memory=limits.memory,
            source=WHAT,
            remedy=again,
        )
        return Inspected(**found)

    def _open(self, number: int) -> SealedTestSet:
        return SealedTestSet.open(self.location, self._secret, meter=self.meter, generation=number)


def _inspected(delivered: Delivered, limits: TableLimits) -> tuple[Any, None]:
    return vars(delivered.inspect(limits)), None
