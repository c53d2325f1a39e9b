"""Run a stranger's command where it can reach nothing: bubblewrap, limits, and a watcher.

Inside there are the system's programs and libraries, the interpreter that runs the meter with its
packages, and the submitted files, all read-only; an own /tmp; no network, no other processes, no
variable of ours, and files in /proc that say nothing of the host. Whatever the command starts ends
with it: all of it lives in one process namespace, whose first process is held by a pidfd.

As root, the account is dropped before bubblewrap starts: root in a user namespace of its own would
still be the owner of root's files. Folders that others may not reach (/root) are bound to another
place first, in a mount namespace of our own.
"""

from __future__ import annotations

import fcntl
import json
import math
import os
import platform
import select
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Self

from easeml_meter.errors import InvalidInput
from easeml_meter.scoring import seccomp
from easeml_meter.scoring.predictor import Limits, SandboxUnavailable

FOLDER = "/submission"
PIPE_BYTES = 1 << 20

_TAIL_BYTES = 4000
_NOBODY = "65534"
_OPEN_FILES = 256
_PAUSE = 0.05
_ETC = {
    "/etc/passwd": b"model:x:1000:1000::/home:/bin/sh\n",
    "/etc/group": b"model:x:1000:\n",
}
_SYSTEM = (
    *("/usr/bin", "/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/libexec", "/usr/libx32"),
    *("/usr/sbin", "/usr/local/bin", "/usr/local/lib", "/usr/share/zoneinfo"),
    *("/bin", "/lib", "/lib32", "/lib64", "/libx32", "/sbin"),
    *("/etc/alternatives", "/etc/ld.so.cache"),
)
"""What is shown of the system, as far as it is there."""
_PARTS = ("bin", "lib", "lib64", "pyvenv.cfg")
"""What is shown of the interpreter's folder."""
_PROC = (
    *("buddyinfo", "consoles", "diskstats", "interrupts", "key-users", "locks", "mdstat"),
    *("pagetypeinfo", "partitions", "schedstat", "slabinfo", "softirqs", "swaps"),
    *("timer_list", "vmallocinfo", "vmstat", "zoneinfo"),
)
_MEMORY = ("MemTotal", "MemFree", "MemAvailable")
_STAGE = "/sys"  # always there, and holds nothing to bind; covered in a mount namespace of our own
_STAGING = """
set -e
mount -t tmpfs -o mode=755,size=1m tmpfs "$0"
at=0
while [ "$1" != -- ]; do
  if [ -d "$1" ]; then mkdir "$0/$at"; else : >"$0/$at"; fi
  mount --bind "$1" "$0/$at"
  at=$((at + 1))
  shift
done
shift
unset PWD
exec "$@"
"""


def missing() -> str | None:
    """Say in one line what this machine lacks for running submitted commands, if anything."""
    if sys.platform != "linux" or platform.machine() not in seccomp.MACHINES:
        return "submitted commands are run on Linux only, on x86_64 or aarch64"
    tools = {"bwrap": "bubblewrap", "choom": "util-linux", "prlimit": "util-linux"}
    if os.geteuid() == 0:
        tools |= {"setpriv": "util-linux", "unshare": "util-linux", "mount": "mount"}
    for tool, package in tools.items():
        if not shutil.which(tool):
            return f"{tool} is not installed: sudo apt-get install -y {package}"
    if not Path("/proc/thread-self/children").exists():
        return "the kernel does not list the children of a process (CONFIG_PROC_CHILDREN)"
    try:
        with Run(["true"], Path("/usr"), Limits(), keep_stderr=True) as run:
            run.wait()
    except SandboxUnavailable as error:
        return str(error)
    return None


class Run:
    """One command in the sandbox, started at once; leaving the context ends it without a trace.

    It also ends when the thread that started it ends.
    """

    stdin: IO[bytes]
    stdout: IO[bytes]
    over: str | None = None
    """The limit it was stopped for."""

    def __init__(
        self, words: Sequence[str], folder: Path, limits: Limits, *, keep_stderr: bool
    ) -> None:
        """Run `words` in `folder`, which others must be allowed to read."""
        self._limits = limits
        self._end = time.monotonic() + limits.seconds
        self._tail = b""
        self._process, self._status = _start(words, folder, limits, keep_stderr=keep_stderr)
        self.stdin, self.stdout = self._process.stdin, self._process.stdout  # type: ignore[assignment]
        for pipe in (self.stdin, self.stdout):
            with suppress(OSError):  # too many pipes of ours: smaller ones do
                fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        self._threads = [threading.Thread(target=self._read_stderr)] if keep_stderr else []
        self._first: int | None = None
        try:
            # Said once the namespaces are made; without it, nothing of the command was started.
            status = self._status.readline()
            if status:
                pid = json.loads(status)["child-pid"]
                with suppress(ProcessLookupError):  # failed meanwhile
                    self._first = first = os.pidfd_open(pid)
                    watcher = threading.Thread(target=self._watch, args=(pid, first))
                    self._threads.append(watcher)
        except BaseException:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._close()
            raise
        for thread in self._threads:
            thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._close()

    def wait(self) -> int:
        """Wait for the end of it all, and give the exit code: 128 + n if signal n ended it."""
        code = self._process.wait()
        self.stop()
        for line in self._status:
            code = json.loads(line).get("exit-code", code)
            break
        else:
            # It was never started; a signal to bubblewrap, though, has nothing to do with starting.
            if 0 < code < 128 and not self.over:
                remedy = "it needs user namespaces, and to be of version 0.8 or later"
                raise SandboxUnavailable(f"no sandbox here: {self.tail or code}; {remedy}")
        return code if code >= 0 else 128 - code

    def stop(self) -> None:
        """End it, with all it has started."""
        if self._first is not None:
            _kill(self._first)
        self._process.wait()
        for thread in self._threads:
            thread.join()
        if self._first is not None:
            with suppress(ChildProcessError):  # an orphan, where orphans come to us
                os.waitid(os.P_PIDFD, self._first, os.WEXITED)

    @property
    def tail(self) -> str:
        """The end of what it wrote to stderr, fit for one line; empty if that was not kept."""
        text = self._tail.decode(errors="replace")
        return " ".join("".join(c if c.isprintable() else " " for c in text).split())

    def _watch(self, pid: int, first: int) -> None:
        """Stop it when it is over a limit; the first process ends after all others."""
        ended = select.poll()
        ended.register(first, select.POLLIN)
        try:
            while not ended.poll(1000 * min(_PAUSE, max(0.0, self._end - time.monotonic()))):
                if time.monotonic() >= self._end:
                    self.over = f"it took longer than {self._limits.seconds:g} seconds"
                    return
                if _uses_more_than(self._limits.memory, pid):
                    self.over = f"it used more than {self._limits.memory >> 20:,} MB of memory"
                    return
        finally:  # unwatched it does not run
            _kill(first)
            ended.poll()

    def _read_stderr(self) -> None:
        stderr: Any = self._process.stderr
        while piece := stderr.read1(1 << 16):
            self._tail = (self._tail + piece)[-_TAIL_BYTES:]

    def _close(self) -> None:
        self._process.wait()
        if self._first is not None:
            os.close(self._first)
        for file in (self.stdin, self.stdout, self._process.stderr, self._status):
            if file is not None:
                with suppress(BrokenPipeError):  # what was not taken any more
                    file.close()


def _kill(first: int) -> None:
    with suppress(ProcessLookupError):
        signal.pidfd_send_signal(first, signal.SIGKILL)


def _start(
    words: Sequence[str], folder: Path, limits: Limits, *, keep_stderr: bool
) -> tuple[subprocess.Popen[bytes], IO[bytes]]:
    """Start bubblewrap; give it, and where it says what became of the command."""
    files = _ETC | _proc(limits)
    handed = [_pipe_with(data) for data in (*files.values(), seccomp.program())]
    reading, writing = os.pipe()
    handed.append(writing)
    *given, filtered, status = map(str, handed)
    sources = [*_interpreter(), os.path.abspath(folder)]
    targets = [*sources[:-1], FOLDER]
    staged = os.geteuid() == 0
    options = ["--unshare-all", "--unshare-user", "--disable-userns", "--cap-drop", "ALL"]
    options += ["--uid", "1000", "--gid", "1000", "--hostname", "sandbox", "--die-with-parent"]
    options += ["--new-session", "--seccomp", filtered, "--json-status-fd", status, *_system()]
    for number, target in zip(given, files, strict=True):
        options += ["--ro-bind-data", number, target]
    options += ["--size", str(limits.file_bytes), "--tmpfs", "/tmp", "--dir", "/home"]  # noqa: S108
    for at, (source, target) in enumerate(zip(sources, targets, strict=True)):
        options += ["--ro-bind", f"{_STAGE}/{at}" if staged else source, target]
    options += ["--remount-ro", "/", "--chdir", FOLDER, *_environment(limits)]
    # Through a pipe: the command can read the arguments of bubblewrap, which name our folders.
    handed.append(_pipe_with("".join(f"{each}\0" for each in options).encode()))
    command = [_tool("bwrap"), "--args", str(handed[-1]), "--", *_limited(limits), *words]
    if staged:
        staging = [_tool("unshare"), "--mount", "sh", "-c", _STAGING, _STAGE, *sources, "--"]
        dropping = [_tool("setpriv"), "--reuid", _NOBODY, "--regid", _NOBODY, "--clear-groups"]
        command = [*staging, *dropping, "--inh-caps=-all", "--bounding-set=-all", *command]
    try:
        process = subprocess.Popen(  # noqa: S603
            command,
            bufsize=PIPE_BYTES,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE if keep_stderr else subprocess.DEVNULL,
            cwd="/",
            env={},  # of bubblewrap: the command could read it
            pass_fds=handed,
            start_new_session=True,
        )
    except OSError as error:
        os.close(reading)
        raise SandboxUnavailable(f"{command[0]}: {error.strerror}") from None
    finally:
        for descriptor in handed:
            os.close(descriptor)
    return process, open(reading, "rb")


def shown() -> list[str]:
    """List the folders and files of the host that a command can read."""
    found = [path for path in _SYSTEM if os.path.exists(path)]
    return [*found, *_interpreter()]


def check_out_of_sight(**paths: str | os.PathLike[str] | None) -> None:
    """Raise `InvalidInput` for a path of ours, named as its setting, that a command could read."""
    for name, path in paths.items():
        if not path:
            continue
        for bound in map(os.path.realpath, shown()):
            if Path(os.path.realpath(path)).is_relative_to(bound):
                line = f"{name}: {os.fspath(path)!r} given, submitted commands can read {bound}"
                raise InvalidInput(f"{line}: move it elsewhere")


def _system() -> Iterator[str]:
    """Yield the arguments that show what every program needs."""
    for name in ("/bin", "/lib", "/lib32", "/lib64", "/libx32", "/sbin"):
        if os.path.islink(name):
            yield from ("--symlink", os.readlink(name), name)
    for name in _SYSTEM:
        if not os.path.islink(name):
            yield from ("--ro-bind-try", name, name)
    yield from ("--proc", "/proc", "--dev", "/dev", "--remount-ro", "/dev")
    for name in ("/proc/pressure", "/proc/sys/fs", "/proc/sysvipc"):
        if os.path.isdir(name):
            yield from ("--tmpfs", name, "--remount-ro", name)


def _proc(limits: Limits) -> dict[str, bytes]:
    """Return files of /proc that would tell of the load of the host, with what they say instead.

    Two runs on one machine could otherwise talk to each other by what they use of it.
    """
    kilobytes, cores = limits.memory >> 10, os.cpu_count() or 1
    lines = [f"cpu{number} 0 0 0 0 0 0 0 0 0 0\n" for number in ("", *range(cores))]
    files = dict.fromkeys(_PROC, b"") | {
        "loadavg": b"0.00 0.00 0.00 1/1 1\n",
        "meminfo": "".join(f"{name}: {kilobytes} kB\n" for name in _MEMORY).encode(),
        "stat": "".join(lines).replace("cpu ", "cpu  ", 1).encode(),
        "uptime": b"0.00 0.00\n",
    }
    shown = {f"/proc/{name}": content for name, content in files.items()}
    return {name: content for name, content in shown.items() if os.path.exists(name)}


def _interpreter() -> list[str]:
    """List where the running interpreter and its packages are, as far as not shown anyway.

    Not all of its folder: a server may keep its key and files below its environment.
    """
    prefixes = (sys.prefix, sys.base_prefix)
    wanted = sorted({*prefixes, *map(os.path.realpath, prefixes)}, key=len)
    parts = [f"{prefix}/{part}" for prefix in wanted for part in _PARTS]
    found = list(_SYSTEM)
    for path in (*filter(os.path.exists, parts), os.path.realpath(sys.executable)):
        if not any(Path(path).is_relative_to(known) for known in found):
            found.append(path)
    return found[len(_SYSTEM) :]


def _tool(name: str) -> str:
    return shutil.which(name) or name


def _environment(limits: Limits) -> Iterator[str]:
    programs = [f"{sys.prefix}/bin", f"{sys.base_prefix}/bin", "/usr/local/bin", "/usr/bin", "/bin"]
    variables = {
        "PATH": ":".join(dict.fromkeys(programs)),
        "HOME": "/home",
        "LANG": "C.UTF-8",
        "PYTHONDONTWRITEBYTECODE": "1",
        "ORT_DISABLE_TELEMETRY": "1",
    }
    for library in ("OMP", "OPENBLAS", "MKL", "NUMEXPR"):
        variables[f"{library}_NUM_THREADS"] = str(limits.threads)
    yield "--clearenv"
    for name, value in variables.items():
        yield from ("--setenv", name, value)


def _limited(limits: Limits) -> list[str]:
    """Set the limits inside: there the count of processes is this sandbox's, not its account's."""
    cpu = math.ceil(limits.seconds * limits.threads) + 1
    return [
        *("choom", "-n", "1000", "--", "prlimit"),  # if memory runs out, it goes first
        *(f"--as={limits.memory}", f"--cpu={cpu}", f"--nproc={limits.processes}"),
        *(f"--fsize={limits.file_bytes}", f"--nofile={_OPEN_FILES}", "--core=0", "--"),
    ]


def _pipe_with(data: bytes) -> int:
    reading, writing = os.pipe()
    os.write(writing, data)
    os.close(writing)
    return reading


# --- Memory: the kernel limits each process, this their sum ---


def _uses_more_than(memory: int, pid: int) -> bool:
    family = list(_family(pid))
    memory -= _in_sockets(pid)
    if sum(map(_resident, family)) <= memory:
        return False
    return sum(map(_share, family)) > memory  # slow, but right where pages are shared


def _in_sockets(pid: int) -> int:
    """Return how much memory of the kernel the sockets of a sandbox can hold, at most.

    Nobody else limits it. They are all in its network namespace, and cannot enlarge their buffers;
    a message can be added to a buffer that is nearly full, hence twice its size.
    """
    with suppress(OSError, StopIteration):
        buffer = int(Path("/proc/sys/net/core/wmem_default").read_text())
        lines = Path(f"/proc/{pid}/net/sockstat").read_text().splitlines()
        line = next(each for each in lines if each.startswith("sockets: used"))
        return 2 * buffer * int(line.split()[2])
    return 0


def _family(pid: int) -> Iterator[int]:
    """Yield a process and all below it; in a sandbox orphans go to the first."""
    found = [pid]
    while found:
        yield (pid := found.pop())
        with suppress(OSError):  # it ended meanwhile
            for task in os.listdir(f"/proc/{pid}/task"):
                children = Path(f"/proc/{pid}/task/{task}/children").read_text()
                found.extend(map(int, children.split()))


def _resident(pid: int) -> int:
    with suppress(OSError):
        pages = Path(f"/proc/{pid}/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")
    return 0


def _share(pid: int) -> int:
    """Return the resident memory of a process, each page divided by the number that share it."""
    with suppress(OSError, StopIteration):
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        return 1024 * int(next(line for line in lines if line.startswith("Pss:")).split()[1])
    return _resident(pid)
