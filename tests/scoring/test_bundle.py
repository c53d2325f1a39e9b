"""Bundles: canonical, so that their hash is the submission's; nothing in them leads elsewhere."""

from __future__ import annotations

import hashlib
import io
import os
import pickle
import subprocess
import sys
import tarfile
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from easeml_meter.errors import InvalidInput
from easeml_meter.scoring import bundle as module
from easeml_meter.scoring.bundle import Bundle, BundledFile
from easeml_meter.tables.archive import File, pack

PREDICT = BundledFile("predict.py", b"print('hello')\n")
MODEL = BundledFile("parts/model.bin", bytes(range(256)))
TOOL = BundledFile("tool", b"#!/bin/sh\n", executable=True)
WHOLE = Bundle("python predict.py --fast", (MODEL, PREDICT, TOOL))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    found = tmp_path / "some folder"
    found.mkdir()
    WHOLE.unpack(found)
    return found


def test_the_bytes_are_a_plain_tar() -> None:
    made = Bundle("./t", (BundledFile("t", b"ab", True), BundledFile("ü", b"c")))
    with tarfile.open(fileobj=io.BytesIO(made.to_bytes())) as opened:
        found = [(each.name, each.mode, each.mtime) for each in opened]
        assert found == [("command", 0o600, 0), ("files/t", 0o700, 0), ("files/ü", 0o600, 0)]
        contents = [opened.extractfile(each) for each in opened.getmembers()]
        assert [each and each.read() for each in contents] == [b"./t", b"ab", b"c"]


def test_the_digest_is_of_the_content_and_not_of_the_archive() -> None:
    made = Bundle("./t", (BundledFile("t", b"ab", True), BundledFile("ü", b"c")))
    header = b'{"command": "./t", "files": [["t", 2, true], ["\\u00fc", 1, false]]}'
    content = b"easeml-meter bundle 1\n" + len(header).to_bytes(8, "big") + header + b"abc"
    assert made.digest == hashlib.sha256(content).hexdigest()
    assert Bundle.from_bytes(made.to_bytes()).digest == made.digest


def test_bytes_and_pickles_give_the_same_bundle_back() -> None:
    assert Bundle.from_bytes(WHOLE.to_bytes()) == WHOLE
    assert pickle.loads(pickle.dumps(WHOLE)) == WHOLE  # noqa: S301
    assert Bundle.from_bytes(Bundle("true").to_bytes()) == Bundle("true")


@pytest.mark.parametrize(
    "other",
    [
        Bundle("python predict.py", WHOLE.files),
        Bundle(WHOLE.command, (MODEL, PREDICT)),
        Bundle(WHOLE.command, (MODEL, PREDICT, BundledFile("tool", TOOL.content))),
        Bundle(WHOLE.command, (MODEL, PREDICT, BundledFile("tools", TOOL.content, True))),
        Bundle(WHOLE.command, (MODEL, PREDICT, BundledFile("tool", b"#!/bin/bash\n", True))),
    ],
)
def test_every_difference_counts(other: Bundle) -> None:
    assert other.digest != WHOLE.digest


names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=5)


@given(st.dictionaries(names, st.tuples(st.binary(max_size=20), st.booleans()), max_size=4))
def test_any_bundle_that_can_be_made_survives(contents: dict[str, tuple[bytes, bool]]) -> None:
    try:
        files = tuple(BundledFile(name, *contents[name]) for name in sorted(contents))
    except InvalidInput:
        return
    made = Bundle("run it", files)
    assert Bundle.from_bytes(made.to_bytes()) == made


@given(st.data())
def test_no_changed_byte_changes_a_bundle_unnoticed(data: st.DataObject) -> None:
    written = bytearray(WHOLE.to_bytes())
    at = data.draw(st.integers(0, len(written) - 1))
    written[at] ^= data.draw(st.integers(1, 255))
    with suppress(InvalidInput):
        found = Bundle.from_bytes(bytes(written))
        assert (found == WHOLE) == (found.digest == WHOLE.digest)


# --- Collecting ---


def test_files_named_in_the_command_are_taken(folder: Path) -> None:
    found = Bundle.collect("python predict.py --fast nothing", folder=folder)
    assert found.files == (PREDICT,)
    assert Bundle.collect("'./tool' parts/model.bin", folder=folder).files == (MODEL, TOOL)


def test_folders_are_taken_whole_and_twice_is_once(folder: Path) -> None:
    (folder / "parts" / "__pycache__").mkdir()
    (folder / "parts" / "__pycache__" / "left.pyc").write_bytes(b"over")
    files = [Path("parts"), folder / "tool", Path("parts/model.bin")]
    assert Bundle.collect(WHOLE.command, files, folder) == WHOLE
    assert Bundle.collect(WHOLE.command, [Path(".")], folder) == WHOLE
    assert Bundle.collect(WHOLE.command, [folder], folder) == WHOLE


def test_the_folder_is_where_one_stands(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder / "parts")
    assert Bundle.collect("cat model.bin").files == (BundledFile("model.bin", MODEL.content),)
    (folder.parent / "linked").symlink_to(folder)
    linked = folder.parent / "linked"  # how one gets to the folder is one's own business
    assert Bundle.collect(WHOLE.command, [Path("."), Path("tool")], linked) == WHOLE


def test_times_and_order_do_not_count(folder: Path) -> None:
    os.utime(folder / "predict.py", (1, 1))
    (folder / "predict.py").chmod(0o600)
    files = [Path("tool"), Path("parts")]
    assert Bundle.collect(WHOLE.command, files, folder).digest == WHOLE.digest
    assert Bundle.collect(WHOLE.command, files[::-1], folder).digest == WHOLE.digest


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("../outside", "outside of"),
        ("parts/../../outside", "outside of"),
        ("/etc/passwd", "outside of"),
        ("absent", "No such file"),
        ("link", "a symbolic link"),
        ("linked", "a symbolic link"),
        ("linked/model.bin", "a symbolic link"),
        ("pipe", "neither a file nor a folder"),
        (".", "a symbolic link|neither a file"),
    ],
)
def test_what_leads_elsewhere_is_refused(folder: Path, name: str, line: str) -> None:
    (folder.parent / "outside").write_bytes(b"of it")
    (folder / "link").symlink_to("predict.py")
    (folder / "linked").symlink_to("parts")
    os.mkfifo(folder / "pipe")
    with pytest.raises(InvalidInput, match=line):
        Bundle.collect("python predict.py", [Path(name)], folder)


@pytest.mark.parametrize(
    ("command", "line"),
    [
        ("python ../outside", "outside of"),
        ("python link", "a symbolic link"),
        ("python FOLDER/predict.py", r"a relative name needed: 'predict\.py'"),
        ("python 'predict.py", "No closing quotation"),
        ("", "such as python predict.py"),
        ("''", "such as python predict.py"),
        ("python \0", "such as python predict.py"),
        ("x" * 20_000, "10,000 characters at most"),
    ],
)
def test_commands_that_cannot_work_are_refused(folder: Path, command: str, line: str) -> None:
    (folder.parent / "outside").write_bytes(b"of it")
    (folder / "link").symlink_to("predict.py")
    with pytest.raises(InvalidInput, match=line):
        Bundle.collect(command.replace("FOLDER", f"'{folder}'"), (), folder)


def test_programs_of_the_system_stay_where_they_are(folder: Path) -> None:
    assert Bundle.collect("/bin/cat /etc/passwd", folder=folder).files == ()


def test_what_is_too_large_is_refused_before_it_is_read(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (folder / "huge").open("wb") as file:
        file.truncate(module.MOST_BYTES + 1)
    with pytest.raises(InvalidInput, match="512 MB given, 512 MB at most"):
        Bundle.collect("cat huge", folder=folder)
    (folder / "huge").unlink()
    monkeypatch.setattr(module, "MOST_FILES", 2)
    with pytest.raises(InvalidInput, match="3 given, 2 at most"):
        Bundle.collect("true", [Path(".")], folder)


# --- Reading what a stranger sent ---


def tar(command: bytes | None = b"true", **files: bytes) -> bytes:
    contents = {name.replace("_", "/"): File(content) for name, content in files.items()}
    return pack(contents if command is None else {"command": File(command), **contents})


def _named(name: str) -> bytes:
    """Pack a bundle with a file of this name, which `pack` would refuse."""
    written = b""
    for member, content in (("command", b"true"), (f"files/{name}", b"x")):
        info = tarfile.TarInfo(member)
        info.size, info.mode = len(content), 0o600
        written += info.tobuf(tarfile.GNU_FORMAT) + content.ljust(512, b"\0")
    return written + bytes(1024)


NAMES = ["/etc/passwd", "../x", "a/../../x", ".", "..", "", "a//b", "a/", "./a", "a\nb"]
FORGERIES: dict[str, bytes] = {
    "no command": tar(None, files_name=b"x"),
    "an empty command": tar(b""),
    "a command of other bytes": tar(b"\xff"),
    "another file": tar(other=b"x"),
    "another folder": tar(other_name=b"x"),
    "a file and a folder": tar(files_a=b"x", files_a_b=b"x"),
    "cut": WHOLE.to_bytes()[:1600],
    "changed": WHOLE.to_bytes().replace(b"parts", b"party"),
    "nothing": b"",
    "no tar": b"predict.py".ljust(512, b"\0"),
    **{f"named {name!r}": _named(name) for name in [*NAMES, "x" * 300, "x/" * 600]},
}


@pytest.mark.parametrize("data", FORGERIES.values(), ids=FORGERIES)
def test_forgeries_are_refused(data: bytes) -> None:
    with pytest.raises(InvalidInput) as caught:
        Bundle.from_bytes(data)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


def test_too_many_files_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    data = WHOLE.to_bytes()
    monkeypatch.setattr(module, "MOST_BYTES", 100)
    with pytest.raises(InvalidInput, match="at most"):
        Bundle.from_bytes(data)
    monkeypatch.setattr(module, "MOST_FILES", 2)
    with pytest.raises(InvalidInput, match="files: 3 given, 2 at most"):
        Bundle.from_bytes(data)


# --- Unpacking ---


def test_unpacked_files_are_as_they_were(folder: Path) -> None:
    assert Bundle.collect(WHOLE.command, [Path(".")], folder) == WHOLE


def test_unpacked_files_can_be_read_by_all_whatever_the_umask(tmp_path: Path) -> None:
    folder = tmp_path / "unpacked"
    folder.mkdir()
    (tmp_path / "bundle").write_bytes(WHOLE.to_bytes())
    program = (
        "import os, sys; from pathlib import Path; os.umask(0o077)\n"
        "from easeml_meter.scoring.bundle import Bundle\n"
        "Bundle.from_bytes(Path(sys.argv[1]).read_bytes()).unpack(Path(sys.argv[2]))"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "bundle"), str(folder)]
    subprocess.run(command, check=True)
    modes = {path.name: path.stat().st_mode & 0o777 for path in (folder, *folder.rglob("*"))}
    expected = {"unpacked": 0o755, "parts": 0o755, "tool": 0o755}
    assert modes == {**expected, "model.bin": 0o644, "predict.py": 0o644}


def test_nothing_is_unpacked_over_another_file(tmp_path: Path) -> None:
    (tmp_path / "tool").write_text("mine")
    with pytest.raises(FileExistsError):
        WHOLE.unpack(tmp_path)
    assert (tmp_path / "tool").read_text() == "mine"
