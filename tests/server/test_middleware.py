from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi import APIRouter
from tests.server.helpers import Served, serve

from easeml_meter.errors import StorageError
from easeml_meter.server.logs import JsonLines

PASSWORD = "a secret of some length"  # noqa: S105


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    """Collect everything that any library logs, as a server would write it."""
    text = io.StringIO()
    handler = logging.StreamHandler(text)
    handler.setFormatter(JsonLines())
    root, own = logging.getLogger(), logging.getLogger("easeml_meter")
    root.addHandler(handler)
    own.setLevel("DEBUG")
    yield text
    root.removeHandler(handler)
    own.setLevel(logging.NOTSET)


def add_route(served: Served, error: Exception) -> None:
    router = APIRouter()

    @router.get("/fails/{name}")
    def fails(name: str) -> None:
        raise error

    served.app.include_router(router, prefix="/api/v1")


def own_lines(log: io.StringIO) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in log.getvalue().splitlines()]
    return [line for line in lines if line["level"] != "debug"]


def test_log_has_one_line_per_request_and_no_secrets(served: Served, log: io.StringIO) -> None:
    served.add_user("anna", password=PASSWORD)
    served.client().post("/login", json={"name": "anna", "password": "a wrong word"})
    given = served.client().post("/login", json={"name": "anna", "password": PASSWORD}).json()
    client = served.client(token=given["token"])
    answer = client.get("/tokens", params={"after": "asked"})
    client.get("/users/of-somebody")
    client.get("/nowhere/secret-path")
    client.post("/tokens", json={"name": "named"}, headers={"Idempotency-Key": "my-key"})
    lines = [line for line in own_lines(log) if line["event"] == "request"]
    anna = served.users["anna"].id
    shown = [(e["method"], e["route"], e["status"], e["user"]) for e in lines]
    assert shown == [
        ("POST", "/api/v1/login", 401, None),
        ("POST", "/api/v1/login", 200, None),
        ("GET", "/api/v1/tokens", 200, anna),
        ("GET", "/api/v1/users/{user}", 422, anna),
        ("GET", "-", 404, None),
        ("POST", "/api/v1/tokens", 201, anna),
    ]
    assert lines[2]["request"] == answer.headers["x-request-id"]
    assert all(line["ms"] >= 0 and line["time"] and line["level"] == "info" for line in lines)
    for secret in (
        *(PASSWORD, "a wrong word", given["token"], "asked", "of-somebody", "secret-path"),
        *("named", "my-key", "emt_"),
    ):
        assert secret not in log.getvalue()


def test_unexpected_errors_show_where_and_not_what(served: Served, log: io.StringIO) -> None:
    add_route(served, ValueError("label 7 of row 3"))
    answer = served.client().get("/fails/x")
    assert answer.status_code == 500
    assert answer.json() == {
        "error": "internal",
        "message": "the server failed: the log says where",
    }
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "label 7" not in log.getvalue()
    failed, request = own_lines(log)
    assert (failed["level"], failed["error"]) == ("error", "ValueError")
    assert failed["where"][-1].startswith("test_frame.py:")
    assert failed["request"] == request["request"] == answer.headers["x-request-id"]
    assert request["status"] == 500


def test_what_the_database_says_stays_inside(served: Served, log: io.StringIO) -> None:
    add_route(served, StorageError("the books cannot be used: host db.internal refused"))
    answer = served.client().get("/fails/x")
    assert answer.status_code == 503
    assert answer.headers["retry-after"] == "1"
    assert "db.internal" not in answer.text + log.getvalue()
    assert own_lines(log)[0]["error"] == "StorageError"


def test_other_libraries_do_not_log_what_they_saw(log: io.StringIO) -> None:
    logging.getLogger("foreign").warning("task %s failed", "with a secret")
    logging.getLogger("asyncio").error("never retrieved\nfuture: exception=ValueError('secret')")
    assert "secret" not in log.getvalue()
    assert [(e["event"], e["logger"]) for e in own_lines(log)] == [
        ("task %s failed", "foreign"),
        ("never retrieved", "asyncio"),
    ]


@pytest.mark.parametrize("path", ["/me", "/openapi.json", "/nowhere", "http://server/healthz"])
def test_every_answer_has_security_headers(served: Served, path: str) -> None:
    headers = served.client("admin").get(path).headers
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-frame-options"] == "DENY"
    assert headers["referrer-policy"] == "no-referrer"
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert "server" not in headers
    assert "strict-transport-security" not in headers
    if path.startswith("/"):
        assert headers["cache-control"] == "no-store"


def test_hsts_only_over_https(served: Served) -> None:
    answer = served.client().get("https://server/healthz")
    assert answer.headers["strict-transport-security"] == "max-age=31536000"


def test_host_is_checked_if_asked_for(tmp_path: Path) -> None:
    with serve(tmp_path / "site", allowed_host=("Meter.example",)) as served:
        client = served.client("admin")
        codes = {
            host: client.get("/me", headers={"Host": host}).status_code
            for host in (
                "meter.example",
                "METER.example:8443",
                "evil.example",
                "",
                "meter.example.",
            )
        }
    assert list(codes.values()) == [200, 200, 421, 421, 421]


def test_metrics_are_counts_for_admins_and_this_machine(served: Served) -> None:
    url = "http://server/metrics"
    assert served.client().get(url).status_code == 401
    assert served.client("stranger").get(url).status_code == 403
    assert served.client("admin").get(url).status_code == 200
    for address, code in (("127.0.0.1", 200), ("::1", 200), ("192.0.2.1", 401)):
        assert served.client_from(address).get(url).status_code == code
    passed_on = {"X-Forwarded-For": "192.0.2.1"}
    assert served.client_from("127.0.0.1").get(url, headers=passed_on).status_code == 401
    text = served.client("admin").get(url)
    assert text.headers["content-type"] == "text/plain; charset=utf-8"
    line = 'meter_requests_total{method="GET",route="/metrics",status="200"} 3'
    assert line in text.text.splitlines()


def test_metrics_for_everyone_if_asked_for(tmp_path: Path) -> None:
    with serve(tmp_path / "site", metrics_public=True) as served:
        assert served.client().get("http://server/metrics").status_code == 200


def test_odd_methods_are_not_counted_one_by_one(served: Served) -> None:
    client = served.client("admin")
    for method in ("BREW", "SPILL"):
        assert client.request(method, "/me").status_code == 405
    text = client.get("http://server/metrics").text
    assert "BREW" not in text
    assert 'method="-",route="/api/v1/me",status="405"} 2' in text


def test_openapi_documents_every_error_in_the_one_shape(served: Served) -> None:
    document = served.client().get("/openapi.json").json()
    for path, operations in document["paths"].items():
        if not path.startswith("/api/"):
            continue
        for operation in operations.values():
            errors = {code: e for code, e in operation["responses"].items() if code >= "400"}
            assert {"422", "429"} <= set(errors), path
            for answer in errors.values():
                schema = answer["content"]["application/json"]["schema"]
                assert schema == {"$ref": "#/components/schemas/Problem"}
            if "post" in operations and operation is operations["post"]:
                headers = [
                    p["name"] for p in operation.get("parameters", []) if p["in"] == "header"
                ]
                exempt = path.endswith(("/login", "/logout", "/plans"))
                assert ("Idempotency-Key" in headers) is not exempt, path


def test_a_wrong_method_is_told_all_right_ones(served: Served) -> None:
    answer = served.client("admin").put("/users", json={})
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET, POST")


def test_no_page_of_documentation_from_elsewhere(served: Served) -> None:
    for path in ("/docs", "/redoc"):
        assert served.client().get(f"http://server{path}").status_code == 404
