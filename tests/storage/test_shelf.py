"""A shelf: contents by their digest, backups by their name, in a folder or a bucket."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from easeml_meter.errors import InvalidInput
from easeml_meter.storage.shelf import Shelf


@pytest.fixture(params=["folder", "s3_url"])
def shelf(request: pytest.FixtureRequest, tmp_path: Path) -> Shelf:
    if request.param == "folder":
        return Shelf.at(tmp_path / "shelf")
    return Shelf.at(request.getfixturevalue("s3_url"))


def test_a_content_is_kept_once_and_comes_back(shelf: Shelf) -> None:
    digest = shelf.put([b"one", b"two"])
    assert digest == hashlib.sha256(b"onetwo").hexdigest()
    assert shelf.put([b"onetwo"]) == digest
    assert shelf.contents() == [digest]
    with shelf.open(digest) as stream:
        assert stream.read() == b"onetwo"
    with pytest.raises(FileNotFoundError):
        shelf.open("0" * 64)


def test_the_newest_manifest_is_found_unless_another_is_named(shelf: Shelf) -> None:
    with pytest.raises(InvalidInput, match="no backup there"):
        shelf.manifest()
    shelf.add("2.json", b"new")
    shelf.add("1.json", b"old")
    assert (shelf.manifest(), shelf.manifest("1.json")) == (b"new", b"old")
    with pytest.raises(InvalidInput, match=r"the newest is 2\.json"):
        shelf.manifest("3.json")


def test_what_somebody_else_left_there_is_no_backup(shelf: Shelf) -> None:
    shelf.add("1.json", b"old")
    shelf.add("zzz", b"a note")
    assert shelf.names() == ["1.json"]
    assert shelf.manifest() == b"old"


def test_what_is_dropped_takes_along_what_nobody_keeps(shelf: Shelf) -> None:
    kept, gone = shelf.put([b"kept"]), shelf.put([b"gone"])
    shelf.add("1.json", b"old")
    shelf.add("2.json", b"new")
    shelf.drop(["1.json"], {kept})
    assert shelf.names() == ["2.json"]
    assert shelf.contents() == [kept]
    assert gone not in shelf.contents()


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_a_shelf_in_a_folder_is_for_its_owner_alone(tmp_path: Path, umask: int) -> None:
    """A backup has the books, validation sets, and with --with-key the server's key."""
    before = os.umask(umask)
    try:
        shelf = Shelf.at(tmp_path / "shelf" / "nightly")
        shelf.put([b"content"])
        shelf.add("1.json", b"manifest")
    finally:
        os.umask(before)
    made = [tmp_path / "shelf", *(tmp_path / "shelf").rglob("*")]
    modes = {str(path.relative_to(tmp_path)): path.stat().st_mode & 0o777 for path in made}
    assert len(modes) == 6
    assert {modes[str(path.relative_to(tmp_path))] for path in made if path.is_dir()} == {0o700}
    assert {modes[str(path.relative_to(tmp_path))] for path in made if path.is_file()} == {0o600}


def test_a_folder_that_somebody_made_keeps_its_mode(tmp_path: Path) -> None:
    (tmp_path / "shelf").mkdir(mode=0o755)
    (tmp_path / "shelf").chmod(0o755)
    Shelf.at(tmp_path / "shelf").put([b"content"])
    assert (tmp_path / "shelf").stat().st_mode & 0o777 == 0o755
    assert (tmp_path / "shelf" / "contents").stat().st_mode & 0o777 == 0o700


def test_a_content_that_went_bad_is_written_afresh(shelf: Shelf, tmp_path: Path) -> None:
    digest = shelf.put([b"content"])
    shelf._files.put(f"contents/{digest}", b"content, and a byte more")
    assert shelf.put([b"content"], afresh={digest}) == digest
    with shelf.open(digest) as stream:
        assert stream.read() == b"content"
