"""Attempts to get out of the sandbox, each of which must fail inside and would work outside."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.scoring.probes import (
    QUICK,
    ROWS,
    bundle,
    predictions,
    probe,
    run,
    stream,
    works_inside,
    works_outside,
)

import easeml_meter
from easeml_meter.meter import Meter
from easeml_meter.scoring.predictor import HIDDEN_FAILURE, Limits, ModelFailed
from easeml_meter.spec import MeterSpec

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root could do this outside")

READ_ALL = "return all(open(path, 'rb').read(1) for path in TARGET)"
READ_ANY = """
for path in TARGET:
    try:
        if open(path, 'rb').read(1):
            return True
    except OSError:
        pass
"""


# --- Reading ---


def test_files_beside_the_packages_of_the_interpreter_cannot_be_read() -> None:
    """Before, all of the environment was shown: a server's key below it, too."""
    for prefix in {sys.prefix, sys.base_prefix}:
        with tempfile.TemporaryDirectory(dir=prefix) as folder:
            os.chmod(folder, 0o755)  # noqa: S103
            key = Path(folder, "server.key")
            key.write_text("secret")
            assert works_outside(READ_ANY, [str(key)])
            assert not works_inside(READ_ANY, [str(key)])


def test_the_host_does_not_show_in_proc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{os.environ['PATH']}:/home/secret-name")
    says = "return any(TARGET in open(path).read() for path in glob.glob('/proc/*/environ'))"
    assert not works_inside(says, "secret-name")
    named = "return any(TARGET in open(path).read() for path in glob.glob('/proc/*/cmdline'))"
    assert not works_inside(named, sys.prefix)
    moving = "return sum(open(path).read() != TARGET.get(path, '') for path in TARGET)"
    host = {}
    for name in ("loadavg", "locks", "meminfo", "stat", "uptime", "vmstat", "diskstats"):
        path = f"/proc/{name}"
        host[path] = Path(path).read_text()
    same = "return any(open(path).read() == TARGET[path] != '' for path in TARGET)"
    assert not works_inside(same, host)
    assert works_inside(moving, host)


@pytest.fixture(scope="module")
def meter_files(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Make a meter with a sealed test set; list its key, its database, its labels and the rest."""
    folder = tmp_path_factory.mktemp("made")
    spec = MeterSpec.uniform(
        signals=1, tolerance=0.3, steps=2, delta=0.1, classes=(0, 1), inputs="public"
    )
    meter = Meter.create(folder / "meter", spec, name="escapes")
    table = pa.table({"x": np.arange(200.0), "label": np.arange(200) % 2})
    pq.write_table(table, folder / "labels.parquet")
    meter.seal(folder / "labels.parquet", folder / "set.sealed", label="label")
    meter.add_test_set(folder / "set.sealed")
    found = [str(path) for path in folder.rglob("*") if path.is_file() and path.stat().st_size]
    for needed in (".key", ".db", ".sealed", "labels.parquet"):
        assert any(needed in path for path in found), (needed, found)
    return found


def test_no_file_of_a_meter_can_be_read(meter_files: list[str]) -> None:
    assert works_outside(READ_ALL, meter_files)
    assert not works_inside(READ_ANY, meter_files)


@pytest.mark.parametrize(
    "path",
    [
        pytest.param("/etc/shadow", marks=as_root),
        "/etc/hostname",
        "/var/lib/dpkg/status",
        easeml_meter.__file__,
        __file__,
        str(Path(__file__).parents[2] / "pyproject.toml"),
    ],
)
def test_a_file_of_the_host_cannot_be_read(path: str) -> None:
    assert works_outside(READ_ANY, [path])
    assert not works_inside(READ_ANY, [path])


def test_the_password_file_is_a_made_up_one() -> None:
    differs = "return open('/etc/passwd').read() == TARGET"
    real = Path("/etc/passwd").read_text()
    assert works_outside(differs, real)
    assert not works_inside(differs, real)


FIND = """
kept = ('/usr', '/proc', sys.prefix, sys.base_prefix)
for folder, folders, files in os.walk('/'):
    if TARGET in files:
        return True
    folders[:] = [each for each in folders if os.path.join(folder, each) not in kept]
for folder in glob.glob('/proc/[0-9]*/root') + glob.glob('/proc/[0-9]*/cwd'):
    if os.path.exists(folder + '/' + TARGET) or os.path.exists(folder + '/submission/' + TARGET):
        return True
return os.path.exists('/submission/' + TARGET)
"""


def test_files_of_a_submission_that_runs_at_the_same_time_cannot_be_found() -> None:
    marker = "the-others-weights"
    other = run(bundle(WAIT_AFTER_ONE, answer=ONE, **{marker: b"secret"}), ROWS, ROWS)
    assert len(next(other)) == 1
    unpacked = [
        path.parent for path in Path(tempfile.gettempdir()).glob(f"meter-runs-*/*/{marker}")
    ]
    assert len(unpacked) == 1  # it is there, while the other one runs
    assert works_outside("return os.path.exists(TARGET)", str(unpacked[0] / marker))
    assert not works_inside("return os.path.exists(TARGET)", str(unpacked[0] / marker))
    assert not works_inside(FIND, marker)
    other.close()  # type: ignore[attr-defined]
    assert not unpacked[0].exists()


def test_the_search_would_find_a_file() -> None:
    assert works_inside(FIND, "program.py")


ONE = stream(pa.record_batch({"prediction": [1]}))[:-8]  # without the mark of the end
WAIT_AFTER_ONE = """
import sys, time
sys.stdout.buffer.write(open("answer", "rb").read())
sys.stdout.buffer.flush()
time.sleep(1000)
"""


def test_a_file_left_in_tmp_is_not_there_for_the_next() -> None:
    leave = "open('/tmp/left', 'w').close(); return os.path.exists('/tmp/left')"
    assert works_inside(leave)
    assert not works_inside("return os.path.exists('/tmp/left')")
    assert not Path("/tmp/left").exists()  # noqa: S108


def test_no_variable_of_ours_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("METER_SECRET", "tell-nobody-4711")
    look = """
    seen = [repr(dict(os.environ))]
    for path in glob.glob('/proc/[0-9]*/environ'):
        try:
            seen.append(open(path).read())
        except OSError:
            pass
    return any(TARGET in text for text in seen)
    """
    look = "\n".join(line[4:] for line in look.splitlines())
    assert works_outside(look, "tell-nobody-4711")
    assert not works_inside(look, "tell-nobody-4711")


@pytest.mark.parametrize("space", ["cgroup", "ipc", "mnt", "net", "pid", "user", "uts"])
def test_no_namespace_is_shared_with_the_host(space: str) -> None:
    same = "return os.readlink(TARGET[0]) == TARGET[1]"
    path = f"/proc/self/ns/{space}"
    assert works_outside(same, [path, os.readlink(path)])
    assert not works_inside(same, [path, os.readlink(path)])


def test_there_is_no_sys() -> None:
    assert works_outside("return os.listdir('/sys')")
    assert not works_inside("return os.listdir('/sys')")


def test_no_open_file_of_ours_is_inherited(tmp_path: Path) -> None:
    path = tmp_path / "open"
    path.write_text("secret")
    more = "return len(os.listdir('/proc/self/fd')) > 4"  # three, and the one that lists them
    with path.open() as opened:
        os.set_inheritable(opened.fileno(), True)
        assert not works_inside(more)
    assert works_inside("kept = open('/dev/null'); " + more)


# --- Sockets ---


TCP = "socket.create_connection(TARGET, timeout=5); return True"
UDP = "return socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'hello', TARGET)"
UNIX = "socket.socket(socket.AF_UNIX).connect(TARGET); return True"


def test_a_tcp_port_cannot_be_reached() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = server.getsockname()
        assert works_outside(TCP, address)
        server.accept()[0].close()
        assert not works_inside(TCP, address)
        server.setblocking(False)
        with pytest.raises(BlockingIOError):
            server.accept()


def test_a_udp_port_cannot_be_reached() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))
        server.settimeout(5)
        assert works_outside(UDP, server.getsockname())
        assert server.recv(10) == b"hello"
        assert not works_inside(UDP, server.getsockname())
        server.setblocking(False)
        with pytest.raises(BlockingIOError):
            server.recv(10)


@pytest.mark.parametrize("abstract", [False, True])
def test_a_unix_socket_cannot_be_reached(abstract: bool) -> None:
    with (
        tempfile.TemporaryDirectory() as folder,  # a short name: longer ones are no addresses
        socket.socket(socket.AF_UNIX) as server,
    ):
        os.chmod(folder, 0o755)  # noqa: S103
        address = f"\0{folder}" if abstract else f"{folder}/socket"
        server.bind(address)
        server.listen()
        assert works_outside(UNIX, address)
        assert not works_inside(UNIX, address)


def test_a_unix_socket_of_ones_own_can_be_used() -> None:
    own = """
server = socket.socket(socket.AF_UNIX); server.bind('/tmp/own'); server.listen()
socket.socket(socket.AF_UNIX).connect('/tmp/own')
return True
"""
    assert works_inside(own)


@pytest.mark.parametrize(
    "family", ["AF_INET", "AF_INET6", "AF_NETLINK", "AF_PACKET", "AF_VSOCK", "AF_ALG"]
)
def test_no_other_kind_of_socket_can_be_made(family: str) -> None:
    refused = f"""
try:
    socket.socket(socket.{family}, socket.SOCK_DGRAM)
except OSError as error:
    return error.errno == 1
"""
    assert works_inside(refused)
    assert not works_inside(refused.replace(family, "AF_UNIX"))


# --- Writing ---


WRITE = """
path = os.path.join(TARGET, 'escaped')
open(path, 'w').close()
os.remove(path)
return True
"""


@pytest.mark.parametrize(
    "folder",
    [
        "/",
        "/dev",
        "/dev/shm",  # noqa: S108
        "/etc",
        "/home",
        "/proc",
        "/proc/sys/kernel",
        "/submission",
        "/usr",
        "/usr/local/bin",
        "/usr/bin",
        # Of a checkout below /tmp, only what is bound is not the program's own /tmp.
        *([] if sys.prefix.startswith("/tmp/") else [sys.prefix]),  # noqa: S108
        f"{sys.prefix}/bin",
        f"{sys.prefix}/lib",
        sys.base_prefix,
    ],
)
def test_nothing_can_be_written_outside_of_tmp(folder: str) -> None:
    assert not works_inside(WRITE, folder)


def test_nothing_written_reaches_the_checkout() -> None:
    folder = Path(sys.prefix).parent
    probe = "open(os.path.join(TARGET, 'escaped'), 'w').close()\nreturn True"
    wrote = works_inside(probe, str(folder))
    assert not (folder / "escaped").exists()
    # Of a checkout in /tmp, the sandbox has a folder of that name in its own /tmp.
    assert not wrote or folder.is_relative_to("/tmp")  # noqa: S108


def test_writing_works_where_it_may(tmp_path: Path) -> None:
    assert works_inside(WRITE, "/tmp")  # noqa: S108
    assert works_outside(WRITE, str(tmp_path))


def test_a_submitted_file_cannot_be_changed_or_made_writable() -> None:
    change = "os.chmod('/submission/program.py', 0o777); return True"
    assert works_outside(change.replace("/submission/", ""))
    assert not works_inside(change)
    assert not works_inside("os.rename('yes', 'no'); return True")
    assert works_inside("return open('/submission/program.py').read()")


# --- Using up the machine ---


COUNT = """
children = []
try:
    for _ in range(100):
        child = os.fork()
        if not child:
            time.sleep(1000)
        children.append(child)
except BlockingIOError:
    pass
for child in children:
    os.kill(child, signal.SIGKILL)
    os.wait()
return len(children) > TARGET
"""


def test_processes_are_limited() -> None:
    assert not works_inside(COUNT, 20, Limits(processes=20))
    assert works_inside(COUNT, 15, Limits(processes=20))
    assert works_inside(COUNT, 20, Limits(processes=64))


def test_a_fork_bomb_ends(tmp_path: Path) -> None:
    # At most 512 processes: were the limit broken, it must not take this machine down.
    marker = f"bomb-{tmp_path.name}-{os.getpid()}"
    program = f"""
import os, sys, time
if sys.argv[1:] != [{marker!r}]:
    os.execv(sys.executable, [sys.executable, "program.py", {marker!r}])
refused = 0
for _ in range(9):
    try:
        os.fork()
    except OSError:
        refused += 1
if refused:
    print("refused", file=sys.stderr, flush=True)
time.sleep(1000)
"""
    with pytest.raises(ModelFailed, match=r"longer than 1 seconds; .*refused"):
        list(run(program, limits=Limits(seconds=1, processes=30)))
    assert processes_with(marker) == 0


@pytest.mark.parametrize("gigabytes", [3, 100])
def test_a_process_cannot_have_more_memory_than_its_limit(gigabytes: int) -> None:
    take = "import mmap; return mmap.mmap(-1, TARGET << 30, flags=0x4022)"  # reserved, not used
    assert works_outside(take, gigabytes)
    assert not works_inside(take, gigabytes)
    assert works_inside(take, 1)


TAKE_TOGETHER = """
shared = bytearray(TARGET[0] << 20)
children = []
for _ in range(6):
    child = os.fork()
    if not child:
        own = bytearray(TARGET[1] << 20)
        for at in range(0, len(own), 4096):
            own[at] = 1
        time.sleep(1)
        os._exit(0)
    children.append(child)
return all(os.waitpid(child, 0)[1] == 0 for child in children)
"""


def test_processes_together_cannot_have_more_memory_either() -> None:
    limits = Limits(seconds=60, memory=600 << 20)
    with pytest.raises(ModelFailed, match="more than 600 MB of memory"):
        works_inside(TAKE_TOGETHER, [0, 200], limits)
    assert works_inside(TAKE_TOGETHER, [0, 40], limits)


def test_memory_that_processes_share_counts_once() -> None:
    assert works_inside(TAKE_TOGETHER, [400, 1], Limits(seconds=60, memory=600 << 20))


@pytest.mark.parametrize(
    "attempt",
    [
        "return os.memfd_create('uncounted') > 0",
        "return C.shmget(0, 1 << 20, 0o1600) >= 0",
        "return C.msgget(0, 0o1600) >= 0",
    ],
)
def test_memory_that_no_limit_counts_cannot_be_had(attempt: str) -> None:
    assert works_outside(attempt)
    assert not works_inside(attempt)


FILL_SOCKETS = """
def fill():
    kept = [socket.socketpair() for _ in range(100)]
    for one, other in kept:
        for end in (one, other):
            end.setblocking(False)
            try:
                while end.send(bytes(1 << 16)):
                    pass
            except BlockingIOError:
                pass
    return kept
children = []
for _ in range(TARGET):
    child = os.fork()
    if not child:
        kept = fill()
        time.sleep(1)
        os._exit(0)
    children.append(child)
return all(os.waitpid(child, 0)[1] == 0 for child in children)
"""


def test_memory_in_sockets_counts() -> None:
    """Sixteen processes with a hundred pairs each took 1.6 GB of the kernel's, beside their own."""
    limits = Limits(seconds=60, memory=600 << 20)
    with pytest.raises(ModelFailed, match="more than 600 MB of memory"):
        works_inside(FILL_SOCKETS, 16, limits)
    assert works_inside(FILL_SOCKETS, 1, limits)


@pytest.mark.parametrize("option", ["SO_SNDBUF", "32"])
def test_the_buffers_of_sockets_cannot_be_enlarged(option: str) -> None:
    grow = f"socket.socketpair()[0].setsockopt(socket.SOL_SOCKET, {option}, 1 << 20); return True"
    grow = grow.replace("SO_", "socket.SO_")
    assert works_outside(grow)
    assert not works_inside(grow)


def test_files_are_limited_one_by_one_and_together() -> None:
    fill = """
written = 0
try:
    for number in range(8):
        with open(f'/tmp/{number}', 'wb') as file:
            written += file.write(bytes(1 << 20))
            file.flush()
except OSError:
    pass
return written > TARGET << 20
"""
    assert not works_inside(fill, 4, Limits(file_bytes=4 << 20))
    assert works_inside(fill, 4, Limits(file_bytes=64 << 20))
    one = "open('/tmp/one', 'wb').write(bytes(TARGET << 20)); return True"
    assert not works_inside(one, 5, Limits(file_bytes=4 << 20))
    assert works_inside(one, 3, Limits(file_bytes=4 << 20))


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ("while True: out.write(bytes(1 << 20))", "only an Arrow stream"),
        ("while True: out.write(b'\\xff' * (1 << 20))", "no valid Arrow stream"),
        (
            "out.write(schema)\nwhile True: out.write(batch)",
            "more predictions written than there are rows",
        ),
        (
            "out.write(schema)\nwhile True: out.write(empty)",
            "more than 64 KB written for each row",
        ),
    ],
)
def test_endless_output_ends(program: str, reason: str) -> None:
    batch = pa.record_batch({"prediction": [1]})
    whole, empty = stream(batch), stream(batch.slice(0, 0))
    schema = batch.schema.serialize().to_pybytes()
    assert whole.startswith(schema)
    files = {"schema": schema, "batch": whole[len(schema) : -8], "empty": empty[len(schema) : -8]}
    opening = "import sys\nout = sys.stdout.buffer\n" + "".join(
        f"{name} = open({name!r}, 'rb').read()\n" for name in files
    )
    with pytest.raises(ModelFailed, match=reason):
        list(run(bundle(opening + program, **files)))


@pytest.mark.parametrize(
    "program",
    [
        "import time; time.sleep(1000)",
        "while True: pass",
        "import os, time; os.close(0); os.close(1); time.sleep(1000)",
        "import signal, time\nfor n in (1, 2, 15): signal.signal(n, signal.SIG_IGN)\n"
        "time.sleep(1000)",
        "import os, time\nif not os.fork(): os.setsid()\ntime.sleep(1000)",
    ],
)
def test_a_command_that_never_ends_is_ended(program: str) -> None:
    with pytest.raises(ModelFailed, match=r"longer than 0\.5 seconds"):
        list(run(program, limits=Limits(seconds=0.5)))


# --- Telling what it saw ---


TELL = """
import sys
import os
seen = "the hidden inputs: " + repr(sys.stdin.buffer.read()[-9:])
print(seen, file=sys.stderr)
for place in ("/dev/stderr", "/dev/tty", "/dev/console", "/proc/1/fd/2"):
    try:
        open(place, "w").write(seen)
    except OSError:
        pass
os._exit(3)
"""


def test_what_it_writes_about_hidden_inputs_goes_nowhere(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ModelFailed) as caught:
        list(run(TELL, hidden=True))
    assert str(caught.value) == HIDDEN_FAILURE
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    assert capfd.readouterr() == ("", "")


def test_what_it_writes_about_visible_inputs_is_told(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ModelFailed, match=r"exit code 3; the end of stderr: the hidden inputs: b"):
        list(run(TELL))
    assert capfd.readouterr() == ("", "")


FAILURES = {
    "crash": "raise SystemExit(7)",
    "signal": "import os; os.kill(os.getpid(), 9)",
    "late": "import time; time.sleep(1000)",
    "garbage": "print('garbage')",
    "nothing": "",
}


@pytest.mark.parametrize("program", FAILURES.values(), ids=FAILURES)
def test_all_failures_on_hidden_inputs_look_the_same(program: str) -> None:
    with pytest.raises(ModelFailed) as caught:
        list(run(program, hidden=True, limits=Limits(seconds=0.5)))
    assert repr(caught.value) == repr(ModelFailed(HIDDEN_FAILURE))
    with pytest.raises(ModelFailed) as caught:
        list(run(program, limits=Limits(seconds=0.5)))
    assert repr(caught.value) != repr(ModelFailed(HIDDEN_FAILURE))


# --- Other processes ---


@pytest.fixture
def bystander() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "1000"]) as process:
        yield process
        process.kill()


@pytest.mark.parametrize(
    "attempt",
    [
        "return C.ptrace(0x4206, TARGET, 0, 0) == 0",  # PTRACE_SEIZE
        "return open(f'/proc/{TARGET}/mem', 'r+b')",
        "return os.readlink(f'/proc/{TARGET}/exe')",
        "os.kill(TARGET, signal.SIGCONT); return True",
        "return os.pidfd_open(TARGET)",
    ],
)
def test_another_process_cannot_be_touched(
    attempt: str, bystander: subprocess.Popen[bytes]
) -> None:
    assert works_outside(attempt, bystander.pid)
    assert not works_inside(attempt, bystander.pid)


@pytest.mark.parametrize("whom", ["1", "os.getppid()"])
def test_the_process_that_started_it_has_nothing_to_give(whom: str) -> None:
    # It is bubblewrap's, with the same account, so it can be seen; no more than oneself, though.
    more = """
def facts(pid):
    lines = open(f'/proc/{pid}/status').read().splitlines()
    kept = ('Uid', 'Gid', 'CapInh', 'CapPrm', 'CapEff', 'CapBnd', 'NoNewPrivs', 'Seccomp')
    spaces = {os.readlink(path) for path in glob.glob(f'/proc/{pid}/ns/*')}
    return [line for line in lines if line.split(':')[0] in kept], spaces
files = [os.readlink(path) for path in glob.glob(f'/proc/{WHOM}/fd/*')]
return facts(WHOM) == facts('self') and not any('/' in file for file in files)
"""
    assert works_inside(more.replace("WHOM", whom))
    assert not works_inside("return C.ptrace(0x4206, WHOM, 0, 0) == 0".replace("WHOM", whom))


def test_the_first_process_can_be_brought_down_only_with_oneself() -> None:
    crash = """
import ctypes, os, sys, time
with open("/proc/1/maps") as maps:
    start, end = (int(x, 16) for x in next(l for l in maps if "r-xp" in l).split()[0].split("-"))
with open("/proc/1/mem", "r+b", buffering=0) as memory:
    memory.seek(start)
    memory.write(b"\\xcc" * (end - start))
os.kill(1, 17)
if not os.fork():
    os._exit(0)
sys.stdin.buffer.read()
os._exit(0)
"""
    with pytest.raises(ModelFailed, match=r"SIGTRAP|SIGSEGV|SIGILL"):
        list(run(crash))


def test_signals_to_everybody_reach_nobody_outside(bystander: subprocess.Popen[bytes]) -> None:
    everybody = """
for number in (signal.SIGTERM, signal.SIGKILL):
    for whom in (-1, 1, os.getppid(), TARGET):
        try:
            os.kill(whom, number)
        except OSError:
            pass
return True
"""
    assert works_inside(everybody, bystander.pid)
    assert bystander.poll() is None


def processes_with(marker: str) -> int:
    """Count the processes of the host whose command line has the marker."""
    count = 0
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            count += marker.encode() in path.read_bytes()
        except OSError:
            continue
    return count


STAY = """
import os, sys, time
if sys.argv[1:] != [MARKER]:
    if not os.fork():
        os.setsid()
        if not os.fork():
            os.execv(sys.executable, [sys.executable, "program.py", MARKER])
        os._exit(0)
    os.wait()
    time.sleep(0.5)
    sys.stdout.buffer.write(open("answer", "rb").read())
    sys.stdout.buffer.flush()
    sys.stdin.buffer.read()
else:
    time.sleep(1000)
"""


def test_no_process_stays_behind(tmp_path: Path) -> None:
    marker = f"stay-{tmp_path.name}-{os.getpid()}"
    answers = run(
        bundle(STAY.replace("MARKER", repr(marker)), answer=ONE), inputs=until_seen(marker)
    )
    assert predictions(answers) == [1]
    assert processes_with(marker) == 0


def until_seen(marker: str) -> Iterator[pa.RecordBatch]:
    """Give a row, and the end of the inputs only when the process can be seen: so it was there."""
    yield ROWS
    while not processes_with(marker):
        time.sleep(0.01)


# --- Doors into the kernel ---


@pytest.mark.parametrize(
    "attempt",
    [
        pytest.param("return C.unshare(0x10000000) == 0", id="a new user namespace"),
        pytest.param(
            "return C.unshare(0x00020000) == 0", id="a new mount namespace", marks=as_root
        ),
        pytest.param(
            # CLONE_NEWUSER | SIGCHLD: the filter lets clone pass, as threads need it.
            "child = C.syscall(TARGET, 0x10000011, 0, 0, 0, 0)\n"
            "if child == 0: os._exit(0)\n"
            "return child > 0 and os.waitpid(child, 0)",
            id="a child in a new user namespace",
        ),
        pytest.param(
            "folder = __import__('tempfile').mkdtemp()\n"
            "if C.mount(b'tmpfs', folder.encode(), b'tmpfs', 0, None): return False\n"
            "return C.umount2(folder.encode(), 0) == 0",
            id="a mount",
            marks=as_root,
        ),
        pytest.param("os.chroot('/'); return True", id="another root", marks=as_root),
        pytest.param("os.setuid(0); return True", id="the account of root", marks=as_root),
        pytest.param(
            "os.mknod('/tmp/' + str(os.getpid()), 0o60600, os.makedev(254, 0))\n"
            "os.remove('/tmp/' + str(os.getpid())); return True",
            id="a device",
            marks=as_root,
        ),
        pytest.param("os.nice(-1); return True", id="precedence", marks=as_root),
        pytest.param(
            "open('/proc/sys/kernel/core_pattern', 'r+'); return True",
            id="kernel settings",
            marks=as_root,
        ),
    ],
)
def test_no_privilege_can_be_had(attempt: str) -> None:
    clone = {"x86_64": 56, "aarch64": 220}[os.uname().machine]
    assert works_outside(attempt, clone)
    assert not works_inside(attempt, clone)


@pytest.mark.parametrize(
    "name",
    [
        *("add_key", "keyctl", "bpf", "perf_event_open", "userfaultfd", "io_uring_setup", "ptrace"),
        # Messages to another run through a file that both can read.
        *("cachestat", "fadvise64", "flock", "inotify_add_watch", "inotify_init1", "io_setup"),
        *("mincore", "preadv2", "readahead", "sysinfo"),
    ],
)
def test_a_system_call_is_refused(name: str) -> None:
    from easeml_meter.scoring import seccomp

    column = ("x86_64", "aarch64").index(os.uname().machine)
    number = seccomp._CALLS[name][column]
    refused = "return C.syscall(TARGET, -1, -1, -1, -1, -1) == -1 and ctypes.get_errno() == 1"
    assert works_inside(refused, number)
    assert not works_outside(refused, number)


LIBRARY = sys.modules["_ctypes"].__file__
"""A file that every run can read."""


@pytest.mark.parametrize(
    "attempt",
    [
        pytest.param("__import__('fcntl').flock(FILE, 1); return True", id="a lock"),
        pytest.param("__import__('fcntl').fcntl(FILE, 5, bytes(64)); return True", id="who locks"),
        pytest.param("__import__('fcntl').fcntl(FILE, 1025) ; return True", id="a lease"),
        pytest.param("return C.inotify_init1(0) >= 0", id="a watch"),
        pytest.param(
            "return os.preadv(FILE.fileno(), [bytearray(1)], 0, 8) == 1", id="pages in memory"
        ),
        pytest.param("os.posix_fadvise(FILE.fileno(), 0, 0, 4); return True", id="no pages"),
    ],
)
def test_a_file_that_all_can_read_carries_no_message(attempt: str) -> None:
    """Before, a run on hidden rows told a later one, or one at the same time, what it had seen."""
    opened = f"FILE = open(TARGET, 'rb'); FILE.read(1); FILE.seek(0)\n{attempt}"
    assert works_outside(opened, LIBRARY)
    assert not works_inside(opened, LIBRARY)


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="another numbering on x86_64 only")
def test_the_other_numbering_of_system_calls_is_refused() -> None:
    refused = "return C.syscall(0x40000000 + 39) == -1 and ctypes.get_errno() == 1"
    assert works_inside(refused)
    assert not works_outside(refused)


def test_programs_that_need_threads_processes_and_callbacks_work() -> None:
    use = """
import subprocess, threading, tempfile, sqlite3, numpy, pyarrow.compute
threads = [threading.Thread(target=time.sleep, args=(0,)) for _ in range(8)]
[thread.start() for thread in threads]; [thread.join() for thread in threads]
assert subprocess.run(['sh', '-c', 'exit 5']).returncode == 5
assert subprocess.run(['python', '-c', 'import numpy']).returncode == 0
assert ctypes.CFUNCTYPE(ctypes.c_int)(lambda: 7)() == 7
assert (numpy.ones((300, 300)) @ numpy.ones((300, 300)))[0, 0] == 300
with tempfile.NamedTemporaryFile() as file:
    sqlite3.connect(file.name).execute('create table t (x)')
return os.path.expanduser('~') == '/home'
"""
    assert works_inside(use)


def test_the_limits_of_these_tests_are_no_obstacle() -> None:
    assert predictions(run(probe("return True"), limits=QUICK)) == [1]
    assert predictions(run(probe("return False"), limits=QUICK)) == [0]
