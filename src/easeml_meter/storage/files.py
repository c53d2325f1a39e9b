"""Where the files of a meter lie: a folder, or any URL that fsspec opens, such as s3://.

Names are relative, with slashes. A file appears under its name whole, or not at all; those who list
or read never meet half of one.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from copy import copy
from pathlib import Path, PurePosixPath
from typing import Protocol

from easeml_meter.errors import FilesUnusable, MeterError, invalid


class Files(Protocol):
    """The contract of both kinds."""

    def put(self, name: str, content: bytes) -> str:
        """Write a file, replacing one of that name; return the name."""

    @contextmanager
    def writing(self, name: str) -> Iterator[Path]:
        """Yield a path to write to; the file appears as `name` at the end."""

    def read(self, name: str) -> bytes:
        """Read a file whole; FileNotFoundError if there is none."""

    @contextmanager
    def local(self, name: str) -> Iterator[Path]:
        """Yield a path on this machine with the file's content, for reading."""

    def location(self, name: str) -> str:
        """Return the path or URL under which a worker elsewhere finds the file."""

    def exists(self, name: str) -> bool:
        """Whether there is such a file."""

    def names(self, folder: str) -> list[str]:
        """List the names of the files in a folder, sorted."""

    def folders(self, folder: str, before: float) -> list[str]:
        """List the folders in a folder, without those that changed since a moment, if known."""

    def remove_folder(self, folder: str) -> None:
        """Remove a folder with all that is in it, also what is half written."""

    def size(self, folder: str) -> int:
        """Return how many bytes the files in a folder have together."""

    def free(self) -> int | None:
        """Return how many bytes can still be written; None where that is not known."""

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""

    def append(self, name: str, lines: list[str], total: int | None = None) -> None:
        """Add lines to a journal, and wait until they are on disk.

        `total` notes how many lines that are worth counting the journal then holds.
        """

    def lines(self, name: str) -> list[str]:
        """Read a journal; a last line cut short by a crash may be among them."""

    def total(self, name: str) -> int | None:
        """Return the largest total noted, without reading the lines: late ones may note less.

        It is 0 for a journal that is not there, and None where no total is known.
        """

    def under(self, folder: str) -> Files:
        """Return the files in a folder of these."""


def open_files(place: str | Path) -> Files:
    """Open a folder, or a URL."""
    if "://" in str(place):
        return RemoteFiles(str(place))
    return FolderFiles(Path(place))


class FolderFiles:
    """Files in a folder of this machine, or of a file system that machines share."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def _path(self, name: str) -> Path:
        return self.root / _safe(name)

    def put(self, name: str, content: bytes) -> str:
        """Write a file, replacing one of that name."""
        with self.writing(name) as path:
            path.write_bytes(content)
        return name

    @contextmanager
    def writing(self, name: str) -> Iterator[Path]:
        """Yield a path beside the final one, renamed at the end."""
        target = self._path(name)
        partial = target.with_name(f".{secrets.token_hex(8)}{target.suffix}")
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                yield partial
                # Content before name: after a power cut, a file is whole or not there.
                sync(partial)
                os.replace(partial, target)
            finally:
                partial.unlink(missing_ok=True)
            # A new name is on disk only when its folder is.
            sync(target.parent)
        except OSError as error:
            raise unusable(target.parent, error) from error

    def read(self, name: str) -> bytes:
        """Read a file whole."""
        return self._path(name).read_bytes()

    @contextmanager
    def local(self, name: str) -> Iterator[Path]:
        """Yield the path of the file itself."""
        yield self._path(name)

    def location(self, name: str) -> str:
        """Return the path."""
        return str(self._path(name))

    def exists(self, name: str) -> bool:
        """Whether there is such a file."""
        return self._path(name).is_file()

    def names(self, folder: str) -> list[str]:
        """List the files in a folder; those half written begin with a dot and are left out."""
        path = self._path(folder)
        if not path.is_dir():
            return []
        found = (each for each in path.iterdir() if each.is_file() and each.name[0] != ".")
        return sorted(each.name for each in found)

    def folders(self, folder: str, before: float) -> list[str]:
        """List the folders in a folder to which no file was added since a moment."""
        found = []
        with suppress(FileNotFoundError), os.scandir(self._path(folder)) as entries:
            for each in entries:
                with suppress(FileNotFoundError):  # removed meanwhile
                    if each.is_dir() and each.stat().st_mtime < before:
                        found.append(each.name)
        return sorted(found)

    def remove_folder(self, folder: str) -> None:
        """Remove a folder with all that is in it."""
        try:
            shutil.rmtree(self._path(folder))
        except FileNotFoundError:
            pass
        except OSError as error:
            raise unusable(self._path(folder), error) from error

    def size(self, folder: str) -> int:
        """Return how many bytes the files in a folder have, without a look into folders in it."""
        total = 0
        with suppress(FileNotFoundError), os.scandir(self._path(folder)) as found:
            for each in found:
                with suppress(FileNotFoundError):  # removed, or renamed when whole, meanwhile
                    total += each.stat().st_size
        return total

    def free(self) -> int:
        """Return how many bytes the disk has left."""
        folder = self.root
        while not folder.exists():
            folder = folder.parent
        return free_bytes(folder)

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""
        self._path(name).unlink(missing_ok=True)

    def append(self, name: str, lines: list[str], total: int | None = None) -> None:
        """Add lines, and wait until they are on disk."""
        path = self._path(name)
        try:
            new = not path.exists()
            if new:  # a restore may bring lines before any other file
                path.parent.mkdir(parents=True, exist_ok=True)
            self._append(name, lines, total)
            if new:
                sync(path.parent)
        except OSError as error:
            raise unusable(path, error) from error

    def _append(self, name: str, lines: list[str], total: int | None) -> None:
        handle = os.open(self._path(name), os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            with _locked(handle):
                # What another server has written first stays counted, if these lines are late.
                most = [] if total is None else [f"{_TOTAL}{max(total, self._largest(name))}"]
                # It starts on a fresh line even if a crash has cut the last one short.
                text = "\n".join(["", *lines, *most, ""]).encode()
                # One write to a file opened for appending: lines of two processes do not mix.
                if os.write(handle, text) < len(text):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            # An answer leaves only after this: the journal is what survives a lost database.
            os.fsync(handle)
        finally:
            os.close(handle)

    def _largest(self, name: str) -> int:
        """Return the largest total noted: the last, unless a line cut short hides it."""
        last = self.total(name)
        if last is not None:
            return last
        found = re.findall(rb"^%s(\d{1,12})$" % _TOTAL.encode(), self.read(name), re.MULTILINE)
        return max(map(int, found), default=0)

    def lines(self, name: str) -> list[str]:
        """Read a journal."""
        try:
            _check_regular(self._path(name))
            content = self.read(name)
        except FileNotFoundError:
            return []
        found = content.decode(errors="replace").split("\n")
        return [line for line in found if line and not line.startswith(_TOTAL)]

    def total(self, name: str) -> int | None:
        """Return the total noted last: it is the last line, unless a crash cut that short."""
        try:
            _check_regular(self._path(name))
            with self._path(name).open("rb") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(0, size - _TAIL))
                tail = file.read().decode(errors="replace")
        except FileNotFoundError:
            return 0
        last = tail.rpartition(f"\n{_TOTAL}")[2]
        return int(last) if last != tail and re.fullmatch(r"\d+\n", last) else None

    def under(self, folder: str) -> FolderFiles:
        """Return the files in a folder of these."""
        return FolderFiles(self._path(folder))


@contextmanager
def _locked(handle: int) -> Iterator[None]:
    """Hold the lock of an open file against all processes that append to it, if it can have one.

    Some network file systems have no locks; journals were kept there before this one was taken.
    """
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        locked = True
    except OSError as error:
        if error.errno not in (errno.ENOSYS, errno.ENOTSUP, errno.ENOLCK):
            raise
        locked = False
    try:
        yield
    finally:
        # Not left to closing: a process that was forked meanwhile would go on to hold it.
        if locked:
            fcntl.flock(handle, fcntl.LOCK_UN)


def _check_regular(path: Path) -> None:
    """Refuse a pipe or a device in the place of a journal: reading it would never end."""
    if not stat.S_ISREG(path.stat().st_mode):
        raise FilesUnusable(f"{path}: not a regular file: put the journal back from a backup")


_TOTAL = "#"
"""Begins the lines of a journal that note its total; no JSON does."""
_TOGETHER = 1000
"""Objects of a journal in one folder, where a journal is many objects."""
_TAIL = 64
"""Bytes at the end of a journal that hold such a line."""


class RemoteFiles:
    """Objects under a URL. An object is written by one request, so it is whole or not there."""

    def __init__(self, url: str) -> None:
        try:
            import fsspec
        except ImportError:
            raise MeterError(
                f"{url}: needs fsspec; run: pip install 'easeml-meter[server]' (s3: [s3])"
            ) from None
        self.url = url.rstrip("/")
        try:
            # No listing is cached: other machines write, too.
            self._system, self._root = fsspec.core.url_to_fs(self.url, use_listings_cache=False)
        except (ValueError, ImportError) as error:
            raise invalid("files", url, str(error).split("\n", maxsplit=1)[0]) from None

    def _path(self, name: str) -> str:
        return f"{self._root}/{_safe(name)}"

    def put(self, name: str, content: bytes) -> str:
        """Write an object."""
        with self._told(name, missing=False):
            self._system.pipe_file(self._path(name), content)
        return name

    @contextmanager
    def writing(self, name: str) -> Iterator[Path]:
        """Yield a path on this machine, uploaded at the end."""
        with _scratch(name) as path:
            yield path
            with self._told(name, missing=False):
                self._system.put_file(str(path), self._path(name))

    def read(self, name: str) -> bytes:
        """Read an object whole."""
        with self._told(name):
            return bytes(self._system.cat_file(self._path(name)))

    @contextmanager
    def local(self, name: str) -> Iterator[Path]:
        """Yield the path of a copy, removed at the end."""
        with _scratch(name) as path:
            with self._told(name):
                self._system.get_file(self._path(name), str(path))
            yield path

    def location(self, name: str) -> str:
        """Return the URL."""
        return f"{self.url}/{_safe(name)}"

    def exists(self, name: str) -> bool:
        """Whether there is such an object."""
        with self._told(name):
            return bool(self._system.isfile(self._path(name)))

    def names(self, folder: str) -> list[str]:
        """List the objects in a folder, and the journals, which are folders here."""
        try:
            with self._told(folder):
                found = self._system.ls(self._path(folder), detail=False)
        except FileNotFoundError:
            return []
        return sorted(PurePosixPath(each).name for each in found)

    def folders(self, folder: str, before: float) -> list[str]:
        """List the folders in a folder: of none of them a time is known."""
        try:
            with self._told(folder):
                found = self._system.ls(self._path(folder), detail=True)
        except FileNotFoundError:
            return []
        return sorted(PurePosixPath(each["name"]).name for each in found if each["type"] != "file")

    def remove_folder(self, folder: str) -> None:
        """Remove all objects under a name."""
        with suppress(FileNotFoundError), self._told(folder):
            self._system.rm(self._path(folder), recursive=True)

    def size(self, folder: str) -> int:
        """Return how many bytes the objects in a folder have together."""
        try:
            with self._told(folder):
                return int(self._system.du(self._path(folder)))
        except FileNotFoundError:
            return 0

    def free(self) -> int | None:
        """Return None: a bucket is never full."""
        return None

    def remove(self, name: str) -> None:
        """Remove an object, if it is there."""
        with self._told(name):
            if self._system.isfile(self._path(name)):
                self._system.rm_file(self._path(name))

    def append(self, name: str, lines: list[str], total: int | None = None) -> None:
        """Write the lines as an object of their own: objects cannot be appended to.

        The total is in its name, and its folder holds a thousand of them at most, or as many as are
        added with one total: so the newest is found without listing all.
        """
        noted = "" if total is None else f"{total // _TOGETHER}/{total}-"
        self.put(f"{name}/{noted}{secrets.token_hex(16)}", "\n".join(lines).encode())

    def lines(self, name: str) -> list[str]:
        """Read all objects of a journal, in no particular order."""
        with self._told(name):
            paths = self._system.find(self._path(name))
            if not paths:
                return []
            pieces = self._system.cat(paths).values()
        return [line for piece in pieces for line in piece.decode(errors="replace").split("\n")]

    def total(self, name: str) -> int | None:
        """Return the largest total noted; objects have no order, but totals only grow."""
        names = self.names(name)
        folders = [int(each) for each in names if re.fullmatch(r"\d{1,12}", each)]
        if not folders:
            return None if names else 0
        noted = self.names(f"{name}/{max(folders)}")
        found = (int(each.partition("-")[0]) for each in noted if re.fullmatch(r"\d+-\w+", each))
        return max(found, default=None)

    def under(self, folder: str) -> RemoteFiles:
        """Return the objects in a folder of these."""
        inner = copy(self)  # connections are shared
        inner.url, inner._root = self.location(folder), self._path(folder)
        return inner

    @contextmanager
    def _told(self, name: str, *, missing: bool = True) -> Iterator[None]:
        """Say in one line what failed; that a file is missing stays what it is, if it may be."""
        try:
            yield
        except Exception as error:  # each file system has errors of its own
            if missing and isinstance(error, FileNotFoundError):
                raise
            reason = str(error).split("\n", maxsplit=1)[0]
            raise _unusable(self.location(name), reason) from error


def _safe(name: str) -> str:
    """Refuse a name that leaves its folder."""
    # Names come from backups, too, and with them from other machines.
    if name.startswith("/") or ".." in name.split("/"):
        raise invalid("file name", name[:80], "a relative name")
    return name


@contextmanager
def _scratch(name: str) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="easeml-meter-") as folder:
        yield Path(folder) / PurePosixPath(name).name


def copy_into(files: Files, name: str, source: Path) -> str:
    """Copy a file of this machine, whole or not at all."""
    with files.writing(name) as path:
        shutil.copyfile(source, path)
    return name


def sync(path: Path) -> None:
    """Wait until a file's content, or the names in a folder, are on disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def free_bytes(folder: Path) -> int:
    """Return how many bytes can still be written to the disk of a folder."""
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize


def unusable(path: Path, error: OSError) -> FilesUnusable:
    """Say in one line why a folder or file cannot be used."""
    return _unusable(str(path), error.strerror or str(error))


def _unusable(place: str, reason: str) -> FilesUnusable:
    # Nobody here knows what was committed before: some files are written or removed after that.
    what = "fix that, and check what was already done before you try again"
    return FilesUnusable(f"{place}: {reason}: {what}")
