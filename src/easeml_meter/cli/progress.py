"""What is going on, how fast, and how long it will take, on stderr."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Thread

_HIDDEN = "running on the test set"


@contextmanager
def progress_bar(*, shown: bool) -> Iterator[Callable[[str, float, float], None]]:
    """Yield a function that reports progress; without a terminal, it shows nothing."""
    if not (shown and sys.stderr.isatty()):
        yield lambda what, done, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
    )
    # The stream itself: while hidden rows are scored, sys.stderr leads nowhere.
    with Progress(*columns, console=Console(file=sys.stderr), transient=True) as bars:
        bar = bars.add_task("", total=None, rate="")
        current, started = "", time.monotonic()

        def progress(what: str, done: float, total: float) -> None:
            nonlocal current, started
            if what != current:
                current, started = what, time.monotonic()
                bars.reset(bar)
            elapsed = time.monotonic() - started
            unit = "bytes" if what == "sending" else "rows"
            rate = f"{done:,.0f} of {total:,.0f} {unit}"
            if done and elapsed > 0:
                rate += f", {done / elapsed:,.0f} per second"
            # How far a model got would tell of hidden rows; the clock, set beforehand, does not.
            if what == _HIDDEN:
                rate = f"the answer comes after {total:g} seconds"
                Thread(target=tick, args=(total,), daemon=True).start()
            if not total:  # at a server: nobody knows how long it takes
                rate = f"{elapsed:,.0f} seconds"
            bars.update(bar, description=what, completed=done, total=total or None, rate=rate)

        def tick(seconds: float) -> None:
            """Move the bar with the clock."""
            begun = started
            while current == _HIDDEN and not bars.finished:
                bars.update(bar, completed=min(seconds, time.monotonic() - begun))
                time.sleep(0.2)

        try:
            yield progress
        finally:
            current = ""
