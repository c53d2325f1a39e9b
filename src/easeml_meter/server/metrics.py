"""Counts and times for operators, in Prometheus' text format. Nothing about losses or signals.

Labels are methods, templates of routes, statuses and states: never a path, a name or a meter.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Sequence

from easeml_meter.core.submissions import WAITS
from easeml_meter.service.actor import Actor
from easeml_meter.service.metrics import totals
from easeml_meter.service.place import Site

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_SIZES = (1, 2, 4, 8, 16, 32)


class Histogram:
    """How many values there were up to each of some bounds, and their sum."""

    def __init__(
        self, bounds: tuple[float, ...], counts: Sequence[int] = (), total: float = 0.0
    ) -> None:
        self._bounds = bounds
        self._counts = list(counts) or [0] * (len(bounds) + 1)
        self._sum = total

    def add(self, value: float) -> None:
        """Count a value."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def lines(self, name: str, labels: str = "") -> list[str]:
        """Return the histogram as Prometheus reads it: each bucket holds those below it, too."""
        before = f"{labels}," if labels else ""
        after = f"{{{labels}}}" if labels else ""
        found, total = [], 0
        for bound, count in zip([*map(str, self._bounds), "+Inf"], self._counts, strict=True):
            total += count
            found.append(f'{name}_bucket{{{before}le="{bound}"}} {total}')
        return [*found, f"{name}_sum{after} {self._sum:.6g}", f"{name}_count{after} {total}"]


class Metrics:
    """What one process has counted since it started."""

    def __init__(self) -> None:
        self._started = time.time()
        self._requests: Counter[tuple[str, str, int]] = Counter()
        self._seconds: defaultdict[tuple[str, str], Histogram]
        self._seconds = defaultdict(lambda: Histogram(_SECONDS))
        self._batches = Histogram(_SIZES)
        self._failed_logins = 0
        self._lock = threading.Lock()

    def count_request(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count an answer, and how long it took."""
        with self._lock:
            self._requests[method, route, status] += 1
            self._seconds[method, route].add(seconds)

    def count_batch(self, size: int) -> None:
        """Count submissions that were accepted together."""
        with self._lock:
            self._batches.add(size)

    def count_failed_login(self) -> None:
        """Count a wrong name or password."""
        with self._lock:
            self._failed_logins += 1

    def text(self, actor: Actor, site: Site, *, timed: bool) -> str:
        """Return all counts as text; those of submissions are read from the books.

        Without `timed`, how long requests took and models waited is left out.

        Raises:
            Denied: the actor does not manage the site.
        """
        total = totals(actor, site)
        with self._lock:
            requests, failed = sorted(self._requests.items()), self._failed_logins
            batches = self._batches.lines("meter_batch_size")
            seconds = [
                line
                for (method, route), took in sorted(self._seconds.items())
                for line in took.lines(_TOOK, f'method="{method}",route="{route}"')
            ]
        waits = Histogram(WAITS, total.waits, total.waited).lines(_WAIT)
        lines = [
            *_head("meter_start_time_seconds", "gauge", "When this process started."),
            f"meter_start_time_seconds {self._started:.3f}",
            *_head("meter_requests_total", "counter", "Requests answered."),
            *(
                f'meter_requests_total{{method="{method}",route="{route}",status="{status}"}} {n}'
                for (method, route, status), n in requests
            ),
            *([*_head(_TOOK, "histogram", "How long requests took."), *seconds] if timed else ()),
            *([*_head(_WAIT, "histogram", "How long models waited."), *waits] if timed else ()),
            *_head("meter_batch_size", "histogram", "Submissions accepted together."),
            *batches,
            *_head("meter_failed_logins_total", "counter", "Wrong names or passwords."),
            f"meter_failed_logins_total {failed}",
            *_head("meter_submissions", "gauge", "Submissions in the queue's books, by state."),
            *(f'meter_submissions{{state="{name}"}} {n}' for name, n in total.submissions.items()),
            *_head("meter_oldest_submission_seconds", "gauge", "Since when the oldest one waits."),
            *(
                f'meter_oldest_submission_seconds{{state="{name}"}} {age:.0f}'
                for name, age in total.oldest.items()
            ),
            *_head("meter_answers", "gauge", "Answers given, by all meters."),
            f"meter_answers {total.answers}",
            *_head("meter_test_sets_nearly_spent", "gauge", "Active ones with few answers left."),
            f"meter_test_sets_nearly_spent {total.nearly_spent}",
            *_head("meter_label_requests", "gauge", "Test sets that labels are needed for."),
            f"meter_label_requests {total.requests}",
            *_head("meter_label_requests_overdue", "gauge", "Those whose deadline is over."),
            f"meter_label_requests_overdue {total.overdue}",
        ]
        if total.backup is not None:
            lines += [
                *_head(_BACKUP, "gauge", "When the newest backup was made that could be restored."),
                f"{_BACKUP} {total.backup.timestamp():.3f}",
            ]
        return "\n".join([*lines, ""])


_WAIT = "meter_queue_wait_seconds"
_TOOK = "meter_request_seconds"
_BACKUP = "meter_backup_time_seconds"


def _head(name: str, kind: str, text: str) -> list[str]:
    return [f"# HELP {name} {text}", f"# TYPE {name} {kind}"]
