"""No plain label on disk, at any time; no file under its name before it is whole."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from easeml_meter.vault.keys import Identity

MARKER = "marker-label"

PREAMBLE = """
import os, signal, sys
from datetime import UTC, datetime
from pathlib import Path

from pyarrow.parquet import ParquetWriter as Writer

from easeml_meter.errors import MeterError
from easeml_meter.vault.keys import Identity
from easeml_meter.vault.sealing import SealedTestSet, seal

source, destination, recipient = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]

def run(**changed):
    given = dict(meter="cats", generation=1, label="kind", recipients=[recipient])
    return seal(source, destination, **{**given, "row_group_size": 1000, **changed})

def after(count, function):
    left = [count]
    def wrapped(*given, **named):
        left[0] -= 1
        if left[0] < 0:
            stop()
        return function(*given, **named)
    return wrapped

def stop():
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("in", "out", "tmp"):
        (tmp_path / name).mkdir()
    return tmp_path


@pytest.fixture
def source(folder: Path) -> Path:
    """Labels that can be looked for, as text and as numbers that show as text in memory."""
    path = folder / "in" / "source.csv"
    rows = (f"{i},text {i},{MARKER}-{i % 3}" for i in range(5000))
    path.write_text("n,input,kind\n" + "\n".join(rows) + "\n")
    return path


def python(
    code: str, source: Path, folder: Path, recipient: str
) -> subprocess.CompletedProcess[str]:
    """Run `code` in a process of its own, whose temporary folder is watched."""
    return subprocess.run(
        [sys.executable, "-c", PREAMBLE + code, source, folder / "out" / "cats.sealed", recipient],
        env={**os.environ, "TMPDIR": str(folder / "tmp"), "PYTHONDONTWRITEBYTECODE": "1"},
        cwd=folder / "tmp",
        capture_output=True,
        text=True,
        check=False,
    )


def written(folder: Path) -> dict[str, bytes]:
    """Every file outside the folder the labeler gave."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for name in ("out", "tmp")
        for path in (folder / name).rglob("*")
        if path.is_file()
    }


def assert_sealed(content: bytes) -> None:
    for secret in (MARKER, "text 1", "input", "kind"):
        for encoded in (secret.encode(), secret.encode("utf-16-le")):
            assert encoded not in content


def test_the_only_file_written_is_encrypted(
    folder: Path, source: Path, meter_key: Identity
) -> None:
    code = """
opened = []
def audit(event, given):
    writes = event == "open" and (given[2] or 0) & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
    if writes and not isinstance(given[0], int):
        opened.append(str(given[0]))
sys.addaudithook(audit)
run()
print("\\n".join(opened))
"""
    done = python(code, source, folder, meter_key.recipient)
    assert done.returncode == 0, done.stderr
    (temporary,) = done.stdout.split()
    assert Path(temporary).parent == folder / "out"
    files = written(folder)
    assert list(files) == ["out/cats.sealed"]
    assert_sealed(files["out/cats.sealed"])


def test_numbers_are_hidden_too(folder: Path, meter_key: Identity) -> None:
    marker = int.from_bytes(b"MARKER42", "little")
    source = folder / "in" / "source.parquet"
    pq.write_table(pa.table({"kind": np.full(5000, marker)}), source, compression="none")
    assert b"MARKER42" in source.read_bytes()
    assert python("run()", source, folder, meter_key.recipient).returncode == 0
    assert b"MARKER42" not in written(folder)["out/cats.sealed"]


FAILURES = {
    "a row is broken late": """
with source.open("a") as stream:
    stream.write("1,2\\n")
run()
""",
    "the disk is full": """
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (9000, 9000))
run()
""",
    "the disk is full at the end": """
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, 30_000))
run()
""",
    "nothing may be written there": """
os.link = lambda *given: (_ for _ in ()).throw(PermissionError(13, "Permission denied"))
run()
""",
    "interrupted": """
def stop():
    raise KeyboardInterrupt
Writer.write_table = after(2, Writer.write_table)
run()
""",
}


@pytest.mark.parametrize("failure", FAILURES)
def test_a_failure_midway_leaves_nothing(
    folder: Path, source: Path, meter_key: Identity, failure: str
) -> None:
    caught = "\n".join("    " + line for line in FAILURES[failure].splitlines())
    code = f"try:\n{caught}\nexcept (MeterError, KeyboardInterrupt) as error:\n    print(error)"
    done = python(code, source, folder, meter_key.recipient)
    assert (done.returncode, done.stderr) == (0, "")
    assert len(done.stdout.splitlines()) == 1
    assert MARKER not in done.stdout
    assert written(folder) == {}


KILLED = {
    "in the first row group": "Writer.write_table = after(0, Writer.write_table)",
    "between row groups": "Writer.write_table = after(3, Writer.write_table)",
    "before the footer": "Writer.close = after(0, Writer.close)",
    "before it is on disk": "os.fsync = after(0, os.fsync)",
    "before it is named": "os.link = after(0, os.link)",
}


@pytest.mark.parametrize("moment", KILLED)
def test_a_kill_leaves_no_file_under_the_name(
    folder: Path, source: Path, meter_key: Identity, moment: str
) -> None:
    done = python(KILLED[moment] + "\nrun()", source, folder, meter_key.recipient)
    assert done.returncode == -signal.SIGKILL
    files = written(folder)
    assert len(files) == 1
    ((name, content),) = files.items()
    assert name.startswith("out/.")
    assert name.endswith(".part")
    assert_sealed(content)
    assert python("run()", source, folder, meter_key.recipient).returncode == 0


@pytest.mark.parametrize("moment", ["write_batch", "fsync", "link"])
def test_a_kill_during_release_leaves_no_file_under_the_name(
    folder: Path, source: Path, tmp_path: Path, moment: str
) -> None:
    key = Identity.new()
    key.write(tmp_path / "key")
    assert python("run()", source, folder, key.recipient).returncode == 0
    patched = {
        "write_batch": "Writer.write_batch = after(2, Writer.write_batch)",
        "fsync": "os.fsync = after(0, os.fsync)",
        "link": "os.link = after(0, os.link)",
    }
    code = f"""
{patched[moment]}
key = Identity.read(Path({str(tmp_path / "key")!r}))
with SealedTestSet.open(destination, key, meter="cats", generation=1) as sealed:
    sealed.export(destination.with_suffix(".parquet"))
"""
    done = python(code, source, folder, key.recipient)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert not (folder / "out" / "cats.parquet").exists()


def test_memory_does_not_grow_with_the_rows(folder: Path, meter_key: Identity) -> None:
    """Four times the rows, the same peak: a row group, and not the table, is in memory."""
    peaks = []
    code = """
run(row_group_size=1 << 17)
status = Path("/proc/self/status").read_text()
print(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM")))
"""
    for rows in (250_000, 1_000_000):
        source = folder / "in" / f"{rows}.parquet"
        numbers = np.arange(rows) % 1000
        columns = {f"x{i}": numbers * (0.5 + i) for i in range(24)}
        pq.write_table(pa.table({**columns, "kind": numbers % 10}), source)
        done = python(code, source, folder, meter_key.recipient)
        assert done.returncode == 0, done.stderr
        peaks.append(int(done.stdout) / 1024)
        (folder / "out" / "cats.sealed").unlink()
    table = 1_000_000 * 25 * 8 / 2**20
    assert peaks[1] - peaks[0] < table / 2, peaks
    assert peaks[1] < 500, peaks


def test_only_the_vault_encrypts() -> None:
    package = Path(__file__).parents[2] / "src" / "easeml_meter"
    users = {
        str(path.relative_to(package))
        for path in package.rglob("*.py")
        if any(word in path.read_text() for word in ("import pyrage", "import encryption"))
    }
    assert users == {"vault/keys.py", "vault/containers.py"}
