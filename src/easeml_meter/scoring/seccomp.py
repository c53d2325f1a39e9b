"""The system calls a submitted command may not make, as a filter for the kernel.

Namespaces hide the host; this takes away what they leave: memory that no limit counts (memfd,
System V), sockets that belong to no network namespace (vsock), keyrings, and doors into the kernel
that a model has no business with. Two runs can see the same files of the system, so it also takes
away what could carry a message from one to the other through such a file: locks, leases, watches,
and everything that asks which of its pages are in memory. A refused call fails with EPERM.
"""

from __future__ import annotations

import platform
import struct

_CALLS = {
    # name: (x86_64, aarch64)
    "add_key": (248, 217),
    "bpf": (321, 280),
    "cachestat": (451, 451),
    "fadvise64": (221, 223),
    "fanotify_init": (300, 262),
    "flock": (73, 32),
    "fsopen": (430, 430),
    "inotify_add_watch": (254, 27),
    "inotify_init": (253, 26),  # aarch64 has inotify_init1 only
    "inotify_init1": (294, 26),
    "io_setup": (206, 0),  # asynchronous reads could be told not to wait for the disk
    "io_uring_setup": (425, 425),
    "kcmp": (312, 272),
    "keyctl": (250, 219),
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "mincore": (27, 232),
    "mount": (165, 40),
    "mount_setattr": (442, 442),
    "move_mount": (429, 429),
    "msgget": (68, 186),
    "open_by_handle_at": (304, 265),
    "open_tree": (428, 428),
    "perf_event_open": (298, 241),
    "pidfd_getfd": (438, 438),
    "pivot_root": (155, 41),
    "preadv2": (327, 286),  # preadv does without its flags
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "ptrace": (101, 117),
    "readahead": (187, 213),
    "request_key": (249, 218),
    "semget": (64, 190),
    "setns": (308, 268),
    "shmget": (29, 194),
    "sysinfo": (99, 179),  # the host's load, memory and processes
    "umount2": (166, 39),
    "unshare": (272, 97),
    "userfaultfd": (323, 282),
}
_SOCKET = (41, 198)
_AF_UNIX = 1
_FCNTL = (72, 25)
_LOCKING = (5, 36, 1024, 1025, 1026)
"""What fcntl may not do: record locks of a process or a file, leases, and notes of changes."""

_SETSOCKOPT = (54, 208)
_SEND_BUFFERS = (7, 32)
"""What setsockopt may not do: let a socket hold more memory of the kernel than by default."""

MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
"""Which number of each call, and what the kernel calls the machine."""
_X32 = 0x40000000
"""From here on the same calls have other numbers, on x86_64."""

_LOAD, _IF_EQUAL, _IF_AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_ALLOW, _EPERM, _KILL = 0x7FFF0000, 0x00050001, 0x80000000
_NUMBER, _MACHINE, _FIRST, _SECOND, _THIRD = 0, 4, 16, 24, 32  # offsets in struct seccomp_data


def program() -> bytes:
    """Return the filter, in the kernel's classic BPF."""
    column, machine = MACHINES[platform.machine()]
    denied = sorted({numbers[column] for numbers in _CALLS.values()})
    # Each jump names how many instructions it skips, counted from the end: there stand allow,
    # refuse and kill.
    code: list[tuple[int, int, int, int]] = [(_RETURN, 0, 0, _KILL), (_RETURN, 0, 0, _EPERM)]
    code.append((_RETURN, 0, 0, _ALLOW))

    def refuse() -> int:
        return len(code) - 2

    def allow() -> int:
        return len(code) - 3

    code += [(_IF_EQUAL, refuse() + more, 0, number) for more, number in enumerate(denied)]
    after = len(code)
    code.append((_IF_EQUAL, allow(), refuse(), _AF_UNIX))
    code.append((_LOAD, 0, 0, _FIRST))
    code.append((_IF_EQUAL, 0, len(code) - after, _SOCKET[column]))
    after = len(code)
    code.append((_IF_EQUAL, refuse(), allow(), _LOCKING[0]))
    code += [(_IF_EQUAL, refuse() + more, 0, each) for more, each in enumerate(_LOCKING[1:])]
    code.append((_LOAD, 0, 0, _SECOND))
    code.append((_IF_EQUAL, 0, len(code) - after, _FCNTL[column]))
    after = len(code)
    code.append((_IF_EQUAL, refuse(), allow(), _SEND_BUFFERS[0]))
    code += [(_IF_EQUAL, refuse() + more, 0, each) for more, each in enumerate(_SEND_BUFFERS[1:])]
    code.append((_LOAD, 0, 0, _THIRD))
    code.append((_IF_EQUAL, 0, len(code) - after, _SETSOCKOPT[column]))
    code.append((_IF_AT_LEAST, refuse(), 0, _X32))
    code.append((_LOAD, 0, 0, _NUMBER))
    code.append((_IF_EQUAL, 0, len(code) - 1, machine))  # else kill
    code.append((_LOAD, 0, 0, _MACHINE))
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in reversed(code))
