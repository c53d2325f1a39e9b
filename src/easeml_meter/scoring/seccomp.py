"""The system calls a submitted command may not make, as a filter for the kernel.

Namespaces hide the host; this takes away what they leave: memory that no limit counts (memfd,
System V), sockets that belong to no network namespace (vsock), keyrings, and doors into the kernel
that a model has no business with. A refused call fails with EPERM.
"""

from __future__ import annotations

import platform
import struct

_CALLS = {
    # name: (x86_64, aarch64)
    "add_key": (248, 217),
    "bpf": (321, 280),
    "fanotify_init": (300, 262),
    "fsopen": (430, 430),
    "io_uring_setup": (425, 425),
    "kcmp": (312, 272),
    "keyctl": (250, 219),
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "mount": (165, 40),
    "mount_setattr": (442, 442),
    "move_mount": (429, 429),
    "msgget": (68, 186),
    "open_by_handle_at": (304, 265),
    "open_tree": (428, 428),
    "perf_event_open": (298, 241),
    "pidfd_getfd": (438, 438),
    "pivot_root": (155, 41),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "ptrace": (101, 117),
    "request_key": (249, 218),
    "semget": (64, 190),
    "setns": (308, 268),
    "shmget": (29, 194),
    "umount2": (166, 39),
    "unshare": (272, 97),
    "userfaultfd": (323, 282),
}
_SOCKET = (41, 198)
_AF_UNIX = 1

_MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
"""Which number of each call, and what the kernel calls the machine."""
_X32 = 0x40000000
"""From here on the same calls have other numbers, on x86_64."""

_LOAD, _IF_EQUAL, _IF_AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_ALLOW, _EPERM, _KILL = 0x7FFF0000, 0x00050001, 0x80000000
_NUMBER, _MACHINE, _FIRST_ARGUMENT = 0, 4, 16  # offsets in struct seccomp_data


def known_machine() -> bool:
    """Whether there is a filter for this machine."""
    return platform.machine() in _MACHINES


def program() -> bytes:
    """Return the filter, in the kernel's classic BPF."""
    column, machine = _MACHINES[platform.machine()]
    denied = sorted(numbers[column] for numbers in _CALLS.values())
    count = len(denied)
    # Each jump says how many instructions to skip; the last three are allow, refuse, kill.
    code = [
        (_LOAD, 0, 0, _MACHINE),
        (_IF_EQUAL, 0, count + 7, machine),  # else kill
        (_LOAD, 0, 0, _NUMBER),
        (_IF_AT_LEAST, count + 4, 0, _X32),  # refuse
        (_IF_EQUAL, 0, 2, _SOCKET[column]),
        (_LOAD, 0, 0, _FIRST_ARGUMENT),
        (_IF_EQUAL, count, count + 1, _AF_UNIX),  # allow, else refuse
        *((_IF_EQUAL, count - place, 0, number) for place, number in enumerate(denied)),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _EPERM),
        (_RETURN, 0, 0, _KILL),
    ]
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in code)
