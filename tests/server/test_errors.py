"""Errors that nobody expected: answered without saying what happened inside."""

from __future__ import annotations

import errno
import io
import os
from pathlib import Path

import pytest
from tests.server.driving import begin, submit
from tests.server.helpers import Served, add_route, own_lines

from easeml_meter.errors import FilesUnusable, StorageError


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


def test_an_address_where_nothing_is_comes_back_with_what_to_do(served: Served) -> None:
    answer = served.client().post("/api/v1/login")  # below /api/v1 already: it is there twice
    assert (answer.status_code, answer.json()["error"]) == (404, "not-found")
    line = "POST '/api/v1/api/v1/login': nothing is at this address; /docs lists what there is"
    assert answer.json()["message"] == line
    long = served.client().get("/" + "x" * 1000).json()["message"]
    assert len(long) < 200


def test_what_the_database_says_stays_inside(served: Served, log: io.StringIO) -> None:
    add_route(served, StorageError("the books cannot be used: host db.internal refused"))
    answer = served.client().get("/fails/x")
    assert answer.status_code == 503
    assert answer.headers["retry-after"] == "1"
    assert "db.internal" not in answer.text + log.getvalue()
    assert own_lines(log)[0]["error"] == "StorageError"


def test_where_the_server_keeps_its_files_stays_inside(served: Served, log: io.StringIO) -> None:
    add_route(served, FilesUnusable("/srv/meter/files: No space left on device: fix that"))
    answer = served.client().get("/fails/x")
    assert (answer.status_code, answer.json()["error"]) == (503, "unavailable")
    line = "the server cannot use its files now: tell its admin, and try again later"
    assert answer.json()["message"] == line
    told = own_lines(log)[0]
    assert (told["error"], told["place"][:16]) == ("FilesUnusable", "/srv/meter/files")


@pytest.mark.parametrize("step", ["write", "fsync"])
def test_a_full_disk_is_no_fault_of_the_submission(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """Neither where its journal is full, nor where its predictions are kept."""
    meter = served.add_meter()
    labels = begin(served, meter, tmp_path)

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(os, step, full)
        answer = submit(served.client("developer"), meter, labels, errors=1)
    assert (answer.status_code, answer.json()["error"]) == (503, "unavailable")
    assert "/" not in answer.json()["message"]
