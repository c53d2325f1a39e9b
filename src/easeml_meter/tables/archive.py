"""The one archive format: a plain tar, the same bytes for the same content.

What is written has names, contents and the executable bit: no times, no owners. What is read may
come from other programs, and from strangers. So every header is compared with the bytes that there
are before anything is read, and only plain files are taken. The reader of the standard library
writes out the holes of a sparse file (1.5 KB become 2 GB) and searches long extended headers for
minutes; of it, only the parser of a single header block is used.
"""

from __future__ import annotations

import io
import os
import re
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from typing import IO, Any, NamedTuple

from easeml_meter.errors import invalid

_BLOCK = tarfile.BLOCKSIZE
_PLAIN = (tarfile.REGTYPE, tarfile.AREGTYPE)
_LONGEST = 16 << 10
"""Bytes of a header for a long name."""


class DamagedArchive(ValueError):
    """The bytes are no archive that is read here; the message says what they are."""


class File(NamedTuple):
    """A file in memory; of its mode only the executable bit counts."""

    content: bytes
    executable: bool = False


class Member(NamedTuple):
    """Where a file lies in an archive."""

    name: str
    start: int
    size: int
    executable: bool


def is_proper(name: str) -> bool:
    """Whether a name is printable, relative, without . and .., and short enough to be a file's."""
    parts = name.split("/")
    return (
        name.isprintable()
        and not any(part in ("", ".", "..") for part in parts)
        and len(name) <= 1024
        and all(len(os.fsencode(part)) <= 255 for part in parts)
    )


def pack(files: Mapping[str, File]) -> bytes:
    """Return the archive of these files."""
    stream = io.BytesIO()
    for name in sorted(files):
        add(stream, name, [files[name].content], executable=files[name].executable)
    finish(stream)
    return stream.getvalue()


def unpack(data: bytes, most: int) -> dict[str, File]:
    """Return the files of an archive; more than `most` are `DamagedArchive`, too."""
    found: dict[str, File] = {}
    for member in members(io.BytesIO(data)):
        if len(found) == most:
            raise DamagedArchive("too many files")
        content = data[member.start : member.start + member.size]
        found[member.name] = File(content, member.executable)
    return found


def add(stream: IO[bytes], name: str, pieces: Iterable[bytes], *, executable: bool = False) -> None:
    """Append a file to an archive that can be sought in; its size need not be known."""
    if not is_proper(name):
        raise invalid("file", name, "a name needed that is printable, relative and not too long")
    start = stream.tell()
    header = _header(name, 0, executable)
    stream.write(header)
    for piece in pieces:
        stream.write(piece)
    size = stream.tell() - start - len(header)
    stream.write(bytes(-size % _BLOCK))
    end = stream.tell()
    stream.seek(start)
    stream.write(_header(name, size, executable))
    stream.seek(end)


def finish(stream: IO[bytes]) -> None:
    """Mark the end of an archive."""
    stream.write(bytes(2 * _BLOCK))


def _header(name: str, size: int, executable: bool) -> bytes:
    info = tarfile.TarInfo(name)
    # A backup may hold a key: nobody else may read what is extracted.
    info.size, info.mode = size, 0o700 if executable else 0o600
    return info.tobuf(tarfile.GNU_FORMAT, "utf-8", "strict")


def members(stream: IO[bytes]) -> Iterator[Member]:
    """Yield the files of an archive one by one, by their headers alone.

    Raises:
        DamagedArchive: It is no archive, or holds something else than plain files, each with a
            proper name of its own.
    """
    end, at = stream.seek(0, os.SEEK_END), 0
    if not end:
        raise DamagedArchive("no tar file")
    known: set[str] = set()
    long_name: str | None = None
    while (block := _read(stream, at, _BLOCK)).strip(b"\0"):
        head = _parsed(block)
        start = at + _BLOCK
        at = start + head.size + -head.size % _BLOCK
        if not start <= start + head.size <= end:
            raise DamagedArchive("a tar that ends too early")
        if head.type in (tarfile.GNUTYPE_LONGNAME, tarfile.XHDTYPE):
            if long_name is not None or head.size > _LONGEST:
                raise DamagedArchive("a tar with long headers")
            long_name = _long_name(head.type, _read(stream, start, head.size))
            continue
        name, long_name = long_name or head.name, None
        if head.type not in _PLAIN or not is_proper(name) or name in known:
            raise DamagedArchive("a tar of other things than plain files")
        known.add(name)
        yield Member(name, start, head.size, head.executable)


class _Head(NamedTuple):
    name: str
    type: bytes
    size: int
    executable: bool


def _parsed(block: bytes) -> _Head:
    try:
        info = tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
    except tarfile.HeaderError:
        raise DamagedArchive("no tar file") from None
    return _Head(info.name, info.type, info.size, bool(info.mode & 0o100))


class Archive:
    """An archive opened for reading; nothing but its headers is read before it is asked for."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._members = {member.name: member for member in members(stream)}

    def namelist(self) -> list[str]:
        """Return the names of the files."""
        return list(self._members)

    def open(self, name: str) -> IO[bytes]:
        """Open a file; raise `KeyError` if there is none of that name."""
        return io.BufferedReader(_Part(self._stream, self._members[name]))


class _Part(io.RawIOBase):
    """Part of a file as a file."""

    def __init__(self, stream: IO[bytes], member: Member) -> None:
        self._stream, self._at, self._end = stream, member.start, member.start + member.size

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        piece = _read(self._stream, self._at, min(len(buffer), self._end - self._at))
        buffer[: len(piece)] = piece
        self._at += len(piece)
        return len(piece)


def _long_name(kind: bytes, header: bytes) -> str:
    """Read a long name, as GNU or POSIX has it; empty if the header is about something else."""
    if kind == tarfile.GNUTYPE_LONGNAME:
        return header.rstrip(b"\0").decode("utf-8", "surrogateescape")
    name = b""
    while header:
        length = header.partition(b" ")[0]  # of the record, itself included
        if not re.fullmatch(rb"\d{1,5}", length) or not len(length) < int(length) <= len(header):
            raise DamagedArchive("no tar file")
        key, _, value = header[len(length) + 1 : int(length) - 1].partition(b"=")
        if key == b"size" or key.startswith(b"GNU.sparse"):
            raise DamagedArchive("a tar of other things than plain files")
        name = value if key == b"path" else name
        header = header[int(length) :]
    return name.decode("utf-8", "surrogateescape")


def _read(stream: IO[bytes], start: int, size: int) -> bytes:
    stream.seek(start)
    return stream.read(size)
