"""Traces: asked for by the usual variables, one span for each request, and little in it."""

from __future__ import annotations

import builtins
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from tests.server.helpers import add_route, serve

from easeml_meter.errors import InvalidInput, MeterError
from easeml_meter.server.traces import Traces, traces_of

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def spans() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def traces(spans: InMemorySpanExporter) -> Traces:
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(spans))
    return Traces(provider)


def test_a_span_has_what_a_line_of_the_log_has(
    tmp_path: Path, traces: Traces, spans: InMemorySpanExporter
) -> None:
    with serve(tmp_path, traces=traces) as served:
        meter = served.add_meter()
        answer = served.client("developer").get(f"/meters/{meter}/signals?generation=7&limit=3")
        served.client().get("/nowhere/secret-name")
    first, second = spans.get_finished_spans()
    assert first.name == "GET /api/v1/meters/{meter}/signals"
    assert dict(first.attributes or {}) == {
        "meter.request": answer.headers["X-Request-Id"],
        "http.request.method": "GET",
        "http.route": "/api/v1/meters/{meter}/signals",
        "http.response.status_code": answer.status_code,
    }
    assert second.name == "GET -"
    assert "secret" not in second.to_json() + first.to_json()
    assert meter not in first.to_json()


def test_a_failure_is_marked_and_its_text_is_not_told(
    tmp_path: Path, traces: Traces, spans: InMemorySpanExporter
) -> None:
    with serve(tmp_path, traces=traces) as served:
        add_route(served, RuntimeError("label 1 of row 7"))
        assert served.client().get("/fails/x").status_code == 500
    (span,) = spans.get_finished_spans()
    assert not span.status.is_ok
    assert span.events == ()
    assert "label 1" not in span.to_json()


def test_only_a_trusted_proxy_puts_a_span_into_its_trace(
    tmp_path: Path, traces: Traces, spans: InMemorySpanExporter
) -> None:
    with serve(tmp_path, traces=traces, trusted_proxy=["192.0.2.1"]) as served:
        for address in ("192.0.2.1", "198.51.100.1"):
            served.client_from(address, headers={"traceparent": PARENT}).get("/me")
    inside, outside = spans.get_finished_spans()
    assert inside.context is not None
    assert outside.context is not None
    assert f"{inside.context.trace_id:032x}" == PARENT.split("-")[1]
    assert f"{outside.context.trace_id:032x}" != PARENT.split("-")[1]
    assert outside.parent is None


def test_the_span_of_a_job_does_not_say_how_it_went(
    traces: Traces, spans: InMemorySpanExporter
) -> None:
    with traces.job("submissions", PARENT):
        pass
    for queued_by in (PARENT, "", "no trace"):
        with pytest.raises(RuntimeError), traces.job("submissions", queued_by):
            raise RuntimeError("label 1 of row 7")
    found = spans.get_finished_spans()
    for span in found:
        plain = json.loads(span.to_json())
        assert (plain["name"], plain["parent_id"], plain["attributes"]) == ("submissions", None, {})
        assert (plain["status"], plain["events"]) == ({"status_code": "UNSET"}, [])
    linked = [[f"{link.context.trace_id:032x}" for link in span.links] for span in found]
    assert linked == [[PARENT.split("-")[1]], [PARENT.split("-")[1]], [], []]


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"},
        {"OTEL_SDK_DISABLED": "true", "OTEL_TRACES_EXPORTER": "otlp"},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": ""},
        {"OTEL_SERVICE_NAME": "x"},
    ],
)
def test_no_variable_no_traces(environment: dict[str, str]) -> None:
    assert traces_of(environment) is None


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({"OTEL_TRACES_EXPORTER": "zipkin"}, "'zipkin' given, otlp, console or none"),
        (
            {"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
            "'grpc' given, http/protobuf",
        ),
    ],
)
def test_what_is_not_made_here_is_refused(environment: dict[str, str], said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        traces_of(environment)


def test_missing_packages_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any, **more: Any) -> Any:
        if name.startswith("opentelemetry"):
            raise ImportError(name=name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MeterError, match=r"OTEL_TRACES_EXPORTER: traces need .*easeml-meter\[otel"):
        traces_of({"OTEL_TRACES_EXPORTER": "console"})


@pytest.fixture
def collector() -> Iterator[tuple[str, list[tuple[str, bytes]]]]:
    """A collector on this machine that keeps what it is sent."""
    arrived: list[tuple[str, bytes]] = []

    class Keep(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            arrived.append((self.path, self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with HTTPServer(("127.0.0.1", 0), Keep) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", arrived
        server.shutdown()


def test_spans_reach_the_collector_that_the_variables_name(
    collector: tuple[str, list[tuple[str, bytes]]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    address, arrived = collector
    variables = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": address,
        "OTEL_EXPORTER_OTLP_COMPRESSION": "none",
        "OTEL_SERVICE_NAME": "meter-of-team-7",
    }
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    traces = traces_of(variables)
    assert traces is not None
    with serve(tmp_path, traces=traces) as served:
        served.client().get("/me")
    traces.close()
    ((path, body),) = arrived
    assert path == "/v1/traces"
    told = ExportTraceServiceRequest.FromString(body).resource_spans[0]
    named = {each.key: each.value.string_value for each in told.resource.attributes}
    assert named["service.name"] == "meter-of-team-7"
    assert named["service.version"]
    assert told.scope_spans[0].spans[0].name == "GET /api/v1/me"
