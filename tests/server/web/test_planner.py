"""The planner's page: the same numbers as the command line, for every form that can be sent."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, parse_qsl, urlsplit

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.server.helpers import Served, serve

from easeml_meter.core.questions.comparison import Setting, compare
from easeml_meter.core.questions.edges import reachable_with_default_bands
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
    optional,
    read,
    several,
    stories,
)
from easeml_meter.spec import MeterSpec
from easeml_meter.stats.rounding import at_most

from .helpers import Visitor, words


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serve(tmp_path_factory.mktemp("site"), plans_per_minute=0) as found:
        yield found


def asked(**changes: str) -> dict[str, str]:
    return DEFAULTS | changes


def test_everyone_may_ask_and_sees_an_example(served: Served) -> None:
    page = Visitor(served).get("/planner")
    assert page.status_code == 200
    plan = required_labels(MeterSpec.uniform(tolerance=0.01, steps=10, delta=0.01))
    said = words(page)
    assert "edges at 0.02, 0.05, 0.1, 0.2" in said
    assert "One more edge: 48,986 labels, or 65,137 if it is less than two tolerances" in said
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
    answers = answer_to(asked(**given, want="steps", steps=""))
    assert answers.plan == supported_steps(spec, 5000)
    assert answers.figure == (f"{answers.plan.spec.steps}", "answers")
    exact = answer_to(asked(**given | {"tolerance": ""}, want="tolerance"))
    assert exact.plan == reachable_with_default_bands(spec, 5000)
    assert exact.figure == (at_most(exact.plan.spec.tolerances[0]), "tolerance")
    edges = answer_to(asked(**given, want="tolerance", edges="0.1,0.4", price="2"))
    assert edges.plan == reachable_tolerance(
        spec.uniform(tolerance=0.05, edges=(0.1, 0.4), steps=10, delta=0.05), 5000
    )
    assert edges.cost == 10_000
    # The comparison is that of the meter that was found, and so is the form of a new one.
    for found in (answers, exact, edges):
        again = answer_to(asked_of(dict(parse_qsl(found.query(asked(**given))))))
        assert (again.plan.spec, again.rows) == (found.plan.spec, found.rows)
        assert again.plan.labels <= 5000
    said = words(Visitor(served).get("/planner", params=asked(**given, want="steps", price="2")))
    assert f"{answers.plan.spec.steps} answers from 5,000 labels, which cost 10,000.00" in said


@pytest.mark.parametrize("query", stories().values(), ids=list(stories()))
def test_a_story_is_a_plan(served: Served, query: str) -> None:
    page = Visitor(served).get(f"/planner?{query}")
    assert 'class="problem"' not in page.text
    assert page.text.count("/planner?want=") > 3, "the other stories, and the link to this one"


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
    assert (found.plan.labels, found.another_edge) == (29_332, None)
    assert found.rows == answer_to(asked()).rows
    said = words(Visitor(served).get("/planner/answer", params=asked(drawn="0.2")))
    assert "Bands: 0.2 wide, with edges drawn for each answer." in said
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
        ({"steps": ""}, "steps"),
        ({"steps": "ten"}, "steps"),
        ({"steps": "10001"}, "steps"),
        ({"signals": "0"}, "signals"),
        ({"signals": str(MOST_SIGNALS + 1)}, "signals"),
        ({"tolerance": "0.01,0.02", "signals": "5"}, "tolerance"),
        ({"tolerance": "nan"}, "tolerance"),
        ({"tolerance": "1e-9"}, "tolerance"),
        ({"edges": "0.5,0.4,0.6,0.7"}, "band"),
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
    offered = "/admin/meters/new?steps=10"
    assert offered in Visitor(served, "admin").get("/planner").text
    assert offered not in Visitor(served, "stranger").get("/planner").text
    assert offered not in Visitor(served).get("/planner").text


def test_the_drawing_needs_no_style_of_its_own() -> None:
    chart = answer_to(asked()).chart
    assert "style" not in chart
    assert "Your meter: " in chart


def test_numbers_are_read() -> None:
    asked = {"steps": "3", "none": "", "edges": "0.1, 0.2"}
    assert read(asked, "steps", int, "a number") == 3
    assert optional(asked, "none", int, "a number") is None
    assert several(asked, "edges", float, "numbers") == (0.1, 0.2)
    assert several(asked, "none", float, "numbers") == ()


@pytest.mark.parametrize("given", ["three", "0,1", "9" * 5000])
def test_anything_else_is_refused_by_the_name_of_the_field(given: str) -> None:
    with pytest.raises(InvalidInput, match=r"steps: .*a whole number"):
        read({"steps": given}, "steps", int, "a whole number")
    with pytest.raises(InvalidInput, match=r"steps: .*or nothing"):
        optional({"steps": given}, "steps", int, "a whole number")


def test_one_wrong_number_of_several_is_refused() -> None:
    with pytest.raises(InvalidInput, match="edges"):
        several({"edges": "0.1, x"}, "edges", float, "numbers")
