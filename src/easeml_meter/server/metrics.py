"""Counts and times for operators, in Prometheus' text format. Nothing about losses or signals.

Labels are methods, templates of routes, statuses and states: never a path, a name or a meter.

/healthz, /readyz and /metrics are for those who run the server.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate

from fastapi import APIRouter, Request
from fastapi.responses import PlainTextResponse
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Metric,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from easeml_meter.checks import is_loopback
from easeml_meter.core.doctor import Finding, Verdict, healthy, ok
from easeml_meter.core.submissions import WAITS
from easeml_meter.server.auth import SettingsHere, SiteHere, noted, token_of
from easeml_meter.service.actor import ANYONE, SYSTEM, Actor
from easeml_meter.service.doctor import Totals, readiness, totals
from easeml_meter.service.place import Site
from easeml_meter.service.tokens import recognize

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)

# Nobody asks when the first request of a route came, and it would be a metric more for each.
disable_created_metrics()  # type: ignore[no-untyped-call]


class Metrics:
    """What one process has counted since it started, and what the books say."""

    def __init__(self) -> None:
        self._counted, self._timed = CollectorRegistry(), CollectorRegistry()
        Gauge(
            "meter_start_time_seconds", "When this process started.", registry=self._counted
        ).set_to_current_time()
        self._requests = Counter(
            "meter_requests_total",
            "Requests answered.",
            ("method", "route", "status"),
            registry=self._counted,
        )
        self._failed_logins = Counter(
            "meter_failed_logins_total", "Wrong names or passwords.", registry=self._counted
        )
        self._seconds = Histogram(
            "meter_request_seconds",
            "How long requests took.",
            ("method", "route"),
            buckets=_SECONDS,
            registry=self._timed,
        )
        # Memory and processor time tell of what others do, as latencies do.
        ProcessCollector(registry=self._timed)

    def count_request(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count an answer, and how long it took."""
        self._requests.labels(method, route, status).inc()
        self._seconds.labels(method, route).observe(seconds)

    def count_failed_login(self) -> None:
        """Count a wrong name or password."""
        self._failed_logins.inc()

    def text(self, actor: Actor, site: Site, *, timed: bool) -> str:
        """Return all counts as text; those of submissions are read from the books.

        Without `timed`, how long requests took and models waited is left out.
        """
        found = totals(actor, site)
        books = CollectorRegistry()
        books.register(_Books(found))
        shown = [self._counted, books]
        if timed:
            waits = CollectorRegistry()
            waits.register(_Waits(found))
            shown += [self._timed, waits]
        return "".join(generate_latest(each).decode() for each in shown)


@dataclass(frozen=True, eq=False)
class _Books(Collector):
    """What the books say, the same at every process."""

    found: Totals

    def collect(self) -> Iterator[Metric]:
        """Give every number as a metric."""
        found = self.found
        yield _by_state("meter_submissions", "Models handed in, by state.", found.submissions)
        oldest = {state: round(seconds) for state, seconds in found.oldest.items()}
        yield _by_state(
            "meter_oldest_submission_seconds", "Since when the oldest one waits.", oldest
        )
        single = (
            ("meter_answers", "Answers given, by all meters.", found.answers),
            (
                "meter_test_sets_nearly_spent",
                "Active ones with few answers left.",
                found.nearly_spent,
            ),
            ("meter_label_requests", "Test sets that labels are needed for.", found.requests),
            ("meter_label_requests_overdue", "Those whose deadline is over.", found.overdue),
            ("meter_workers", "Those that run models, seen in 5 minutes.", found.workers),
        )
        for name, text, value in single:
            yield GaugeMetricFamily(name, text, value)
        if found.backup is not None:
            text = "When the backup was made that was verified last."
            yield GaugeMetricFamily("meter_backup_time_seconds", text, found.backup.timestamp())


@dataclass(frozen=True, eq=False)
class _Waits(Collector):
    """How long models waited, as the workers wrote it into the books."""

    found: Totals

    def collect(self) -> Iterator[Metric]:
        """Give the histogram: each bucket holds those below it, too."""
        bounds = [*map(str, map(float, WAITS)), "+Inf"]
        buckets = list(zip(bounds, accumulate(self.found.waits), strict=True))
        yield HistogramMetricFamily(
            "meter_queue_wait_seconds", "How long models waited.", buckets, self.found.waited
        )


def _by_state(name: str, text: str, values: dict[str, int]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, text, labels=("state",))
    for state, value in values.items():
        family.add_metric((state,), value)
    return family


# Not part of the API, nor of its document.
router = APIRouter(include_in_schema=False, default_response_class=PlainTextResponse)

# Some load balancers ask for the head only.
_METHODS = ["GET", "HEAD"]

# A proxy on this machine connects from here too, but asks for somebody elsewhere.
_FORWARDED = ("forwarded", "x-forwarded-for", "x-real-ip", "via")


@router.api_route("/healthz", methods=_METHODS)
async def healthz() -> str:
    """Answer, to show that the process does."""
    return "ok\n"


@router.api_route("/readyz", methods=_METHODS)
def readyz(request: Request, site: SiteHere, settings: SettingsHere) -> PlainTextResponse:
    """Answer with the cheap checks of `meter doctor`: 200, or 503 if one failed.

    Strangers see how each check went; what was found names paths and addresses, and is only for
    this machine.
    """
    findings = [*readiness(SYSTEM, site, settings.folder), _proxy(request)]
    whole = _from_here(request)
    lines = [each.line if whole else f"{each.verdict} {each.check}" for each in findings]
    status = 200 if healthy(findings) else 503
    return PlainTextResponse("".join(f"{line}\n" for line in lines), status)


def _proxy(request: Request) -> Finding:
    """Whether the forwarded headers of this very request were believed, if it has any."""
    if not request.headers.get("X-Forwarded-For"):
        return ok("proxy", "none in between")
    named = [each.strip() for each in request.headers["X-Forwarded-For"].split(",")]
    # A proxy that is trusted has its client's address put in the place of its own.
    if request.client is not None and request.client.host in named:
        return ok("proxy", "its headers are believed")
    remedy = "name its address as trusted_proxy"
    return Finding("proxy", Verdict.WARN, "forwarded headers are not believed", remedy)


@router.get("/metrics", openapi_extra={"security": [{"HTTPBearer": []}]})
def metrics(request: Request, site: SiteHere) -> str:
    """Return counts and times for Prometheus.

    How much all tenants submit is not for each of them to know: without a token of an admin's, or
    one with the scope `metrics`, this answers only to the machine itself, unless the setting
    `metrics_public` says otherwise.
    """
    here, public = _from_here(request), request.app.state.settings.metrics_public
    if here or public:
        actor = SYSTEM
    else:
        actor = noted(request, recognize(ANYONE, site, token_of(request))).at_site()
    counts: Metrics = request.app.state.metrics
    # Times measured inside the server are free of the network's noise: not for everyone to see.
    return counts.text(actor, site, timed=here or not public)


def _from_here(request: Request) -> bool:
    """Whether a program on this machine asks, and not on behalf of another one."""
    if request.client is None or any(name in request.headers for name in _FORWARDED):
        return False
    return is_loopback(request.client.host)
