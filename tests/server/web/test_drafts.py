"""The form for a new meter: what is typed is planned at once, and made as it was planned."""

from __future__ import annotations

import re
from dataclasses import fields

import pytest
from markupsafe import escape
from tests.server.helpers import Served
from tests.server.web.helpers import Visitor, words

from easeml_meter.core.questions.labels import plan_alarm
from easeml_meter.core.questions.planning import plan_of
from easeml_meter.errors import InvalidInput
from easeml_meter.server.web.drafts import DEFAULTS, MeterDraft
from easeml_meter.spec import Gap, MeterSpec, Protocol

TOML = """
[question]
ask = "gap"
tolerance = 0.1
edges = [0.1]

[budget]
steps = 3
"""
DIFFERENCE = {"asks": "condition", "condition": "n - o at 0 +/- 0.1", "disagreement": "0.3"}
SMALL = {"steps": "3", "confidence": "0.9", "tolerance": "0.1", "edges": "0.1"}


def made(served: Served) -> dict[str, object]:
    """Give the settings of the only meter."""
    with served.site.reading() as books:
        (row,) = books.meters.all()
    return row.settings


def labels_of(page_text: str) -> str:
    found = re.search(r'name="planned" value="(\d+)"', page_text)
    assert found, page_text
    return found[1]


def test_a_meter_is_made_from_the_fields(served: Served, admin: Visitor) -> None:
    fields = SMALL | {"classes": "cat, dog", "inputs": "hidden", "models": "onnx"}
    plan = admin.send("/admin/meters/new/plan", **fields)
    assert "What an answer can be" in words(plan)
    answer = admin.send("/admin/meters/new", name="pets", planned=labels_of(plan.text), **fields)
    assert answer.status_code == 303
    assert "pets is made." in words(admin.get(answer.headers["location"]))
    settings = made(served)
    assert settings == {
        "question": {"ask": "gap", "tolerance": 0.1, "edges": [0.1]},
        "budget": {"steps": 3},
        "sample": {"classes": ["cat", "dog"], "models": "onnx"},
        "meter": {"delta": 0.1},
    }


def test_nothing_is_made_with_another_number_of_labels_than_shown(
    served: Served, admin: Visitor
) -> None:
    shown = labels_of(admin.send("/admin/meters/new/plan", **SMALL).text)
    changed = SMALL | {"steps": "4"}
    page = admin.send("/admin/meters/new", name="pets", planned=shown, **changed)
    assert page.status_code == 422
    needed = plan_of(MeterDraft.of(changed).spec).labels
    assert f"this takes {needed:,} labels: look at the plan" in words(page)
    assert labels_of(page.text) == str(needed)
    assert 'value="pets"' in page.text
    with served.site.reading() as books:
        assert books.meters.all() == []


def test_without_scripts_the_plan_is_a_page(admin: Visitor) -> None:
    page = admin.send("/admin/meters/new", do="plan", **SMALL)
    assert page.status_code == 200
    assert labels_of(page.text) == str(plan_of(MeterDraft.of(SMALL).spec).labels)
    assert 'name="edges" value="0.1"' in page.text


def test_the_first_draft_is_a_meter() -> None:
    spec = MeterDraft.of({}).spec
    assert (spec.steps, spec.delta, spec.inputs) == (10, 0.1, "hidden")
    assert spec == plan_alarm(500).spec
    assert MeterDraft.of({"steps": "10", "labels": "500"}).spec.bands


def test_an_alarm_is_made_of_labels(served: Served, admin: Visitor) -> None:
    typed = {"asks": "alarm", "labels": "50", "steps": "5", "validation": "40"}
    said = words(admin.send("/admin/meters/new/plan", **typed))
    assert "ok will mean: true error at most the validation error + " in said
    assert "(50 labels, 40 validation rows; " in said
    assert "A model at an error of 20 %" in said
    assert "100 answers: + " in said
    typed |= {"name": "few", "planned": "50"}
    assert admin.send("/admin/meters/new", **typed).is_redirect
    assert made(served) == {
        "question": {"ask": "alarm"},
        "budget": {"steps": 5, "alarms": 3},
        "sample": {"labels": 50},
        "meter": {"delta": 0.1},
    }


def test_a_meter_is_made_of_labels_alone(served: Served, admin: Visitor) -> None:
    said = words(admin.send("/admin/meters/new/plan", labels="50"))
    assert "In the lowest band: true error at most the validation error + 27.8 points." in said
    assert "50 labels carry 3 answers, not ten" in said
    assert "20 answers: + 57.6 points; 50 answers" in said
    assert "Validation set of 25 rows" in said
    assert admin.send("/admin/meters/new", name="few", labels="50", planned="50").is_redirect
    assert (made(served)["budget"], made(served)["meter"]) == ({"steps": 3}, {"delta": 0.1})


def test_an_alarm_without_an_end_has_its_pages(served: Served, admin: Visitor) -> None:
    text = 'question = {ask = "alarm"}\nbudget = {steps = "no end"}\nsample = {labels = 50}\n'
    done = admin.send("/admin/meters/new", do="text", name="endless", text=text)
    assert done.is_redirect
    assert made(served) == {
        "question": {"ask": "alarm"},
        "budget": {"steps": "no end", "alarms": 3},
        "sample": {"labels": 50},
        "meter": {"delta": 0.1},
    }
    place = done.headers["location"]
    for page in (place, place.removeprefix("/admin"), f"{place.removeprefix('/admin')}/promise"):
        assert admin.get(page).status_code in (200, 403, 404), page
    assert admin.get(place).status_code == 200


def test_pass_or_fail_begins_with_a_condition_that_can_be_planned() -> None:
    assert plan_of(MeterDraft.of(DEFAULTS | {"asks": "condition"}).spec).labels > 0
    assert plan_of(MeterDraft.of(DEFAULTS | {"asks": "better"}).spec).labels > 0


@pytest.mark.parametrize(
    ("fields", "name", "value"),
    [
        ({"gap": "signed"}, "gap", Gap.SIGNED),
        ({"protocol": "incremental"}, "protocol", Protocol.INCREMENTAL),
        ({"drawn": "0.05", "edges": ""}, "drawn", 0.05),
        ({"tenants": "2,1"}, "tenants", (2, 1)),
        ({"tenants": "2,1", "handover": "1"}, "handover", True),
        ({"loss": "other", "other_loss": "top-5"}, "loss", "top-5"),
        ({"loss": "top-5"}, "loss", "top-5"),
        ({"loss": "absolute"}, "loss", "absolute[0,1]"),
        ({"loss": "score", "metric": "exact_match"}, "metric", "exact_match"),
        ({"loss": "0-1", "metric": "exact_match"}, "metric", ""),
        ({"loss": "brier", "classes": "0, 1, 2"}, "classes", (0, 1, 2)),
        ({"loss": "score", "classes": "0, 1, 2"}, "classes", ()),
        ({"models": "1"}, "models", True),
        ({"signals": "4", "edges": ""}, "signals", 4),
        ({"asks": "condition", "condition": "n > 0.8 +/- 0.02"}, "question", "n > 0.8 +/- 0.02"),
        ({"asks": "condition", "condition": "n > 0.8 +/- 0.02", "passes": "2"}, "passes", 2),
        (
            {"asks": "condition", "condition": "n - o > 0 +/- 0.05", "disagreement": "0.2"},
            "disagreement",
            0.2,
        ),
        ({"asks": "better"}, "question", "better"),
        (
            DIFFERENCE,
            "question",
            "n - o at 0 +/- 0.1",
        ),
        ({"disagreement": "0.3"}, "disagreement", None),
        ({"window": "2"}, "window", 2),
        ({"window": "2", "submissions": "3"}, "submissions", 3),
        ({"top_up": "3"}, "top_up", 3),
        ({"loss": "f1", "positive": "fraud"}, "loss", "f1[fraud]"),
        ({"loss": "f1[fraud]", "floor": "0.7"}, "floor", 0.7),
        ({"loss": "recall", "positive": "1", "rows": "5000"}, "rows", 5_000),
        ({"loss": "macro-recall", "positive": "1", "classes": "0, 1"}, "loss", "macro-recall"),
        ({"loss": "f1[fraud]", "tries": "2"}, "tries", 2),
        ({"floor": "0.7", "rows": "5000", "tries": "2"}, "floor", None),
        ({"judge_error": "0.1", "pool": "5000"}, "judge_error", 0.1),
        ({"judge_error": "0.1", "pool": "5000", "rows": "200"}, "rows", 200),
        ({"judge_error": "0.1", "pool": "5000"}, "pool", 5_000),
        ({"loss": "brier", "judge_error": "0.1"}, "judge_error", None),
        ({"clusters": "1"}, "clusters", "cluster"),
        (DIFFERENCE | {"on_demand": "1"}, "on_demand", True),
        ({"on_demand": "1"}, "on_demand", False),
    ],
)
def test_every_setting_has_a_field(fields: dict[str, str], name: str, value: object) -> None:
    spec = MeterDraft.of(SMALL | fields).spec
    assert getattr(spec, name) == value
    assert plan_of(spec).labels > 0
    assert MeterSpec.from_mapping(spec.to_mapping()) == spec


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"steps": "ten"}, "steps: 'ten'"),
        ({"steps": "1000000"}, "meter.toml takes more"),
        ({"confidence": "195"}, "confidence"),
        ({"tolerance": "wide"}, "tolerance"),
        ({"tolerance": ""}, "or labels if"),
        ({"tolerance": "", "labels": "500", "window": "2"}, "tolerance"),
        ({"tolerance": "0,05", "labels": "500"}, "labels: 500 given, too few: "),
        (
            {"tolerance": "", "labels": "20", "steps": ""},
            "labels: 20 given, too few for one answer",
        ),
        ({"edges": "0.2, 0.1"}, "edges"),
        ({"tenants": "1,1"}, "must sum to the steps"),
        ({"models": "docker"}, "models"),
        ({"asks": "everything"}, "asks"),
        ({"asks": "condition"}, "condition"),
        ({"loss": "other", "other_loss": "f1"}, "loss"),
        ({"loss": "f1"}, "say which class is the positive one"),
        ({"window": "2", "ceiling": "0.3"}, "not with ceiling"),
        ({"submissions": "2"}, "only with a window"),
        ({"judge_error": "0.1"}, "the rows without a label"),
        ({"window": "two"}, "window: 'two'"),
        ({"loss": "other", "other_loss": "os:system"}, "loss"),
    ],
)
def test_what_is_wrong_is_said_beside_the_form(
    served: Served, admin: Visitor, fields: dict[str, str], said: str
) -> None:
    plan = admin.send("/admin/meters/new/plan", **(SMALL | fields))
    assert plan.status_code == 200
    assert '<p class="problem">' in plan.text
    assert said in words(plan)
    assert "Make it" not in plan.text
    page = admin.send("/admin/meters/new", name="x", planned="1", **(SMALL | fields))
    assert page.status_code == 422
    with served.site.reading() as books:
        assert books.meters.all() == []


def test_whom_the_meter_needs_is_said(admin: Visitor) -> None:
    hidden = words(admin.send("/admin/meters/new/plan", **SMALL, inputs="hidden", classes="a,b"))
    assert "A runner predicts on the hidden inputs" in hidden
    assert "comes first" not in hidden
    assert "It comes first." in words(admin.send("/admin/meters/new/plan", **SMALL))


def test_the_form_has_every_field(admin: Visitor) -> None:
    page = admin.get("/admin/meters/new")
    assert {name for name in DEFAULTS if f'name="{name}"' not in page.text} == set()


def test_a_meter_is_made_from_a_text(served: Served, admin: Visitor) -> None:
    answer = admin.send("/admin/meters/new", name="signs", text=TOML, do="text")
    assert answer.status_code == 303
    page = admin.get(answer.headers["location"])
    assert "signs is made." in words(page)
    assert "in all 3 answers together" in words(page)
    assert "validation sets are drawn and replaced without looking" in words(page)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("steps = ", "not a valid TOML file"),
        ("[meter]\nsteps = 1", "write [budget] steps"),
        ("sample = {labels = 20}\nquestion = {ask = 'gap'}", "too few for one answer"),
        (" ", "text: ''"),
    ],
)
def test_a_wrong_text_comes_back(admin: Visitor, text: str, said: str) -> None:
    page = admin.send("/admin/meters/new", name="signs", text=text, do="text")
    assert page.status_code == 422
    assert said in words(page)
    assert 'value="signs"' in page.text
    assert f">{escape(text)}</textarea>" in page.text


def test_a_planners_link_fills_the_form(admin: Visitor) -> None:
    query = "steps=4&signals=2&tolerance=0.1&confidence=0.9&protocol=incremental"
    pages = [
        admin.get("/admin/meters/new", params={"link": f"https://a.example/planner?{query}"}),
        admin.get(f"/admin/meters/new?{query}"),
    ]
    spec = MeterSpec.uniform(
        signals=2, tolerance=0.1, steps=4, delta=0.1, protocol=Protocol.INCREMENTAL, inputs="public"
    )
    for page in pages:
        assert labels_of(page.text) == str(plan_of(spec).labels)
        assert '<option value="incremental" selected>' in page.text


@pytest.mark.parametrize("link", ["https://a.example/", "/planner?name=1", "http://[/?steps=1"])
def test_a_wrong_link_is_said_so(admin: Visitor, link: str) -> None:
    page = admin.get("/admin/meters/new", params={"link": link})
    assert page.status_code == 422
    assert '<p class="problem" role="alert">' in page.text
    assert 'name="text"' in page.text


def test_there_is_one_place_to_make_a_meter(admin: Visitor) -> None:
    for page in ("/meters", "/admin"):
        assert "Make a meter" in words(admin.get(page))
        assert 'href="/admin/meters/new"' in admin.get(page).text
    assert 'href="/planner">Make' not in admin.get("/admin").text


def test_only_texts_and_no_code_come_out_of_a_draft() -> None:
    with pytest.raises(InvalidInput, match="steps"):
        _ = MeterDraft.of({"steps": "<b>"}).spec


PAPER = {
    "reverts",
    "memory",
}
"""Settings of the paper's variants, which a meter.toml takes."""


def test_what_has_no_field_is_known() -> None:
    by_another_name = {"bands", "delta", "question", "topped_up", "count", "published"}
    without = {each.name for each in fields(MeterSpec)} - set(DEFAULTS) - by_another_name
    strata = {"stratum", "strata", "weights", "sizes"}  # a list of them is written in meter.toml
    alarm = {"g", "expects", "alarms", "endless"}
    assert without == PAPER | strata | alarm | {"commands_may_carry_inputs_out"}


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ({"window": "2"}, "for each batch, of 2 in use at a time"),
        ({"top_up": "3"}, "more join them."),
        ({"loss": "f1[fraud]", "classes": "fraud, fair", "rows": "9000"}, "A labeler delivers"),
        (
            {"judge_error": "0.1", "pool": "5000", "rows": "200"},
            "5,000 more rows that the",
        ),
        (DIFFERENCE, "n - o at 0 +/- 0.1"),
        (DIFFERENCE | {"on_demand": "1"}, "labels a step, at most"),
    ],
)
def test_a_plan_of_every_kind_is_shown(admin: Visitor, typed: dict[str, str], said: str) -> None:
    page = admin.send("/admin/meters/new/plan", **(SMALL | typed))
    assert said in words(page)
    assert "Make it" in words(page)
