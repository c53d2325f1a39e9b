"""Benchmarks: how long the product takes, next to the plain way of computing the same.

Seconds depend on the machine, so each benchmark is judged by a ratio: our time divided by the time
of a plain reference, measured side by side.

To add some, write a module with a function `benchmarks()` that returns a list of `Benchmark`, and
name it in NAMES. The server is measured by itself: `python -m bench.server`.
"""

from __future__ import annotations

import atexit
import operator
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

NAMES = ("planner", "deciding", "scoring", "sealing", "gate")
REPEATS = 7


@dataclass(frozen=True)
class Benchmark:
    """One thing to time, and the plain way to do it."""

    name: str
    ours: Callable[[], Any]
    reference: Callable[[], Any]
    at_most: float
    """The largest ratio of our time to the reference's that is accepted."""
    agree: Callable[[Any, Any], bool] = operator.eq
    prepare: Callable[[], Any] = int
    """What is done before the clock runs, as writing files."""


@dataclass(frozen=True)
class Timing:
    """What was measured."""

    benchmark: Benchmark
    ours: float
    reference: float
    agreed: bool

    @property
    def ratio(self) -> float:
        return self.ours / self.reference

    @property
    def passed(self) -> bool:
        return self.agreed and self.ratio <= self.benchmark.at_most


def all_benchmarks() -> list[Benchmark]:
    """Collect the benchmarks of all modules."""
    return [each for name in NAMES for each in import_module(f"bench.{name}").benchmarks()]


def measure(benchmark: Benchmark) -> Timing:
    """Time both sides, and see whether they agree."""
    benchmark.prepare()
    ours, our_answer = best_time(benchmark.ours)
    reference, plain_answer = best_time(benchmark.reference)
    return Timing(benchmark, ours, reference, benchmark.agree(our_answer, plain_answer))


def best_time(function: Callable[[], Any], *, repeats: int = REPEATS, enough: float = 2.0) -> Any:
    """Give the shortest of several times, and the answer; what takes long is repeated less."""
    best, spent = float("inf"), 0.0
    answer = None
    for _ in range(repeats):
        start = time.perf_counter()
        answer = function()
        elapsed = time.perf_counter() - start
        best, spent = min(best, elapsed), spent + elapsed
        if spent > enough:
            break
    return best, answer


def table(timings: Iterable[Timing]) -> Iterable[str]:
    """Yield the lines of a plain table."""
    layout = "{:<58} {:>10} {:>10} {:>9} {:>9}  {}"
    yield layout.format("benchmark", "ours", "reference", "ratio", "at most", "")
    for timing in timings:
        yield layout.format(
            timing.benchmark.name,
            f"{timing.ours * 1000:.2f} ms",
            f"{timing.reference * 1000:.0f} ms",
            f"{timing.ratio:.2g}",
            f"{timing.benchmark.at_most:g}",
            "ok" if timing.passed else "MISSED" if timing.agreed else "DISAGREE",
        )


@cache
def folder() -> Path:
    """Return a folder that is removed when the interpreter ends."""
    made = tempfile.TemporaryDirectory(prefix="bench-")
    atexit.register(made.cleanup)
    return Path(made.name)
