"""The planner's page: the same numbers as the command line, for every form that can be sent."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, parse_qsl, urlsplit

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.server.helpers import Served, serve

from easeml_meter import checks
from easeml_meter.core.questions.comparison import Setting, compare
from easeml_meter.core.questions.planning import (
    reachable_tolerance,
    required_labels,
    supported_steps,
)
from easeml_meter.errors import InvalidInput
from easeml_meter.report.percent import in_percent
from easeml_meter.report.presets import PRESETS, TITLES
from easeml_meter.server.web.planner import (
    DEFAULTS,
    MOST_SIGNALS,
    answer_to,
    asked_of,
    stories,
)
from easeml_meter.spec import MeterSpec

from .helpers import Visitor, words


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serve(tmp_path_factory.mktemp("site"), plans_per_minute=0) as found:
        yield found


PAPER = {"want": "labels", "labels": "", "tolerance": "0.01", "confidence": "0.99"}


def asked(**changes: str) -> dict[str, str]:
    return DEFAULTS | PAPER | changes


def test_labels_say_what_a_gate_finds_too(served: Served) -> None:
    said = words(Visitor(served).get("/planner/answer", params={"labels": "300"}))
    assert "20 6.4 points 8.7 846 cases" in said
    few = words(Visitor(served).get("/planner/answer", params={"labels": "29"}))
    assert "29 given, too few for one answer of use" in few
    assert "20 39.5 points 54.2 68 cases" in few
    for other in (
        {"want": "labels"},
        {"labels": "6"},
        {"labels": "29", "want": "nothing"},
        {"labels": "300", "steps": "0"},
        {"labels": "29", "confidence": "half"},
    ):
        page = words(Visitor(served).get("/planner/answer", params=other))
        assert "Keep or discard" not in page


@pytest.mark.parametrize(
    ("labels", "points", "line"),
    [
        ("500", 13.4, "10 answers from 500 labels; 90 % sure."),
        ("1k", 9.8, "10 answers from 1,000 labels; 90 % sure."),
        ("5,000", 4.3, "10 answers from 5,000 labels; 90 % sure."),
        ("50", 27.8, "50 labels carry 3 answers, not ten"),
    ],
)
def test_labels_alone_are_answered_in_a_sentence(
    served: Served, labels: str, points: float, line: str
) -> None:
    said = words(Visitor(served).get("/planner", params={"labels": labels, "ask": "gap"}))
    sentence = f"true error at most the validation error + {points} points. "
    assert f"The answer In the lowest band: {sentence}" in said
    assert line in said
    assert re.search(r"5 answers \+ .* points 20 answers .* 50 answers .* labels \+", said)
    rows = checks.read_whole("labels", labels) // 2
    assert f"Validation set of {rows:,} rows: " in said


def test_an_alarm_is_the_first_offer(served: Served) -> None:
    page = Visitor(served).get("/planner")
    said = words(page)
    assert "The answer ok will mean: true error at most the validation error + 10.5 points" in said
    assert "is ok 99 times in 100 at the first answer (30 %: 97, 50 %: 96)." in said
    assert "10 answers from 500 labels; 90 % sure." in said
    assert "95 % sure + 11.1 points, 14.0 after one alarm" in said
    assert "bands + 13.4 points in the lowest" in said
    assert "20 4.5 points" in said, "what a gate finds"
    assert "How this compares" not in said
    for change, told in (("95 % sure", "+ 11.1 points"), ("bands", "+ 13.4 points")):
        (way,) = re.findall(rf'href="(/planner[^"]*)">{change}<', page.text)
        other = words(Visitor(served).get(way.replace("&amp;", "&")))
        assert told in other.split("Other ways")[0]
    for params, alarm in (
        ({"labels": "5001"}, False),
        ({"labels": "5001", "ask": "alarm"}, True),
        ({"labels": "5001", "steps": "20"}, True),
        ({"labels": "500", "drawn": "0.1"}, False),
        ({"labels": "500", "tenants": "5,5", "validation": "100"}, True),
    ):
        said = words(Visitor(served).get("/planner/answer", params=params))
        assert ("ok will mean" in said) is alarm, params
    wrong = words(Visitor(served).get("/planner/answer", params={"ask": "keep"}))
    assert "ask: 'keep' given, one of alarm, gap" in wrong


def test_the_answer_stands_before_all_else_and_other_questions_a_click_away(served: Served) -> None:
    page = Visitor(served).get("/planner", params={"ask": "gap"})
    said = words(page)
    assert said.index("I have") < said.index("how many labels I need") < said.index("+ 13.4 points")
    assert said.index("+ 13.4 points") < said.index("How this compares") < said.index("published")
    assert 'name="labels" inputmode="numeric" value="500"' in page.text
    (way,) = re.findall(r'href="(/planner[^"]*)">20 answers', page.text)
    other = words(Visitor(served).get(way.replace("&amp;", "&")))
    assert "+ 18.6 points. 20 answers from 500 labels" in other
    noise = words(Visitor(served).get("/planner", params={"ask": "gap", "validation": "100"}))
    assert "Validation set of 100 rows: 10 % wrong may be 5.5 to 16.4 %" in noise


@pytest.mark.parametrize("labels", ["20", "1"])
def test_too_few_labels_are_one_line(served: Served, labels: str) -> None:
    page = Visitor(served).get("/planner/answer", params={"labels": labels})
    assert f'<p class="problem">labels: {labels} given, too few for one answer' in page.text


@pytest.mark.parametrize(
    ("typed", "plain"),
    [
        ({"confidence": "95"}, {"confidence": "0.95"}),
        ({"confidence": "95%"}, {"confidence": "0.95"}),
        ({"confidence": ""}, {"confidence": "0.9"}),
        ({"tolerance": "0,05"}, {"tolerance": "0.05"}),
        ({"tolerance": "5%, 10%", "signals": "2"}, {"tolerance": "0.05,0.1", "signals": "2"}),
        ({"steps": "1,000"}, {"steps": "1k"}),
        ({"edges": "0,1"}, {"edges": "0.1"}),
    ],
)
def test_numbers_are_read_as_people_write_them(
    typed: dict[str, str], plain: dict[str, str]
) -> None:
    assert answer_to(asked(**typed)).plan == answer_to(asked(**plain)).plan


def test_other_losses_are_planned_in_the_time_of_a_stranger(served: Served) -> None:
    said = words(Visitor(served).get("/planner", params={"labels": "77", "loss": "brier"}))
    assert "true loss at most the validation loss + 29.6 points." in said
    assert "50 answers" not in said


def test_everyone_may_ask(served: Served) -> None:
    page = Visitor(served).get("/planner", params=asked())
    assert page.status_code == 200
    plan = required_labels(MeterSpec.uniform(tolerance=0.01, steps=10, delta=0.01))
    said = words(page)
    assert "true error at most the validation error + 1.5 points." in said
    assert "Recommended: consistent" in said
    assert f"{plan.labels:,} labels" in said
    assert in_percent(plan.promise, plan.spec) in said
    assert all(in_percent(line, plan.spec) in said for line in plan.assumptions)
    assert len(page.content) < 20_000


@pytest.mark.parametrize(
    ("form", "options"),
    [
        ({"protocol": "incremental"}, {"protocol": "incremental"}),
        ({"ceiling": "0.1", "models": "1"}, {"ceiling": 0.1, "models": True}),
        ({"tenants": "4, 6"}, {"tenants": (4, 6)}),
        ({"tenants": "4,6", "handover": "1"}, {"tenants": (4, 6), "handover": True}),
        ({"clusters": "1"}, {"clusters": True}),
        ({"edges": "0.1,0.2,0.3,0.4"}, {"edges": (0.1, 0.2, 0.3, 0.4)}),
        ({"confidence": "0.9"}, {"delta": 0.1}),
        ({"drawn": "0.05"}, {"drawn": 0.05}),
        ({"loss": "brier"}, {"loss": "brier"}),
    ],
)
def test_every_field_counts(form: dict[str, str], options: dict[str, object]) -> None:
    whole: dict[str, object] = {"tolerance": 0.01, "steps": 10, "delta": 0.01}
    spec = MeterSpec.uniform(**(whole | options))  # type: ignore[arg-type]
    found = answer_to(asked(**form))
    assert found.plan == required_labels(spec)
    assert MeterSpec.from_mapping(tomllib.loads(found.plan.spec.to_toml())) == spec


def test_labels_that_one_has_are_turned_into_answers_or_exactness(served: Served) -> None:
    given = {"labels": "5000", "tolerance": "0.05", "confidence": "0.95"}
    spec = MeterSpec.uniform(tolerance=0.05, steps=10, delta=0.05)
    forms = [
        asked(**given, want="steps", steps=""),
        asked(**given | {"tolerance": ""}, want="tolerance", ask="gap"),
        asked(**given, want="tolerance", edges="0.1,0.4", price="2"),
    ]
    answers, exact, edges = map(answer_to, forms)
    assert answers.plan == supported_steps(spec, 5000)
    assert exact.plan == reachable_tolerance(spec, 5000)
    assert edges.plan == reachable_tolerance(
        spec.uniform(tolerance=0.05, edges=(0.1, 0.4), steps=10, delta=0.05), 5000
    )
    assert edges.cost == 10_000
    # The comparison is that of the meter that was found, and so is the form of a new one.
    for found, form in zip((answers, exact, edges), forms, strict=True):
        again = answer_to(asked_of(dict(parse_qsl(found.query(form)))))
        assert (again.plan.spec, again.rows) == (found.plan.spec, found.rows)
        assert again.plan.labels <= 5000
    said = words(Visitor(served).get("/planner", params=asked(**given, want="steps", price="2")))
    assert f"{answers.plan.spec.steps} answers from 5,000 labels, which cost 10,000.00" in said


@pytest.mark.parametrize("query", stories().values(), ids=list(stories()))
def test_a_story_is_a_plan(served: Served, query: str) -> None:
    page = Visitor(served).get(f"/planner?{query}")
    assert 'class="problem"' not in page.text
    assert page.text.count("/planner?want=") > 3, "all stories, and the link to this one"


def test_stories_are_those_of_the_command_line() -> None:
    form = asked_of(dict(parse_qsl(stories()[TITLES["gate"]])))
    preset = PRESETS["gate"]
    spec = MeterSpec.uniform(tolerance=0.05, edges=(0.1,), steps=preset["steps"], delta=0.05)
    assert answer_to(form).plan == required_labels(spec)


def test_the_comparison_is_that_of_the_command_line() -> None:
    found = answer_to(asked(ceiling="0.2", tolerance="0.02", signals="3", price="0.5"))
    assert found.rows == compare(Setting(3, (0.02, 0.04, 0.06), 0.01, 0.2, (1 / 3, 2 / 3)), 10)
    assert found.cost == found.plan.labels / 2
    assert answer_to(asked()).rows[0].with_ceiling is None


def test_drawn_edges_are_compared_with_the_default_bands(served: Served) -> None:
    """The meter asked for has no edges of its own; the tables are those of the fixed ones."""
    found = answer_to(asked(drawn="0.2"))
    assert found.plan.labels == 29_332
    assert found.rows == answer_to(asked()).rows
    page = Visitor(served).get("/planner/answer", params=asked(drawn="0.2"))
    assert "Bands 20 % wide; edges move" in page.text
    repeated = answer_to(asked(drawn="0.2", tolerance="0.01,0.01,0.01"))
    assert (repeated.plan.labels, repeated.rows) == (found.plan.labels, found.rows)


def test_a_link_shows_the_same_again(served: Served) -> None:
    visitor = Visitor(served)
    form = asked(steps="7", tolerance="0.02,0.03", signals="2", models="1", price="2")
    first = visitor.get("/planner/answer", params=form)
    link = first.text.partition('id="link" href="')[2].partition('"')[0].replace("&amp;", "&")
    again = visitor.get(link)
    assert first.text in again.text
    query = {name: value[0] for name, value in parse_qs(urlsplit(link).query).items()}
    assert asked_of(query) == form


@pytest.mark.parametrize(
    ("form", "field"),
    [
        ({"steps": "ten"}, "steps"),
        ({"steps": "10001"}, "steps"),
        ({"signals": "0"}, "signals"),
        ({"signals": str(MOST_SIGNALS + 1)}, "signals"),
        ({"tolerance": "0.01,0.02", "signals": "5"}, "tolerance"),
        ({"tolerance": "nan"}, "tolerance"),
        ({"tolerance": "1e-9"}, "tolerance"),
        ({"edges": "0.5,0.4,0.6,0.7"}, "edges"),
        ({"edges": "0.5", "signals": "5"}, "edges"),
        ({"confidence": "1"}, "confidence"),
        ({"protocol": "resampling"}, "protocol"),
        ({"ceiling": "2"}, "ceiling"),
        ({"tenants": "5"}, "tenants"),
        ({"handover": "1"}, "handover"),
        ({"drawn": "wide"}, "drawn"),
        ({"drawn": "0.05", "edges": "0.1"}, "drawn"),
        ({"drawn": "0.05", "protocol": "incremental"}, "drawn"),
        ({"ceiling": "1e-320"}, "ceiling"),
        ({"loss": "losses.py:mine"}, "loss"),
        ({"price": "-1"}, "price"),
        ({"want": "money"}, "want"),
        ({"want": "steps"}, "labels"),
        ({"validation": "0"}, "validation"),
        ({"want": "steps", "labels": "10"}, "labels"),
        ({"want": "steps", "labels": "90000000"}, "labels"),
        ({"want": "steps", "labels": "90000000", "ceiling": "0.1"}, "labels"),
        ({"want": "steps", "labels": "5000", "tenants": "5,5"}, "tenants"),
        ({"want": "tolerance", "labels": "0"}, "labels"),
        ({"price": "inf"}, "price"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(served: Served, form: dict[str, str], field: str) -> None:
    page = Visitor(served).get("/planner", params=asked(**form))
    assert page.status_code == 200
    assert f'<p class="problem">{field}' in page.text
    assert 'id="steps"' in page.text, "the form stays"
    with pytest.raises(InvalidInput):
        answer_to(asked(**form))


typed = st.one_of(
    st.text(max_size=12), st.sampled_from(["", "0", "-1", "1", "0.5", "1e400", ",", "0.1,0.2"])
)


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(sorted(DEFAULTS)), typed, st.sampled_from(sorted(DEFAULTS)), typed)
def test_no_form_breaks_the_page(first: str, one: str, second: str, other: str) -> None:
    said = outcome(asked_of(asked(**{first: one, second: other})))
    assert said
    assert "\n" not in said


def outcome(form: dict[str, str]) -> str:
    try:
        return str(answer_to(form).plan.labels)
    except InvalidInput as error:
        return str(error)


def test_what_is_typed_is_shown_as_text(served: Served) -> None:
    page = Visitor(served).get("/planner", params=asked(steps='"><script>alert(1)</script>'))
    assert "<script>alert" not in page.text


def test_too_many_questions_from_one_address_have_to_wait(tmp_path: Path) -> None:
    with serve(tmp_path / "site", plans_per_minute=0.2) as found:
        visitor = Visitor(found)
        statuses = [visitor.get("/planner/answer").status_code for _ in range(4)]
    assert statuses == [200, 200, 429, 429]


def test_only_admins_are_offered_to_make_the_meter(served: Served) -> None:
    offered = "/admin/meters/new?want=tolerance&amp;labels=500&amp;steps=10"
    assert offered in Visitor(served, "admin").get("/planner").text
    assert offered not in Visitor(served, "stranger").get("/planner").text
    assert offered not in Visitor(served).get("/planner").text


def test_the_drawing_needs_no_style_of_its_own() -> None:
    chart = answer_to(asked()).chart
    assert "style" not in chart
    assert "Your meter: " in chart
