from __future__ import annotations

from pathlib import Path

import pytest
from tests.server.driving import begin, submit
from tests.server.helpers import serve

from .helpers import Visitor


def test_show_the_last_signal_to_everyone_where_the_site_wants_that(tmp_path: Path) -> None:
    with serve(tmp_path / "site", badges=True) as served:
        meter = served.add_meter()
        visitor = Visitor(served)
        assert "no answers yet" in visitor.get(f"/badge/{meter}.svg").text
        labels = begin(served, meter, tmp_path)
        submit(served.client("developer"), meter, labels, model="secret name")
        answer = visitor.get(f"/badge/{meter}.svg")
        assert answer.headers["content-type"] == "image/svg+xml"
        assert answer.headers["cache-control"] == "no-cache"
        assert "band 1, 3 steps left" in answer.text
        assert "secret name" not in answer.text
        shields = visitor.get(f"/badge/{meter}.json")
        assert shields.headers["content-type"] == "application/json"
        assert shields.headers["cache-control"] == "no-cache"
        assert shields.json()["message"] == "band 1, 3 steps left"
        assert set(shields.json()) == {"schemaVersion", "label", "message", "color", "labelColor"}
        for kind in ("svg", "json"):
            assert visitor.get(f"/badge/{'0' * 32}.{kind}").status_code == 404


@pytest.mark.parametrize("kind", ["svg", "json"])
def test_are_off_unless_asked_for(tmp_path: Path, kind: str) -> None:
    with serve(tmp_path / "site") as served:
        meter = served.add_meter()
        real, made_up = (Visitor(served).get(f"/badge/{m}.{kind}") for m in (meter, "0" * 32))
        assert (real.status_code, made_up.status_code) == (404, 404)
        assert real.text.replace(meter, "") == made_up.text.replace("0" * 32, "")
