"""Counts for operators, in Prometheus' text format. Nothing about losses or signals."""

from __future__ import annotations

import threading
import time
from collections import Counter

from easeml_meter.service.actor import Actor
from easeml_meter.service.metrics import totals
from easeml_meter.service.place import Site


class Metrics:
    """What one process has counted since it started."""

    def __init__(self) -> None:
        self._started = time.time()
        self._requests: Counter[tuple[str, str, int]] = Counter()
        self._failed_logins = 0
        self._lock = threading.Lock()

    def count_request(self, method: str, route: str, status: int) -> None:
        """Count an answer."""
        with self._lock:
            self._requests[method, route, status] += 1

    def count_failed_login(self) -> None:
        """Count a wrong name or password."""
        with self._lock:
            self._failed_logins += 1

    def text(self, actor: Actor, site: Site) -> str:
        """Return all counts as text; those of submissions are read from the books.

        Raises:
            Denied: the actor does not manage the site.
        """
        total = totals(actor, site)
        with self._lock:
            requests, failed = sorted(self._requests.items()), self._failed_logins
        lines = [
            *_head("meter_start_time_seconds", "gauge", "When this process started."),
            f"meter_start_time_seconds {self._started:.3f}",
            *_head("meter_requests_total", "counter", "Requests answered."),
            *(
                f'meter_requests_total{{method="{method}",route="{route}",status="{status}"}} {n}'
                for (method, route, status), n in requests
            ),
            *_head("meter_failed_logins_total", "counter", "Wrong names or passwords."),
            f"meter_failed_logins_total {failed}",
            *_head("meter_submissions", "gauge", "Submissions in the queue's books, by state."),
            *(f'meter_submissions{{state="{name}"}} {n}' for name, n in total.submissions.items()),
            *_head("meter_answers", "gauge", "Answers given, by all meters."),
            f"meter_answers {total.answers}",
        ]
        return "\n".join([*lines, ""])


def _head(name: str, kind: str, text: str) -> list[str]:
    return [f"# HELP {name} {text}", f"# TYPE {name} {kind}"]
