"""Meters, seats, plans, validation sets, signals and the audit, over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.service.helpers import small_spec

from easeml_meter.stats.planning import required_labels

from .driving import begin, give_validation, submit
from .helpers import Served, serve

SETTINGS = small_spec().to_mapping()


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with serve(tmp_path / "site") as site:
        yield site


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


def test_seats_are_given_and_taken(served: Served) -> None:
    meter = served.add_meter()
    admin, stranger = served.client("admin"), served.client("stranger")
    user = served.users["stranger"].id
    seat = {"user": user, "role": "developer", "tenant": 1}
    given = admin.post(f"/meters/{meter}/members", json=seat)
    assert given.status_code == 201, given.text
    assert stranger.get(f"/meters/{meter}").status_code == 200
    assert stranger.get("/meters").json()["items"][0]["roles"] == ["developer"]
    listed = admin.get(f"/meters/{meter}/members").json()["items"]
    assert {(each["user"], each["role"]) for each in listed} >= {(user, "developer")}
    path = f"/meters/{meter}/members/{user}/developer/1"
    assert admin.delete(path).status_code == 204
    assert admin.delete(path).status_code == 404
    assert stranger.get(f"/meters/{meter}").status_code == 404


def test_lists_come_in_pages(served: Served) -> None:
    meter = served.add_meter()
    developer = served.client("developer")
    for seed in range(5):
        assert give_validation(developer, meter, seed=seed).is_success
    seen, after = [], ""
    while after is not None:
        params: dict[str, Any] = {"limit": 2, "after": after}
        page = developer.get(f"/meters/{meter}/validation-sets", params=params).json()
        assert len(page["items"]) <= 2
        seen += [each["number"] for each in page["items"]]
        after = page["next"]
    assert seen == [1, 2, 3, 4, 5]


def test_sessions_are_shown_and_drawn(served: Served, tmp_path: Path) -> None:
    meter = served.add_meter()
    labels = begin(served, meter, tmp_path)
    developer = served.client("developer")
    told = submit(developer, meter, labels, errors=8).json()["signal"]
    view = developer.get(f"/meters/{meter}/status").json()
    assert [signal["answer"] for signal in view["signals"]] == [told["answer"]]
    assert (view["steps_left"], view["retrospective"]) == (3, [])
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


def test_the_audit_shows_each_role_its_part(served: Served, tmp_path: Path) -> None:
    meter = served.add_meter(small_spec(tenants=(2, 2)))
    labels = begin(served, meter, tmp_path)
    assert submit(served.client("developer"), meter, labels, errors=5).is_success
    assert submit(served.client("developer2"), meter, labels, errors=9).is_success

    def told(user: str) -> list[dict[str, object]]:
        audit = served.client(user).get(f"/meters/{meter}/audit", params={"limit": 200}).json()
        assert (audit["sound"], audit["problems"]) == (True, [])
        shown = {link["digest"] is not None for link in audit["items"]}
        assert shown == {user == "labeler"}
        return [link["details"] for link in audit["items"] if link["event"] == "told"]

    one, two = told("labeler")
    assert (one["tenant"], two["tenant"]) == (1, 2)
    assert (one["answer"], two["answer"]) == ("2", "3")
    assert told("developer") == [one, {}]
    assert told("developer2") == [{}, two]
    assert told("admin") == [{}, {}]
    assert served.client("runner").get(f"/meters/{meter}/audit").status_code == 403


def test_a_tenant_alone_sees_the_whole_chain(served: Served, tmp_path: Path) -> None:
    meter = served.add_meter()
    labels = begin(served, meter, tmp_path)
    assert submit(served.client("developer"), meter, labels).is_success
    links = served.client("developer").get(f"/meters/{meter}/audit").json()["items"]
    assert all(link["digest"] for link in links)
    assert np.array([link["number"] for link in links]).tolist() == [*range(1, len(links) + 1)]


def test_a_mistyped_parameter_is_refused(served: Served) -> None:
    meter = served.add_meter()
    refused = served.client("labeler").get(f"/meters/{meter}/status", params={"tenat": 2})
    assert refused.status_code == 422
    assert refused.json()["message"] == "query: 'tenat' given, generation or tenant is known here"
