"""Several files in one: a plain tar, the same bytes for the same content.

It has names, contents and the executable bit: no times, no owners. Only what was written here is
read.
"""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Mapping
from typing import IO, NamedTuple, cast

from easeml_meter.errors import invalid

_PLAIN = (tarfile.REGTYPE, tarfile.AREGTYPE)


class DamagedArchive(ValueError):
    """The bytes are no archive that was written here."""


class File(NamedTuple):
    """A file in memory; of its mode only the executable bit counts."""

    content: bytes
    executable: bool = False


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
    pieces = []
    for name in sorted(files):
        if not is_proper(name):
            raise invalid("file", name, "a name needed that is printable, relative, not too long")
        content, executable = files[name]
        info = tarfile.TarInfo(name)
        info.size, info.mode = len(content), 0o700 if executable else 0o600
        header = info.tobuf(tarfile.GNU_FORMAT, "utf-8", "strict")
        pieces += [header, content, bytes(-len(content) % tarfile.BLOCKSIZE)]
    return b"".join([*pieces, bytes(2 * tarfile.BLOCKSIZE)])


def unpack(data: bytes) -> dict[str, File]:
    """Return the files of an archive."""
    found: dict[str, File] = {}
    try:
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:", encoding="utf-8") as archive:
            for member in archive:
                if member.type not in _PLAIN or not is_proper(member.name):
                    raise DamagedArchive("an archive of other things than plain files")
                content = cast(IO[bytes], archive.extractfile(member)).read()
                found[member.name] = File(content, bool(member.mode & 0o100))
    except (tarfile.TarError, UnicodeError):
        raise DamagedArchive("no archive") from None
    if pack(found) != data:  # a damaged header looks like the end
        raise DamagedArchive("a damaged archive")
    return found
