"""What a use case works with: one meter's books, key and files, embedded or on a server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

from easeml_meter.errors import InvalidInput
from easeml_meter.storage.files import Files, FolderFiles, unusable
from easeml_meter.storage.journal import SUFFIX, Journal
from easeml_meter.storage.schema import GenerationRow, stamp
from easeml_meter.storage.store import Books, Store
from easeml_meter.vault.keys import Identity

Clock = Callable[[], datetime]

TEST_SETS = "testsets"
"""Sealed test sets, their journals, and notes to the labelers."""


def utc_now() -> datetime:
    """Give the time, for everything that is not a test."""
    return datetime.now(UTC)


@dataclass(frozen=True)
class Home:
    """The folder of an embedded meter."""

    folder: Path

    @property
    def database(self) -> Path:
        """The books."""
        return self.folder / "meter.db"

    @property
    def settings(self) -> Path:
        """The specification, for people; the books hold the one in force."""
        return self.folder / "meter.toml"

    @property
    def key(self) -> Path:
        """The meter's own key, to which test sets are sealed."""
        return self.folder / "keys" / "meter.key"

    def prepare(self) -> None:
        """Make the folders and a key, unless there is one already."""
        try:
            for name in (TEST_SETS, "validation", "predictions", "keys"):
                (self.folder / name).mkdir(parents=True, exist_ok=True)
            self.key.parent.chmod(0o700)
            if not self.key.exists():
                Identity.new().write(self.key)
        except OSError as error:
            raise unusable(self.folder, error) from error

    def workspace(self, clock: Clock = utc_now) -> Workspace:
        """Give the meter that lives here."""
        return Workspace(
            FolderFiles(self.folder),
            lambda: Store.at(self.database),
            lambda: Identity.read(self.key),
            clock,
        )


@dataclass(frozen=True)
class Workspace:
    """Books, key and files of one meter; the first two are opened when first used."""

    files: Files
    open_store: Callable[[], Store]
    open_identity: Callable[[], Identity]
    clock: Clock = utc_now
    meter: str | None = None
    """Id of the meter; None: the only one of an embedded database."""
    claims: Files | None = None
    """Where a server notes at which meter each test set counts; None: there is only one."""

    @classmethod
    def open(cls, folder: Path, clock: Clock = utc_now) -> Workspace:
        """Find the meter in a folder."""
        home = Home(folder)
        try:
            found = home.database.is_file()
        except OSError as error:
            raise unusable(folder, error) from error
        if not found:
            raise InvalidInput(f"{folder}: holds no meter: give its folder, or run meter init")
        return home.workspace(clock)

    @cached_property
    def store(self) -> Store:
        """The opened books."""
        return self.open_store()

    @cached_property
    def identity(self) -> Identity:
        """The key to which test sets are sealed."""
        return self.open_identity()

    @contextmanager
    def reading(self) -> Iterator[Books]:
        """Read a consistent snapshot of the books."""
        with self.store.reading() as books:
            yield books

    @contextmanager
    def writing(self) -> Iterator[Books]:
        """Hold this meter's write lock; commit at the end, or leave no trace."""
        with self.store.writing(self.meter) as books:
            yield books

    def now(self) -> str:
        """Stamp this moment."""
        return stamp(self.clock())

    def journal(self, generation: GenerationRow) -> Journal:
        """Give the journal that lies with a test set."""
        return Journal(self.files, f"{TEST_SETS}/{generation.fingerprint}{SUFFIX}")
