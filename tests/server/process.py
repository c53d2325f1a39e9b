"""A real `meter serve` process on a free port."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
from tests.forking import HURRIED, METER, Forked
from tests.forms import typed


@dataclass
class Process:
    """A server that was started."""

    popen: subprocess.Popen[str] | Forked
    address: str
    token: str | None
    """Of the admin; None if the server did not print one."""
    log: list[str] = field(default_factory=list)

    def client(self, token: str | None = None) -> httpx.Client:
        """Give a client with a token, else with the admin's."""
        secret = token or self.token
        headers = {"Authorization": f"Bearer {secret}"} if secret else {}
        place = f"{self.address}/api/v1"
        # Beside busy neighbours, an answer may take longer than the five seconds of httpx.
        return httpx.Client(
            base_url=place,
            headers=headers,
            trust_env=False,
            timeout=120,
            event_hooks={"request": [typed]},
        )

    def stop(self) -> int:
        """Ask it to stop; give its exit code."""
        self.popen.send_signal(signal.SIGTERM)
        return self.popen.wait(60)


@contextmanager
def started(
    folder: Path,
    *arguments: str,
    environment: dict[str, str] | None = None,
    files: int | None = None,
    hurried: bool = False,
    alone: bool = False,
) -> Iterator[Process]:
    """Run `meter serve` until the block ends; it may open so many files.

    Hurried, its answers to models leave as soon as they are known. Alone, it imports its modules
    itself, as it does for users.
    """
    words = ("serve", "--folder", str(folder), "--port", "0", *arguments)
    settings = os.environ | (environment or {})
    popen: subprocess.Popen[str] | Forked
    if alone:
        command = (sys.executable, "-c", METER, *words)
        pipe = subprocess.PIPE
        popen = subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=settings)
    else:
        popen = Forked(HURRIED if hurried else METER, words, settings, files=files)
    log: list[str] = []
    assert popen.stdout is not None
    assert popen.stderr is not None
    reader = threading.Thread(target=log.extend, args=(popen.stderr,))
    reader.start()
    try:
        told: list[str] = []
        while not told or "://" not in told[-1]:
            told.append(popen.stdout.readline())
            if not told[-1]:
                reader.join(30)  # until what it said last is read
            assert told[-1], f"it did not start: {''.join(log)}"
        token = told[0].split()[-1] if len(told) == 2 else None
        yield Process(popen, told[-1].split()[-1], token, log)
    finally:
        if popen.poll() is None:
            popen.kill()
        popen.wait()
        reader.join()
        popen.stdout.close()
        popen.stderr.close()
