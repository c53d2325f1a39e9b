"""A submitted command and the files it needs: an archive of `command` and `files/NAME`."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Self

from easeml_meter.errors import InvalidInput
from easeml_meter.tables import archive
from easeml_meter.tables.archive import File
from easeml_meter.tables.source import excerpt, named

MOST_BYTES = 512 << 20
MOST_FILES = 10_000
MOST_CHARACTERS = 10_000
"""Of a command."""

_COMMAND, _FILES = "command", "files/"
_MAGIC = b"easeml-meter bundle 1\n"
"""What the digest begins with, so that nothing else has the same one."""


@dataclass(frozen=True)
class BundledFile:
    """One file; of its mode only the executable bit counts."""

    name: str
    """Relative to the folder the command runs in, with slashes."""
    content: bytes = field(repr=False)
    executable: bool = False

    def __post_init__(self) -> None:
        if not archive.is_proper(_FILES + self.name):
            allowed = "a printable relative name needed, not too long and without . and .."
            raise InvalidInput(f"files: {excerpt(self.name)} given, {allowed}")


@dataclass(frozen=True)
class Bundle:
    """A command line, split into words as a shell would and run without one, and its files."""

    command: str
    files: tuple[BundledFile, ...] = ()
    """Sorted by name."""

    def __post_init__(self) -> None:
        _words(self.command)
        names = [file.name for file in self.files]
        if names != sorted(set(names)):
            raise InvalidInput("files: each must stand there once, in the order of their names")
        known = set(names)
        for name in names:
            for folder in PurePosixPath(name).parents:
                if str(folder) in known:
                    raise InvalidInput(f"files: {excerpt(str(folder))} is a file and a folder")
        _check_size(len(names), sum(len(file.content) for file in self.files))

    @classmethod
    def collect(cls, command: str, files: Sequence[Path] = (), folder: Path = Path(".")) -> Self:
        """Take the files and folders named, and each word of the command that names a file.

        All names are relative to `folder`, which is where the command is run. Leftovers of Python
        (`__pycache__`) stay behind: they would make the same model look like another.
        """
        found: set[str] = set()
        for path in files:
            found.update(_files_in(folder, _inside(folder, path)))
        for word in _words(command):
            if name := _named_by(word, folder):
                found.add(name)
        names = sorted(found)
        sizes = (os.lstat(folder / name).st_size for name in names)
        _check_size(len(names), sum(sizes))
        return cls(command, tuple(_read(folder, name) for name in names))

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Read what `to_bytes` gave."""
        try:
            found = archive.unpack(data)
            command = found.pop(_COMMAND).content.decode()
            if not all(name.startswith(_FILES) for name in found):
                raise ValueError
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            line = "bundle: damaged, or no bundle at all: make it again with this version of meter"
            raise InvalidInput(line) from None
        files = (BundledFile(name.removeprefix(_FILES), *found[name]) for name in sorted(found))
        return cls(command, tuple(files))

    def to_bytes(self) -> bytes:
        """Return the archive."""
        found = {_FILES + file.name: File(file.content, file.executable) for file in self.files}
        return archive.pack({_COMMAND: File(self.command.encode())} | found)

    @cached_property
    def digest(self) -> str:
        """What tells submissions apart: the SHA-256 (hex) of command, names and contents.

        Not of the archive: how it is packed is no part of the model.
        """
        files = [[file.name, len(file.content), file.executable] for file in self.files]
        header = json.dumps({"command": self.command, "files": files}).encode()
        hashed = hashlib.sha256(_MAGIC + len(header).to_bytes(8, "big") + header)
        for file in self.files:
            hashed.update(file.content)
        return hashed.hexdigest()

    @property
    def words(self) -> list[str]:
        """The command, split."""
        return _words(self.command)

    def unpack(self, folder: Path) -> None:
        """Write the files into an empty folder; readable to all, writable to the owner."""
        for file in self.files:
            path = folder / file.name
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("xb") as opened:
                opened.write(file.content)
            path.chmod(0o755 if file.executable else 0o644)
        for parent, _, _ in os.walk(folder):
            os.chmod(parent, 0o755)  # noqa: S103  # the sandbox runs as somebody else


def _words(command: str) -> list[str]:
    if not isinstance(command, str) or len(command) > MOST_CHARACTERS:
        raise InvalidInput(f"command: {MOST_CHARACTERS:,} characters at most")
    try:
        words = shlex.split(command)
        command.encode()
    except ValueError as error:
        raise InvalidInput(f"command: {excerpt(command)} given: {error}") from None
    if not words or not words[0] or "\0" in command:
        raise InvalidInput(f"command: {excerpt(command)} given, such as python predict.py needed")
    return words


def _check_size(files: int, size: int) -> None:
    if files > MOST_FILES:
        raise InvalidInput(f"files: {files:,} given, {MOST_FILES:,} at most")
    if size > MOST_BYTES:
        raise InvalidInput(f"files: {size >> 20:,} MB given, {MOST_BYTES >> 20} MB at most")


def _inside(folder: Path, path: Path) -> str:
    """Return the name of a path relative to `folder`; refuse what leads out of it."""
    base = os.path.abspath(folder)
    name = os.path.relpath(os.path.join(base, path), base)
    if name == ".." or name.startswith("../"):
        line = f"{named(path)}: outside of {named(base)}: copy it there, or start there"
        raise InvalidInput(line)
    return name


def _named_by(word: str, folder: Path) -> str | None:
    """Return the name of the file a word of the command stands for, if it does."""
    if not os.path.isfile(os.path.join(folder, word)):
        return None
    if not os.path.isabs(word):
        name = _inside(folder, Path(word))
        _refuse_links(folder, name)
        return name
    base = os.path.abspath(folder)
    if os.path.commonpath([base, word]) != base:
        return None  # a program of the system, say
    name = os.path.relpath(word, base)
    raise InvalidInput(f"command: {excerpt(word)} given, a relative name needed: {excerpt(name)}")


def _files_in(folder: Path, name: str) -> Iterator[str]:
    """Yield the name if it is one of a file, else the names of all files in that folder."""
    mode = _refuse_links(folder, name)
    if stat.S_ISREG(mode):
        yield name
    elif stat.S_ISDIR(mode):
        for entry in os.listdir(folder / name):
            if entry != "__pycache__":
                yield from _files_in(folder, os.path.normpath(os.path.join(name, entry)))
    else:
        raise InvalidInput(f"{named(folder / name)}: neither a file nor a folder")


def _refuse_links(folder: Path, name: str) -> int:
    """Return the mode of what has this name; no part of it may be a link."""
    mode, path = 0, os.fspath(folder)
    for part in PurePosixPath(name).parts or (".",):
        path = os.path.join(path, part)
        try:
            mode = os.lstat(path).st_mode
        except OSError as error:
            raise InvalidInput(f"{named(path)}: {error.strerror}") from None
        if stat.S_ISLNK(mode):
            raise InvalidInput(f"{named(path)}: a symbolic link, copy what it points to instead")
    return mode


def _read(folder: Path, name: str) -> BundledFile:
    path = folder / name
    try:
        # Never through a link, and never waiting for a pipe: it may have changed meanwhile.
        number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with open(number, "rb") as opened:
            mode = os.fstat(number).st_mode
            if not stat.S_ISREG(mode):
                raise InvalidInput(f"{named(path)}: not a file")
            return BundledFile(name, opened.read(MOST_BYTES + 1), bool(mode & 0o100))
    except OSError as error:
        raise InvalidInput(f"{named(path)}: {error.strerror}") from None
