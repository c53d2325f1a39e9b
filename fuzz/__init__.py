"""Fuzzing: what strangers send is parsed or refused in one line, whatever it is.

A target makes inputs, most of them almost right, and feeds them to a parser, or to the routes of a
server. Only refusals may come back. A case is known by the name of its target, a seed and a number:
`python -m fuzz --seed 7 --case 123 csv` runs it again.

To add a target, write a class with `name`, `make` and `run`, and list it in TARGETS of its module.
"""

from __future__ import annotations

from importlib import import_module
from random import Random
from typing import Protocol

MODULES = ("fuzz.tables", "fuzz.files", "fuzz.routes")


class Target(Protocol):
    """Something that parses what strangers send."""

    name: str

    def make(self, draw: Random) -> bytes:
        """Make an input; the same one for the same state of `draw`."""

    def run(self, data: bytes) -> bool:
        """Parse it; return whether it was taken. Whatever is raised is a crash."""


class Failed(AssertionError):
    """A parser answered in a way that it must not."""


def all_targets() -> dict[str, Target]:
    """Return every target by its name."""
    found = [each for module in MODULES for each in import_module(module).TARGETS]
    return {each.name: each for each in found}


def draw_of(target: str, seed: int, case: int) -> Random:
    """Return the randomness of a case."""
    return Random(f"{target} {seed} {case}")


def one_line(error: Exception) -> None:
    """Check what a refusal looks like."""
    line = str(error)
    if not line.strip() or "\n" in line or len(line) > 1000:
        raise Failed(f"no refusal in one line: {line[:300]!r}")
