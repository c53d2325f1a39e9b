"""Files that appear under their name whole, or not at all."""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from easeml_meter.errors import InvalidInput, MeterError, invalid

_NO_HARD_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS}


@contextmanager
def new_file(path: Path, *, private: bool = False) -> Iterator[BinaryIO]:
    """Write `path` under a temporary name beside it; on disk and named when the block ends.

    An existing file is never replaced. If the block raises, nothing stays behind; after a
    power cut or kill -9 at most the temporary `.<random>.part` does.
    """
    if os.path.lexists(path):
        raise InvalidInput(f"{path} already exists; choose another name")
    temporary = path.with_name(f".{secrets.token_hex(8)}.part")
    try:
        descriptor = os.open(
            temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600 if private else 0o666
        )
        try:
            with os.fdopen(descriptor, "wb") as stream:
                yield stream
                stream.flush()
                os.fsync(stream.fileno())
            _name(temporary, path)
        finally:
            with suppress(FileNotFoundError):
                os.unlink(temporary)
        _sync_folder(path.parent)
    except FileExistsError:
        raise InvalidInput(f"{path} already exists; choose another name") from None
    except OSError as error:
        raise MeterError(f"cannot write {path}: {error.strerror or error}") from None


@contextmanager
def replaced_file(path: Path, *, private: bool = False) -> Iterator[BinaryIO]:
    """Write a file in the place of one that is there; at any moment it is the old or the new."""
    temporary = path.with_name(f".{secrets.token_hex(8)}.part")
    try:
        try:
            with new_file(temporary, private=private) as stream:
                yield stream
            os.replace(temporary, path)
        finally:
            with suppress(FileNotFoundError):
                os.unlink(temporary)
        _sync_folder(path.parent)
    except OSError as error:
        raise MeterError(f"cannot write {path}: {error.strerror or error}") from None


def _name(temporary: Path, path: Path) -> None:
    """Return the finished file its name; a link, unlike a rename, fails if the name is taken."""
    try:
        os.link(temporary, path)
    except OSError as error:
        if error.errno not in _NO_HARD_LINKS or os.path.lexists(path):
            raise
        os.rename(temporary, path)


def _sync_folder(folder: Path) -> None:
    """Make the new name itself survive a power cut, where folders can be synced."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def new_folder(path: Path) -> Path:
    """Make a folder for new files; one that holds anything is refused.

    Raises:
        InvalidInput: it is a file, is not empty, or cannot be made.
    """
    try:
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise invalid("folder", str(path), "it is there already: move it, or choose another")
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise invalid("folder", str(path), error.strerror or "cannot be made") from None
    return path
