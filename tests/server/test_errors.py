"""Errors that nobody expected: answered without saying what happened inside."""

from __future__ import annotations

import io

from tests.server.helpers import Served, add_route, own_lines

from easeml_meter.errors import StorageError


def test_unexpected_errors_show_where_and_not_what(served: Served, log: io.StringIO) -> None:
    add_route(served, ValueError("label 7 of row 3"))
    answer = served.client().get("/fails/x")
    assert answer.status_code == 500
    identifier = answer.headers["x-request-id"]
    assert answer.json() == {
        "error": "internal",
        "message": f"the server failed: its log says where, at request {identifier}",
        "request": identifier,
    }
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "label 7" not in log.getvalue()
    failed, request = own_lines(log)
    assert (failed["level"], failed["error"]) == ("error", "ValueError")
    assert failed["where"][-1].startswith("helpers.py:")
    assert failed["request"] == request["request"] == identifier
    assert request["status"] == 500


def test_what_the_database_says_stays_inside(served: Served, log: io.StringIO) -> None:
    add_route(served, StorageError("the books cannot be used: host db.internal refused"))
    answer = served.client().get("/fails/x")
    assert answer.status_code == 503
    assert answer.headers["retry-after"] == "1"
    assert "db.internal" not in answer.text + log.getvalue()
    assert own_lines(log)[0]["error"] == "StorageError"
