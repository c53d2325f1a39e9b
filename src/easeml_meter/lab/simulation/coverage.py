"""How often the promise fails: many seeded sessions, an exact interval, a verdict.

And how many labels an attack makes necessary: how far the plan is from it.
"""

from __future__ import annotations

import json
import math
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from easeml_meter.errors import InvalidInput, invalid
from easeml_meter.lab.simulation.developers import Developer
from easeml_meter.lab.simulation.opponents import (
    Opponent,
    opponent_named,
    opponent_of,
    opponents_of,
)
from easeml_meter.lab.simulation.worlds import Flags, World, world_of
from easeml_meter.promise import solve
from easeml_meter.promise.meter import Meter
from easeml_meter.promise.numbers.intervals import clopper_pearson

CHUNK = 250
"""Sessions are played in chunks of this size, or smaller ones if they are long."""
_STEPS_PER_CHUNK = 20_000
_AHEAD = 64
"""How many chunks are handed to the processes at once."""
USUAL = "threshold"
"""The developer who plays against the gap of a loss, if nobody else is named."""
ERROR = 1e-3
"""How often a verdict may be wrong, on each side."""

Advance = Callable[[int], None]
"""Told how many more sessions are done."""


@dataclass(frozen=True)
class Experiment:
    """Everything that decides the outcome of a session, but its number."""

    meter: Meter
    labels: int
    developer: str
    world: World | None
    """None: the question has a world of its own."""
    seed: int
    planned: int
    """The labels that the plan asks for."""

    def __post_init__(self) -> None:
        opponent_named(self.meter, self.developer)
        check_whole("labels", self.labels, at_least=1)
        check_whole("seed", self.seed, at_least=0)

    @property
    def opponent(self) -> Developer | Opponent:
        """Who plays."""
        return opponent_named(self.meter, self.developer)

    @property
    def size(self) -> int:
        """The number of sessions played together; a chunk's numbers depend on seed and place."""
        return max(10, min(CHUNK, _STEPS_PER_CHUNK // int(self.meter.budget.steps)))

    def chunk(self, number: int) -> tuple[int, ...]:
        """Play one chunk of sessions; give the places of those whose promise was broken."""
        seeds = np.random.SeedSequence(self.seed, spawn_key=(number,))
        rng = np.random.Generator(np.random.PCG64(seeds))
        failed = self._play(rng)
        return tuple(np.flatnonzero(failed).tolist())

    def _play(self, rng: np.random.Generator) -> Flags:
        opponent = self.opponent
        if isinstance(opponent, Opponent):
            return opponent.play(self.meter, self.labels, self.size, rng)
        if self.world is None:
            raise AssertionError(f"{opponent.name} needs a world to play in")
        return opponent.run(self.meter, self.labels, self.world, rng, self.size).failed

    def fingerprint(self) -> dict[str, Any]:
        """Return what a file of results must agree with."""
        return {
            "meter": self.meter.tables(),
            "labels": self.labels,
            "developer": self.developer,
            "world": _told(self.world),
            "seed": self.seed,
            "chunk": self.size,
        }


def experiment(
    meter: Meter,
    developer: str | None = None,
    *,
    planned: int | None = None,
    labels: int | None = None,
    seed: int = 7,
    world: str | None = None,
    true_loss: float | None = None,
    share: float | None = None,
) -> Experiment:
    """Set an experiment up; without a number of labels, with as many as planned.

    Without a developer, it is the one who plays against the question, or "threshold".
    """
    only = opponent_of(meter)
    name = developer or (USUAL if only is None else only.name)
    opponent_named(meter, name)
    planned = solve.labels(meter) if planned is None else planned
    size = planned if labels is None else labels
    check_whole("labels", size, at_least=1)
    if only is None:
        built = world_of(meter, size, world, loss=true_loss, share=share)
        return Experiment(meter, size, name, built, seed, planned)
    for option, given in (("world", world), ("true loss", true_loss), ("share", share)):
        if given is not None:
            raise invalid(option, given, f"{only.name} plays in a world of its own: leave it out")
    return Experiment(meter, size, name, None, seed, planned)


def _told(world: World | None) -> dict[str, Any] | None:
    return None if world is None else asdict(world)


@dataclass(frozen=True)
class Coverage:
    """What was observed."""

    experiment: Experiment
    runs: int
    failures: int

    @property
    def rate(self) -> float:
        """The share of sessions whose promise was broken."""
        return self.failures / self.runs

    @property
    def interval(self) -> tuple[float, float]:
        """Clopper and Pearson's exact interval; each side is wrong with probability ERROR."""
        return clopper_pearson(self.failures, self.runs, ERROR)

    @property
    def verdict(self) -> str:
        """Say what the interval decides.

        Broken: the rate is above delta. Holds: it is not shown to be above delta, and a rate of
        twice delta is ruled out (a rate of exactly delta could not be told from one just above).
        """
        lower, upper = self.interval
        delta = float(self.experiment.meter.delta_of_stage)
        if lower > delta:
            return "promise broken"
        return "promise holds" if upper < 2 * delta else "not decided"

    def to_json(self) -> dict[str, Any]:
        """Return it as plain data for programs."""
        setting = self.experiment
        return {
            "verdict": self.verdict,
            "failure_rate": self.rate,
            "interval": list(self.interval),
            "confidence": 1 - 2 * ERROR,
            "delta": float(setting.meter.delta_of_stage),
            "runs": self.runs,
            "failures": self.failures,
            "labels": setting.labels,
            "developer": setting.developer,
            "breaks": setting.opponent.breaks(setting.meter),
            "world": _told(setting.world),
            "seed": setting.seed,
            "meter": setting.meter.tables(),
        }


def coverage(
    experiment: Experiment,
    runs: int,
    *,
    pool: Executor | None = None,
    resume: Path | None = None,
    advance: Advance = lambda _: None,
) -> Coverage:
    """Play `runs` sessions. Session i has the same outcome whatever `pool` and `runs` are.

    With `resume`, what is finished is kept in that file and not played again.
    """
    check_whole("runs", runs, at_least=1)
    record = _Record(experiment, resume)
    size = experiment.size
    numbers = range(math.ceil(runs / size))
    known = [number for number in numbers if number in record.chunks]
    advance(min(runs, size * len(known)))
    missing = [number for number in numbers if number not in record.chunks]
    for number, failed in _play(experiment, missing, pool):
        record.add(number, failed)
        advance(min(size, runs - number * size))
    failures = sum(
        number * size + place < runs for number in numbers for place in record.chunks[number]
    )
    return Coverage(experiment, runs, failures)


@contextmanager
def workers(jobs: int) -> Iterator[Executor | None]:
    """Return a pool of that many processes to play in; none for a single job."""
    check_whole("jobs", jobs, at_least=1)
    if jobs == 1:
        yield None
        return
    # Fresh interpreters: a forked one could inherit locks that a progress bar holds.
    context = multiprocessing.get_context("spawn")
    # An interrupt reaches all processes; only this one shall answer it.
    ignore = (signal.SIGINT, signal.SIG_IGN)
    with ProcessPoolExecutor(jobs, context, initializer=signal.signal, initargs=ignore) as pool:
        try:
            yield pool
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _play(
    experiment: Experiment, numbers: Sequence[int], pool: Executor | None
) -> Iterator[tuple[int, tuple[int, ...]]]:
    if pool is None:
        for number in numbers:
            yield number, experiment.chunk(number)
        return
    waiting: dict[Future[tuple[int, ...]], int] = {}
    for number in numbers:
        waiting[pool.submit(experiment.chunk, number)] = number
        if len(waiting) >= _AHEAD:
            yield from _ready(waiting)
    while waiting:
        yield from _ready(waiting)


def _ready(
    waiting: dict[Future[tuple[int, ...]], int],
) -> Iterable[tuple[int, tuple[int, ...]]]:
    done, _ = wait(waiting, return_when=FIRST_COMPLETED)
    return [(waiting.pop(future), future.result()) for future in done]


class _Record:
    def __init__(self, experiment: Experiment, path: Path | None) -> None:
        self.path, self.about = path, json.loads(json.dumps(experiment.fingerprint()))
        self.chunks: dict[int, tuple[int, ...]] = {}
        if path is None:
            return
        if path.is_dir():
            raise invalid("resume", str(path), "a file, not a folder")
        if not path.exists():
            self._write()
            return
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
            about, chunks = data["about"], data["chunks"]
            self.chunks = {int(number): tuple(failed) for number, failed in chunks.items()}
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise InvalidInput(f"resume: {str(path)!r} is not a file of results: {error}") from None
        for name, value in self.about.items():
            if about.get(name) != value:
                raise invalid("resume", str(path), f"it belongs to another experiment ({name})")

    def add(self, number: int, failed: tuple[int, ...]) -> None:
        self.chunks[number] = failed
        self._write()

    def _write(self) -> None:
        if self.path is None:
            return
        data = {"about": self.about, "chunks": {str(k): v for k, v in sorted(self.chunks.items())}}
        draft = self.path.with_name(self.path.name + ".part")
        try:
            draft.write_text(json.dumps(data), encoding="utf-8")
            draft.replace(self.path)
        except OSError as error:
            reason = error.strerror or error
            raise invalid("resume", str(self.path), f"cannot be written: {reason}") from None


def processors() -> int:
    """Return the number of processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def check_whole(field: str, value: object, *, at_least: int) -> None:
    """Refuse anything but whole numbers of a sensible size."""
    if isinstance(value, bool) or not isinstance(value, int) or value < at_least:
        raise invalid(field, value, f"it must be a whole number, {at_least} or more")


PRECISION = 0.02
"""The search stops when the two sizes around the limit differ by this share."""


@dataclass(frozen=True)
class Limit:
    """The two sizes of a test set between which the best attack falls below delta."""

    meter: Meter
    planned: int
    too_few: Coverage | None
    """The best attack at the largest size at which it was seen above delta, if any."""
    enough: Coverage
    """The best attack at the smallest size at which it was not."""
    runs: int

    @property
    def labels(self) -> int:
        """The smallest size found at which the best attack stays below delta."""
        return self.enough.experiment.labels

    @property
    def ratio(self) -> float:
        """How many times more labels are planned than this attack makes necessary."""
        return self.planned / self.labels

    def to_json(self) -> dict[str, Any]:
        """Return it as plain data for programs."""
        return {
            "planned": self.planned,
            "limit": self.labels,
            "ratio": self.ratio,
            "too_few": None if self.too_few is None else self.too_few.to_json(),
            "enough": self.enough.to_json(),
        }


def find_limit(
    meter: Meter,
    developers: Sequence[str] = (),
    *,
    planned: int | None = None,
    runs: int = 2000,
    seed: int = 7,
    pool: Executor | None = None,
    world: str | None = None,
    advance: Callable[[str], Advance] = lambda _: lambda _: None,
) -> Limit:
    """Find, by bisection on a logarithmic scale, where the best of these attacks falls below delta.

    Without developers, those who play against its question and break no assumption of this meter.
    """
    names = list(developers) or opponents_of(meter)
    planned = solve.labels(meter) if planned is None else planned
    delta = float(meter.delta_of_stage)

    def best(labels: int) -> Coverage:
        found = []
        for name in names:
            setting = experiment(
                meter, name, planned=planned, labels=labels, seed=seed, world=world
            )
            bar = advance(f"{labels:,} labels, {name}")
            found.append(coverage(setting, runs, pool=pool, advance=bar))
        top = max(found, key=lambda each: each.failures)
        if top.rate > delta:  # who is far behind here will not come first later
            rivals = [each for each in found if 4 * each.failures >= top.failures]
            names[:] = [each.experiment.developer for each in rivals]
        return top

    low, high = None, best(planned)
    while high.rate > delta:  # an assumption is broken, and the plan too small
        low, high = high, best(2 * high.experiment.labels)
    while low is None and high.experiment.labels > 1:
        attack = best(high.experiment.labels // 2)
        low, high = (attack, high) if attack.rate > delta else (None, attack)
    while low is not None:
        below, above = low.experiment.labels, high.experiment.labels
        middle = round(math.sqrt(below * above))
        if above <= below * (1 + PRECISION) or not below < middle < above:
            break
        attack = best(middle)
        low, high = (attack, high) if attack.rate > delta else (low, attack)
    return Limit(meter, planned, low, high, runs)
