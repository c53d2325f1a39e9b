"""Traces for operators, by OpenTelemetry, if the usual variables ask for them.

A span for each request, and for each job of a worker, linked to the request that queued it.

Nothing is instrumented by itself: the packages that do so put addresses, queries, statements and
texts of errors into spans, and some of these hold names, labels or answers. A span has what a line
of the log has: method, template of the route, status, id of the request, and how long it took.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from starlette.requests import Request

from easeml_meter.errors import invalid, not_installed
from easeml_meter.version import __version__

# Imported where they are used: without traces, these packages need not be installed.
if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_EXPORTER = "OTEL_TRACES_EXPORTER"
_DISABLED = "OTEL_SDK_DISABLED"
_PROTOCOL = "http/protobuf"
_SERVICE = "easeml-meter"


class Span:
    """A request that is being answered."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def end(self, method: str, route: str, status: int) -> None:
        """Say how it went, once that is known."""
        from opentelemetry.trace import StatusCode

        self._inner.update_name(f"{method} {route}")
        self._inner.set_attribute("http.request.method", method)
        self._inner.set_attribute("http.route", route)
        self._inner.set_attribute("http.response.status_code", status)
        if status >= 500:
            self._inner.set_status(StatusCode.ERROR)


class Traces:
    """What makes spans, and sends them."""

    def __init__(self, provider: TracerProvider) -> None:
        self._provider = provider
        self._tracer = provider.get_tracer(_SERVICE, __version__)

    @contextmanager
    def request(self, identifier: str, parent: str = "") -> Iterator[Span]:
        """Make the span of a request; `parent` is the `traceparent` that a trusted proxy sent."""
        from opentelemetry.trace import SpanKind
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        within = TraceContextTextMapPropagator().extract({"traceparent": parent})
        # The text of an error may hold what was sent or read: it stays out.
        with self._tracer.start_as_current_span(
            "request",
            context=within,
            kind=SpanKind.SERVER,
            attributes={"meter.request": identifier},
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            yield Span(span)

    def current(self) -> str:
        """Return the `traceparent` of the request that is being answered."""
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        carrier: dict[str, str] = {}
        TraceContextTextMapPropagator().inject(carrier)
        return carrier.get("traceparent", "")

    @contextmanager
    def job(self, queue: str, queued_by: str = "") -> Iterator[None]:
        """Make the span of a job, linked to the request that queued it, by its `traceparent`.

        How it went stays out: on hidden rows, that may depend on labels.
        """
        from opentelemetry.context import Context
        from opentelemetry.trace import Link, SpanKind, get_current_span
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        known = TraceContextTextMapPropagator().extract({"traceparent": queued_by}, Context())
        request = get_current_span(known).get_span_context()
        with self._tracer.start_as_current_span(
            queue,
            context=Context(),  # a trace of its own: it may run hours later, and again
            kind=SpanKind.CONSUMER,
            links=[Link(request)] if request.is_valid else [],
            record_exception=False,
            set_status_on_exception=False,
        ):
            yield

    def close(self) -> None:
        """Send what was not sent yet."""
        self._provider.shutdown()


def current_trace(request: Request) -> str:
    """Return the `traceparent` of a request; empty where no traces are made."""
    traces: Traces | None = request.app.state.traces
    return "" if traces is None else traces.current()


def traces_of(environment: Mapping[str, str]) -> Traces | None:
    """Return what makes traces, if the variables of OpenTelemetry ask for them; else None.

    Raises:
        InvalidInput: they ask for something that is not made here.
        MeterError: the packages are not installed.
    """
    if environment.get(_DISABLED, "").lower() == "true":
        return None
    asked = next((environment[name] for name in _ENDPOINTS if environment.get(name)), "")
    exporter = environment.get(_EXPORTER) or ("otlp" if asked else "none")
    if exporter == "none":
        return None
    if exporter not in ("otlp", "console"):
        raise invalid(_EXPORTER, exporter[:80], "otlp, console or none")
    protocol = next((environment[name] for name in _PROTOCOLS if environment.get(name)), _PROTOCOL)
    if exporter == "otlp" and protocol != _PROTOCOL:
        raise invalid(_PROTOCOLS[1], protocol[:80], f"{_PROTOCOL}: it is the one that is spoken")
    try:
        return Traces(_provider(exporter))
    except ImportError as error:
        variable = next(each for each in (_EXPORTER, *_ENDPOINTS) if environment.get(each))
        raise not_installed(f"{variable}: traces need", error, "otel") from error


def _provider(exporter: str) -> TracerProvider:
    """Return the provider; addresses, headers and sampling come from the variables."""
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import (
        BatchSpanProcessor,
        ConsoleSpanExporter,
        SimpleSpanProcessor,
    )

    described = Resource.create({"service.name": _SERVICE, "service.version": __version__})
    # The variables come first: Resource.create lays what it is given over them.
    named = Resource.create().attributes.get("service.name", "")
    if not str(named).startswith("unknown_service"):
        described = described.merge(Resource({"service.name": named}))
    provider = TracerProvider(resource=described)
    if exporter == "console":
        provider.add_span_processor(SimpleSpanProcessor(ConsoleSpanExporter()))
        return provider
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return provider
