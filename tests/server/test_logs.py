"""What is logged: one line for each request, and no secrets."""

from __future__ import annotations

import io
import json
import logging

import psycopg
import sqlalchemy as sa
from tests.server.helpers import Served, own_lines

from easeml_meter.errors import StorageError

PASSWORD = "a secret of some length"  # noqa: S105


def test_log_has_one_line_per_request_and_no_secrets(served: Served, log: io.StringIO) -> None:
    served.add_user("anna", password=PASSWORD)
    served.client().post("/login", json={"name": "anna", "password": "a wrong word"})
    given = served.client().post("/login", json={"name": "anna", "password": PASSWORD}).json()
    client = served.client(token=given["token"])
    answer = client.get("/tokens", params={"after": "asked"})
    client.get("/users/of-somebody")
    client.get("/nowhere/secret-path")
    client.post("/tokens", json={"name": "named"})
    lines = [line for line in own_lines(log) if line["event"] == "request"]
    anna = served.users["anna"].id
    shown = [(e["method"], e["route"], e["status"], e["user"]) for e in lines]
    assert shown == [
        ("POST", "/api/v1/login", 401, None),
        ("POST", "/api/v1/login", 200, None),
        ("GET", "/api/v1/tokens", 200, anna),
        ("GET", "/api/v1/users/{user}", 403, anna),
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


def test_other_libraries_do_not_log_what_they_saw(log: io.StringIO) -> None:
    logging.getLogger("foreign").warning("task %s failed", "with a secret")
    logging.getLogger("asyncio").error("never retrieved\nfuture: exception=ValueError('secret')")
    assert "secret" not in log.getvalue()
    assert [(e["event"], e["logger"]) for e in own_lines(log)] == [
        ("task (hidden) failed", "foreign"),
        ("never retrieved", "asyncio"),
    ]


def test_the_codes_of_a_database_and_a_socket_are_logged_and_no_text(log: io.StringIO) -> None:
    """There was a template that nobody had filled in, and a stack without a reason."""
    refused = psycopg.OperationalError('"127.0.0.1", port 5477 failed: Connection refused')
    logging.getLogger("psycopg.pool").warning("error connecting in %r: %s", "pool-1", refused)
    try:
        raise StorageError("secret words") from sa.exc.OperationalError("secret", {}, refused)
    except StorageError as error:
        logging.getLogger("easeml_meter").error("collecting failed", exc_info=error)
    denied = psycopg.errors.InsufficientPrivilege("secret")
    logging.getLogger("sqlalchemy.pool").error("closing %s: %d left", denied, 3)
    first, second, third = map(json.loads, log.getvalue().splitlines())
    assert first["event"] == "error connecting in (hidden): OperationalError ECONNREFUSED"
    assert (second["error"], second["code"]) == ("StorageError", "ECONNREFUSED")
    assert third["event"] == "closing InsufficientPrivilege 42501: 3 left"
    assert "127.0.0.1" not in log.getvalue()
    assert "secret" not in log.getvalue()
