"""Where an embedded meter lives: a folder with its database, its key and its files."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

from easeml_meter.errors import InvalidInput, MeterError
from easeml_meter.storage.journal import Journal, sync_folder
from easeml_meter.storage.schema import GenerationRow, stamp
from easeml_meter.storage.store import Store
from easeml_meter.vault.keys import Identity

Clock = Callable[[], datetime]


def utc_now() -> datetime:
    """Give the time, for everything that is not a test."""
    return datetime.now(UTC)


@dataclass(frozen=True)
class Workspace:
    """Paths, database and key of one meter."""

    folder: Path
    clock: Clock = utc_now

    @classmethod
    def create(cls, folder: Path, clock: Clock = utc_now) -> Workspace:
        """Make the folders and a key, unless there is one already."""
        space = cls(folder, clock)
        try:
            for path in (folder, space.sealed, space.validation, space.predictions, space.keys):
                path.mkdir(parents=True, exist_ok=True)
            space.keys.chmod(0o700)
            if not space.key.exists():
                Identity.new().write(space.key)
        except OSError as error:
            raise unusable(folder, error) from error
        return space

    @classmethod
    def open(cls, folder: Path, clock: Clock = utc_now) -> Workspace:
        """Find the meter in a folder."""
        space = cls(folder, clock)
        try:
            found = space.database.is_file()
        except OSError as error:
            raise unusable(folder, error) from error
        if not found:
            raise InvalidInput(f"{folder}: holds no meter: give its folder, or run meter init")
        return space

    @property
    def database(self) -> Path:
        """The books."""
        return self.folder / "meter.db"

    @property
    def settings(self) -> Path:
        """The specification, for people; the books hold the one in force."""
        return self.folder / "meter.toml"

    @property
    def sealed(self) -> Path:
        """Sealed test sets and their journals."""
        return self.folder / "testsets"

    @property
    def validation(self) -> Path:
        """Validation sets."""
        return self.folder / "validation"

    @property
    def predictions(self) -> Path:
        """Encrypted predictions, kept for the retrospective."""
        return self.folder / "predictions"

    @property
    def keys(self) -> Path:
        """Keys."""
        return self.folder / "keys"

    @property
    def key(self) -> Path:
        """The meter's own key, to which test sets are sealed."""
        return self.keys / "meter.key"

    @cached_property
    def store(self) -> Store:
        """The opened books."""
        return Store.at(self.database)

    @cached_property
    def identity(self) -> Identity:
        """The meter's key, read when a sealed thing is first opened."""
        return Identity.read(self.key)

    def now(self) -> str:
        """Stamp this moment."""
        return stamp(self.clock())

    def journal(self, generation: GenerationRow) -> Journal:
        """Give the journal that lies with a test set."""
        return Journal(self.sealed / f"{generation.fingerprint}.journal")

    def keep(self, content: bytes, folder: Path, name: str) -> str:
        """Write a file whole or not at all, and return its path within the workspace."""
        target = folder / name
        try:
            handle, temporary = tempfile.mkstemp(dir=folder, prefix=".", suffix=".part")
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(content)
                    file.flush()
                    os.fsync(file.fileno())
                os.replace(temporary, target)
            except BaseException:
                Path(temporary).unlink(missing_ok=True)
                raise
            sync_folder(folder)
        except OSError as error:
            raise unusable(folder, error) from error
        return str(target.relative_to(self.folder))


def unusable(path: Path, error: OSError) -> MeterError:
    """Say in one line why a folder or file cannot be used."""
    return MeterError(f"{path}: {error.strerror or error}: nothing was changed")
