"""What every answer carries: security headers."""

from __future__ import annotations

import socket
import time
from pathlib import Path

import pytest
from tests.live import live
from tests.server.helpers import Served, serve
from tests.service.helpers import small_spec

from easeml_meter.core.people import Role
from easeml_meter.service.actor import SYSTEM
from easeml_meter.service.meters import create_meter
from easeml_meter.service.seats import add_seat


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


@pytest.mark.parametrize("path", ["healthz", "readyz", "metrics"])
def test_those_who_run_the_server_ask_by_its_address(tmp_path: Path, path: str) -> None:
    """Prometheus and balancers reach a process by its address, which nobody can point elsewhere."""
    hosts = {
        "127.0.0.1:8080": 200,
        "localhost:8080": 200,
        "10.0.0.5:8080": 200,
        "10.0.0.5": 200,
        "[::1]:8080": 200,
        "[2001:db8::5]": 200,
        "evil.example:8080": 421,
        "127.0.0.1.evil.example": 421,
        "[evil.example]": 421,
        "": 421,
    }
    with serve(tmp_path / "site", allowed_host=("meter.example",)) as served:
        client = served.client_from("127.0.0.1")
        codes = {
            host: client.get(f"http://server/{path}", headers={"Host": host}).status_code
            for host in hosts
        }
        assert codes == hosts
        # Pages and the API stay with the names that were allowed.
        for other in ("/me", "http://server/sign-in", f"http://server/{path}/x"):
            assert client.get(other, headers={"Host": "127.0.0.1"}).status_code == 421


@pytest.mark.parametrize("path", ["healthz", "readyz"])
def test_balancers_may_ask_for_the_head_only(served: Served, path: str) -> None:
    answer = served.client().head(f"http://server/{path}")
    assert (answer.status_code, answer.headers["x-frame-options"]) == (200, "DENY")


def test_a_client_that_breaks_off_is_no_failure_of_the_server(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It was logged as an error, with the place in the code, and counted as status 500."""
    with live(tmp_path, working=False) as site:
        meter = create_meter(SYSTEM, site.served.site, small_spec(), "m").id
        user = site.served.add_user("ann")
        add_seat(SYSTEM, site.served.site.space(meter), user.id, Role.DEVELOPER, 1)
        head = (
            f"POST /api/v1/meters/{meter}/submissions?model=m HTTP/1.1\r\nHost: a\r\n"
            f"Authorization: Bearer {site.served.tokens['ann']}\r\nContent-Length: 100\r\n"
            "Content-Type: multipart/form-data; boundary=x\r\n\r\n"
        )
        with caplog.at_level("INFO", "easeml_meter"):
            with socket.create_connection(("127.0.0.1", site.port)) as connection:
                connection.sendall(head.encode())
            while not caplog.records:
                time.sleep(0.01)
    (record,) = caplog.records
    assert (record.message, vars(record)["fields"]["status"]) == ("request", 0)
