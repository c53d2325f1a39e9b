"""Submitted programs: what they find in the sandbox, and what a run on hidden rows lets out."""

from __future__ import annotations

import time

from tests.forms import packed

from redteam import attack
from redteam.starting import MARK
from redteam.target import Client, Ground, command, hold, refused, wait_for

PROBE = """
import ctypes, glob, os, signal, socket, subprocess, sys
C = ctypes.CDLL(None, use_errno=True)
def works(name, attempt):
    try:
        if attempt():
            sys.stderr.write(f"GOT {name}; ")
    except BaseException:
        pass
"""
END = """
sys.stderr.write("DONE")
sys.exit(3)
"""

MODEL = """
import sys, time
import pyarrow as pa
rows = pa.ipc.open_stream(sys.stdin.buffer).read_all()
TRICK
predictions = pa.table({"prediction": pa.array([0] * rows.num_rows, pa.int64())})
with pa.ipc.new_stream(sys.stdout.buffer, predictions.schema) as writer:
    writer.write_table(predictions)
"""
"""A model that says 0 of every row, after a trick."""


def probe(client: Client, program: str) -> None:
    """Run attempts in the sandbox, on visible rows; what any of them got, the server would say."""
    ground: Ground = _modelled(client)
    said = ground.look(client, PROBE + program + END)
    hold("DONE" in said, f"the probe did not run to its end: {said[-300:]}")
    hold("GOT" not in said, said[said.find("GOT") :][:300])


def _modelled(client: Client) -> Ground:
    target = client.target
    found: Ground | None = target.__dict__.get("modelled")
    if found is None:
        found = target.__dict__["modelled"] = target.meter(models=True)
    return found


@attack(who="developer", finding="a program reads a file of the host", attempts=[63, 76, 77])
def files_of_the_host(client: Client) -> None:
    site = client.target.folder.parent / "site"
    paths = [str(site / name) for name in ("server.key", "meter.db", "files")]
    paths += ["/etc/shadow", "/etc/hostname", "/var/lib/dpkg/status", "/proc/kcore", "/dev/mem"]
    paths += ["/root/.bashrc", "/root/.ssh", "/home", "/sys/kernel", "/var/run", "/var/log"]
    for each in client.target.processes:
        paths += [f"/proc/{each}/environ", f"/proc/{each}/mem", f"/proc/{each}/root"]
    probe(
        client,
        f"""
def read(path):
    return os.listdir(path) if os.path.isdir(path) else open(path, "rb").read(1)
for path in {paths!r}:
    works(path, lambda: read(path))
def found(mark, pattern):
    return any(mark in open(path, "rb").read() for path in glob.glob(pattern))
works("the server's variables", lambda: found(b"{MARK}", "/proc/*/environ"))
works("load", lambda: open("/proc/loadavg").read().split()[0] != "0.00")
works("disks", lambda: open("/proc/diskstats").read().strip())
""",
    )


@attack(who="developer", finding="a program reaches the network", attempts=[64])
def sockets(client: Client) -> None:
    probe(
        client,
        """
families = ("AF_INET", "AF_INET6", "AF_NETLINK", "AF_PACKET", "AF_VSOCK", "AF_ALG")
for name in families:
    works(name, lambda: socket.socket(getattr(socket, name), socket.SOCK_DGRAM))
works("bash", lambda: not subprocess.call(["bash", "-c", "echo > /dev/tcp/127.0.0.1/80"]))
""",
    )


@attack(who="developer", finding="a program writes outside of its folder", attempts=[65])
def writing(client: Client) -> None:
    probe(
        client,
        """
places = ("/", "/usr", "/usr/lib", "/etc", "/bin", "/submission", "/var", "/proc", "/dev", "/opt")
own = [] if sys.prefix.startswith("/tmp/") else [sys.prefix]  # else it lies in the program's /tmp
for place in (*places, *own, sys.prefix + "/lib", sys.base_prefix):
    works(place, lambda: open(place + "/redteam", "w"))
works("/proc/sys", lambda: open("/proc/sys/kernel/core_pattern", "w").write("x"))
""",
    )


@attack(who="developer", finding="a system call opens a way out", attempts=[66, 67])
def system_calls(client: Client) -> None:
    probe(
        client,
        """
numbers = dict(unshare=272, mount=165, umount=166, pivot_root=155, ptrace=101, bpf=321,
    keyctl=250, add_key=248, memfd_create=319, io_uring_setup=425, perf_event_open=298, setns=308,
    userfaultfd=323, kexec_load=246, init_module=175, reboot=169, swapon=167, settimeofday=164,
    open_by_handle_at=304, process_vm_readv=310, quotactl=179, acct=163, chroot=161,
    fanotify_init=300, clone3=435, move_mount=429, fsopen=430, mount_setattr=442)
arguments = dict(unshare=(0x10000000,), memfd_create=(b"x", 0), io_uring_setup=(8, b" " * 120),
    clone3=(b" " * 88, 88), unshare_user=(0x10000000,))
for name, number in numbers.items():
    works(name, lambda: C.syscall(number, *arguments.get(name, (0, 0, 0, 0, 0))) >= 0)
works("prlimit", lambda: __import__("resource").setrlimit(7, (1 << 20, 1 << 20)) is None)
works("nice", lambda: os.nice(-5) < 0)
works("kill 1", lambda: os.kill(1, 0) is None and os.getuid() == 0)
works("su", lambda: not subprocess.call(["su", "-c", "true"], stdin=subprocess.DEVNULL))
works("setuid", lambda: os.setuid(0) is None)
works("nsenter", lambda: not subprocess.call(["nsenter", "-t", "1", "-a", "true"]))
""",
    )


@attack(who="developer", finding="one run leaves a message for the next", attempts=[72, 73])
def messages_between_runs(client: Client) -> None:
    probe(
        client,
        """
file = os.open(os.__file__, os.O_RDONLY)
import fcntl
works("preadv2", lambda: os.preadv(file, [bytearray(1)], 0, os.RWF_NOWAIT) >= 0)
works("fadvise", lambda: os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED) is None)
works("readahead", lambda: C.readahead(file, 0, 4096) == 0)
works("mincore", lambda: C.syscall(27, 0, 0, 0) == 0)
works("cachestat", lambda: C.syscall(451, file, b" " * 16, b" " * 40, 0) == 0)
works("flock", lambda: fcntl.flock(file, fcntl.LOCK_SH) is None)
works("lease", lambda: fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_RDLCK) == 0)
works("inotify", lambda: C.inotify_init() >= 0)
""",
    )


@attack(who="developer", finding="an option is taken for a command", attempts=[68])
def options_instead_of_a_command(client: Client) -> None:
    ground = _modelled(client)
    for line in ("--as=1", "--help", "-c true", "--bind / / cat /etc/shadow"):
        said = str(ground.submit(client, command(line), wait=60).json())
        hold("problem': None" not in said and "Usage" not in said, said[:200])


@attack(
    who="developer",
    finding="a program takes all of the machine",
    attempts=[69, 70],
    seconds=60,
    small=False,
)
def greedy_programs(client: Client) -> None:
    ground = _modelled(client)
    for program in (
        "import os\nwhile True: os.fork()",
        "x = []\nwhile True: x.append(bytearray(1 << 26))",
        "f = open('/tmp/x', 'wb')\nwhile True: f.write(bytes(1 << 24))",
    ):
        found = ground.run(client, program)
        hold(found.get("state") == "refused", f"{program[:30]}: {found}"[:200])


@attack(
    who="developer", finding="a run on hidden rows is free", attempts=[74], seconds=60, small=False
)
def a_validation_set_replaced_meanwhile(client: Client) -> None:
    ground = client.target.meter(models=True)
    slow = command("python program.py", MODEL.replace("TRICK", "time.sleep(1)"))
    made = ground.submit(client, slow).json()
    path = ground.at(f"/submissions/{made['id']}")
    for _ in range(10):
        ground.validate(client)
        time.sleep(0.7)

    def done() -> bool:
        return client.get(path).json()["state"] in ("done", "refused")

    hold(wait_for(done, 200), "the model is never done with")
    found = client.get(path).json()
    # A refusal before any hidden row was touched is free and fine; it says what is visible only.
    fine = found["state"] == "done" and ground.steps_left() == 3
    hold(fine or "validation" in str(found["problem"]), f"{found['state']}: {found['problem']}")


@attack(who="developer", finding="a command carries hidden inputs out by the page cache")
def inputs_through_the_page_cache(client: Client) -> None:
    ground = client.target.meter(models=True, commands_may_carry_inputs_out=False)
    # Touch pages of a library for the bits of a column; then see which of them are in memory.
    for trick in ("touch = rows.column('x')", "print(open('/proc/self/pagemap', 'rb').read(8))"):
        refused(ground.submit(client, command("python program.py", MODEL.replace("TRICK", trick))))
    hold(ground.steps_left() == 4, "a refusal was charged")


@attack(
    who="developer", finding="a failure on hidden rows tells something", attempts=[78], small=False
)
def failing_on_hidden_rows(client: Client) -> None:
    ground = client.target.meter(models=True)
    trick = "if rows.num_rows > 20:\n    sys.stderr.write('SEEN')\n    sys.exit(7)"
    found = ground.run(client, MODEL.replace("TRICK", trick))
    hold(found["state"] == "done", f"it was not an answer: {found}"[:200])
    hold("SEEN" not in str(found) and "7;" not in str(found), f"{found}"[:200])
    hold(found["signal"]["band"] is None, "the answer is not 'no reading'")
    hold(ground.steps_left() == 3, "it was not charged")


@attack(who="developer", finding="one team keeps all others waiting", attempts=[57], small=False)
def sleeping_models(client: Client) -> None:
    own, other = client.target.meter(models=True), client.target.meter(models=True)
    queued = [own.submit(client, command("sleep 2", str(number))) for number in range(150)]
    taken = [each.json()["id"] for each in queued if each.status_code == 202]

    def ended() -> int:
        listed = client.get(own.at("/submissions"), params={"limit": 200}).json()["items"]
        return sum(each["state"] not in ("queued", "running") for each in listed)

    earlier = ended()
    last = other.submit(client, command("sleep 0", str(time.time()))).json()["id"]

    def begun() -> bool:
        state = client.get(other.at(f"/submissions/{last}")).json()["state"]
        return bool(state != "queued")

    try:
        hold(wait_for(begun, 300), "a model of another meter is never begun")
        before = ended() - earlier
        hold(before <= 3, f"{before} of {len(taken)} sleeping models came before another meter's")
    finally:
        for each in taken:
            client.delete(own.at(f"/submissions/{each}"))


@attack(who="developer", finding="what is no model file is loaded", attempts=[80, 81], small=False)
def odd_onnx_files(client: Client) -> None:
    ground = _modelled(client)
    nodes = b"\x3a\x02\x0a\x00" * 4_000_000  # a graph of empty nodes
    for content in (b"", b"x" * 100, b"\xff" * 1000, nodes, b"\x08\x07\x3a\x00"):
        answer = ground.submit(client, packed({"model.onnx": content}), wait=60)
        hold("'state': 'done'" not in str(answer.json()), "it was answered")
        if answer.status_code != 200:
            refused(answer)
