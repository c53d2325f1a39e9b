"""Sessions over HTTP: shown as data, and drawn."""

from __future__ import annotations

from pathlib import Path

from tests.server.driving import begin, submit
from tests.server.helpers import Served


def test_sessions_are_shown_and_drawn(served: Served, tmp_path: Path) -> None:
    meter = served.add_meter()
    labels = begin(served, meter, tmp_path)
    developer = served.client("developer")
    told = submit(developer, meter, labels, errors=8).json()["signal"]
    view = developer.get(f"/meters/{meter}/status").json()
    assert [signal["answer"] for signal in view["signals"]] == [told["answer"]]
    assert (view["steps_left"], view["retrospective"]) == (3, [])
    assert told["validation_loss"] == 0
    assert told["true_loss_at_most"] == told["true_gap"][1] < 1
    assert view["signals"][0]["true_loss_at_most"] == told["true_loss_at_most"]
    history = developer.get(f"/meters/{meter}/history").json()["items"]
    assert history == [view]
    for name, kind, start in (
        ("report.html", "text/html", "<!doctype html>"),
        ("report.svg", "image/svg+xml", "<svg"),
        ("badge.svg", "image/svg+xml", "<svg"),
    ):
        drawn = developer.get(f"/meters/{meter}/{name}")
        assert drawn.headers["content-type"].startswith(kind)
        assert drawn.text.lower().startswith(start)
        assert served.client("admin").get(f"/meters/{meter}/{name}").status_code == 403
    missing = developer.get(f"/meters/{meter}/status", params={"generation": 7})
    assert missing.status_code == 422
