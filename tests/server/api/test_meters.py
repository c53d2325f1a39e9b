"""Meters and plans over HTTP."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest
from tests.server.helpers import Served
from tests.service.helpers import small_spec
from tests.service.sites import make_site

from easeml_meter.errors import InvalidInput
from easeml_meter.service.actor import SYSTEM
from easeml_meter.service.meters import create_meter
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
    assert plan == required_labels(small_spec()).to_dict()
    for labels, enough in ((plan["labels"] - 1, False), (plan["labels"], True)):
        asked = nobody.post("/plans", json={"settings": SETTINGS, "labels": labels}).json()
        assert asked["enough"] is enough


def test_anybody_may_plan_a_question(served: Served) -> None:
    nobody = served.client()
    asked = {"question": "n > 0.95 +/- 0.01", "delta": 0.0001}
    plan = nobody.post("/plans", json={"question": asked | {"steps": 32}}).json()
    assert (plan["size"], plan["unit"]) == (24_752, "labels")
    steps = nobody.post("/plans", json={"question": asked, "labels": 24_752}).json()
    assert steps["steps"] == 32


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"settings": SETTINGS, "question": {"metric": "f1"}},
        {"question": {}},
        {"question": {"question": 3, "steps": 1}},
        {"question": {"question": ["n > 0.8 +/- 0.01", 3], "steps": 1}},
        {"question": {"question": "n > 0.8 +/- 0.01", "steps": "many"}},
        {"question": {"metric": ["f1"], "steps": 1, "tolerance": 0.1}},
        {"question": {"metric": "f1", "steps": 1, "tolerance": "x"}},
        {"question": {"metric": "f1", "steps": 1, "tolerance": 0.1, "edges": 3}},
        {"question": {"metric": "f1", "steps": 1, "tolerance": 0.1, "floor": "high"}},
        {"question": {"rolling": False, "steps": 1, "tolerance": 0.1, "window": 3}},
        {"question": {"judge_error": 0.1, "pool": "large", "steps": 1, "tolerance": 0.1}},
        {"question": {"metric": "f1", "steps": 1, "tolerance": 0.1, "self": 1}},
        {
            "question": {
                "question": ["n - o > 0.02 +/- 0.0016"] * 10,
                "steps": 9,
            }
        },
    ],
)
def test_a_question_that_is_wrong_or_takes_long_is_refused(
    served: Served, body: dict[str, object]
) -> None:
    refused = served.client().post("/plans", json=body)
    assert (refused.status_code, refused.json()["error"]) == (422, "invalid")


def test_an_admin_cannot_make_the_server_run_a_function(served: Served, tmp_path: Path) -> None:
    """`cProfile:run` took a developer's predictions for source code, and ran them."""
    sys.path.insert(0, str(tmp_path))
    (tmp_path / "planted_loss.py").write_text("def run(predictions, labels):\n    return labels\n")
    settings = SETTINGS | {"meter": SETTINGS["meter"] | {"loss": "planted_loss:run[class]"}}
    body = {"name": "m", "settings": settings}
    try:
        refused = served.client("admin").post("/meters", json=body)
        assert (refused.status_code, "allowed_loss" in refused.text) == (422, True)
        assert "planted_loss" not in sys.modules  # importing a module runs it
    finally:
        sys.path.remove(str(tmp_path))


def test_a_meter_whose_loss_is_no_longer_allowed_imports_nothing(tmp_path: Path) -> None:
    named = "tests.scoring.examples:stuck"
    site = make_site(tmp_path, f"sqlite:///{tmp_path / 'db'}", allowed_losses=[named])
    spec = small_spec(loss=f"{named}[class]")
    meter = create_meter(SYSTEM, site, spec, "m").id
    assert site.space(meter).loss(spec).name == spec.loss
    forbidden = replace(site, allowed_losses=frozenset())
    with pytest.raises(InvalidInput, match="allowed_loss"):
        forbidden.space(meter).loss(spec)


def test_a_meter_is_found_by_its_name(served: Served) -> None:
    meter = served.add_meter()
    other = served.add_meter(prefix="other ")
    developer = served.client("developer")
    assert developer.get("/meters/meter").json() == developer.get(f"/meters/{meter}").json()
    assert developer.get("/meters/meter/submissions").status_code == 200
    assert served.client("other developer").get("/meters/other%20meter").json()["id"] == other
    admin = served.client("admin")
    assert [admin.get(f"/meters/{name}").json()["id"] for name in ("meter", "other meter")] == [
        meter,
        other,
    ]
    assert admin.get("/meters/meter/webhooks").json()["items"] == []


def test_a_name_of_no_meter_of_ones_own_is_no_name(served: Served) -> None:
    served.add_meter()
    served.add_meter(prefix="other ")
    developer = served.client("developer")
    told = [developer.get(f"/meters/{name}") for name in ("other meter", "nothing here")]
    assert [answer.status_code for answer in told] == [404, 404]
    said = [answer.json()["message"] for answer in told]
    assert said[0].replace("other meter", "nothing here") == said[1]
    assert served.client().get("/meters/meter").status_code == 401


def test_a_name_of_several_meters_is_refused(served: Served) -> None:
    served.add_meter()
    create_meter(SYSTEM, served.site, small_spec(), "meter")
    assert served.client("developer").get("/meters/meter").status_code == 200
    refused = served.client("admin").get("/meters/meter")
    assert (refused.status_code, refused.json()["message"]) == (
        409,
        "meter 'meter': 2 of yours have that name: use the id",
    )


def test_a_token_for_one_meter_finds_that_one_by_name(served: Served) -> None:
    meter = served.add_meter()
    scope = {"name": "ci", "scopes": [f"developer:{meter}"]}
    token = served.client("developer").post("/tokens", json=scope).json()["token"]
    assert served.client(token=token).get("/meters/meter").json()["id"] == meter
    scope = {"name": "ci", "scopes": ["labeler"]}
    token = served.client("developer").post("/tokens", json=scope).json()["token"]
    assert served.client(token=token).get("/meters/meter").status_code == 404
