"""A sealed file from elsewhere, read for the first time: by a child process, with limits.

The pages of a plain file say how large they are before they are decoded (`tables.parquet_layout`).
Those of a sealed one are encrypted, down to its footer, and the library that decrypts them decodes
them, too. So a child tries whether they can be read at a bounded cost, before this process does.
"""

from __future__ import annotations

import json
import math
import os
import pickle
import resource
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from easeml_meter.errors import InvalidInput, TooLarge, VaultError
from easeml_meter.tables.limits import TableLimits
from easeml_meter.vault.containers import secret_of
from easeml_meter.vault.errors import opaque
from easeml_meter.vault.keys import Identity
from easeml_meter.vault.reading import Location, whole_location
from easeml_meter.vault.sealing import WHAT, SealedTestSet

_MEMORY = 4
"""Times `most_decoded_bytes`: a row group exists as pages, as values and as texts."""
_SECONDS = 20
"""Of processor time, for any file."""
_BYTES_A_SECOND = 5 << 20
"""A larger file has more time: so many bytes are read even on a slow machine."""
_PATIENCE = 30
"""Times the processor time: a child beside busy neighbours may take so long by the clock."""
_REFUSALS = {kind.__name__: kind for kind in (InvalidInput, TooLarge, VaultError)}
_one_at_a_time = threading.Lock()


@dataclass(frozen=True)
class Inspected:
    """What a file turned out to be."""

    generation: int
    """The test set that it was sealed for."""
    sha256: str
    """Of the file; empty if it was sealed for another test set than the one that is expected."""


@dataclass(frozen=True)
class Delivered:
    """A file that should be a sealed test set, with its own key and no other."""

    location: str
    meter: str
    generations: tuple[int, ...]
    """The test sets it may have been sealed for, first the one that is expected."""
    _secret: bytes = field(repr=False)

    @classmethod
    def of(
        cls, location: Location, identity: Identity, *, meter: str, generations: tuple[int, ...]
    ) -> Delivered:
        """Unwrap the key of a file, and read nothing else of it.

        Raises:
            VaultError: it was not sealed to this identity.
        """
        secret = secret_of(location, identity, WHAT)
        return cls(whole_location(location), meter, generations, secret)

    def inspect(self, limits: TableLimits | None = None) -> Inspected:
        """Read all of it, in this process.

        Raises:
            TooLarge: it decodes to more than the limits allow.
            VaultError: it does not open.
        """
        for number in self.generations:
            with suppress(VaultError), self._open(number) as sealed:
                expected = number == self.generations[0]
                digest = sealed.verify(limits).sha256 if expected else ""
                return Inspected(number, digest)
        with opaque(WHAT):
            raise ValueError("sealed for none of these")

    def inspect_apart(self, limits: TableLimits) -> Inspected:
        """Read all of it in a child, which gets nothing but the key of this file.

        Raises:
            TooLarge: it decodes to more than the limits allow, or takes too much to find out.
            VaultError: it does not open.
        """
        seconds = _SECONDS + math.ceil(os.path.getsize(self.location) / _BYTES_A_SECOND)
        memory = _MEMORY * limits.most_decoded_bytes
        # An input may be a picture: it is as long as it likes, within a row group.
        own = replace(limits, longest_text=limits.most_decoded_bytes)
        answer = _answer_of(pickle.dumps((self, own, memory, seconds)), seconds)
        if "refused" in answer:
            raise _REFUSALS[answer["refused"]](answer["line"])
        if answer:
            return Inspected(**answer)
        raise TooLarge(
            f"{WHAT}: more than {memory >> 20:,} MB of memory or {seconds} seconds are needed to "
            "read it: seal its rows again with `meter seal`, or fewer of them (setting "
            "most_decoded_bytes of the server)"
        )

    def _open(self, number: int) -> SealedTestSet:
        return SealedTestSet.open(self.location, self._secret, meter=self.meter, generation=number)


def _answer_of(todo: bytes, seconds: int) -> dict[str, Any]:
    """Start a child, and return what it says; nothing if it died of its limits."""
    child = [sys.executable, "-P", "-m", __name__]
    # Nothing of our environment: it may hold passwords, and the child needs none.
    variables = {
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "ARROW_DEFAULT_MEMORY_POOL": "system",  # the usual one takes 1 GiB of addresses at once
    }
    patience = _PATIENCE * seconds
    # One at a time: whoever sends ten files must not get ten times the memory.
    with _one_at_a_time, suppress(subprocess.TimeoutExpired):
        done = subprocess.run(  # noqa: S603 - this module, by this interpreter
            child, input=todo, env=variables, capture_output=True, check=False, timeout=patience
        )
        if done.returncode == 0:
            answer: dict[str, Any] = json.loads(done.stdout)
            return answer
        if done.returncode > 0:
            raise RuntimeError(f"the child failed: {done.stderr[-500:].decode(errors='replace')}")
    return {}


def _limit(memory: int, seconds: int) -> None:
    """Give this process so much more than it has now, for good."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    most = pages * resource.getpagesize() + memory
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    for each in (resource.RLIMIT_FSIZE, resource.RLIMIT_CORE):
        resource.setrlimit(each, (0, 0))


def main() -> None:
    """Answer in one line of JSON; it is empty where memory ends, and missing where time does."""
    todo: tuple[Delivered, TableLimits, int, int] = pickle.load(sys.stdin.buffer)  # noqa: S301
    delivered, limits, memory, seconds = todo
    _limit(memory, seconds)
    try:
        answer = vars(delivered.inspect(limits))
    except (InvalidInput, VaultError) as error:
        answer = {"refused": type(error).__name__, "line": str(error)}
    except MemoryError:
        answer = {}
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
