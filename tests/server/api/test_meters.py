"""Meters and plans over HTTP."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.server.driving import begin, begun, submission, submit
from tests.server.helpers import Served
from tests.service.helpers import small_spec, with_errors
from tests.service.sites import make_site

from easeml_meter.core.questions.planning import required_labels
from easeml_meter.errors import InvalidInput, WrongPhase
from easeml_meter.service.actor import SYSTEM
from easeml_meter.service.meters import archive_meter, create_meter
from easeml_meter.service.submissions import answering

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
    "settings", [{}, {"question": {}}, SETTINGS | {"bands": []}, SETTINGS | {"sample": [7]}]
)
def test_a_wrong_meter_is_refused(served: Served, settings: dict[str, object]) -> None:
    for path, body in (("/meters", {"name": "m"}), ("/plans", {})):
        refused = served.client("admin").post(path, json=body | {"settings": settings})
        assert (refused.status_code, refused.json()["error"]) == (422, "invalid")


def test_settings_are_as_of_a_file_that_says_labels_alone(served: Served) -> None:
    tables = {
        "question": {"ask": "gap"},
        "sample": {"labels": 500, "inputs": "public"},
    }
    given = {"settings": tables}
    planned = served.client("admin").post("/plans", json=given).json()
    made = served.client("admin").post("/meters", json=given | {"name": "m"}).json()
    assert planned["labels"] == made["labels"] == 500
    assert made["settings"]["question"]["tolerance"] == planned["tolerance"]


@pytest.mark.parametrize("classes", [[1, "1"], ["1", "1.0"], ["cat", 3], [10**18, 1]], ids=str)
def test_classes_that_no_label_can_be_read_by_are_refused(
    served: Served, classes: list[object]
) -> None:
    settings = small_spec().to_mapping()
    settings["sample"] |= {"classes": classes}
    refused = served.client("admin").post("/meters", json={"name": "m", "settings": settings})
    assert (refused.status_code, refused.json()["error"]) == (422, "invalid")
    assert refused.json()["message"].startswith("classes: ")


@pytest.mark.parametrize(
    ("loss", "classes", "said"),
    [
        ("recall[True]", [False, True], "sample.classes[0]: Expected `int | str`, got `bool`"),
        ("recall[1.0]", ["1.0", "2.0"], "loss: 'recall[1.0]' given, one of the classes"),
    ],
)
def test_a_positive_class_that_no_label_can_be_is_refused(
    served: Served, loss: str, classes: list[object], said: str
) -> None:
    settings = small_spec(loss=loss, rows=100_000, classes=classes).to_mapping()
    refused = served.client("admin").post("/meters", json={"name": "m", "settings": settings})
    assert (refused.status_code, refused.json()["error"]) == (422, "invalid")
    assert refused.json()["message"].startswith(said)


def test_anybody_may_plan(served: Served) -> None:
    nobody = served.client()
    plan = nobody.post("/plans", json={"settings": SETTINGS}).json()
    assert plan == required_labels(small_spec()).to_dict()
    for labels, enough in ((plan["labels"] - 1, False), (plan["labels"], True)):
        asked = nobody.post("/plans", json={"settings": SETTINGS, "labels": labels}).json()
        assert asked["enough"] is enough


def test_a_plan_of_very_unequal_strata_is_no_error_of_the_server(served: Served) -> None:
    strata = {"stratum": "r", "strata": ["a", "b"], "weights": [0.000001, 0.999999]}
    settings = small_spec(tolerance=0.2).to_mapping()
    settings["sample"] |= strata | {"sizes": [1, 10**9]}
    plan = served.client().post("/plans", json={"settings": settings})
    assert (plan.status_code, plan.json()["labels"]) == (200, 10**9 + 1)


def test_strata_that_are_topped_up_are_refused(served: Served) -> None:
    settings = small_spec(top_up=2).to_mapping()
    settings["sample"] |= {"stratum": "r", "strata": ["a", "b"], "weights": [0.7, 0.3]}
    for path, body in (("/meters", {"name": "m"}), ("/plans", {})):
        refused = served.client("admin").post(path, json=body | {"settings": settings})
        assert refused.status_code == 422
        assert "not with strata: no proof covers it" in refused.json()["message"]


def test_anybody_may_plan_a_question(served: Served) -> None:
    nobody = served.client()
    asked = {"ask": "n > 0.95 +/- 0.01", "delta": 0.0001}
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
        {"question": {"ask": 3, "steps": 1}},
        {"question": {"ask": ["n > 0.8 +/- 0.01", 3], "steps": 1}},
        {"question": {"ask": "n > 0.8 +/- 0.01", "steps": "many"}},
        {"question": {"metric": ["f1"], "steps": 1, "tolerance": 0.1}},
        {"question": {"metric": "f1", "steps": 1, "tolerance": "x"}},
        {"question": {"metric": "f1", "steps": 1, "tolerance": 0.1, "edges": 3}},
        {"question": {"metric": "f1", "steps": 1, "tolerance": 0.1, "floor": "high"}},
        {"question": {"rolling": False, "steps": 1, "tolerance": 0.1, "window": 3}},
        {"question": {"judge_error": 0.1, "pool": "large", "steps": 1, "tolerance": 0.1}},
        {"question": {"metric": "f1", "steps": 1, "tolerance": 0.1, "self": 1}},
        {
            "question": {
                "ask": ["n - o > 0.02 +/- 0.0016"] * 10,
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
    settings = SETTINGS | {"sample": SETTINGS["sample"] | {"loss": "planted_loss:run[class]"}}
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
    assert admin.get("/meters/meter/members").status_code == 200


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


def test_an_admin_archives_a_meter_without_answers(served: Served, tmp_path: Path) -> None:
    meter, kept = served.add_meter(), served.add_meter(prefix="other-")
    admin, labeler = served.client("admin"), served.client("labeler")
    shown = admin.post(f"/meters/{meter}/archive")
    assert (shown.status_code, shown.json()["phase"]) == (200, "archived")
    assert [each["id"] for each in admin.get("/meters").json()["items"]] == [kept]
    assert labeler.get("/meters").json()["items"] == []
    assert admin.get(f"/meters/{meter}").json()["phase"] == "archived"
    assert labeler.get(f"/meters/{meter}/requests").json()["items"] == []
    again = admin.post(f"/meters/{meter}/archive")
    assert (again.status_code, again.json()) == (200, shown.json())
    links = admin.get(f"/meters/{meter}/audit").json()
    assert links["sound"]
    last = links["items"][-1]
    assert last["event"] == "archived"
    assert last["details"] == {"generation": 1, "user": served.users["admin"].id}


def test_an_archived_meter_takes_nothing_and_answers_nothing(
    served: Served, tmp_path: Path
) -> None:
    meter, labels = begun(served, tmp_path)
    assert served.client("admin").post(f"/meters/{meter}/archive").status_code == 200
    body = submission(with_errors(labels, 1))
    refused = served.client("developer").post(
        f"/meters/{meter}/submissions", params={"model": "m", "wait": 30}, content=body
    )
    assert (refused.status_code, refused.json()["error"]) == (409, "wrong-time")
    assert "this meter is archived" in refused.json()["message"]
    labeler = served.client("labeler")
    for deed in ("retire", "release"):
        assert labeler.post(f"/meters/{meter}/test-sets/1/{deed}").status_code == 409
    space = served.site.space(meter)
    with pytest.raises(WrongPhase, match="it takes no labels"), space.reading() as books:
        space.state(books).requested()
    with space.reading() as books:
        assert books.entries.all(meter, 1) == []


def test_rows_of_an_archived_meter_stay_its_own(served: Served, tmp_path: Path) -> None:
    meter, other = served.add_meter(), served.add_meter(prefix="other-")
    begin(served, meter, tmp_path)
    assert served.client("admin").post(f"/meters/{meter}/archive").status_code == 200
    with pytest.raises(AssertionError, match="answers count there"):
        begin(served, other, tmp_path, prefix="other-")


def test_a_meter_that_has_answered_is_not_archived(served: Served, tmp_path: Path) -> None:
    meter, labels = begun(served, tmp_path)
    told = submit(served.client("developer"), meter, labels, errors=1, model="m")
    assert told.status_code == 200
    refused = served.client("admin").post(f"/meters/{meter}/archive")
    assert (refused.status_code, refused.json()["error"]) == (409, "wrong-time")
    assert "has answered a submission" in refused.json()["message"]
    assert served.client("admin").get(f"/meters/{meter}").json()["phase"] == "active"


def test_a_submission_that_was_being_measured_is_still_charged(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    meter, labels = begun(served, tmp_path)
    space = served.site.space(meter)
    measured = answering._losses

    def archive_meanwhile(*given: Any) -> Any:
        found = measured(*given)
        archive_meter(SYSTEM, space)
        return found

    monkeypatch.setattr(answering, "_losses", archive_meanwhile)
    told = submit(served.client("developer"), meter, labels, errors=1, model="m")
    assert told.status_code == 200, told.text
    with space.reading() as books:
        assert space.state(books).archived
        assert len(books.entries.all(meter, 1)) == 1


def test_a_meter_asked_for_once_more_is_the_same_meter(served: Served) -> None:
    admin, drawn = served.client("admin"), "0123456789abcdef" * 2
    asked = {"id": drawn, "name": "digits", "settings": SETTINGS}
    made = admin.post("/meters", json=asked)
    assert (made.status_code, made.json()["id"]) == (201, drawn)
    again = admin.post("/meters", json=asked)
    assert (again.status_code, again.json()) == (201, made.json())
    assert len(admin.get("/meters").json()["items"]) == 1
    # One that is taken is refused like one that is none: which ids there are is not told.
    left = "f" * 32
    served.site.files.put(f"meters/{left}/testsets/old.journal", b"")
    refusals = [
        admin.post("/meters", json=asked | change)
        for change in ({"name": "other"}, {"id": left}, {"id": "0" * 31}, {"id": "../" + "0" * 29})
    ]
    assert {each.status_code for each in refusals} == {422}
    assert {each.json()["error"] for each in refusals} == {"invalid"}
    assert len({each.json()["message"].partition(" given")[2] for each in refusals}) == 1
    assert len(admin.get("/meters").json()["items"]) == 1
