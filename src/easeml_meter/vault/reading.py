"""Bytes by their position, of a local file or of any other that can be sought."""

from __future__ import annotations

import io
import os
import threading
from abc import ABC, abstractmethod
from types import TracebackType
from typing import BinaryIO, Self

from easeml_meter.errors import MeterError, invalid
from easeml_meter.tables.files import stamp_of

Location = str | os.PathLike[str]
"""A path, or a URL that fsspec knows, such as s3://bucket/name."""


class Closing(ABC):
    """Closes when its `with` block ends."""

    @abstractmethod
    def close(self) -> None:
        """Let go of the file."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class Positioned(Closing):
    """A file whose bytes are asked for by position: several readers do not get in each other's way.

    `size` is what it was when the file was opened.
    """

    size: int

    @abstractmethod
    def read_at(self, position: int, size: int) -> bytes:
        """Return `size` bytes, fewer at the end."""

    def exactly(self, position: int, size: int) -> bytes:
        """Return `size` bytes, or fail."""
        data = self.read_at(position, size)
        if len(data) != size:
            raise ValueError("cut short")
        return data


def open_positioned(location: Location) -> Positioned:
    """Open a local file, or one that fsspec reaches."""
    if isinstance(location, str) and "://" in location:
        return _Remote(_open_url(location))
    return _Local(location)


def whole_location(location: Location) -> str:
    """Name a file so that another process, with another working folder, finds it."""
    text = os.fspath(location)
    return text if "://" in text else os.path.abspath(text)


class _Local(Positioned):
    def __init__(self, path: Location) -> None:
        stamp_of(path)
        self._stream = open(path, "rb", buffering=0)  # noqa: SIM115
        self.size = os.fstat(self._stream.fileno()).st_size

    def read_at(self, position: int, size: int) -> bytes:
        return os.pread(self._stream.fileno(), size, position)

    def close(self) -> None:
        self._stream.close()


class _Remote(Positioned):
    def __init__(self, stream: BinaryIO) -> None:
        self._stream, self._lock = stream, threading.Lock()
        stream.seek(0, io.SEEK_END)
        self.size = stream.tell()

    def read_at(self, position: int, size: int) -> bytes:
        with self._lock:
            self._stream.seek(position)
            return self._stream.read(size)

    def close(self) -> None:
        self._stream.close()


def _open_url(url: str) -> BinaryIO:
    try:
        import fsspec
    except ImportError:
        needed = "needs fsspec: pip install 'easeml-meter[s3]', or give a local path"
        raise invalid("file", url, needed) from None
    try:
        system, path = fsspec.core.url_to_fs(url)
        # Nothing is read ahead: a task that needs one row group would be sent 50 MB for it.
        stream: BinaryIO = system.open(path, "rb", cache_type="none")
    except FileNotFoundError:
        raise invalid("file", url, "there is none: give one that you may read") from None
    except (ValueError, ImportError) as error:  # a protocol that is unknown, or not installed
        raise invalid("file", url, f"cannot be read here ({error})") from None
    except Exception as error:  # each storage has errors of its own
        raise MeterError(f"{url}: cannot be read ({type(error).__name__}): try again") from None
    return stream
