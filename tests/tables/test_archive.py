"""Archives: the same bytes for the same content, and nothing else is read."""

from __future__ import annotations

import hashlib
import io
import shutil
import subprocess
import tarfile
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from easeml_meter.errors import InvalidInput
from easeml_meter.tables.archive import DamagedArchive, File, is_proper, pack, unpack

LONG = "folder/" * 40 + "a long näme"
FILES = {"b": File(b"x" * 513), "a/ü": File(b"", True), LONG: File(bytes(512))}


def test_the_same_content_gives_the_same_bytes_for_ever() -> None:
    written = pack(FILES)
    assert pack(dict(reversed(FILES.items()))) == written
    digest = hashlib.sha256(written).hexdigest()
    assert digest == "8d5fc9d8fd16ea39ffbfd568ac7c6a9c71e31d1ff60b8b6c96383ac6a7f54adb"


def test_other_programs_can_read_it(tmp_path: Path) -> None:
    (tmp_path / "a.tar").write_bytes(pack(FILES))
    program = shutil.which("tar")
    assert program is not None
    subprocess.run([program, "xf", "a.tar"], cwd=tmp_path, check=True)
    for name, file in FILES.items():
        assert (tmp_path / name).read_bytes() == file.content
        assert (tmp_path / name).stat().st_mode & 0o777 == (0o700 if file.executable else 0o600)


proper = st.text(min_size=1, max_size=300).filter(is_proper)
files = st.dictionaries(proper, st.builds(File, st.binary(max_size=1100), st.booleans()))


@given(files)
def test_any_files_come_back(contents: dict[str, File]) -> None:
    assert unpack(pack(contents)) == contents


@pytest.mark.parametrize("name", ["../a", "/a", "", "a\nb", "x" * 300])
def test_a_name_that_could_not_be_read_again_is_not_written(name: str) -> None:
    with pytest.raises(InvalidInput, match="a name needed"):
        pack({name: File(b"")})


def foreign(kind: bytes = tarfile.REGTYPE, name: str = "name", **fields: object) -> bytes:
    """Write a tar as another program may."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        info = tarfile.TarInfo(name)
        info.type = kind
        for field, value in fields.items():
            setattr(info, field, value)
        archive.addfile(info)
    return stream.getvalue()


FORGERIES = {
    "nothing": b"",
    "no tar": b"predict.py".ljust(512, b"\0"),
    "a time": foreign(mtime=1),
    "a folder": foreign(tarfile.DIRTYPE),
    "a link": foreign(tarfile.SYMTYPE, linkname="/etc/passwd"),
    "a sparse file": foreign(tarfile.GNUTYPE_SPARSE),
    "a bad name": foreign(name="../a"),
    "cut": pack(FILES)[:1600],
    "changed": pack(FILES).replace(b"0000600", b"0000601"),
    "more": pack(FILES) + b"x",
    "two": pack(FILES)[:-1024] + pack(FILES),
}


@pytest.mark.parametrize("data", FORGERIES.values(), ids=FORGERIES)
def test_what_was_not_written_here_is_damaged(data: bytes) -> None:
    with pytest.raises(DamagedArchive):
        unpack(data)


@given(st.binary(max_size=1600), st.integers(0, 3))
def test_any_bytes_are_files_or_damaged(data: bytes, at: int) -> None:
    written = bytearray(pack({"a": File(b"x" * 600)}))
    written[256 * at : 256 * at + len(data)] = data
    with suppress(DamagedArchive):
        unpack(bytes(written))
