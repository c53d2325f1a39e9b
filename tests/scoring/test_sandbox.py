"""Running commands in the sandbox: what they are given, what they answer, and what is left."""

from __future__ import annotations

import os
import pickle
import select
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.scoring.probes import bundle, predictions, run, works_inside

from easeml_meter.errors import InvalidInput
from easeml_meter.scoring.bundle import Bundle, BundledFile
from easeml_meter.scoring.command import CommandModel, clear_runs
from easeml_meter.scoring.predictor import Limits, ModelFailed, Predictor, SandboxUnavailable
from easeml_meter.scoring.sandbox import check_out_of_sight, missing
from easeml_meter.tables import apart

DOUBLE = """
import sys
import pyarrow as pa
import pyarrow.compute as pc

answers = pa.schema([("prediction", pa.float64())])
with pa.ipc.open_stream(sys.stdin.buffer) as inputs:
    with pa.ipc.new_stream(sys.stdout.buffer, answers) as output:
        for batch in inputs:
            output.write_batch(pa.record_batch([pc.multiply(batch["x"], 2.0)], schema=answers))
            sys.stdout.flush()
"""
SOME = """
import sys
import pyarrow as pa

table = pa.ipc.open_stream(sys.stdin.buffer).read_all()
rows = ROWS
with pa.ipc.new_stream(sys.stdout.buffer, pa.schema([("prediction", pa.int64())])) as output:
    output.write_batch(pa.record_batch([pa.array([0] * rows, pa.int64())], names=["prediction"]))
    THEN
"""


def batches(count: int, rows: int = 1000) -> list[Any]:
    values = np.arange(count * rows, dtype=np.float64).reshape(count, rows)
    return [pa.record_batch({"x": each}) for each in values]


# --- Answers ---


@pytest.mark.parametrize(("count", "rows"), [(1, 1), (3, 1000), (40, 30_000), (2, 0)])
def test_answers_are_streamed_in_order(count: int, rows: int) -> None:
    given = batches(count, rows)
    found = list(run(DOUBLE, *given))
    assert predictions(found) == [2.0 * value for value in range(count * rows)]


def test_it_is_a_predictor_and_can_be_sent_elsewhere() -> None:
    model: Predictor = CommandModel(bundle(DOUBLE))
    again = pickle.loads(pickle.dumps(model))  # noqa: S301
    assert again.digest == model.digest == bundle(DOUBLE).digest
    (given,) = batches(1, 3)
    again.check(given.schema)
    assert predictions(again.predict(given.schema, [given], Limits(), hidden=True)) == [0, 2, 4]


def test_the_first_answer_comes_before_the_last_input() -> None:
    answered = threading.Event()

    def slowly() -> Iterator[Any]:
        yield given[0]
        assert answered.wait(60)
        yield given[1]

    given = batches(2)
    answers = run(DOUBLE, *given, inputs=slowly())
    first = next(answers)
    answered.set()
    assert predictions([first, *answers]) == [2.0 * value for value in range(2000)]


def test_any_program_will_do_and_keeps_its_executable_bit() -> None:
    (given,) = batches(1, 3)
    script = BundledFile("run it", b"#!/bin/sh\nexec cat\n", executable=True)
    echo = CommandModel(Bundle("'./run it'", (script,)))
    assert predictions(echo.predict(given.schema, [given], Limits(), hidden=False)) == [0, 1, 2]


def test_the_words_of_a_command_are_no_shell() -> None:
    tool = "import sys; sys.exit(0 if sys.argv[1:] == ['$(id)', '; false', '*'] else 9)"
    files = (BundledFile("tool.py", tool.encode()),)
    model = CommandModel(Bundle("python tool.py '$(id)' '; false' '*'", files))
    with pytest.raises(ModelFailed, match="no predictions written"):
        list(model.predict(batches(1)[0].schema, batches(1), Limits(), hidden=False))


def test_python_is_the_meters_own() -> None:
    assert works_inside("return sys.prefix == TARGET", sys.prefix)
    assert works_inside("return sys.version == TARGET", sys.version)
    assert works_inside("return os.getcwd() == '/submission' and os.getuid() == 1000")


@pytest.mark.parametrize("name", ["OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"])
def test_a_command_is_told_how_many_threads_to_use(name: str) -> None:
    assert works_inside("return os.environ[TARGET] == '3'", name, Limits(threads=3))


@pytest.fixture(autouse=True)
def _helper() -> None:
    """Have the process there that forks children who read: it stays."""
    apart.start()


# --- Wrong answers ---


@pytest.mark.parametrize(
    ("rows", "then", "reason"),
    [
        ("len(table) - 1", "", "1,999 predictions written, 2,000 needed"),
        ("0", "", "0 predictions written, 2,000 needed"),
        ("len(table) + 1", "", "more predictions written than there are rows of input"),
        ("len(table)", "output.close(); print('done')", "after the end of the Arrow stream"),
        ("len(table)", "output.close(); sys.exit(4)", r"exit code 4$"),
        ("len(table)", "import os; os.kill(os.getpid(), 11)", r"exit code 139 \(SIGSEGV\)$"),
        ("len(table)", "print('so far', flush=True)", "only an Arrow stream may .* b'so far"),
        ("len(table)", "raise ValueError('no\\n\\x1b[1m such')", r"stderr: .*: no \[1m such$"),
    ],
)
def test_wrong_answers_are_failures(rows: str, then: str, reason: str) -> None:
    program = SOME.replace("ROWS", rows).replace("THEN", then)
    with pytest.raises(ModelFailed, match=reason) as caught:
        list(run(program, *batches(2)))
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 700


def test_the_right_number_of_answers_is_none() -> None:
    program = SOME.replace("ROWS", "len(table)").replace("THEN", "pass")
    assert predictions(run(program, *batches(2))) == [0] * 2000


def test_a_command_that_is_not_there_is_a_failure() -> None:
    (given,) = batches(1)
    with pytest.raises(ModelFailed, match=r"exit code 127.*absent.*No such file"):
        list(CommandModel(Bundle("absent")).predict(given.schema, [given], Limits(), hidden=False))


@pytest.mark.parametrize("count", [1, 200])
def test_inputs_may_be_left_unread(count: int) -> None:
    program = SOME.replace("table = ", "# ").replace("ROWS", str(10_000 * count))
    given = batches(count, 10_000)
    found = predictions(run("import os; os.close(0)\n" + program.replace("THEN", ""), *given))
    assert found == [0] * 10_000 * count
    with pytest.raises(ModelFailed, match=rf"{10_000 * count:,} predictions written"):
        list(run(program.replace("THEN", ""), *given, given[0]))


def test_trouble_with_the_inputs_is_not_the_models() -> None:
    def broken() -> Iterator[Any]:
        yield given[0]
        raise InvalidInput("the disk is gone")

    given = batches(1)
    with pytest.raises(InvalidInput, match="the disk is gone") as caught:
        list(run(DOUBLE, *given, inputs=broken(), hidden=True))
    assert not isinstance(caught.value, ModelFailed)


# --- Nothing is left ---


def traces() -> set[object]:
    """Give what a run could leave behind: files, mounts, open files, threads and processes.

    What went away meanwhile is of no interest, nor are the namespaces of other tests: only what
    came may be asked for.
    """
    return {
        *Path(tempfile.gettempdir()).glob("meter-runs-*/*"),
        *(mount for mount in mounts() if " /run/netns" not in mount),
        *open_files(),
        *threading.enumerate(),
        *children_of(os.getpid()),
    }


def open_files() -> Iterator[str]:
    for path in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # closed by now, as is the one that listed the folder
            yield f"open {path.name} {path.readlink()}"  # two may lead to the same place


def mounts() -> list[str]:
    return Path("/proc/self/mountinfo").read_text().splitlines()


@pytest.mark.parametrize("hidden", [False, True])
@pytest.mark.parametrize(
    ("program", "seconds"),
    [(DOUBLE, 60), ("import time; time.sleep(1000)", 0.3), ("import absent", 60), ("print(1)", 60)],
    ids=["good", "slow", "broken", "garbage"],
)
def test_a_run_leaves_nothing_behind(
    program: str, seconds: float, hidden: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    before = traces()
    for _ in range(2):
        try:
            assert list(run(program, *batches(3), hidden=hidden, limits=Limits(seconds=seconds)))
        except ModelFailed:
            assert program != DOUBLE
    assert traces() <= before


def test_closing_ends_a_run_that_would_go_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def endless() -> Iterator[Any]:
        while True:
            yield from batches(1)

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    before = traces()
    answers: Any = run(DOUBLE, *batches(1), inputs=endless(), limits=Limits(seconds=600))
    assert len(next(answers)) == 1000
    assert not traces() <= before
    answers.close()
    assert traces() <= before


def test_what_is_raised_while_it_runs_ends_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    before = traces()
    answers: Any = run(DOUBLE, *batches(2))
    next(answers)
    with pytest.raises(KeyboardInterrupt):
        answers.throw(KeyboardInterrupt)
    assert traces() <= before


IN_ANOTHER_PROCESS = """
import ctypes, os, sys
sys.path[:0] = [sys.argv[1], sys.argv[1] + "/src"]
from easeml_meter.tables import apart
from tests.scoring.probes import bundle, run
from tests.scoring.test_escapes import ONE, STAY, WAIT_AFTER_ONE
"""
KILLED = """
answers = run(bundle(WAIT_AFTER_ONE + "#" + sys.argv[2], answer=ONE))
print(len(next(answers)), flush=True)
next(answers)
"""
TAKES_ORPHANS = """
ctypes.CDLL(None).prctl(36, 1)  # PR_SET_CHILD_SUBREAPER
program = STAY.replace("MARKER", repr(sys.argv[2]))
print(sum(len(batch) for batch in run(bundle(program, answer=ONE))))
apart._helper._end()  # it stays, to fork the next child that reads
try:
    print(os.waitpid(-1, os.WNOHANG))
except ChildProcessError:
    print("no child")
"""


def elsewhere(program: str, folder: Path) -> subprocess.Popen[str]:
    root = str(Path(__file__).parents[2])
    return subprocess.Popen(
        [sys.executable, "-c", IN_ANOTHER_PROCESS + program, root, str(folder)],
        env={**os.environ, "TMPDIR": str(folder)},
        stdout=subprocess.PIPE,
        text=True,
    )


def test_it_ends_with_the_meter_even_if_that_is_killed(tmp_path: Path) -> None:
    with elsewhere(KILLED, tmp_path) as meter:
        assert meter.stdout
        assert meter.stdout.readline() == "1\n"
        (first,) = (
            int(child)
            for bubblewrap in children_of(meter.pid)
            if Path(f"/proc/{bubblewrap}/comm").read_text() == "bwrap\n"
            for child in children_of(bubblewrap)
        )
        held = os.pidfd_open(first)
        meter.kill()
    ended, _, _ = select.select([held], [], [], 60)
    os.close(held)
    assert ended


def children_of(pid: int) -> list[int]:
    found = [path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/children")]
    return [int(child) for child in " ".join(found).split()]


def test_orphans_do_not_stay_either_where_they_come_to_the_meter(tmp_path: Path) -> None:
    with elsewhere(TAKES_ORPHANS, tmp_path) as meter:
        assert meter.communicate()[0] == "1\nno child\n"


def test_a_folder_may_have_any_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    odd = tmp_path / 'it\'s a "test" $(false) -- ;\n*'
    odd.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(odd))
    assert predictions(run(DOUBLE, *batches(1, 2))) == [0, 2]


def test_no_other_account_can_look_at_what_is_submitted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The files were readable to all while they ran, and for good after a crash."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    answers = run(DOUBLE, *batches(2))
    next(answers)
    (folder,) = tmp_path.iterdir()
    assert list(folder.glob("*/program.py"))
    assert folder.stat().st_mode & 0o777 == 0o700
    clear_runs()  # another process of the same account starts: this one still runs
    assert list(folder.glob("*/program.py"))
    assert len(list(answers)) == 1


def test_what_a_killed_process_left_is_removed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert list(run(DOUBLE, *batches(1)))
    (folder,) = tmp_path.iterdir()
    (folder / "meter-run-left" / "below").mkdir(parents=True)
    (folder / "meter-run-left" / "below" / "model").write_bytes(b"secret")
    clear_runs()
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("kind", ["link", "open to others", "file"])
def test_a_folder_that_another_account_may_have_made_is_not_used(
    kind: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    path = tmp_path / f"meter-runs-{os.geteuid()}"
    if kind == "link":
        (tmp_path / "elsewhere").mkdir(mode=0o700)
        path.symlink_to(tmp_path / "elsewhere")
    elif kind == "file":
        path.touch(mode=0o600)
    else:
        path.mkdir()
        path.chmod(0o755)
    with pytest.raises(SandboxUnavailable, match="not a folder of this account alone"):
        list(run(DOUBLE, *batches(1)))


def test_several_run_at_the_same_time() -> None:
    runs = [run(DOUBLE, *batches(3), limits=Limits(processes=8)) for _ in range(4)]
    found = [predictions(step) for step in zip(*runs, strict=True)]
    assert len(found) == 3


# --- Where there is no sandbox ---


@pytest.mark.parametrize("part", ["lib", "bin"])
def test_what_a_command_could_read_is_no_place_for_a_key(part: str, tmp_path: Path) -> None:
    check_out_of_sight(folder=tmp_path, key=None)
    link = tmp_path / "link"
    link.symlink_to(Path(sys.prefix, part))
    for path in (Path(sys.prefix, part, "data"), Path("/usr/lib/meter"), link / "server.key"):
        with pytest.raises(InvalidInput, match=r"^key: '[^']+' given, submitted commands can read"):
            check_out_of_sight(folder=tmp_path, key=path)


def test_nothing_is_missing_here() -> None:
    assert missing() is None


@pytest.mark.parametrize("tool", ["bwrap", "prlimit", "choom"])
def test_a_missing_tool_is_named_with_its_remedy(
    tool: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in {"bwrap", "choom", "mount", "prlimit", "setpriv", "unshare"} - {tool}:
        (tmp_path / name).touch(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    reason = missing()
    assert reason
    assert reason.startswith(f"{tool} is not installed: sudo apt-get install -y ")
    with pytest.raises(SandboxUnavailable, match=f"{tool} is not installed"):
        CommandModel(bundle(DOUBLE)).check(batches(1)[0].schema)


@pytest.mark.parametrize("hidden", [False, True])
def test_without_a_sandbox_nothing_is_run(hidden: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    refusal = "bwrap: No permissions to create new namespace"
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)  # noqa: S103  # as root it is started by somebody else
        Path(folder, "bwrap").write_text(f"#!/bin/sh\necho '{refusal}' >&2\nexit 1\n")
        Path(folder, "bwrap").chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
        reason = missing()
        assert reason
        assert refusal in reason
        with pytest.raises(SandboxUnavailable):  # not the model's failure, so it is not charged
            list(run(DOUBLE, *batches(1), hidden=hidden))


# --- As a plain user ---


AS_SOMEBODY = """
import os, sys
sys.path[:0] = [sys.argv[1], sys.argv[1] + "/src"]
from tests.scoring.probes import predictions, run, works_inside, works_outside
from tests.scoring.test_sandbox import DOUBLE, batches
from easeml_meter.scoring.sandbox import missing

assert os.getuid() == 65534
assert missing() is None, missing()
assert predictions(run(DOUBLE, *batches(2))) == [2.0 * value for value in range(2000)]
read = "return open(TARGET).read()"
own = os.path.join(os.environ["TMPDIR"], "own")
open(own, "w").write("secret")
assert works_outside(read, own) and not works_inside(read, own)
assert works_outside(read, sys.argv[1] + "/pyproject.toml")
assert not works_inside(read, sys.argv[1] + "/pyproject.toml")
assert not works_inside("open('/submission/new', 'w'); return True")
assert not works_inside("return C.unshare(0x10000000) == 0")
assert os.listdir(os.environ["TMPDIR"] + f"/meter-runs-{os.geteuid()}") == []
print("fine")
"""
# Others may not enter /root: what they need of it is bound to where it was.
OPENED = """
set -e
case "$1" in
  /root/*)
    mount --bind "$1" /sys
    mount -t tmpfs -o mode=755 tmpfs /root
    mkdir -p "$1"
    mount --bind /sys "$1"
    ;;
esac
shift
exec setpriv --reuid 65534 --regid 65534 --clear-groups "$@"
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="then all other tests run as a plain user")
def test_a_plain_user_has_the_same_sandbox() -> None:
    root = str(Path(__file__).parents[2])
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o777)  # noqa: S103
        command = ["unshare", "--mount", "sh", "-c", OPENED, "sh", sys.base_prefix]
        done = subprocess.run(
            [*command, sys.executable, "-c", AS_SOMEBODY, root],
            capture_output=True,
            text=True,
            check=False,
            cwd="/",
            env={"PATH": os.environ["PATH"], "TMPDIR": folder, "PYTHONDONTWRITEBYTECODE": "1"},
        )
    assert done.stdout == "fine\n", done.stderr
