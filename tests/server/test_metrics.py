"""The metrics: counts, for those who may see them."""

from __future__ import annotations

from pathlib import Path

from tests.server.helpers import Served, serve


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
