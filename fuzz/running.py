"""Run targets in processes of their own, so that one that dies is noticed, and its case known."""

from __future__ import annotations

import faulthandler
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from fuzz import Target, all_targets, draw_of

LONGEST = 60.0
"""Seconds of processor time for one case; whatever takes longer is too slow."""
PATIENCE = 10
"""Times as many by the clock: whatever takes longer hangs, even beside busy neighbours."""
MOST_MEMORY = 1 << 10
"""MB that one case may take beside what was there before."""
_ADDRESSES = 12 << 30


@dataclass
class Outcome:
    """What came of a target."""

    target: str
    cases: int = 0
    taken: int = 0
    megabytes: float = 0
    """The most that one process took beside what it needed to start."""
    crashes: list[str] = field(default_factory=list)

    def add(self, later: Outcome) -> None:
        """Count what came of the cases after these."""
        self.cases += later.cases
        self.taken += later.taken
        self.megabytes = max(self.megabytes, later.megabytes)
        self.crashes += later.crashes


def fuzz(target: str, seed: int, seconds: float, first: int = 0) -> Outcome:
    """Run cases of a target for so long, one after the other."""
    outcome = Outcome(target)
    end = time.monotonic() + seconds
    with tempfile.TemporaryDirectory(prefix="meter-fuzz-") as folder:
        at = Path(folder) / "case"
        while (left := end - time.monotonic()) > 0 or not outcome.cases:
            at.write_text(str(first), encoding="ascii")
            words = [target, str(seed), str(first), str(max(left, 0.1)), str(at)]
            command = [sys.executable, "-m", "fuzz.running", *words]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            case = int(at.read_text(encoding="ascii"))
            outcome.cases += case + 1 - first
            for line in done.stdout.splitlines():
                said = json.loads(line)
                outcome.taken += said["taken"]
                outcome.megabytes = max(outcome.megabytes, said["megabytes"])
                outcome.crashes += said["crashes"]
            if not done.returncode:
                break
            reason = " | ".join(done.stderr.strip().splitlines()[-3:])
            outcome.crashes.append(f"case {case}: ended with {done.returncode}: {reason[:300]}")
            first = case + 1
    return outcome


def run_case(target: Target, seed: int, case: int) -> bool:
    """Run one case here; whatever it raises is the crash."""
    return target.run(target.make(draw_of(target.name, seed, case)))


def _peak() -> float:
    """Return the most memory of this process so far, in MB."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))


def _crashes(target: Target, seed: int, case: int) -> Iterator[str | bool]:
    """Yield whether a case was taken, or what is wrong with it."""
    before, ignored = _peak(), list[str]()
    # What a library raises where nobody can catch it would end up in the log of a server.
    sys.unraisablehook = lambda found: ignored.append(
        f"{found.exc_type.__name__} in {found.object}"
    )
    try:
        yield run_case(target, seed, case)
    except Exception as error:  # whatever it is, it was not foreseen
        shown = " ".join(f"{type(error).__name__}: {error}".split())
        yield f"case {case}: {shown[:500]}"
    if ignored:
        yield f"case {case}: ignored {ignored[0][:200]}"
    if _peak() - before > MOST_MEMORY:
        yield f"case {case}: {_peak() - before:,.0f} MB"


def watch() -> None:
    """End this process with a traceback if the case that begins now takes too long."""
    signal.setitimer(signal.ITIMER_PROF, LONGEST)
    faulthandler.dump_traceback_later(PATIENCE * LONGEST, exit=True)


def _main(name: str, seed: int, case: int, seconds: float, at: Path) -> None:
    """Run cases until the time is up; say at the end what came of them."""
    # A leak, or an allocation of any size, must not take the machine with it.
    resource.setrlimit(resource.RLIMIT_AS, (_ADDRESSES, _ADDRESSES))
    target = all_targets()[name]
    faulthandler.register(signal.SIGPROF, chain=True)
    watch()
    target.run(target.make(draw_of(name, seed, case)))  # imports are not counted as its memory
    start, base = time.monotonic(), _peak()
    taken, crashes = 0, list[str]()
    file = os.open(at, os.O_WRONLY)
    while time.monotonic() - start < seconds:
        os.pwrite(file, f"{case:012}".encode(), 0)
        watch()
        for found in _crashes(target, seed, case):
            if isinstance(found, str):
                crashes.append(found)
            else:
                taken += found
        case += 1
    said = {"taken": taken, "megabytes": _peak() - base, "crashes": crashes}
    print(json.dumps(said), flush=True)
    os._exit(0)  # threads of a server must not keep the process


if __name__ == "__main__":
    _main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]), Path(sys.argv[5]))
