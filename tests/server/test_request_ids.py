"""The id of a request: taken over from a trusted proxy, else made; told in header, body and log."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from tests.server.helpers import add_route, own_lines, serve

from easeml_meter.server.request_ids import Peers, Trusted


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
