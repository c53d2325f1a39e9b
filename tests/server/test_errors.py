"""Errors that nobody expected: answered without saying what happened inside."""

from __future__ import annotations

import errno
import io
import os
from pathlib import Path

import pytest
from tests.server.driving import begun, submit
from tests.server.helpers import Served, add_route, own_lines, serve

from easeml_meter.errors import FilesUnusable, StorageError
from easeml_meter.server.errors import Peers, Trusted


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
    meter, labels = begun(served, tmp_path)

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(os, step, full)
        answer = submit(served.client("developer"), meter, labels, errors=1)
    assert (answer.status_code, answer.json()["error"]) == (503, "unavailable")
    assert "/" not in answer.json()["message"]


@pytest.mark.parametrize(
    ("given", "taken"),
    [
        ("abc-123", True),
        ("01HZX:7.f_x", True),
        ("x" * 128, True),
        ("x" * 129, False),
        ("", False),
        ("two words", False),
        ('"quoted"', False),
        ("-x", False),
        ("é", False),
    ],
)
def test_a_proxy_names_a_request_if_it_is_trusted(tmp_path: Path, given: str, taken: bool) -> None:
    headers = {"X-Request-Id": given.encode("latin-1")}
    with serve(tmp_path, trusted_proxy=["192.0.2.0/24"]) as served:
        inside = served.client_from("192.0.2.1", headers=headers).get("/me")
        outside = served.client_from("198.51.100.1", headers=headers).get("/me")
    assert (inside.headers["X-Request-Id"] == given) is taken
    assert len(outside.headers["X-Request-Id"]) == 16
    assert outside.headers["X-Request-Id"] != given
    for answer in (inside, outside):
        assert answer.json()["request"] == answer.headers["X-Request-Id"]


def test_without_a_trusted_proxy_nobody_names_a_request(tmp_path: Path) -> None:
    with serve(tmp_path) as served:
        for address in ("127.0.0.1", "192.0.2.1"):
            client = served.client_from(address, headers={"X-Request-Id": "mine"})
            assert client.get("/me").headers["X-Request-Id"] != "mine"


def test_every_line_of_the_log_has_the_id_of_its_request(tmp_path: Path, log: io.StringIO) -> None:
    with serve(tmp_path) as served:
        add_route(served, RuntimeError("a secret"))
        failed = served.client().get("/fails/x")
    identifier = failed.headers["X-Request-Id"]
    assert failed.json() == {
        "error": "internal",
        "message": f"the server failed: its log says where, at request {identifier}",
        "request": identifier,
    }
    lines = [line for line in own_lines(log) if line["event"].startswith("request")]
    assert [(line["event"], line["request"]) for line in lines] == [
        ("request failed", identifier),
        ("request", identifier),
    ]
    assert "a secret" not in log.getvalue()


def test_a_page_shows_the_id_when_the_server_failed(tmp_path: Path) -> None:
    with serve(tmp_path) as served:

        @served.app.get("/broken")
        def broken() -> None:
            raise RuntimeError

        failed = served.client().get("http://server/broken")
    assert failed.status_code == 500
    assert f"at request {failed.headers['X-Request-Id']}" in failed.text


def test_the_address_of_the_connection_counts_and_not_a_forwarded_one() -> None:
    """Uvicorn puts the forwarded address in the place of the proxy's, before the app is asked."""
    trusted = Trusted(["10.0.0.0/8"])
    seen: list[bool] = []

    async def inner(scope: object, receive: object, send: object) -> None:
        assert isinstance(scope, dict)
        scope["client"] = (scope["forwarded"], 0)
        seen.append(trusted.sent(scope))

    for peer, forwarded in (("10.0.0.1", "203.0.113.5"), ("203.0.113.5", "10.0.0.1")):
        scope = {"type": "http", "client": (peer, 1), "forwarded": forwarded, "headers": []}
        with pytest.raises(StopIteration):
            Peers(inner)(scope, None, None).__await__().send(None)  # type: ignore[arg-type]
    assert seen == [True, False]
    assert not trusted.sent({"client": None})
    assert not trusted.sent({"client": ("/run/socket", 0)})
