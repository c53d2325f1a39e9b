"""Archives: the same bytes for the same content, and nothing but plain files taken from a tar."""

from __future__ import annotations

import hashlib
import io
import shutil
import subprocess
import tarfile
import tracemalloc
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from easeml_meter.errors import InvalidInput
from easeml_meter.tables.archive import (
    Archive,
    DamagedArchive,
    File,
    add,
    finish,
    is_proper,
    members,
    pack,
    unpack,
)

LONG = "folder/" * 40 + "a long näme"
FILES = {"b": File(b"x" * 513), "a/ü": File(b"", True), LONG: File(bytes(512))}


def block(name: str = "name", content: bytes = b"", **fields: object) -> bytes:
    """A header as another program may write it, and its content."""
    info = tarfile.TarInfo(name)
    info.size = len(content)
    for field, value in fields.items():
        setattr(info, field, value)
    written = info.tobuf(tarfile.GNU_FORMAT)
    return written + content + bytes(-len(content) % 512)


def record(key: str, value: str) -> bytes:
    """A record of an extended header."""
    text = f" {key}={value}\n".encode()
    length = len(text) + 1
    while len(f"{length}") + len(text) != length:
        length += 1
    return f"{length}".encode() + text


# --- Writing ---


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
    assert unpack(pack(contents), len(contents)) == contents


def test_a_file_of_unknown_size_is_written_as_it_comes() -> None:
    stream = io.BytesIO()
    for name in sorted(FILES):
        content = FILES[name].content
        pieces = (content[at : at + 100] for at in range(0, len(content), 100))
        add(stream, name, pieces, executable=FILES[name].executable)
    finish(stream)
    assert stream.getvalue() == pack(FILES)


def test_files_of_more_than_8_gigabytes_have_their_size(tmp_path: Path) -> None:
    """Where a size does not fit into octal digits; the file is a hole on disk."""
    with (tmp_path / "large.tar").open("w+b") as stream:

        def hole() -> Iterator[bytes]:
            stream.seek(9 << 30, io.SEEK_CUR)
            yield b"x"

        add(stream, "large", hole())
        add(stream, "small", [b"y"])
        finish(stream)
        large, small = members(stream)
        assert (large.name, large.size) == ("large", (9 << 30) + 1)
        assert small.start == large.start + large.size + 511 + 512


@pytest.mark.parametrize("name", ["../a", "/a", "", "a\nb", "x" * 300])
def test_a_name_that_could_not_be_read_again_is_not_written(name: str) -> None:
    with pytest.raises(InvalidInput, match="a name needed"):
        pack({name: File(b"")})


def test_members_are_opened_one_by_one_and_side_by_side() -> None:
    opened = Archive(io.BytesIO(pack({"a": File(b"1\n2\n3\n"), "b": File(b"x" * 20_000)})))
    assert opened.namelist() == ["a", "b"]
    with opened.open("a") as first, opened.open("b") as second:
        assert [first.readline(), second.read(9), first.readline()] == [b"1\n", b"x" * 9, b"2\n"]
        assert [first.read(), second.read(), second.read()] == [b"3\n", b"x" * 19_991, b""]
    with pytest.raises(KeyError):
        opened.open("c")


# --- Reading what others wrote ---


@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_tars_of_other_programs_are_read(tmp_path: Path, form: int) -> None:
    (tmp_path / "test.csv").write_bytes(b"1\n" * 400)
    with tarfile.open(tmp_path / "a.tar", "w", format=form) as archive:
        archive.add(tmp_path / "test.csv", "test.csv")  # with a time, a fraction of a second
        archive.add(tmp_path / "test.csv", "folder/" * 20 + "test.csv")
    found = unpack((tmp_path / "a.tar").read_bytes(), 2)
    assert found == dict.fromkeys(["test.csv", "folder/" * 20 + "test.csv"], File(b"1\n" * 400))


def test_the_tar_command_is_understood(tmp_path: Path) -> None:
    (tmp_path / "test.csv").write_bytes(b"1\n")
    program = shutil.which("tar")
    assert program is not None
    made = subprocess.run([program, "cf", "-", "test.csv"], cwd=tmp_path, stdout=-1, check=True)
    assert unpack(made.stdout, 1) == {"test.csv": File(b"1\n")}


def test_the_end_may_be_missing() -> None:
    assert unpack(block("a", b"x"), 1) == {"a": File(b"x")}


@pytest.mark.parametrize("form", ["gnu", "posix"])
def test_the_holes_of_a_sparse_file_are_not_written_out(tmp_path: Path, form: str) -> None:
    with (tmp_path / "test.csv").open("wb") as file:
        file.truncate(2 << 30)
    program = shutil.which("tar")
    assert program is not None
    words = [program, "cSf", "-", f"--format={form}", "test.csv"]
    made = subprocess.run(words, cwd=tmp_path, stdout=-1, check=True).stdout
    assert len(made) < 20_000
    assert_refused(made, "plain files")


def assert_refused(data: bytes, line: str) -> None:
    """Refused in one line, and before anything of that size was allocated."""
    tracemalloc.start()
    try:
        with pytest.raises(DamagedArchive, match=rf"^(no|a) tar[^\n]*{line}$"):
            unpack(data, 10)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


GOOD = block("good", b"content")
EXTENDED = tarfile.XHDTYPE
NAMES = ["/etc/passwd", "../x", "a/../../x", ".", "..", "a//b", "./a", "a\nb", "\udcff", "x" * 300]
FORGERIES: dict[str, bytes] = {
    **{f"name {name!r}": block(name) for name in NAMES},
    "a folder": block("a", type=tarfile.DIRTYPE),
    "a folder by its name": block("a/"),
    "a link": block("a", type=tarfile.SYMTYPE, linkname="/etc/passwd"),
    "a hard link": block("a", type=tarfile.LNKTYPE, linkname="good"),
    "a device": block("a", type=tarfile.CHRTYPE),
    "a pipe": block("a", type=tarfile.FIFOTYPE),
    "a contiguous file": block("a", type=tarfile.CONTTYPE),
    "a sparse file": block("a", type=tarfile.GNUTYPE_SPARSE),
    "settings for all": block("a", record("path", "b"), type=tarfile.XGLTYPE),
    "an unknown kind": block("a", type=b"Q"),
    "twice": block("good"),
    "longer than all": block("a", size=1 << 50),
    "longer by one": block("a", b"xx")[:513],
    "negative": block("a", size=-512),
    "another checksum": b"b" + block("a")[1:],
    "garbage": b"no tar" * 100,
    "a piece of a header": block("a")[:100],
    "a long name cut": block("././@LongLink", b"x" * 200, type=tarfile.GNUTYPE_LONGNAME)[:600],
    "a long name that is too long": block("l", b"x" * 20_000, type=tarfile.GNUTYPE_LONGNAME),
    "an endless chain": block("l", b"a\0", type=tarfile.GNUTYPE_LONGNAME) * 2 + block("a"),
    "an extended size": block("x", record("size", "9"), type=EXTENDED) + block("a"),
    "a sparse file by extension": block("x", record("GNU.sparse.major", "1"), type=EXTENDED)
    + block("a"),
    "a bad name by extension": block("x", record("path", "../a"), type=EXTENDED) + block("a"),
    "a record without length": block("x", b"path=a\n", type=EXTENDED) + block("a"),
    "a record of no length": block("x", b"0 path=a\n", type=EXTENDED) + block("a"),
    "a record that is too long": block("x", b"99 path=a\n", type=EXTENDED) + block("a"),
    "a record with a strange length": block("x", b"00012x345 a=b\n".ljust(20), type=EXTENDED),
    "a record of astronomic length": block("x", b"1" * 9_000 + b" a=b\n", type=EXTENDED),
}


@pytest.mark.parametrize("bad", FORGERIES.values(), ids=FORGERIES)
def test_anything_but_plain_files_is_refused_before_it_is_read(bad: bytes) -> None:
    assert_refused(GOOD + bad, "")


def test_the_good_file_alone_would_have_been_taken() -> None:
    assert unpack(GOOD, 1) == {"good": File(b"content")}
    with pytest.raises(DamagedArchive, match="too many"):
        unpack(GOOD, 0)


@given(st.binary(max_size=1600), st.integers(0, 3))
def test_any_bytes_are_files_or_damaged(data: bytes, at: int) -> None:
    written = bytearray(pack({"a": File(b"x" * 600)}))
    written[256 * at : 256 * at + len(data)] = data
    with suppress(DamagedArchive):
        unpack(bytes(written), 5)


def test_a_long_extended_header_costs_no_time() -> None:
    """The standard library takes a time that grows with the square: minutes for a megabyte."""
    with pytest.raises(DamagedArchive, match="long headers"):
        unpack(block("x", b"1" * (1 << 20), type=EXTENDED), 1)
