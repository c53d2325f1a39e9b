"""An answer after many others, next to one after few: the books grow, the work does not."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench import Benchmark
from easeml_meter.core.model import Entry, Event
from easeml_meter.meter import Meter
from easeml_meter.service.journal import histories_of
from easeml_meter.service.place import Workspace, utc_now
from easeml_meter.spec import MeterSpec

ROWS = 1000
AT_ONCE = 10


def benchmarks(*, small: bool) -> list[Benchmark]:
    """List it; the small one has a short history on both sides."""
    long, short = (200, 20) if small else (100_000, 100)
    return [
        Benchmark(
            name=f"{AT_ONCE} answers after {long:,} (reference: after {short:,})",
            ours=partial(_answers, long),
            reference=partial(_answers, short),
            at_most=1.2,
            prepare=lambda: (_meter(long), _meter(short)),
        )
    ]


def _answers(history: int) -> list[bool]:
    """Submit new predictions a few times."""
    folder, meter, draw = _meter(history)
    told = []
    for _ in range(AT_ONCE):
        for name, rows in (("test", ROWS), ("validation", 100)):
            columns = {"prediction": draw.integers(0, 2, rows)}
            pq.write_table(pa.table(columns), folder / f"{name}.parquet")
        files = (folder / "test.parquet", folder / "validation.parquet")
        told.append(meter.submit(*files, model="model").step > history)
    return told


@cache
def _meter(history: int) -> tuple[Path, Meter, np.random.Generator]:
    """Make a meter that has given so many answers."""
    folder = Path(tempfile.mkdtemp(prefix="bench-history-"))
    spec = MeterSpec.uniform(
        signals=1, tolerance=0.1, steps=10**6, delta=0.1, classes=(0, 1), inputs="public"
    )
    meter = Meter.create(folder / "meter", spec, name="bench")
    draw = np.random.default_rng(0)
    for name, rows in (("validation", 100), ("rows", ROWS)):
        columns = {"x": draw.normal(size=rows), "label": draw.integers(0, 2, rows)}
        pq.write_table(pa.table(columns), folder / f"{name}.parquet")
    meter.set_validation(folder / "validation.parquet", label="label")
    meter.seal(folder / "rows.parquet", folder / "set.sealed", label="label")
    meter.add_test_set(folder / "set.sealed")
    for name, rows in (("test", ROWS), ("validation", 100)):
        pq.write_table(pa.table({"prediction": np.zeros(rows, int)}), folder / f"{name}.parquet")
    meter.submit(folder / "test.parquet", folder / "validation.parquet", model="first")
    lengthen(Workspace.open(folder / "meter", utc_now), history)
    return folder, meter, draw


def lengthen(
    space: Workspace, history: int, change: Callable[[Entry], Entry] = lambda entry: entry
) -> None:
    """Enter the first answer again and again, changed, as if other submissions had got it."""
    with space.writing() as books:
        state = space.state(books)
        test_set = state.current
        histories = histories_of(books, state, test_set)
        (first,) = books.entries.all(test_set.meter, test_set.number)
        more = [
            change(replace(first, step=step, submission=f"{step:064x}"))
            for step in range(2, history + 1)
        ]
        for entry in more:
            histories = histories.after(entry)
        books.entries.add(more)
        books.accounts.put(test_set.meter, test_set.number, histories.folded.values())
        links = [(entry.told_at, Event.TOLD, {"step": entry.step}) for entry in more]
        books.audit.append_all(test_set.meter, links)
    space.journal(test_set).append(more, histories.answers)
