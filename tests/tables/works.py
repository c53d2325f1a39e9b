"""What children are asked to do in `test_apart.py`; the helper imports it by its name."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import Any

import pyarrow as pa

from easeml_meter.errors import TooLarge, VaultError


def surroundings() -> tuple[Any, None]:
    """Say what a child can see of those who asked."""
    files = [os.readlink(f"/proc/self/fd/{each}") for each in os.listdir("/proc/self/fd")[:-1]]
    environment = Path(f"/proc/{os.getppid()}/environ").read_bytes().decode().split("\0")
    names = [each.partition("=")[0] for each in environment if each]
    found = {"files": files, "variables": names, "threads": threading.active_count()}
    return found | {"tasks": len(os.listdir(f"/proc/{os.getppid()}/task"))}, None


def table(rows: int) -> tuple[int, pa.Table]:
    return rows, pa.table({"n": range(rows)})


def refuse(kind: str) -> tuple[Any, None]:
    raise {"TooLarge": TooLarge, "VaultError": VaultError}[kind]("a line")


def fail(secret: str) -> tuple[Any, None]:
    raise KeyError(secret)


def crash() -> tuple[Any, None]:
    os.abort()


def take(megabytes: int) -> tuple[int, None]:
    return len(bytes(megabytes << 20)), None


def take_in_a_reader(megabytes: int) -> tuple[int, None]:
    """As where a reader takes the end of memory for damage."""
    try:
        return take(megabytes)
    except MemoryError:
        raise TooLarge("no Parquet file, or a damaged one") from None


def compute() -> tuple[Any, None]:
    while True:
        pass


def sleep(seconds: float) -> tuple[float, None]:
    time.sleep(seconds)
    return seconds, None


def write(path: str) -> tuple[Any, None]:
    Path(path).write_text("x", encoding="ascii")
    return None, None


def length(content: bytes) -> tuple[int, None]:
    return len(content), None
