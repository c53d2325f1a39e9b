"""Meters and plans over HTTP."""

from __future__ import annotations

import pytest
from tests.server.helpers import Served
from tests.service.helpers import small_spec

from easeml_meter.stats.planning import required_labels

SETTINGS = small_spec().to_mapping()


def test_an_admin_makes_a_meter(served: Served) -> None:
    admin = served.client("admin")
    made = admin.post("/meters", json={"name": "digits", "settings": SETTINGS})
    assert made.status_code == 201, made.text
    shown = made.json()
    assert (shown["name"], shown["phase"], shown["rows"]) == ("digits", "requested", None)
    assert shown["labels"] == required_labels(small_spec()).labels
    assert shown["recipient"] == served.site.identity.recipient
    assert admin.get(f"/meters/{shown['id']}").json() == shown
    listed = admin.get("/meters").json()["items"]
    assert [(each["id"], each["roles"]) for each in listed] == [(shown["id"], ["admin"])]
    assert served.client("stranger").get("/meters").json()["items"] == []
    assert served.client("stranger").get(f"/meters/{shown['id']}").status_code == 404


@pytest.mark.parametrize(
    "settings", [{}, {"meter": {}}, SETTINGS | {"bands": []}, SETTINGS | {"bands": [7]}]
)
def test_a_wrong_meter_is_refused(served: Served, settings: dict[str, object]) -> None:
    for path, body in (("/meters", {"name": "m"}), ("/plans", {})):
        refused = served.client("admin").post(path, json=body | {"settings": settings})
        assert (refused.status_code, refused.json()["error"]) == (422, "invalid")


def test_anybody_may_plan(served: Served) -> None:
    nobody = served.client()
    plan = nobody.post("/plans", json={"settings": SETTINGS}).json()
    assert plan == required_labels(small_spec()).to_json()
    for labels, enough in ((plan["labels"] - 1, False), (plan["labels"], True)):
        asked = nobody.post("/plans", json={"settings": SETTINGS, "labels": labels}).json()
        assert asked["enough"] is enough
