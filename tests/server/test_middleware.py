"""What every answer carries: security headers."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.server.helpers import Served, serve


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
