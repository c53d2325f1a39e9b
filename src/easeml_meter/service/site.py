"""A team server's site: one database, one key, one place for files, many meters."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from easeml_meter.service.meter import check_meter, enter
from easeml_meter.service.workspace import Clock, Workspace, utc_now
from easeml_meter.spec import MeterSpec
from easeml_meter.storage.files import Files, open_files
from easeml_meter.storage.schema import MeterRow, stamp
from easeml_meter.storage.store import Books, Store
from easeml_meter.vault.keys import Identity


class Callers:
    """Who was asked for a moment ago, by the digest of their token; any change forgets them."""

    def __init__(self) -> None:
        self.known: dict[str, tuple[float, Any]] = {}

    def forget(self) -> None:
        """Begin anew: who still reads the books as they were puts that into the old list."""
        self.known = {}


@dataclass(frozen=True)
class Site:
    """Everything a server's use cases work with."""

    store: Store
    files: Files
    identity: Identity = field(repr=False)
    clock: Clock = utc_now
    callers: Callers = field(default_factory=Callers, compare=False, repr=False)

    @classmethod
    def open(cls, database: str, files: str | Path, key: Path, clock: Clock = utc_now) -> Site:
        """Open the database (made or upgraded as needed), the files and the key (made if new)."""
        if not key.exists():
            key.parent.mkdir(parents=True, exist_ok=True)
            Identity.new().write(key)
        return cls(Store.open(database), open_files(files), Identity.read(key), clock)

    def close(self) -> None:
        """Let go of the database."""
        self.store.close()

    def now(self) -> str:
        """Stamp this moment."""
        return stamp(self.clock())

    def space(self, meter: str) -> Workspace:
        """Give what the use cases of one meter work with."""
        return Workspace(
            self.files.under(f"meters/{meter}"),
            lambda: self.store,
            lambda: self.identity,
            self.clock,
            meter,
            claims=self.files.under("claims"),
        )

    def create_meter(self, spec: MeterSpec, name: str) -> MeterRow:
        """Make a meter and ask for its first test set."""
        check_meter(spec, name)
        with self.writing() as books:
            return enter(books, spec, name, self.now())

    @contextmanager
    def reading(self) -> Iterator[Books]:
        """Read a consistent snapshot of the books."""
        with self.store.reading() as books:
            yield books

    @contextmanager
    def writing(self) -> Iterator[Books]:
        """Hold the lock of what belongs to no meter: users, tokens, the list of meters."""
        try:
            with self.store.writing() as books:
                yield books
        finally:
            self.callers.forget()
