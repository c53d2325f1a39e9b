"""The contract of `Files`, for a folder and for objects under a URL."""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from easeml_meter.errors import FilesUnusable, InvalidInput
from easeml_meter.storage.files import (
    Files,
    FolderFiles,
    RemoteFiles,
    copy_into,
    open_files,
)


@pytest.fixture(params=["folder", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "folder":
        return str(tmp_path / "files")
    return str(request.getfixturevalue("s3_url"))


@pytest.fixture
def files(place: str) -> Files:
    return open_files(place)


def test_what_was_put_is_there_for_everyone(files: Files, place: str) -> None:
    assert files.put("a/b.bin", b"one") == "a/b.bin"
    other = open_files(place)
    assert other.exists("a/b.bin")
    assert other.read("a/b.bin") == b"one"
    other.put("a/b.bin", b"two")
    assert files.read("a/b.bin") == b"two"
    assert files.names("a") == ["b.bin"]


def test_what_is_not_there(files: Files) -> None:
    assert not files.exists("a/b.bin")
    assert files.names("a") == []
    assert files.lines("a.journal") == []
    files.remove("a/b.bin")
    with pytest.raises(FileNotFoundError):
        files.read("a/b.bin")
    with pytest.raises(FileNotFoundError), files.local("a/b.bin") as path:
        path.read_bytes()


def test_removing(files: Files) -> None:
    files.put("a/b", b"")
    files.put("a/c", b"")
    files.remove("a/b")
    assert files.names("a") == ["c"]
    assert not files.exists("a/b")
    assert files.read("a/c") == b""


def test_writing_shows_a_whole_file_or_none(files: Files, place: str) -> None:
    with files.writing("a/set.parquet") as path:
        assert path.suffix == ".parquet"
        path.write_bytes(b"half")
        assert open_files(place).names("a") == []
    assert files.read("a/set.parquet") == b"half"

    def fail() -> None:
        with files.writing("a/set.parquet") as path:
            path.write_bytes(b"other")
            raise RuntimeError("power cut")

    with pytest.raises(RuntimeError, match="power cut"):
        fail()
    assert files.read("a/set.parquet") == b"half"
    assert files.names("a") == ["set.parquet"]


def test_a_local_copy_and_a_copied_file(files: Files, tmp_path: Path) -> None:
    source = tmp_path / "source.bin"
    source.write_bytes(b"x" * 10_000_000)
    copy_into(files, "sets/big.bin", source)
    with files.local("sets/big.bin") as path:
        assert path.read_bytes() == source.read_bytes()


def test_the_location_is_found_from_elsewhere(files: Files, place: str) -> None:
    files.put("a/b", b"content")
    folder, _, name = files.location("a/b").rpartition("/")
    assert open_files(folder).read(name) == b"content"
    assert folder.startswith(place)


def test_folders_in_folders(files: Files) -> None:
    inner = files.under("meters/m")
    inner.put("testsets/x", b"1")
    assert files.read("meters/m/testsets/x") == b"1"
    assert inner.under("testsets").names("") == ["x"]
    assert files.under("meters/n").names("testsets") == []


def test_a_file_that_goes_while_they_are_counted_hides_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The whole folder then had 0 bytes, whatever a meter may take of the disk."""
    files, scan = FolderFiles(tmp_path), os.scandir
    for name in ("a", "b", "c"):
        files.put(f"predictions/{name}", b"123")

    @contextmanager
    def renamed_meanwhile(path: Path) -> Iterator[list[os.DirEntry[str]]]:
        with scan(path) as found:
            entries = list(found)
        (path / "b").unlink()
        yield entries

    monkeypatch.setattr(os, "scandir", renamed_meanwhile)
    assert files.size("predictions") == 6


def test_folders_are_listed_and_removed_with_all_that_is_in_them(files: Files) -> None:
    later = time.time() + 3600
    assert files.folders("uploads", later) == []
    files.remove_folder("uploads/nothing")
    for name in ("uploads/b/0", "uploads/a/0", "uploads/a/1", "uploads/file", "other/c/0"):
        files.put(name, b"1")
    assert files.folders("uploads", later) == ["a", "b"]
    if isinstance(files, FolderFiles):
        assert files.folders("uploads", later - 7200) == []
        (files.root / "uploads" / "a" / ".half").write_bytes(b"1")
    files.remove_folder("uploads/a")
    assert files.folders("uploads", later) == ["b"]
    assert files.names("uploads/b") == files.names("other/c") == ["0"]
    assert files.exists("uploads/file")


def test_a_journal_keeps_every_line(files: Files, place: str) -> None:
    files.put("testsets/x.sealed", b"")  # the folder is there before its journal
    files.append("testsets/x.journal", ["one", "two"])
    assert sorted(files.lines("testsets/x.journal")) == ["one", "two"]
    other = open_files(place)
    other.append("testsets/x.journal", ["three"])
    assert sorted(files.lines("testsets/x.journal")) == ["one", "three", "two"]
    assert sorted(other.lines("testsets/x.journal")) == ["one", "three", "two"]
    # The audit finds journals by their names.
    assert files.names("testsets") == ["x.journal", "x.sealed"]


def test_a_journal_may_be_the_first_file_of_its_folder(files: Files) -> None:
    """A restore brings the files of a backup in the order of their names."""
    files.append("testsets/0.journal", ["one"], 1)
    assert (files.lines("testsets/0.journal"), files.total("testsets/0.journal")) == (["one"], 1)


def test_writers_of_one_journal_at_once(files: Files, place: str) -> None:
    files.put("x", b"")

    def write(writer: int) -> None:
        own = open_files(place)
        for number in range(10):
            own.append("j.journal", [f"{writer}-{number}"])

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(write, range(4)))
    expected = sorted(f"{writer}-{number}" for writer in range(4) for number in range(10))
    assert sorted(files.lines("j.journal")) == expected


def test_the_total_noted_with_the_last_lines(files: Files, place: str) -> None:
    files.put("x", b"")
    assert files.total("j.journal") == 0
    files.append("j.journal", ["one", "two"], 2)
    assert open_files(place).total("j.journal") == 2
    files.append("j.journal", ["three"], 3)
    assert files.total("j.journal") == 3
    assert sorted(files.lines("j.journal")) == ["one", "three", "two"]


def test_the_total_of_a_long_journal(files: Files, place: str) -> None:
    files.put("x", b"")  # the folder is there before its journal
    for total in (1, 999, 1000, 2500, 2400):
        files.append("j.journal", [f"line {total}"], total)
    # The last lines were late: those up to 2500 had come before.
    assert files.total("j.journal") == 2500
    assert len(files.lines("j.journal")) == 5
    assert len(open_files(place).lines("j.journal")) == 5


def test_the_total_does_not_go_back_behind_a_line_that_was_cut_short(tmp_path: Path) -> None:
    files = FolderFiles(tmp_path)
    files.append("j.journal", ["one", "two", "three"], 3)
    with (tmp_path / "j.journal").open("ab") as file:
        file.write(b'\n{"answer": "1", "ste')
    files.append("j.journal", ["two"], 2)
    assert files.total("j.journal") == 3


def test_the_total_of_writers_at_once_is_the_largest(files: Files, place: str) -> None:
    files.put("x", b"")

    def write(writer: int) -> None:
        own = open_files(place)
        for total in range(writer + 1, 41, 4):
            own.append("j.journal", [f"line {total}"], total)

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(write, range(4)))
    assert files.total("j.journal") == 40
    assert len(files.lines("j.journal")) == 40


def test_a_file_system_without_locks_keeps_journals_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_locks(*_: Any) -> None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    monkeypatch.setattr(fcntl, "flock", no_locks)
    files = FolderFiles(tmp_path)
    for total in (1, 3, 2):
        files.append("j.journal", [f"line {total}"], total)
    assert (len(files.lines("j.journal")), files.total("j.journal")) == (3, 3)


def test_lines_without_a_total_leave_it_unknown(files: Files) -> None:
    files.put("x", b"")
    files.append("j.journal", ["one", "two"])
    assert files.total("j.journal") is None
    files.append("j.journal", ["three"], 3)
    assert files.total("j.journal") == 3


@pytest.mark.parametrize(
    "added", [b"\n#4", b"#", b"\n", b"\nx\n", b'\n{"a": 1}\n', b"\n#x\n", b"\xff", b"x" * 100]
)
def test_a_journal_cut_short_or_written_by_others_has_no_total(
    tmp_path: Path, added: bytes
) -> None:
    files = FolderFiles(tmp_path)
    files.append("j.journal", ["one", "two", "three"], 3)
    with (tmp_path / "j.journal").open("ab") as file:
        file.write(added)
    assert files.total("j.journal") is None
    files.append("j.journal", ["four"], 4)
    assert files.total("j.journal") == 4
    assert {"one", "two", "three", "four"} <= set(files.lines("j.journal"))


def test_a_line_that_does_not_fit_on_the_disk_is_not_taken_for_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, real = FolderFiles(tmp_path), os.write
    monkeypatch.setattr(os, "write", lambda handle, data: real(handle, data[:3]))
    with pytest.raises(FilesUnusable, match=r"j\.journal: No space left.*: fix that") as refused:
        files.append("j.journal", ["one"], 1)
    assert "\n" not in str(refused.value)
    assert files.total("j.journal") is None


@pytest.mark.parametrize("name", ["/etc/passwd", "../x", "a/../../x"])
def test_names_that_leave_the_folder(files: Files, name: str) -> None:
    deeds: list[Any] = [files.read, files.exists, files.remove, files.location, files.under]
    for deed in [*deeds, files.names, files.lines, lambda name: files.put(name, b"")]:
        with pytest.raises(InvalidInput, match="a relative name"):
            deed(name)


def test_a_bucket_that_is_not_there(s3_address: str) -> None:
    files = open_files("s3://nobody-made-this-bucket/meter")
    with pytest.raises(FilesUnusable, match="check what was already done") as refused:
        files.put("a", b"")
    assert "\n" not in str(refused.value)


def test_a_store_that_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: Any, **__: Any) -> Iterator[None]:
        raise ConnectionError("no route to host\nand more")

    files = RemoteFiles("memory://x")
    monkeypatch.setattr(files._system, "pipe_file", away)
    with pytest.raises(FilesUnusable, match="no route to host: fix that") as refused:
        files.put("a", b"")
    # It may be asked for after a commit: nobody here knows whether anything was changed.
    assert str(refused.value).endswith("and check what was already done before you try again")
    assert "\n" not in str(refused.value)


def test_a_url_that_nobody_knows() -> None:
    with pytest.raises(InvalidInput, match="nonsense://x") as refused:
        open_files("nonsense://x")
    assert "\n" not in str(refused.value)


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(FilesUnusable, match="and check what was already done before you try again"):
        FolderFiles(tmp_path / "file").put("a", b"")
    with pytest.raises(FilesUnusable, match="and check what was already done before you try again"):
        FolderFiles(tmp_path / "file").append("a", [""])
